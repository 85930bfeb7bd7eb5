/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * patience.h - how long a hook waits for mtrun. A wait is a loop: nap until what is waited for is
 * there, or patience_left() is false.
 */
#ifndef MTRUN_PATIENCE_H
#define MTRUN_PATIENCE_H

#include "blob.h"

struct patience {	/* all 0 at first, but for `calls` */
	uint64_t clock; /* microseconds, at the last look */
	/* microseconds: of the wait, and since mtrun's clock last moved */
	uint64_t all, still;
	uint32_t ms; /* of mtrun's clock, at the last look */
	uint32_t pauses;
	/* system calls may be made whatever wire_process.no_syscalls says */
	bool calls;
};

/* Whether to wait on. Where no system calls may be made it takes some microseconds itself. */
bool patience_left(struct patience *p);

/*
 * patience_left() for room in T's ring, or for its handlers' events. Once that took too long it is
 * false until T's reader has moved.
 */
bool reader_left(struct wire_thread *t, struct patience *p);

#endif
