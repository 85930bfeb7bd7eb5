/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * activity.h - how a process goes along, more finely than its timeline (timeline.h) and without
 * stacks: what was live, and how much it had allocated, up to each of some moments. They are 10 ms
 * apart, later 20, 40 ... ms, as there are never more than ACTIVITY_MOST. Pure data.
 */
#ifndef MTRUN_ACTIVITY_H
#define MTRUN_ACTIVITY_H

#include "base/types.h"

#define ACTIVITY_MOST 2048u
#define ACTIVITY_MS   10u

/* Of the time from the point before; nothing has changed from MS to the next one's stretch. */
struct activity_point {
	uint64_t ms;		    /* the last moment of its stretch in which there were events */
	uint64_t live, high;	    /* bytes then; the most at the end of any ms of it */
	uint64_t allocs, temporary; /* since the start, of what counts; mappings too */
};

struct activity {
	struct activity_point *point; /* ascending */
	size_t count, room;
	uint64_t step; /* ms: how long a stretch is; each begins at a multiple of it */
};

/* All zeros but for its step. */
void activity_init(struct activity *a);
void activity_release(struct activity *a);
/*
 * What is at the end of P's ms; if that is before the last one's, then. Without memory it is left
 * out.
 */
void activity_add(struct activity *a, const struct activity_point *p);
/* 0 or -ENOMEM; TO is to be released in both cases. */
int activity_copy(struct activity *to, const struct activity *from) MUST_USE;

#endif
