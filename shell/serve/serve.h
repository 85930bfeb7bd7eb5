/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * serve.h - the server of --listen and the sender of --push: their life. It answers from the
 * session beside the shell, in a thread of its own, and never acts on the program.
 */
#ifndef MTRUN_SERVE_H
#define MTRUN_SERVE_H

#include "base/types.h"
#include "shell/serve/push.h"

struct serve;
struct session;

struct serve_options {
	const char
		*listen; /* an address; NULL: it only sends. Borrowed for the call, as the others */
	const char *token_file; /* NULL: none */
	char *const
		*host; /* --listen-host; NULL ends them; kept by the caller as long as it serves */
	struct push_options push; /* url NULL: it only answers */
};

/*
 * Listens, and answers until serve_stop() or the session's end. The caller has the
 * session's lock. *S is the caller's. 0, or -1 (WHY says it).
 */
int serve_start(struct serve **s, struct session *session, const struct serve_options *o, char *why,
		size_t len) MUST_USE;
/* Nobody is listened to any more when it returns. S may be NULL. */
void serve_stop(struct serve *s);
/* The address that it was given. */
const char *serve_address(const struct serve *s);

#endif
