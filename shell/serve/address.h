/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * address.h - where the server listens, as --listen and `listen` take it.
 */
#ifndef MTRUN_ADDRESS_H
#define MTRUN_ADDRESS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/types.h"

#define ADDRESS_ACCEPTED "PORT, HOST:PORT with a numeric HOST or localhost, or unix:PATH"

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_storage inet;
		struct sockaddr_un local;
	};
	socklen_t len;
	bool loopback;	  /* nobody reaches it from another machine; true for a unix socket */
	char host[64];	  /* as it was written, without brackets; "" for a unix socket */
	const char *path; /* of a unix socket, within `local`; NULL: it is none */
};

/* 0 or -EINVAL. */
int address_parse_listen(const char *text, struct address *a) MUST_USE;
/*
 * A listening socket; a unix one has mode 0600, and takes the place of one that nobody listens on.
 * The descriptor, or -errno.
 */
int address_listen(const struct address *a) MUST_USE;

#endif
