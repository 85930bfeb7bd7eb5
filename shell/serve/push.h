/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * push.h - profiles that are sent by ourselves, to whoever takes them at Pyroscope's /ingest.
 */
#ifndef MTRUN_PUSH_H
#define MTRUN_PUSH_H

#include "base/types.h"

struct push;
struct serve;

#define PUSH_ACCEPTED "http://HOST[:PORT][/PATH] with a numeric HOST or localhost, or unix:PATH"

struct push_options {
	const char *url; /* all borrowed for the call */
	uint64_t every_ms;
	char *const *label; /* K=V; NULL ends them; NULL: none */
};

/*
 * Sends from S's thread, which has not begun yet. NULL: WHY says why not. Freed before S's event
 * base.
 */
struct push *push_new(struct serve *s, const struct push_options *o, char *why,
		      size_t len) MUST_USE;
void push_free(struct push *p);

#endif
