/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * guard.h - who may ask. Pure: it gets the texts of a request, and says yes or no.
 */
#ifndef MTRUN_GUARD_H
#define MTRUN_GUARD_H

#include "base/types.h"

struct guard {
	bool any_host;	   /* a unix socket: no browser comes there by a name */
	const char *host;  /* the address that we listen on */
	char *const *name; /* --listen-host; NULL ends them */
	const char *token; /* NULL: none is needed */
};

/*
 * The name of the cookie that stands for the token; its value is the token.
 */
#define GUARD_COOKIE "mtrun"

/*
 * Whether a request that says HOST (without its port; NULL: it says none) means us, and no page
 * that made a browser believe that its own name is our address.
 */
bool guard_host(const struct guard *g, const char *host);
enum guard_way {
	GUARD_NO,
	GUARD_YES,  /* no token is needed, or the request has it */
	GUARD_QUERY /* it has it in its query: it is to come again, with a cookie */
};
/* Of a request's headers and query; each may be NULL. */
enum guard_way guard_token(const struct guard *g, const char *authorization, const char *cookie,
			   const char *query);
/*
 * The token in the file PATH: its first line, of 16 to 200 letters, digits and -._~. Nobody but its
 * owner may read it. 0, or -1 (WHY says it).
 */
int guard_read_token(const char *path, char **token, char *why, size_t len) MUST_USE;

#endif
