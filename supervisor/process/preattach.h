/* SPDX-License-Identifier: GPL-3.0-or-later */
/* preattach.h - what is known of the heap that a process had before mtrun attached to it; preattach_heap.h measures it. */
#ifndef MTRUN_PREATTACH_H
#define MTRUN_PREATTACH_H

#include "base/types.h"

#define BEFORE_NAME "[before attach]"	/* in place of a function */

enum before_state { BEFORE_NONE, BEFORE_KNOWN, BEFORE_UNKNOWN };

struct before {				/* BEFORE_NONE (zeros): it was started by us */
	enum before_state state;
	uint64_t bytes, blocks;		/* what malloc had handed out, with its own words and rounding; kept for a thread's next malloc (tcache) too */
	char why[128];			/* BEFORE_UNKNOWN: the reason, for people */
};

#endif
