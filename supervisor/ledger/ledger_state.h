/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ledger_state.h - what a ledger is made of, for the files of the ledger alone: ledger_stacks.c
 * (stack totals and blocks, life), ledger_thread.c, ledger_map.c, ledger_past.c (intervals, the
 * peak), ledger_fork.c, ledger_replay.c, ledger_ask.c; and for log/event_encode.c,
 * log/event_decode.c. What every event goes through is inline here.
 */
#ifndef MTRUN_LEDGER_STATE_H
#define MTRUN_LEDGER_STATE_H

#include "base/arena.h"
#include "blocks/blocks.h"
#include "blocks/page_set.h"
#include "ledger/activity.h"
#include "ledger/freed.h"
#include "ledger/ledger.h"
#include "ledger/ledger_changes.h"
#include "ledger/ranges.h"
#include "ledger/timeline.h"
#include "ledger/weights.h"

struct stack_total {
	struct ledger_stack s;
	uint64_t saved_bytes, epoch; /* what was live when `epoch` began */
	uint32_t saved_count;
	/* families: of all that it ever gave, 1 << enum wire_family each */
	uint32_t id : 24, families : 7;
	/* it has given a block that stands for more than itself */
	uint32_t sampled : 1;
};
_Static_assert(sizeof(struct stack_total) == 64, "a stack's line is one cache line");

enum outcome { NOTHING, LEAVING, UNMAPPED, REMAPPING };

struct pending {
	enum outcome heap, range;
	/* LEAVING: there was a block; it was the thread's last */
	bool known, temporary;
	/* REMAPPING: the old one was the program's own; accessible */
	bool own, open;
	uint32_t next; /* in the list of free ones */
	uint32_t slot; /* of its thread */
	raddr_t addr;
	struct block block;
	struct weight weight; /* of the block */
	struct pieces pieces;
};

struct thread {
	pid_t tid;
	uint32_t pending; /* index + 1; 0: none */
	raddr_t last;	  /* allocated last, and not freed since */
};

struct undo {
	raddr_t addr;
	struct block old; /* a is 0: there was none */
	struct weight weight;
};

struct ledger {
	struct blocks blocks;
	struct page_set lain; /* pages that blocks have been in (ledger_lain) */
	struct arena index;   /* uint32_t: a stack total by stack id; 0: none */
	/* struct stack_total; 0 takes what cannot be put anywhere (out of memory) */
	struct arena totals;
	/* struct thread, by index + 1; 0 stands for indexes that were never given */
	struct arena threads;
	/*
	 * uint32_t: a stack total: each that changed in this interval, or has since its last point;
	 * room for all
	 */
	struct arena touched;
	uint32_t index_size, totals_used, nthreads, touches;
	/* forked from a parent still, or with such children, or with listings under way */
	bool odd;
	bool heap_counts, mmap_counts;
	uint64_t counted, up_ms, epoch;
	/* of the present interval; the epoch that it began with */
	uint64_t high, high_ms, interval, interval_epoch;
	uint64_t peak, peak_ms; /* of those before */
	struct timeline timeline;
	struct activity activity;
	struct ledger_history history; /* `past` is NULL: the timeline is it */
	/* by stack total, once asked for and until the peak is another */
	struct timeline_held *at_peak;
	size_t at_peak_totals;
	uint64_t now_ms;
	uint32_t tick;
	/* is told of each change before it is made; or NULL */
	const struct ledger_listener *log;

	uint64_t heap, inherited; /* bytes; blocks that were there at the fork */
	uint64_t allocs, frees, unknown_frees, temporary, total_allocated, events;
	uint64_t mmap, reserved, maps, unmaps;
	uint64_t granted; /* of `maps`, what stack totals have counted */

	struct ranges ranges;
	struct pieces scratch;
	bool keep_freed;
	struct freed freed; /* what was released with a stack */
	/* of those blocks with BLOCK_COUNTED that stand for more than themselves */
	struct weights weights;
	/*
	 * unsigned __int128, by stack total: the sum of weight_variance() of those that are live,
	 * zero where nothing was put yet
	 */
	struct arena variances;
	uint64_t period, sampled_ms; /* the last one; when sampling was switched on first */
	uint8_t *known;		     /* wire_process.known, or NULL */
	bool sampled, know_all, overlaid;
	struct pending *pending;
	uint32_t pendings, pending_room, pending_idle; /* idle: index + 1 */

	unsigned family; /* of the next event */
	bool late;	 /* events come later than their threads had them */
	/* or NULL; how often unknown addresses may still be looked at, in this tick */
	void (*on_wrong)(void *ctx, const struct ledger_wrong *w);
	void *on_wrong_ctx;
	uint32_t looks, far_looks, looks_tick;

	/* or NULL */
	void (*on_point)(void *ctx, uint64_t interval, uint64_t bytes, uint64_t ms);
	void *on_point_ctx;

	struct ledger *parent, *children, *sibling;
	struct undo *undo;
	size_t undos, undo_room;
	struct listing *listings; /* block_list.c */
};

/* sizes are the target's word: they may wrap, and that must be defined */
static inline void add(int64_t *v, uint64_t d) { *v = (int64_t)((uint64_t)*v + d); }

/* ---- stack totals -------------------------------------------------------- */

/* The stack total of STACK, made if there is none yet; 0: out of memory. */
uint32_t ledger_total_new(struct ledger *l, uint32_t stack);

static inline struct stack_total *total_at(const struct ledger *l, uint32_t total)
{
	return (struct stack_total *)l->totals.base + total;
}

static inline uint32_t total_of(struct ledger *l, uint32_t stack)
{
	uint32_t total = stack < l->index_size ? ((uint32_t *)l->index.base)[stack] : 0;
	return __builtin_expect(total != 0, 1) ? total : ledger_total_new(l, stack);
}

/* It has given a block of FAMILY. */
static inline void total_gave(struct ledger *l, uint32_t total, unsigned family)
{
	total_at(l, total)->families |= 1u << family;
}

static inline struct stack_total *total_change(struct ledger *l, uint32_t total)
{
	struct stack_total *st = total_at(l, total);
	if (st->epoch != l->epoch) {
		if (st->epoch < l->interval_epoch)
			((uint32_t *)l->touched.base)[l->touches++] = total;
		st->epoch = l->epoch;
		st->saved_bytes = (uint64_t)st->s.live_bytes;
		st->saved_count = (uint32_t)st->s.live_count;
	}
	return st;
}

/* Before anything gets less. */
static inline void high_raise(struct ledger *l)
{
	if (l->counted > l->high) {
		l->high = l->counted;
		l->high_ms = l->up_ms;
		l->epoch++;
	}
}

/* ---- changes: all that happens to stack totals, and time; a log has nothing else ---- */

static inline void log_op(const struct ledger *l, enum log_kind kind, uint32_t total,
			  uint64_t bytes, uint64_t count)
{
	if (__builtin_expect(l->log != NULL, 0))
		l->log->change(l->log->ctx, kind, total, bytes, count);
}

/* Where heap is not counted its sums by stack are not kept: all goes to stack total 0. */
static inline uint32_t heap_total(const struct ledger *l, uint32_t total)
{
	return l->heap_counts ? total : 0;
}

static inline void heap_more(struct ledger *l, uint32_t total, struct weight w)
{
	log_op(l, LOG_ALLOC, heap_total(l, total), w.bytes, w.count);
	l->up_ms = l->now_ms;
	l->allocs += w.count;
	l->heap += w.bytes;
	l->total_allocated += w.bytes;
	if (!l->heap_counts)
		return;
	l->counted += w.bytes;
	struct stack_total *st = total_change(l, total);
	add(&st->s.live_bytes, w.bytes);
	add(&st->s.live_count, w.count);
	st->s.total_bytes += w.bytes;
	st->s.total_count += w.count;
}

static inline void heap_less(struct ledger *l, uint32_t total, struct weight w, bool temporary)
{
	total = heap_total(l, total);
	log_op(l, temporary ? LOG_FREE_TEMPORARY : LOG_FREE, total, w.bytes, w.count);
	high_raise(l);
	l->frees += w.count;
	l->heap -= w.bytes;
	struct stack_total *st = total_change(l, total);
	if (temporary) {
		l->temporary += w.count;
		st->s.temporary += w.count;
	}
	if (!l->heap_counts)
		return;
	l->counted -= w.bytes;
	add(&st->s.live_bytes, -w.bytes);
	add(&st->s.live_count, -w.count);
}

/* Both, the latter as temporary, where heap counts and it makes no new high. */
static inline void heap_pair(struct ledger *l, uint32_t total, uint64_t size)
{
	log_op(l, LOG_PAIR, total, size, 1);
	struct stack_total *st = total_at(l, total);
	l->allocs++;
	l->frees++;
	l->temporary++;
	l->total_allocated += size;
	st->s.total_bytes += size;
	st->s.total_count++;
	st->s.temporary++;
}

/*
 * The accessible bytes of TOTAL's mappings change by CHANGE (two's complement), and the number of
 * those that have any by COUNT.
 */
static inline void mmap_change(struct ledger *l, uint32_t total, uint64_t change, int64_t count)
{
	log_op(l, LOG_GRANT, total, change, (uint64_t)count);
	if ((int64_t)change < 0)
		high_raise(l);
	else
		l->up_ms = l->now_ms;
	l->mmap += change;
	if (!l->mmap_counts)
		return;
	l->counted += change;
	struct stack_total *st = total_change(l, total);
	add(&st->s.live_bytes, change);
	st->s.live_count += count;
}

/* COUNT more calls were given BYTES. (`total_allocated` goes with `allocs`: blocks only.) */
static inline void mmap_granted(struct ledger *l, uint32_t total, uint64_t bytes, uint64_t count)
{
	if (!l->mmap_counts)
		return;
	log_op(l, LOG_GRANTED, total, bytes, count);
	struct stack_total *st = total_change(l, total);
	st->s.total_bytes += bytes;
	st->s.total_count += count;
	l->granted += count;
}

/* ---- the present interval ------------------------------------------------ */

/* The highest moment of the present interval, so far. */
struct high {
	uint64_t bytes, ms;
	bool now; /* it is the present one */
};

static inline struct high high_of(const struct ledger *l)
{
	if (l->counted > l->high)
		return (struct high){ l->counted, l->up_ms, true }; /* nothing got less since */
	return (struct high){ l->high, l->high_ms, false };
}

/* The present interval is over, NEXT is the one of the next event. */
void ledger_interval_end(struct ledger *l, uint64_t next);
/* How things are at the end of the present ms. */
void ledger_activity_add(const struct ledger *l, struct activity *a);
/* What was told with timeline_hold() is a point, if anything is another than at the one before. */
void ledger_point_add(struct ledger *l, uint64_t interval, uint64_t bytes, uint64_t ms);

/* ---- fork ---------------------------------------------------------------- */

/*
 * The table's entry for ADDR is about to change: to be called where `odd`. Nothing may be half
 * done, the table may be copied here.
 */
void ledger_changing(struct ledger *l, raddr_t addr);
/* The child's table becomes its own: the parent's, without what the parent has done since. */
void ledger_inherit(struct ledger *l);
/* The child needs its parent no more. */
void ledger_leave_parent(struct ledger *l);

/* `odd` anew, after a parent, a child or a listing is no more. */
void ledger_is_odd(struct ledger *l);

static inline void wake(struct ledger *l)
{
	if (__builtin_expect(l->odd, 0) && l->parent)
		ledger_inherit(l);
}

/* a child that shares its parent's table still, gets its own */
static inline struct ledger *awake(const struct ledger *l)
{
	wake((struct ledger *)l);
	return (struct ledger *)l;
}

/* NULL: never seen. */
static inline const struct stack_total *total_seen(const struct ledger *l, uint32_t stack)
{
	uint32_t total = stack < awake(l)->index_size ? ((uint32_t *)l->index.base)[stack] : 0;
	return total ? total_at(l, total) : NULL;
}

/* ---- listings (block_list.h) --------------------------------------------- */

/* The table's entry for ADDR is about to change. */
void listings_note(struct ledger *l, raddr_t addr);
/*
 * Whether F, a release with a stack, is the last one of its address, where B is what the last one
 * has left. Within a tick there may have been another block since.
 */
static inline bool freed_is_last(const struct freed_block *f, const struct block *b)
{
	return f->freed_tick > block_tick(b) ||
	       (f->freed_tick == block_tick(b) && f->size == block_size(b) &&
		f->total == block_total(b));
}

/* The ledger is about to be freed: the rest is copied at once. */
void listing_leave(struct listing *g);

/* ---- weights ------------------------------------------------------------- */

/* What B at ADDR stands for. */
static inline struct weight weight_of(const struct ledger *l, raddr_t addr, const struct block *b)
{
	struct weight w = { block_size(b), 1 };
	if (__builtin_expect((b->b & BLOCK_COUNTED) != 0, 0))
		weights_get(&l->weights, addr, &w);
	return w;
}

/* NULL: nothing of TOTAL is an estimate. */
static inline unsigned __int128 *variance_at(const struct ledger *l, uint32_t total)
{
	if ((total + (size_t)1) * sizeof(unsigned __int128) > l->variances.size)
		return NULL;
	return (unsigned __int128 *)l->variances.base + total;
}

/* B has come back to ADDR, standing for W as before. */
void ledger_weigh_back(struct ledger *l, raddr_t addr, const struct block *b, struct weight w);
/*
 * Blocks with BLOCK_COUNTED, or (not COUNTED) all others, which have it then, are added to `known`.
 */
void ledger_count_all(struct ledger *l, bool counted);

/* ---- releases that cannot be right (ledger_wrong.c) ---------------------- */

/* THREAD releases ADDR, where nothing lives. STACK, 0: not known; RESIZE: by a realloc. */
void ledger_wrong_unknown(struct ledger *l, uint32_t thread, raddr_t addr, uint32_t stack,
			  unsigned family, bool resize);
/* THREAD releases B at ADDR by FAMILY, which may be another than its own. STACK is known. */
void ledger_wrong_family(struct ledger *l, uint32_t thread, raddr_t addr, const struct block *b,
			 uint32_t stack, unsigned family);

/* ---- threads ------------------------------------------------------------- */

static inline uint32_t slot_of(const struct ledger *l, uint32_t thread)
{
	return thread < l->nthreads ? thread + 1 : 0;
}

static inline struct thread *thread_at(const struct ledger *l, uint32_t thread)
{
	return (struct thread *)l->threads.base + slot_of(l, thread);
}

static inline uint32_t owner_of(uint32_t thread)
{
	return thread < BLOCK_OWNER_MAX ? thread : BLOCK_OWNER_MAX;
}

/* What THREAD has begun; NULL: nothing. */
static inline struct pending *pending_of(struct ledger *l, uint32_t thread)
{
	uint32_t i = thread_at(l, thread)->pending;
	return i ? &l->pending[i - 1] : NULL;
}

/* pending_of(), made if there is nothing. NULL: out of memory. */
struct pending *ledger_pending_make(struct ledger *l, uint32_t thread);
/* P may be idle now. */
void ledger_pending_rest(struct ledger *l, struct pending *p);

/* changes in a millisecond, some 50 us: faster than they can come */
#define TIMELINE_WORK 4096u

static inline void time_change(struct ledger *l, uint64_t ms)
{
	if (__builtin_expect(l->log != NULL, 0))
		l->log->time(l->log->ctx, ms);
	ledger_activity_add(l, &l->activity);
	l->now_ms = ms;
	l->tick = ms / 10 < BLOCK_TICK_MAX ? (uint32_t)(ms / 10) : BLOCK_TICK_MAX;
	if (ms / TIMELINE_MS > l->interval)
		ledger_interval_end(l, ms / TIMELINE_MS);
	else if (timeline_busy(&l->timeline))
		timeline_work(&l->timeline, TIMELINE_WORK);
}

/* Before each event, with its time. */
static inline void event(struct ledger *l, uint64_t ms)
{
	l->events++;
	wake(l);
	if (ms != l->now_ms)
		time_change(l, ms);
}

/* ---- mappings ------------------------------------------------------------ */

/*
 * G's accessible bytes change by CHANGE (two's complement). A grant counts once, while it has any.
 */
void ledger_grant_account(struct ledger *l, struct grant *g, uint64_t change);

#endif
