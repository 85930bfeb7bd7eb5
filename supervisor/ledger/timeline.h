/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * timeline.h - what was live in each interval of 100 ms, at its local maximum, in sum and by stack
 * total (the ledger's number for a stack). Pure data.
 *
 * A point holds until the next one, so an interval in which nothing changed needs none. Of each
 * point only those stack totals are kept that hold something else than at the point before. The
 * whole stays within a budget of bytes: when that is used up, neighbours in the older half are
 * merged into intervals of 200, 400 ... ms, each with the sum and the breakdown of the larger one;
 * so the highest of all points is never lost. That goes on beside the rest, a little at a time
 * (timeline_work).
 */
#ifndef MTRUN_TIMELINE_H
#define MTRUN_TIMELINE_H

#include "base/arena.h"
#include "base/types.h"

#define TIMELINE_MS	100u
#define TIMELINE_BUDGET (64u << 20)

struct timeline_point {
	uint64_t interval;  /* it begins at interval * TIMELINE_MS; ascending */
	uint64_t bytes, ms; /* the most that was live, and when */
	/* span: in intervals, 1 unless merged; end: of its changes */
	uint64_t span : 24, end : 40;
};

struct timeline_held {
	uint64_t bytes;
	uint32_t count;
	uint32_t total; /* in the row of changes; unused elsewhere */
};

struct timeline {
	struct arena points;  /* struct timeline_point */
	struct arena changes; /* struct timeline_held, in the order of the points */
	struct arena last;    /* struct timeline_held by stack total: at the last point */
	struct merge *merge;  /* under way; then there is a gap in both rows */
	size_t count, changed, totals;
	/* for points and changes; room: what may be used before neighbours are merged */
	size_t budget, room;
	uint64_t coarse_until; /* intervals below this may be merged ones */
	uint64_t step;	       /* the longest of them, in intervals */
};

/* BUDGET 0: of all points only the last is kept, and of that one only the sum. */
void timeline_init(struct timeline *t, size_t budget);
void timeline_release(struct timeline *t);
size_t timeline_memory(const struct timeline *t);

/*
 * At the point that comes next TOTAL holds BYTES in COUNT blocks. Only stack totals that may have
 * changed need to be told. 0 or -ENOMEM.
 */
int timeline_hold(struct timeline *t, uint32_t total, uint64_t bytes, uint32_t count);
/* timeline_hold(TOTAL) is to come. */
static inline void timeline_prefetch(const struct timeline *t, uint32_t total)
{
	/* there may be none yet */
	__builtin_prefetch((const void *)((uintptr_t)t->last.base +
					  total * sizeof(struct timeline_held)),
			   1);
}
/*
 * That point: the maximum of INTERVAL and of all that follow up to the next point's. Ascending. 0
 * or -ENOMEM: it is left out.
 */
int timeline_add(struct timeline *t, uint64_t interval, uint64_t bytes, uint64_t ms);
/*
 * Neighbours that are to be merged are, so that WORK changes are looked at, or some more: a few ns
 * each. Not between _hold and _add. 0 or -ENOMEM.
 */
int timeline_work(struct timeline *t, size_t work);
static inline bool timeline_busy(const struct timeline *t) { return t->merge != NULL; }

const struct timeline_point *timeline_point(const struct timeline *t, size_t i);
/* The point that INTERVAL belongs to, as index + 1; 0: it is before the first. */
size_t timeline_find(const struct timeline *t, uint64_t interval);
/* The highest, the first of several; as index + 1, 0: there is none. */
size_t timeline_highest(const struct timeline *t);
/* What TOTAL held at the last point, or with timeline_hold() since. */
static inline struct timeline_held timeline_last(const struct timeline *t, uint32_t total)
{
	return total < t->totals ? ((const struct timeline_held *)t->last.base)[total]
				 : (struct timeline_held){ 0 };
}
/*
 * What each stack total held at point I: TOTALS entries for the caller to free. NULL: out of
 * memory.
 */
struct timeline_held *timeline_breakdown(const struct timeline *t, size_t i,
					 size_t totals) MUST_USE;

#endif
