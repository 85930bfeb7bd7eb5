/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * patience.h - how long a hook waits for mtrun. The wait is a loop: while what is waited for is not
 * there, and patience_left(), nap.
 */
#ifndef MTRUN_PATIENCE_H
#define MTRUN_PATIENCE_H

#include "blob.h"

struct patience {	/* all 0 at first, but for `calls` */
	uint64_t clock; /* microseconds, at the last look */
	/* microseconds: the wait's, and since mtrun's clock moved last */
	uint64_t all, still;
	uint32_t ms; /* of mtrun's clock, at the last look */
	uint32_t pauses;
	/* system calls may be made whatever wire_process.no_syscalls says */
	bool calls;
};

/* Whether to wait on. Where no system calls may be made it takes some microseconds itself. */
bool patience_left(struct patience *p);

/*
 * Whether to wait on for room in T's ring, or for its handlers' events: if once that took too long,
 * not before its reader has moved.
 */
bool reader_left(struct wire_thread *t, struct patience *p);

#endif
