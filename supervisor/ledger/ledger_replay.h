/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ledger_replay.h - ledgers without blocks: stack totals, totals, intervals and the timeline, made
 * from the changes that another ledger has written down (log/). All questions of ledger.h can be
 * asked; those about blocks find none. Pure data.
 */
#ifndef MTRUN_LEDGER_REPLAY_H
#define MTRUN_LEDGER_REPLAY_H

#include "ledger/ledger.h"
#include "ledger/ledger_changes.h"
#include "ledger/timeline.h"

/*
 * BUDGET: bytes for the timeline, before older intervals are merged; TIMELINE_BUDGET is that of
 * live ones; 0: only the present interval can be asked about. NULL: out of memory. For
 * ledger_free().
 */
struct ledger *ledger_replay_new(size_t budget) MUST_USE;

/*
 * FN is called for each point that the timeline of L gets from now on: complete and final,
 * ascending. Of a replay that begins with a STATE the first is the last one before it, the same as
 * what a replay from further back ends with. Those of a live ledger go to its encoder's sink.
 */
void ledger_on_point(struct ledger *l,
		     void (*fn)(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms),
		     void *ctx);
/* The present interval, which has no point yet: its number, and its highest moment so far. */
void ledger_present(const struct ledger *l, uint64_t *interval, uint64_t *bytes, uint64_t *ms);
/* The time of the latest event. Those of several threads may go back a little; intervals do not: */
uint64_t ledger_now(const struct ledger *l);
/* so this is when that is for what asks for intervals: not before the present one. */
static inline uint64_t ledger_moment(uint64_t ms, uint64_t interval)
{
	return ms / TIMELINE_MS < interval ? interval * TIMELINE_MS : ms;
}

/* ---- for log/ ------------------------------------------------------------ */

/* All that a ledger knows but its stack totals: bytes, ms, numbers. */
struct ledger_sums {
	uint64_t now_ms, interval, counted, up_ms, high, high_ms, peak, peak_ms;
	uint64_t heap, mmap, reserved, inherited, allocs, frees, unknown_frees, temporary,
		total_allocated, events, maps, unmaps;
	unsigned counts; /* LEDGER_COUNT_* | LEDGER_SAMPLED */
	bool pointed;	 /* there is a point; the last one: */
	uint64_t point_interval, point_bytes, point_ms;
};

#define TOTAL_TEMPORARY 1u /* has any */
/* held something else at the highest moment of this interval */
#define TOTAL_HIGH  2u
#define TOTAL_POINT 4u /* held something else at the last point */
#define TOTAL_FLAGS 7u
struct ledger_total_state {
	uint32_t stack;
	unsigned flags; /* TOTAL_* */
	struct ledger_stack s;
	/* what it held then; the same as now without the flag */
	uint64_t high_bytes, point_bytes;
	uint32_t high_count, point_count;
};

void ledger_sums(const struct ledger *l, struct ledger_sums *out);
/* Line numbers are below this. */
uint32_t ledger_total_count(const struct ledger *l);
/* False: there is nothing in it. */
bool ledger_total_state(const struct ledger *l, uint32_t total, struct ledger_total_state *out);

/*
 * L becomes what is told: _begin, _total for each, _end with the same sums. -EINVAL: a stack total
 * comes twice, or the last point cannot follow L's. -ENOMEM.
 */
void ledger_restore_begin(struct ledger *l, const struct ledger_sums *sums);
int ledger_restore_total(struct ledger *l, const struct ledger_total_state *total) MUST_USE;
int ledger_restore_end(struct ledger *l, const struct ledger_sums *sums) MUST_USE;

/*
 * What no change tells, and is told at the end of each block of changes: events, unknown_frees,
 * reserved, maps, unmaps, counts' LEDGER_SAMPLED.
 */
void ledger_restore_counts(struct ledger *l, const struct ledger_sums *s);

#endif
