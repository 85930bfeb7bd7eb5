/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preattach.h - what is known of the heap that a process had before mtrun attached to it;
 * preattach_heap.h measures it.
 */
#ifndef MTRUN_PREATTACH_H
#define MTRUN_PREATTACH_H

#include "base/types.h"

#define PREATTACH_NAME "[before attach]" /* in place of a function */

enum preattach_state { PREATTACH_NONE, PREATTACH_KNOWN, PREATTACH_UNKNOWN };

struct preattach_heap { /* PREATTACH_NONE (zeros): it was started by us */
	enum preattach_state state;
	/* what malloc had handed out, with its overhead, and what its tcaches held */
	uint64_t bytes, blocks;
	char why[128]; /* PREATTACH_UNKNOWN: the reason, for people */
};

struct glibc_malloc {  /* zeros: not known */
	raddr_t state; /* main_arena, */
	uint64_t state_bytes;
	raddr_t first; /* and where the break's first chunk is */
};

#endif
