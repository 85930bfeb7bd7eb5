// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ledger_replay.h"

#include "ledger/ledger_state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bounds.h"

/*
 * A ledger's present state, told and taken up again, and the changes of its stack totals. What a
 * replay does with a change is what the live ledger did: the same inline functions
 * (ledger_state.h); so its intervals, its peak and its timeline come out the same.
 *
 * A state has to be complete for that: also what each stack total held at the highest moment so far
 * of the present interval, and at the timeline's last point, if that is something else. Epochs are
 * only compared, so a restored ledger has its own: 3 is the present one, 2 is that with which the
 * interval began. A stack total in `touched` has 2, or 3 if it has changed since the high; one that
 * is as it was at the last point 1; and 0 is one that the state does not tell of.
 */
enum { UNTOLD, QUIET, TOUCHED, SAVED };

struct ledger *ledger_replay_new(size_t budget)
{
	struct ledger *l = ledger_new(0);
	if (l)
		timeline_init(&l->timeline, budget);
	return l;
}

void ledger_on_point(struct ledger *l,
		     void (*fn)(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms),
		     void *ctx)
{
	l->on_point = fn;
	l->on_point_ctx = ctx;
}

void ledger_present(const struct ledger *l, uint64_t *interval, uint64_t *bytes, uint64_t *ms)
{
	struct high h = high_of(l);
	*interval = l->interval;
	*bytes = h.bytes;
	*ms = h.ms;
}

uint64_t ledger_now(const struct ledger *l) { return l->now_ms; }

/* ---- a state, told ------------------------------------------------------- */

void ledger_sums(const struct ledger *l, struct ledger_sums *out)
{
	const struct timeline *t = &l->timeline;
	const struct timeline_point *last = t->count ? timeline_point(t, t->count - 1) : NULL;
	*out = (struct ledger_sums){
		.now_ms = l->now_ms,
		.interval = l->interval,
		.counted = l->counted,
		.up_ms = l->up_ms,
		.high = l->high,
		.high_ms = l->high_ms,
		.peak = l->peak,
		.peak_ms = l->peak_ms,
		.heap = l->heap,
		.mmap = l->mmap,
		.reserved = l->reserved,
		.inherited = l->inherited,
		.allocs = l->allocs,
		.frees = l->frees,
		.unknown_frees = l->unknown_frees,
		.temporary = l->temporary,
		.total_allocated = l->total_allocated,
		.events = l->events,
		.maps = l->maps,
		.unmaps = l->unmaps,
		.counts = (l->heap_counts ? LEDGER_COUNT_HEAP : 0) |
			  (l->mmap_counts ? LEDGER_COUNT_MMAP : 0) |
			  (l->sampled ? LEDGER_SAMPLED : 0),
		.pointed = last,
		.point_interval = last ? last->interval : 0,
		.point_bytes = last ? last->bytes : 0,
		.point_ms = last ? last->ms : 0,
	};
}

uint32_t ledger_total_count(const struct ledger *l) { return l->totals_used; }

bool ledger_total_state(const struct ledger *l, uint32_t total, struct ledger_total_state *out)
{
	const struct stack_total *st = total_at(l, total);
	uint64_t bytes = (uint64_t)st->s.live_bytes, high = bytes, point = bytes;
	uint32_t count = (uint32_t)st->s.live_count, high_count = count, point_count = count;
	if (st->epoch == l->epoch && l->counted <= l->high) {
		high = st->saved_bytes;
		high_count = st->saved_count;
	}
	if (st->epoch >= l->interval_epoch) {
		struct timeline_held last = timeline_last(&l->timeline, total);
		point = last.bytes;
		point_count = last.count;
	}
	*out = (struct ledger_total_state){
		.stack = st->id,
		.s = st->s,
		.high_bytes = high,
		.high_count = high_count,
		.point_bytes = point,
		.point_count = point_count,
		.flags = (st->s.temporary ? TOTAL_TEMPORARY : 0) |
			 (high != bytes || high_count != count ? TOTAL_HIGH : 0) |
			 (point != bytes || point_count != count ? TOTAL_POINT : 0),
	};
	return out->flags || bytes || st->s.live_count || st->s.total_bytes || st->s.total_count;
}

/* ---- and taken up -------------------------------------------------------- */

void ledger_restore_begin(struct ledger *l, const struct ledger_sums *s)
{
	for (uint32_t i = 0; i < l->totals_used; i++)
		*total_at(l, i) = (struct stack_total){ .id = total_at(l, i)->id,
							.families = total_at(l, i)->families,
							.epoch = UNTOLD };
	l->touches = 0;
	l->epoch = SAVED;
	l->interval_epoch = TOUCHED;
	l->now_ms = s->now_ms;
	l->interval = s->interval;
	l->counted = s->counted;
	l->up_ms = s->up_ms;
	l->high = s->high;
	l->high_ms = s->high_ms;
	l->peak = s->peak;
	l->peak_ms = s->peak_ms;
	free(l->at_peak);
	l->at_peak = NULL;
	l->heap = s->heap;
	l->mmap = s->mmap;
	l->inherited = s->inherited;
	l->allocs = s->allocs;
	l->frees = s->frees;
	l->temporary = s->temporary;
	l->total_allocated = s->total_allocated;
	l->heap_counts = s->counts & LEDGER_COUNT_HEAP;
	l->mmap_counts = s->counts & LEDGER_COUNT_MMAP;
	ledger_restore_counts(l, s);
}

int ledger_restore_total(struct ledger *l, const struct ledger_total_state *s)
{
	uint32_t total = total_of(l, s->stack);
	struct stack_total *st = total_at(l, total);
	if (!total)
		return -ENOMEM;
	if (st->epoch != UNTOLD)
		return -EINVAL;
	st->s = s->s;
	st->saved_bytes = s->high_bytes;
	st->saved_count = s->high_count;
	st->epoch = s->flags & TOTAL_HIGH ? SAVED : s->flags & TOTAL_POINT ? TOUCHED : QUIET;
	if (st->epoch != QUIET)
		((uint32_t *)l->touched.base)[l->touches++] = total;
	return timeline_hold(&l->timeline, total, s->point_bytes, s->point_count);
}

/* The timeline's last point is the one that the state says, whether it is there or not. */
int ledger_restore_end(struct ledger *l, const struct ledger_sums *s)
{
	const struct timeline *t = &l->timeline;
	const struct timeline_point *last = t->count ? timeline_point(t, t->count - 1) : NULL;
	uint64_t count = 0;
	int err = 0;
	for (uint32_t i = 0; i < l->totals_used; i++)
		count += total_at(l, i)->s.total_count;
	l->granted = l->heap_counts ? count - least(count, l->allocs) : count;
	for (uint32_t i = 1; i < l->totals_used && i < t->totals && !err; i++)
		if (total_at(l, i)->epoch == UNTOLD)
			err = timeline_hold(&l->timeline, i, 0, 0);
	if (err || (!s->pointed && !last))
		return err;
	if (!s->pointed || s->point_interval >= s->interval ||
	    (last && last->interval > s->point_interval))
		return -EINVAL;
	if (last && last->interval == s->point_interval)
		return last->bytes == s->point_bytes ? 0 : -EINVAL;
	ledger_point_add(l, s->point_interval, s->point_bytes, s->point_ms);
	return 0;
}

void ledger_restore_counts(struct ledger *l, const struct ledger_sums *s)
{
	l->events = s->events;
	l->unknown_frees = s->unknown_frees;
	l->reserved = s->reserved;
	l->maps = s->maps;
	l->unmaps = s->unmaps;
	l->sampled = s->counts & LEDGER_SAMPLED;
}
