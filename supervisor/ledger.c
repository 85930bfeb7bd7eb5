/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ledger.h"

#include "../inject/wire.h"
#include "arena.h"
#include "blocks.h"
#include "freed.h"
#include "ranges.h"
#include "timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A ledger is made when a process is planted or forked, fed by its stream, asked by the shell, and freed with the process' record. Live blocks are in
 * blocks.h, own mappings in ranges.h; here is what is summed up from them: one 64-byte line per stack that ever allocated, and totals.
 *
 * Stack ids are node ids of the image, and most nodes are inner frames that never allocate: an index (4 bytes per id) leads to the line, and
 * a block's entry keeps the line's number, so that a free needs no index.
 *
 * The highest moment of each interval of 100 ms. Allocations only add up; the first release after a new high of the interval raises its `high`, and with
 * it the epoch. A line that changes saves what it held before its first change in an epoch. So at the end a line held at the high what it
 * saved, if it did so in the present epoch, and what it holds now if it has not changed since. This costs one comparison per event. Lines that
 * changed are listed once an interval (`touched`), and when it ends those are written into the timeline. The peak is the highest of these
 * moments: it needs no trick of its own. What the timeline costs of an event (tests/bench/ledger.c, 4 M events a second): nothing in pairs, 3 % with 1000
 * stacks, 5 % with 5000, 5 to 10 % where 50 000 stacks change at random all the time.
 *
 * fork. The child's table is the parent's, but the child mostly execs and never needs it. So it only registers with the parent, which from then on
 * writes down for it what it changes (`undo`). The first event or question of the child copies the parent's table and undoes
 * that. `odd` is set in both for the while, the one test that this costs the others.
 *
 * realloc. What is leaving is taken out of the table at once, another thread may be given its address before the outcome is known, and
 * kept in the thread's `pending`, still counted, until BECAME, STAYED or GONE. mremap and munmap do the same with pieces of ranges.
 */

#define THREADS_MAX (1u << 20)
#define UNDO_LEAST  4096u
#define LEDGER_BATCH 64u

struct line {
	struct ledger_stack s;
	uint64_t saved_bytes, epoch;		/* what was live when `epoch` began */
	uint32_t saved_count, id;
};
_Static_assert(sizeof(struct line) == 64, "a stack's line is one cache line");

enum outcome { NOTHING, LEAVING, UNMAPPED, REMAPPING };

struct pending {
	enum outcome heap, range;
	bool known, temporary;			/* LEAVING: there was a block; it was the thread's last */
	bool own, open;				/* REMAPPING: the old one was the program's own; accessible */
	uint32_t next;				/* in the list of free ones */
	uint32_t slot;				/* of its thread */
	raddr_t addr;
	struct block block;
	struct pieces pieces;
};

struct thread {
	pid_t tid;
	uint32_t pending;			/* index + 1; 0: none */
	raddr_t last;				/* allocated last, and not freed since */
};

struct undo {
	raddr_t addr;
	struct block old;			/* a is 0: there was none */
};

struct ledger {
	struct blocks blocks;
	struct arena index;			/* uint32_t line by stack id; 0: none */
	struct arena lines;			/* struct line; 0 takes what cannot be put anywhere (out of memory) */
	struct arena threads;			/* struct thread, by index + 1; 0 stands for indexes that were never given */
	struct arena touched;			/* uint32_t line: each that changed in this interval, or has since its last point; room for all */
	uint32_t index_size, lines_used, nthreads, touches;
	bool odd;				/* forked from a parent still, or with such children */
	bool heap_counts, mmap_counts;
	uint64_t counted, up_ms, epoch;
	uint64_t high, high_ms, interval, interval_epoch;	/* of the present interval; the epoch that it began with */
	uint64_t peak, peak_ms;			/* of those before */
	struct timeline timeline;
	struct timeline_held *at_peak;		/* by line, once asked for and until the peak is another */
	size_t at_peak_lines;
	uint64_t now_ms;
	uint32_t tick;

	uint64_t heap, inherited;		/* bytes; blocks that were there at the fork */
	uint64_t allocs, frees, unknown_frees, temporary, total_allocated, events;
	uint64_t mmap, reserved, maps, unmaps;

	struct ranges ranges;
	struct pieces scratch;
	bool keep_freed;
	struct freed freed;			/* what was released with a stack */
	struct pending *pending;
	uint32_t pendings, pending_room, pending_idle;	/* idle: index + 1 */

	struct ledger *parent, *children, *sibling;
	struct undo *undo;
	size_t undos, undo_room;
};

static inline void add(int64_t *v, uint64_t d)	/* sizes are the target's word: they may wrap, and that must be defined */
{
	*v = (int64_t)((uint64_t)*v + d);
}

/* ---- lines --------------------------------------------------------------------------------------------------------------------- */

static inline struct line *line_at(const struct ledger *l, uint32_t line)
{
	return (struct line *)l->lines.base + line;
}

static uint32_t line_new(struct ledger *l, uint32_t stack)
{
	if (stack >= WIRE_NODES)
		stack = 0;
	if (arena_reach(&l->index, (stack + 1) * sizeof(uint32_t)))
		return 0;
	uint32_t *index = l->index.base;
	if (stack >= l->index_size)
		l->index_size = stack + 1;
	if (index[stack])
		return index[stack];
	if (arena_reach(&l->lines, (l->lines_used + 1) * sizeof(struct line)))
		return 0;
	if (arena_reach(&l->touched, (l->lines_used + 1) * sizeof(uint32_t)))
		return 0;
	line_at(l, l->lines_used)->id = stack;
	return index[stack] = l->lines_used++;
}

static inline uint32_t line_of(struct ledger *l, uint32_t stack)
{
	uint32_t line = stack < l->index_size ? ((uint32_t *)l->index.base)[stack] : 0;
	return __builtin_expect(line != 0, 1) ? line : line_new(l, stack);
}

static inline struct line *line_change(struct ledger *l, uint32_t line)
{
	struct line *ln = line_at(l, line);
	if (ln->epoch != l->epoch) {
		if (ln->epoch < l->interval_epoch)
			((uint32_t *)l->touched.base)[l->touches++] = line;
		ln->epoch = l->epoch;
		ln->saved_bytes = (uint64_t)ln->s.live_bytes;
		ln->saved_count = (uint32_t)ln->s.live_count;
	}
	return ln;
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

static inline void heap_more(struct ledger *l, uint32_t line, uint64_t size)
{
	l->allocs++;
	l->heap += size;
	l->total_allocated += size;
	if (!l->heap_counts)
		return;
	l->counted += size;
	struct line *ln = line_change(l, line);
	add(&ln->s.live_bytes, size);
	ln->s.live_count++;
	ln->s.total_bytes += size;
	ln->s.total_count++;
}

static inline void heap_less(struct ledger *l, const struct block *b, bool temporary)
{
	uint64_t size = block_size(b);
	high_raise(l);
	l->frees++;
	l->heap -= size;
	struct line *ln = line_change(l, l->heap_counts ? block_line(b) : 0);
	if (temporary) {
		l->temporary++;
		ln->s.temporary++;
	}
	if (!l->heap_counts)
		return;
	l->counted -= size;
	add(&ln->s.live_bytes, -size);
	ln->s.live_count--;
}

/* ---- intervals ----------------------------------------------------------------------------------------------------------------- */

/* The highest moment of the present interval, so far. */
struct high {
	uint64_t bytes, ms;
	bool now;				/* it is the present one */
};

static struct high high_of(const struct ledger *l)
{
	if (l->counted > l->high)
		return (struct high){ l->counted, l->up_ms, true };	/* nothing got less since */
	return (struct high){ l->high, l->high_ms, false };
}

/* What a line held then. */
static struct timeline_held held_at(const struct ledger *l, const struct high *h, const struct line *ln)
{
	bool saved = !h->now && ln->epoch == l->epoch;
	return (struct timeline_held){ saved ? ln->saved_bytes : (uint64_t)ln->s.live_bytes, saved ? ln->saved_count : (uint32_t)ln->s.live_count, 0 };
}

/*
 * The present interval is over, NEXT is the one of the next event. Lines that since the high have come to hold something else are the next
 * interval's to write, whether they change in it or not; where there are quiet ones in between, the first of these writes them.
 */
static __attribute__((noinline)) void interval_end(struct ledger *l, uint64_t next)
{
	struct high h = high_of(l);
	uint32_t *touched = l->touched.base, kept = 0;
	uint64_t epoch = l->epoch + 1;
	for (uint32_t i = 0; i < l->touches; i++) {
		if (i + 8 < l->touches) {
			__builtin_prefetch(line_at(l, touched[i + 8]));
			timeline_prefetch(&l->timeline, touched[i + 8]);
		}
		struct line *ln = line_at(l, touched[i]);
		struct timeline_held held = held_at(l, &h, ln);
		timeline_hold(&l->timeline, touched[i], held.bytes, held.count);
		if (held.bytes == (uint64_t)ln->s.live_bytes && held.count == (uint32_t)ln->s.live_count)
			continue;
		ln->epoch = epoch;
		ln->saved_bytes = (uint64_t)ln->s.live_bytes;
		ln->saved_count = (uint32_t)ln->s.live_count;
		touched[kept++] = touched[i];
	}
	l->epoch = epoch;
	l->touches = kept;
	timeline_add(&l->timeline, l->interval, h.bytes, h.ms);
	if (next > l->interval + 1) {
		for (uint32_t i = 0; i < kept; i++)
			timeline_hold(&l->timeline, touched[i], line_at(l, touched[i])->saved_bytes, line_at(l, touched[i])->saved_count);
		timeline_add(&l->timeline, l->interval + 1, l->counted, (l->interval + 1) * TIMELINE_MS);
		l->touches = 0;
		l->epoch++;
	}
	if (h.bytes > l->peak) {
		l->peak = h.bytes;
		l->peak_ms = h.ms;
		free(l->at_peak);
		l->at_peak = NULL;
	}
	l->high = l->counted;
	l->high_ms = next * TIMELINE_MS;
	l->interval = next;
	l->interval_epoch = l->epoch;
}

/* ---- fork ---------------------------------------------------------------------------------------------------------------------- */

static void inherit(struct ledger *l);

static bool undo_add(struct ledger *c, raddr_t addr, const struct block *b)
{
	if (c->undos == c->undo_room) {
		const struct ledger *l = c->parent;
		size_t room = c->undo_room ? c->undo_room * 2 : 256;
		if (c->undos >= UNDO_LEAST + (l->allocs - l->frees + l->inherited) / 2)
			return false;
		struct undo *v = realloc(c->undo, room * sizeof(*v));
		if (!v)
			return false;
		c->undo = v;
		c->undo_room = room;
	}
	c->undo[c->undos++] = (struct undo){ .addr = addr, .old = b ? *b : (struct block){ 0 } };
	return true;
}

/* The table's entry for ADDR is about to change. Nothing may be half done, the table may be copied here. */
static void changing(struct ledger *l, raddr_t addr)
{
	struct block_page *page;
	for (struct ledger *c = l->children, *next; c; c = next) {
		next = c->sibling;
		if (!undo_add(c, addr, blocks_get(&l->blocks, addr, &page)))
			inherit(c);
	}
}

static void leave_parent(struct ledger *l)
{
	struct ledger **at = &l->parent->children;
	while (*at != l)
		at = &(*at)->sibling;
	*at = l->sibling;
	l->parent->odd = l->parent->parent || l->parent->children;
	l->parent = l->sibling = NULL;
	l->odd = l->children != NULL;
}

static void revert(struct ledger *l, const struct undo *u)
{
	struct block_page *page;
	bool was;
	if (!u->old.a) {
		struct block *b = blocks_get(&l->blocks, u->addr, &page);
		if (b)
			blocks_take(&l->blocks, page, b, block_stamp(block_owner(b), block_tick(b)));
		return;
	}
	struct block *b = blocks_put(&l->blocks, u->addr, &was);
	if (b) {
		b->a = (u->old.a & ~BLOCK_PASSED) | (b->a & BLOCK_PASSED);
		b->b = u->old.b;
	}
}

static void grant_account(struct ledger *l, struct grant *g, uint64_t change);

/* All sums anew, from the blocks and ranges. */
static void sum_up(struct ledger *l)
{
	struct line *line = l->lines.base;
	for (uint32_t i = 0; i < l->lines_used; i++)
		line[i] = (struct line){ .id = line[i].id };
	uint64_t mmap = l->mmap, counted = l->counted;
	for (const struct range *r = ranges_from(&l->ranges, 0); r; r = ranges_from(&l->ranges, r->end))
		if (r->open)
			grant_account(l, r->grant, r->end - r->start);
	l->mmap = mmap;
	l->counted = counted;
	for (size_t i = 0; i <= l->blocks.mask && l->heap_counts; i++) {
		const struct block_page *p = &l->blocks.page[i];
		const struct block *c = blocks_chunk(&l->blocks, p);
		for (uint32_t j = 0; (p->count & PAGE_COUNT) && j <= p->mask; j++) {
			if (!(c[j].a & BLOCK_USED))
				continue;
			add(&line[block_line(&c[j])].s.live_bytes, block_size(&c[j]));
			line[block_line(&c[j])].s.live_count++;
		}
	}
	l->touches = 0;
	for (uint32_t i = 1; i < l->lines_used; i++) {
		line[i].epoch = 0;
		if (line[i].s.live_bytes || line[i].s.live_count)	/* the first point has them all */
			line_change(l, i);
	}
}

/* The child's table becomes its own: the parent's, without what the parent has done since. */
static void inherit(struct ledger *l)
{
	const struct ledger *parent = l->parent;
	struct blocks blocks;
	leave_parent(l);
	if (blocks_copy(&blocks, &parent->blocks))
		return;				/* out of memory: the blocks stay unknown */
	blocks_release(&l->blocks);
	l->blocks = blocks;
	for (size_t i = l->undos; i-- > 0; )
		revert(l, &l->undo[i]);
	free(l->undo);
	l->undo = NULL;
	l->undos = l->undo_room = 0;
	if (arena_reach(&l->touched, parent->lines_used * sizeof(uint32_t)) ||
	    arena_copy(&l->index, &parent->index, parent->index_size * sizeof(uint32_t)) ||
	    arena_copy(&l->lines, &parent->lines, parent->lines_used * sizeof(struct line)))
		return;
	l->index_size = parent->index_size;
	l->lines_used = parent->lines_used;
	sum_up(l);
}

static inline void wake(struct ledger *l)
{
	if (__builtin_expect(l->odd, 0) && l->parent)
		inherit(l);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------------- */

struct ledger *ledger_new(unsigned count)
{
	struct ledger *l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	if (blocks_init(&l->blocks)) {
		free(l);
		return NULL;
	}
	timeline_init(&l->timeline, TIMELINE_BUDGET);
	l->epoch = l->interval_epoch = 1;
	if (arena_reach(&l->lines, sizeof(struct line)) || arena_reach(&l->threads, sizeof(struct thread)) ||
	    arena_reach(&l->touched, sizeof(uint32_t))) {
		ledger_free(l);
		return NULL;
	}
	l->lines_used = 1;
	l->heap_counts = count & LEDGER_COUNT_HEAP;
	l->mmap_counts = count & LEDGER_COUNT_MMAP;
	return l;
}

void ledger_free(struct ledger *l)
{
	if (!l)
		return;
	while (l->children)
		inherit(l->children);
	if (l->parent)
		leave_parent(l);
	for (uint32_t i = 0; i < l->pendings; i++)
		pieces_release(&l->pending[i].pieces);
	free(l->pending);
	pieces_release(&l->scratch);
	freed_release(&l->freed);
	ranges_release(&l->ranges);
	free(l->undo);
	free(l->at_peak);
	timeline_release(&l->timeline);
	arena_release(&l->touched);
	arena_release(&l->threads);
	arena_release(&l->index);
	arena_release(&l->lines);
	blocks_release(&l->blocks);
	free(l);
}

static int ranges_inherit(struct ledger *l, const struct ledger *parent)
{
	int err = 0;
	for (const struct range *r = ranges_from(&parent->ranges, 0); r && !err; r = ranges_from(&parent->ranges, r->end)) {
		struct grant *g = r->grant->twin, *old = r->grant;
		if (!g) {
			g = grant_new(old->line, old->thread, old->tick, old->charged);
			if (!g) {
				err = -ENOMEM;
				break;
			}
			old->twin = g;		/* and one reference for the time of copying */
		}
		g->refs++;
		err = ranges_put(&l->ranges, &(struct range){ r->start, r->end, g, r->open });
		if (err)
			grant_put(g);
	}
	for (const struct range *r = ranges_from(&parent->ranges, 0); r; r = ranges_from(&parent->ranges, r->end)) {
		if (r->grant->twin)
			grant_put(r->grant->twin);
		r->grant->twin = NULL;
	}
	return err;
}

/* Where another thread of the parent was in a realloc or mremap, the child has the old block still. */
static int pending_inherit(struct ledger *l, const struct ledger *parent)
{
	for (uint32_t i = 0; i < parent->pendings; i++) {
		const struct pending *p = &parent->pending[i];
		struct block_page *page;
		if (p->heap == LEAVING && p->known) {
			if (blocks_get(&parent->blocks, p->addr, &page)) {
				l->heap -= block_size(&p->block);
				l->inherited--;
				continue;
			}
			if (!undo_add(l, p->addr, &p->block))
				return -ENOMEM;
		}
		if (p->range != REMAPPING)
			continue;
		for (size_t j = 0; j < p->pieces.count; j++) {
			struct range r = p->pieces.piece[j];
			const struct range *next = ranges_from(&l->ranges, r.start);
			if (next && next->start < r.end) {
				l->mmap -= r.open ? r.end - r.start : 0;
				l->reserved -= r.end - r.start;
				continue;
			}
			r.grant = grant_new(r.grant->line, r.grant->thread, r.grant->tick, r.grant->charged);
			if (!r.grant)
				return -ENOMEM;
			if (ranges_put(&l->ranges, &r)) {
				grant_put(r.grant);
				return -ENOMEM;
			}
		}
	}
	return 0;
}

struct ledger *ledger_fork(struct ledger *parent)
{
	wake(parent);
	struct ledger *l = ledger_new((parent->heap_counts ? LEDGER_COUNT_HEAP : 0) | (parent->mmap_counts ? LEDGER_COUNT_MMAP : 0));
	if (!l)
		return NULL;
	l->heap = parent->heap;
	l->inherited = parent->inherited + parent->allocs - parent->frees;
	l->mmap = parent->mmap;
	l->reserved = parent->reserved;
	l->parent = parent;
	l->sibling = parent->children;
	parent->children = l;
	parent->odd = l->odd = true;
	if (arena_copy(&l->threads, &parent->threads, (parent->nthreads + 1) * sizeof(struct thread)) ||
	    ranges_inherit(l, parent) || pending_inherit(l, parent)) {
		ledger_free(l);
		return NULL;
	}
	l->nthreads = parent->nthreads;
	struct thread *thread = l->threads.base;
	for (uint32_t i = 0; i <= l->nthreads; i++)
		thread[i] = (struct thread){ .tid = thread[i].tid };
	l->counted = (l->heap_counts ? l->heap : 0) + (l->mmap_counts ? l->mmap : 0);
	l->high = l->counted;
	l->high_ms = l->up_ms = l->now_ms = parent->now_ms;
	l->interval = parent->interval;
	l->tick = parent->tick;
	return l;
}

/* ---- threads ------------------------------------------------------------------------------------------------------------------- */

uint32_t ledger_thread(struct ledger *l, pid_t tid)
{
	if (l->nthreads >= THREADS_MAX || arena_reach(&l->threads, (l->nthreads + 2) * sizeof(struct thread)))
		return l->nthreads ? l->nthreads - 1 : 0;
	((struct thread *)l->threads.base)[++l->nthreads] = (struct thread){ .tid = tid };
	return l->nthreads - 1;
}

pid_t ledger_thread_tid(const struct ledger *l, uint32_t thread)
{
	return thread < l->nthreads ? ((struct thread *)l->threads.base)[thread + 1].tid : 0;
}

size_t ledger_threads(const struct ledger *l)
{
	return l->nthreads;
}

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

static struct pending *pending_of(struct ledger *l, uint32_t thread)
{
	uint32_t i = thread_at(l, thread)->pending;
	return i ? &l->pending[i - 1] : NULL;
}

static struct pending *pending_make(struct ledger *l, uint32_t thread)
{
	struct pending *p = pending_of(l, thread);
	if (p)
		return p;
	uint32_t i = l->pending_idle;
	if (i) {
		l->pending_idle = l->pending[i - 1].next;
	} else {
		if (l->pendings == l->pending_room) {
			uint32_t room = l->pending_room ? l->pending_room * 2 : 8;
			struct pending *v = realloc(l->pending, room * sizeof(*v));
			if (!v)
				return NULL;
			l->pending = v;
			l->pending_room = room;
		}
		i = ++l->pendings;
		l->pending[i - 1].pieces = (struct pieces){ 0 };
	}
	p = &l->pending[i - 1];
	p->heap = p->range = NOTHING;
	p->slot = slot_of(l, thread);
	thread_at(l, thread)->pending = i;
	return p;
}

/* P may be idle now. */
static void pending_rest(struct ledger *l, struct pending *p)
{
	if (p->heap != NOTHING || p->range != NOTHING)
		return;
	uint32_t *link = &((struct thread *)l->threads.base)[p->slot].pending;
	p->next = l->pending_idle;
	l->pending_idle = *link;
	*link = 0;
}

void ledger_thread_ended(struct ledger *l, uint32_t thread)
{
	struct pending *p = pending_of(l, thread);
	if (p && p->range == UNMAPPED) {
		pieces_clear(&p->pieces);
		p->range = NOTHING;
		pending_rest(l, p);
	}
}

static inline void event(struct ledger *l, uint64_t ms)
{
	l->events++;
	wake(l);
	if (ms != l->now_ms) {
		l->now_ms = ms;
		l->tick = ms / 10 < BLOCK_TICK_MAX ? (uint32_t)(ms / 10) : BLOCK_TICK_MAX;
		if (ms / TIMELINE_MS > l->interval)
			interval_end(l, ms / TIMELINE_MS);
	}
}

/* ---- blocks -------------------------------------------------------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))	/* the body of ledger_batch's loop */

struct spot {				/* where an address belongs in the table */
	struct block_page *page;
	uint32_t place;
};

static inline struct spot spot_of(const struct ledger *l, raddr_t addr)
{
	return (struct spot){ blocks_page(&l->blocks, addr), block_place(addr) };
}

INLINE void grant_block(struct ledger *l, struct thread *t, uint32_t owner, struct spot at, raddr_t addr, uint64_t size, uint32_t stack)
{
	uint32_t line = line_of(l, stack);
	bool was;
	struct block *b = blocks_put_in(&l->blocks, at.page, addr, at.place, &was);
	if (__builtin_expect(!b, 0))
		return;
	if (__builtin_expect(was, 0))
		heap_less(l, b, false);		/* its free was never seen */
	block_set(b, addr, size, line, owner, l->tick);
	l->up_ms = l->now_ms;
	heap_more(l, line, size);
	t->last = addr;
}

static inline bool is_temporary(struct thread *t, uint32_t owner, raddr_t addr, const struct block *b)
{
	if (t->last != addr || block_owner(b) != owner)
		return false;
	t->last = 0;
	return true;
}

/* The freed table knows more of B than what is left of it in its place. */
static __attribute__((noinline)) void remember(struct ledger *l, raddr_t addr, const struct block *b, uint32_t owner, uint32_t stack)
{
	struct freed_block f = {
		.address = addr, .size = block_size(b), .line = block_line(b), .owner = block_owner(b), .tick = block_tick(b),
		.freed_owner = owner, .freed_tick = l->tick, .freed_stack = stack,
	};
	freed_add(&l->freed, &f);
}

INLINE void release_block(struct ledger *l, struct thread *t, uint32_t owner, struct block stamp, struct spot at, raddr_t addr, bool from_libc,
			  uint32_t stack)
{
	struct block *b = at.page ? blocks_get_in(&l->blocks, at.page, addr, at.place) : NULL;
	if (__builtin_expect(!b, 0)) {
		l->unknown_frees += !from_libc;
		return;
	}
	heap_less(l, b, is_temporary(t, owner, addr, b));
	if (__builtin_expect(stack, 0))
		remember(l, addr, b, owner, stack);
	blocks_take(&l->blocks, at.page, b, stamp);
}

static void alloc(struct ledger *l, uint32_t thread, raddr_t addr, uint64_t size, uint32_t stack)
{
	if (__builtin_expect(l->odd, 0))
		changing(l, addr);
	grant_block(l, thread_at(l, thread), owner_of(thread), spot_of(l, addr), addr, size < BLOCK_SIZE_MAX ? size : BLOCK_SIZE_MAX, stack);
}

void ledger_alloc(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t size, uint32_t stack)
{
	event(l, ms);
	alloc(l, thread, addr, size, stack);
}

void ledger_release_by(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, bool from_libc, uint32_t stack)
{
	event(l, ms);
	if (__builtin_expect(l->odd, 0))
		changing(l, addr);
	release_block(l, thread_at(l, thread), owner_of(thread), block_stamp(owner_of(thread), l->tick), spot_of(l, addr), addr, from_libc, stack);
}

void ledger_release(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, bool from_libc)
{
	ledger_release_by(l, thread, ms, addr, from_libc, 0);
}

/*
 * A block that is freed by the very next event need not go into the table, if nobody is there and it makes no new high: half of the cost of a
 * pair, and a fifth of clang's frees.
 */
static inline bool is_nothing(const struct ledger *l, struct spot at, uint64_t size)
{
	return l->heap_counts && l->counted + size <= l->high && blocks_vacant(&l->blocks, at.page, at.place);
}

INLINE void came_and_went(struct ledger *l, struct thread *t, struct block stamp, struct spot at, raddr_t addr, uint64_t size, uint32_t stack)
{
	uint32_t line = line_of(l, stack);
	struct line *ln = line_at(l, line);
	blocks_leave(&l->blocks, at.page, addr, at.place, size, line, stamp);
	l->allocs++;
	l->frees++;
	l->temporary++;
	l->total_allocated += size;
	ln->s.total_bytes += size;
	ln->s.total_count++;
	ln->s.temporary++;
	t->last = 0;
}

/* Pages are looked up and entries and lines sent for first, all at once, so that the misses wait for each other as little as they can. */
void ledger_batch(struct ledger *l, uint32_t thread, uint64_t ms, const struct wire_event *e, size_t n)
{
	struct spot spot[LEDGER_BATCH];
	struct thread *t = thread_at(l, thread);
	uint32_t owner = owner_of(thread);

	for (; n > LEDGER_BATCH || (n && l->odd); e++, n--) {
		if (wire_kind(*e) == WIRE_ALLOC)
			ledger_alloc(l, thread, ms, wire_address(*e), wire_size(*e), wire_stack(*e));
		else
			ledger_release_by(l, thread, ms, wire_address(*e), wire_size(*e) & WIRE_FROM_LIBC, wire_stack(*e));
	}
	if (!n)
		return;
	event(l, ms);
	l->events += n - 1;
	struct block stamp = block_stamp(owner, l->tick);
	raddr_t before = UINT64_MAX;
	for (size_t i = 0; i < n; i++) {
		if (wire_address(e[i]) == before) {
			spot[i] = spot[i - 1];
			continue;
		}
		before = wire_address(e[i]);
		spot[i] = spot_of(l, before);
		if (spot[i].page)
			__builtin_prefetch(blocks_chunk(&l->blocks, spot[i].page) + (spot[i].place & spot[i].page->mask), 1);
		uint32_t stack = wire_stack(e[i]);
		if (stack < l->index_size)
			__builtin_prefetch(line_at(l, ((uint32_t *)l->index.base)[stack]), 1);
	}
	const struct block_page *table = l->blocks.page;
	for (size_t i = 0; i < n; i++) {
		raddr_t addr = wire_address(e[i]);
		if (__builtin_expect(!spot[i].page || l->blocks.page != table, 0))	/* it may have come or moved since */
			spot[i].page = blocks_page(&l->blocks, addr);
		if (wire_kind(e[i]) == WIRE_ALLOC && i + 1 < n && wire_address(e[i + 1]) == addr && wire_kind(e[i + 1]) == WIRE_FREE &&
		    !wire_stack(e[i + 1]) && is_nothing(l, spot[i], wire_size(e[i]))) {
			came_and_went(l, t, stamp, spot[i], addr, wire_size(e[i]), wire_stack(e[i]));
			i++;
		} else if (wire_kind(e[i]) == WIRE_ALLOC)
			grant_block(l, t, owner, spot[i], addr, wire_size(e[i]), wire_stack(e[i]));
		else
			release_block(l, t, owner, stamp, spot[i], addr, wire_size(e[i]) & WIRE_FROM_LIBC, wire_stack(e[i]));
	}
}

static void heap_back(struct ledger *l, struct pending *p)
{
	if (p->known) {
		bool was;
		if (l->odd)
			changing(l, p->addr);
		struct block *b = blocks_put(&l->blocks, p->addr, &was);
		if (b && !was) {
			b->a = (p->block.a & ~BLOCK_PASSED) | (b->a & BLOCK_PASSED);
			b->b = p->block.b;
			if (p->temporary)
				((struct thread *)l->threads.base)[p->slot].last = p->addr;
		} else {
			heap_less(l, &p->block, false);	/* somebody else has its address */
		}
	}
	p->heap = NOTHING;
}

void ledger_leave(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old)
{
	struct block_page *page;
	event(l, ms);
	struct pending *p = pending_make(l, thread);
	if (!p)
		return;
	if (p->heap == LEAVING)			/* its outcome never came */
		heap_back(l, p);
	struct block *b = blocks_get(&l->blocks, old, &page);
	p->heap = LEAVING;
	p->addr = old;
	p->known = b != NULL;
	if (!b)
		return;
	if (l->odd)
		changing(l, old);
	p->temporary = is_temporary(thread_at(l, thread), owner_of(thread), old, b);
	p->block = *b;
	blocks_take(&l->blocks, page, b, block_stamp(owner_of(thread), l->tick));
}

/* The end of a LEAVE: the old block is gone. */
static void leave_done(struct ledger *l, uint32_t thread, uint32_t stack)
{
	struct pending *p = pending_of(l, thread);
	if (!p || p->heap != LEAVING)
		return;
	if (p->known) {
		heap_less(l, &p->block, p->temporary);
		if (__builtin_expect(l->keep_freed, 0))
			remember(l, p->addr, &p->block, owner_of(thread), stack);
	} else
		l->unknown_frees++;
	p->heap = NOTHING;
	pending_rest(l, p);
}

void ledger_became(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t size, uint32_t stack)
{
	event(l, ms);
	leave_done(l, thread, stack);
	alloc(l, thread, addr, size, stack);
}

void ledger_stayed(struct ledger *l, uint32_t thread, uint64_t ms)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	if (!p || p->heap != LEAVING)
		return;
	heap_back(l, p);
	pending_rest(l, p);
}

void ledger_gone_by(struct ledger *l, uint32_t thread, uint64_t ms, uint32_t stack)
{
	event(l, ms);
	leave_done(l, thread, stack);
}

void ledger_gone(struct ledger *l, uint32_t thread, uint64_t ms)
{
	ledger_gone_by(l, thread, ms, 0);
}

/* ---- mappings ------------------------------------------------------------------------------------------------------------------ */

#define PROT_ANY (WIRE_PROT_READ | WIRE_PROT_WRITE | WIRE_PROT_EXEC)

/* G's accessible bytes change by CHANGE (two's complement). A grant counts once, while it has any. */
static void grant_account(struct ledger *l, struct grant *g, uint64_t change)
{
	uint64_t before = g->bytes;
	g->bytes += change;
	l->mmap += change;
	if (!l->mmap_counts)
		return;
	l->counted += change;
	struct line *ln = line_change(l, g->line);
	add(&ln->s.live_bytes, change);
	ln->s.live_count += (g->bytes != 0) - (before != 0);
}

/* One more call that was given bytes. (`total_allocated` goes with `allocs`: blocks only.) */
static void grant_total(struct ledger *l, const struct grant *g, uint64_t bytes)
{
	if (!l->mmap_counts)
		return;
	struct line *ln = line_change(l, g->line);
	ln->s.total_bytes += bytes;
	ln->s.total_count++;
}

static void pieces_gone(struct ledger *l, const struct pieces *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct range *r = &p->piece[i];
		l->reserved -= r->end - r->start;
		if (!r->open)
			continue;
		high_raise(l);
		grant_account(l, r->grant, -(r->end - r->start));
	}
}

static raddr_t end_of(raddr_t addr, uint64_t len)
{
	const uint64_t most = 1ull << 62;
	return addr > most || len > most ? most : (addr + len + 4095) & ~4095ull;
}

/* What was in [START, END) is not there any more. Whether anything was, or -ENOMEM. */
static int displace(struct ledger *l, raddr_t start, raddr_t end)
{
	int err = ranges_cut(&l->ranges, start, end, &l->scratch);
	if (err)
		return err;
	int any = l->scratch.count != 0;
	if (any)
		pieces_gone(l, &l->scratch);
	pieces_clear(&l->scratch);
	return any;
}

/* A call of the program's own was given [START, END), where nothing is. */
static void place(struct ledger *l, uint32_t thread, raddr_t start, raddr_t end, bool open, uint32_t stack)
{
	struct grant *g = start < end ? grant_new(line_of(l, stack), thread, l->tick, open) : NULL;
	if (!g)
		return;
	if (ranges_put(&l->ranges, &(struct range){ start, end, g, open })) {
		grant_put(g);
		return;
	}
	l->reserved += end - start;
	l->up_ms = l->now_ms;
	if (open) {
		grant_account(l, g, end - start);
		grant_total(l, g, end - start);
	}
}

void ledger_map(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len, unsigned prot_flags, uint32_t stack, bool own)
{
	event(l, ms);
	raddr_t end = end_of(addr, len);
	if (displace(l, addr, end) < 0 || !own || !(prot_flags & WIRE_MAP_ANON))
		return;
	l->maps++;
	place(l, thread, addr, end, prot_flags & PROT_ANY, stack);
}

/* Puts back what was cut out, where nobody else has come. COUNTED: it was counted all the time. */
static void range_back(struct ledger *l, struct pending *p, bool counted)
{
	for (size_t i = 0; i < p->pieces.count; i++) {
		const struct range *piece = &p->pieces.piece[i];
		uint64_t put = 0;
		for (raddr_t at = piece->start; at < piece->end; ) {
			const struct range *next = ranges_from(&l->ranges, at);
			struct range gap = { at, next && next->start < piece->end ? next->start : piece->end, piece->grant, piece->open };
			at = next && next->start < piece->end ? next->end : piece->end;
			if (gap.start >= gap.end)
				continue;
			gap.grant->refs++;
			if (ranges_put(&l->ranges, &gap))
				grant_put(gap.grant);
			else
				put += gap.end - gap.start;
		}
		uint64_t change = counted ? put - (piece->end - piece->start) : put;
		l->reserved += change;
		if (!piece->open || !change)
			continue;
		if (counted)
			high_raise(l);
		grant_account(l, piece->grant, change);
	}
	pieces_clear(&p->pieces);
	p->range = NOTHING;
}

/* The thread's record for a mapping call that begins now. */
static struct pending *range_begin(struct ledger *l, uint32_t thread)
{
	struct pending *p = pending_make(l, thread);
	if (p && p->range == REMAPPING)		/* its outcome never came */
		range_back(l, p, true);
	if (p)
		pieces_clear(&p->pieces);
	return p;
}

void ledger_unmap(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len)
{
	event(l, ms);
	struct pending *p = range_begin(l, thread);
	if (!p)
		return;
	p->range = NOTHING;
	if (!ranges_cut(&l->ranges, addr, end_of(addr, len), &p->pieces) && p->pieces.count) {
		pieces_gone(l, &p->pieces);
		l->unmaps++;
		p->range = UNMAPPED;
	}
	pending_rest(l, p);
}

void ledger_unmap_failed(struct ledger *l, uint32_t thread, uint64_t ms)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	if (!p || p->range != UNMAPPED)
		return;
	l->unmaps--;
	range_back(l, p, false);
	pending_rest(l, p);
}

void ledger_remap_leave(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old, uint64_t old_len)
{
	event(l, ms);
	struct pending *p = range_begin(l, thread);
	if (!p)
		return;
	const struct range *r = ranges_from(&l->ranges, old);
	p->range = REMAPPING;
	p->own = r && r->start <= old;
	p->open = p->own && r->open;
	if (old_len && ranges_cut(&l->ranges, old, end_of(old, old_len), &p->pieces))	/* 0: a second view of a shared mapping */
		p->own = false;
}

void ledger_remap(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len, uint32_t stack)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	bool ours = p && p->range == REMAPPING && p->own, open = ours && p->open;
	if (p && p->range == REMAPPING) {
		pieces_gone(l, &p->pieces);
		l->unmaps += p->pieces.count != 0;
		pieces_clear(&p->pieces);
		p->range = NOTHING;
		pending_rest(l, p);
	}
	if (displace(l, addr, end_of(addr, len)) < 0 || !ours)
		return;
	l->maps++;
	place(l, thread, addr, end_of(addr, len), open, stack);
}

void ledger_remap_failed(struct ledger *l, uint32_t thread, uint64_t ms)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	if (!p || p->range != REMAPPING)
		return;
	range_back(l, p, true);
	pending_rest(l, p);
}

/* The bytes of a mapping that was never accessible are charged to the mprotect that makes them so, others to whom they were before. */
void ledger_protect(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t len, unsigned prot, uint32_t stack)
{
	event(l, ms);
	bool open = prot & PROT_ANY;
	struct grant *grant = NULL;
	uint64_t granted = 0;
	if (ranges_cut(&l->ranges, addr, end_of(addr, len), &l->scratch))
		return;
	for (size_t i = 0; i < l->scratch.count; i++) {
		struct range r = l->scratch.piece[i];
		uint64_t bytes = r.end - r.start;
		if (r.open && !open) {
			high_raise(l);
			grant_account(l, r.grant, -bytes);
		} else if (!r.open && open) {
			if (!r.grant->charged) {
				if (!grant)
					grant = grant_new(line_of(l, stack), thread, l->tick, true);
				if (grant)
					r.grant = grant;
				granted += bytes;
			}
			l->up_ms = l->now_ms;
			grant_account(l, r.grant, bytes);
		}
		r.open = open;
		r.grant->refs++;
		if (ranges_put(&l->ranges, &r)) {
			l->reserved -= bytes;
			if (open)
				grant_account(l, r.grant, -bytes);
			grant_put(r.grant);
		}
	}
	if (grant) {
		grant_total(l, grant, granted);
		grant_put(grant);
	}
	pieces_clear(&l->scratch);
}

void ledger_break(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t now, raddr_t old, uint32_t stack, bool own)
{
	event(l, ms);
	if (now < old) {
		l->unmaps += displace(l, now, old) > 0;
		return;
	}
	if (displace(l, old, now) >= 0 && own && now > old) {
		l->maps++;
		place(l, thread, old, now, true, stack);
	}
}

/* ---- questions ----------------------------------------------------------------------------------------------------------------- */

static struct ledger *awake(const struct ledger *l)	/* a child that shares its parent's table still, gets its own */
{
	wake((struct ledger *)l);
	return (struct ledger *)l;
}

void ledger_totals(const struct ledger *l, struct ledger_totals *out)
{
	struct high h = high_of(l);
	*out = (struct ledger_totals){
		.heap = l->heap, .mmap = l->mmap, .mmap_reserved = l->reserved,
		.live_blocks = l->inherited + l->allocs - l->frees,
		.allocs = l->allocs, .frees = l->frees, .maps = l->maps, .unmaps = l->unmaps,
		.unknown_frees = l->unknown_frees, .temporary = l->temporary, .total_allocated = l->total_allocated,
		.peak = h.bytes > l->peak ? h.bytes : l->peak,
		.peak_ms = h.bytes > l->peak ? h.ms : l->peak_ms,
		.events = l->events,
	};
}

size_t ledger_stacks(const struct ledger *l)
{
	return awake(l)->index_size;
}

static const struct line *line_seen(const struct ledger *l, uint32_t stack)
{
	uint32_t line = stack < awake(l)->index_size ? ((uint32_t *)l->index.base)[stack] : 0;
	return line ? line_at(l, line) : NULL;
}

const struct ledger_stack *ledger_stack(const struct ledger *l, uint32_t stack)
{
	static const struct ledger_stack none;
	const struct line *ln = line_seen(l, stack);
	return ln ? &ln->s : &none;
}

/* The breakdown of a peak that is over. NULL: there was none, or out of memory. */
static const struct timeline_held *at_peak(struct ledger *l)
{
	size_t i = l->at_peak ? 0 : timeline_highest(&l->timeline);
	if (i && timeline_point(&l->timeline, i - 1)->bytes == l->peak) {
		l->at_peak_lines = l->timeline.lines;
		l->at_peak = timeline_breakdown(&l->timeline, i - 1, l->at_peak_lines);
	}
	return l->at_peak;
}

void ledger_stack_at_peak(const struct ledger *l, uint32_t stack, int64_t *bytes, int64_t *count)
{
	const struct line *ln = line_seen(l, stack);
	struct high h = high_of(l);
	struct timeline_held held = { 0 };
	if (ln && h.bytes > l->peak) {
		held = held_at(l, &h, ln);
	} else if (ln) {
		const struct timeline_held *v = at_peak((struct ledger *)l);
		uint32_t line = ((uint32_t *)l->index.base)[stack];
		if (v && line < l->at_peak_lines)
			held = v[line];
	}
	*bytes = (int64_t)held.bytes;
	*count = held.count;
}

/* ---- the past ------------------------------------------------------------------------------------------------------------------- */

void ledger_interval(const struct ledger *l, uint64_t ms, struct ledger_interval *out)
{
	uint64_t interval = ms / TIMELINE_MS;
	size_t i = timeline_find(&l->timeline, interval);
	const struct timeline_point *p = i ? timeline_point(&l->timeline, i - 1) : NULL;
	struct high h = high_of(l);
	if (interval > l->interval) {		/* nothing has happened since */
		*out = (struct ledger_interval){ (l->interval + 1) * TIMELINE_MS, UINT64_MAX, l->counted, (l->interval + 1) * TIMELINE_MS, 1 };
		return;
	}
	if (interval == l->interval) {
		*out = (struct ledger_interval){ interval * TIMELINE_MS, (interval + 1) * TIMELINE_MS, h.bytes, h.ms, 1 };
		return;
	}
	uint64_t end = i < l->timeline.count ? timeline_point(&l->timeline, i)->interval : l->interval;
	*out = (struct ledger_interval){ p ? p->interval * TIMELINE_MS : 0, end * TIMELINE_MS, p ? p->bytes : 0, p ? p->ms : 0, p ? p->span : 1 };
}

ssize_t ledger_past(const struct ledger *l, uint64_t ms, struct ledger_held **out)
{
	uint64_t interval = ms / TIMELINE_MS;
	size_t n = 0, lines = awake(l)->lines_used, i = timeline_find(&l->timeline, interval);
	struct high h = high_of(l);
	struct timeline_held *held = NULL;
	struct ledger_held *v = malloc((lines + 1) * sizeof(*v));
	if (interval > l->interval)
		h.now = true;
	if (interval < l->interval && i)
		held = timeline_breakdown(&l->timeline, i - 1, lines);
	if (!v || (interval < l->interval && i && !held)) {
		free(v);
		return -ENOMEM;
	}
	for (uint32_t line = 1; line < lines; line++) {
		struct timeline_held at = { 0 };
		if (interval >= l->interval)
			at = held_at(l, &h, line_at(l, line));
		else if (held)
			at = held[line];
		if (at.bytes || at.count)
			v[n++] = (struct ledger_held){ line_at(l, line)->id, (int64_t)at.bytes, at.count };
	}
	free(held);
	*out = v;
	return (ssize_t)n;
}

void ledger_timeline(const struct ledger *l, struct ledger_timeline *out)
{
	const struct timeline *t = &l->timeline;
	*out = (struct ledger_timeline){ .points = t->count, .memory = timeline_memory(t), .coarse_until_ms = t->coarse_until * TIMELINE_MS,
					 .coarse_ms = t->step * TIMELINE_MS };
}

static struct ledger_block describe(const struct ledger *l, raddr_t addr, const struct block *b)
{
	return (struct ledger_block){
		.address = addr, .size = block_size(b), .stack = line_at(l, block_line(b))->id,
		.thread = block_owner(b), .ms = block_tick(b) * 10ull,
	};
}

static struct ledger_block describe_range(const struct ledger *l, const struct range *r)
{
	return (struct ledger_block){
		.address = r->start, .size = r->end - r->start, .stack = line_at(l, r->grant->line)->id,
		.thread = r->grant->thread, .ms = r->grant->tick * 10ull, .mapping = true,
	};
}

static int by_address(const void *a, const void *b)
{
	const struct ledger_block *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

/* Blocks and ranges of pending calls, which are counted but in no table: sorted, to be freed. */
static ssize_t pending_blocks(const struct ledger *l, bool mapping, struct ledger_block **out)
{
	size_t n = 0;
	for (uint32_t i = 0; i < l->pendings; i++)
		n += mapping ? l->pending[i].pieces.count : 1;
	struct ledger_block *v = malloc((n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	n = 0;
	for (uint32_t i = 0; i < l->pendings; i++) {
		const struct pending *p = &l->pending[i];
		if (!mapping && p->heap == LEAVING && p->known)
			v[n++] = describe(l, p->addr, &p->block);
		for (size_t j = 0; mapping && p->range == REMAPPING && j < p->pieces.count; j++)
			if (p->pieces.piece[j].open)
				v[n++] = describe_range(l, &p->pieces.piece[j]);
	}
	qsort(v, n, sizeof(*v), by_address);
	*out = v;
	return (ssize_t)n;
}

static int each_heap(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b), void *ctx)
{
	struct ledger_block *extra;
	struct block_page *page;
	raddr_t *address;
	int err = 0;
	ssize_t more = pending_blocks(l, false, &extra), j = 0;
	if (more < 0)
		return (int)more;
	ssize_t n = blocks_addresses(&l->blocks, &address);
	if (n < 0) {
		free(extra);
		return (int)n;
	}
	for (ssize_t i = 0; i <= n && !err; i++) {
		while (j < more && !err && (i == n || extra[j].address <= address[i]))
			err = fn(ctx, &extra[j++]);
		const struct block *b = i < n ? blocks_get(&l->blocks, address[i], &page) : NULL;
		if (b && !err) {
			struct ledger_block found = describe(l, address[i], b);
			err = fn(ctx, &found);
		}
	}
	free(address);
	free(extra);
	return err;
}

static int each_mapping(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b), void *ctx)
{
	struct ledger_block *extra;
	int err = 0;
	ssize_t more = pending_blocks(l, true, &extra), j = 0;
	if (more < 0)
		return (int)more;
	const struct range *r = ranges_from(&l->ranges, 0);
	while (!err && (r || j < more)) {
		if (j < more && (!r || extra[j].address <= r->start)) {
			err = fn(ctx, &extra[j++]);
			continue;
		}
		if (r->open) {
			struct ledger_block found = describe_range(l, r);
			err = fn(ctx, &found);
		}
		r = ranges_from(&l->ranges, r->end);
	}
	free(extra);
	return err;
}

int ledger_each_block(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b), void *ctx)
{
	int err = each_heap(awake(l), fn, ctx);
	return err ? err : each_mapping(l, fn, ctx);
}

int ledger_each_mapping(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b), void *ctx)
{
	return each_mapping(awake(l), fn, ctx);
}

int ledger_each_page(const struct ledger *l, int (*fn)(void *ctx, raddr_t page), void *ctx)
{
	int err = 0;
	for (size_t i = 0; i <= awake(l)->blocks.mask && !err; i++) {
		const struct block_page *p = &l->blocks.page[i];
		if (p->number && p->count & PAGE_COUNT)
			err = fn(ctx, (p->number - 1) << 12);
	}
	return err;
}

bool ledger_holds(const struct ledger *l, raddr_t addr)
{
	struct block_page *page;
	return blocks_get(&awake(l)->blocks, addr, &page) != NULL;
}

static bool holds(const struct ledger_block *b, raddr_t addr)
{
	return addr == b->address || addr - b->address < b->size;
}

bool ledger_find(const struct ledger *l, raddr_t addr, struct ledger_block *out)
{
	raddr_t start;
	const struct block *b = blocks_below(&awake(l)->blocks, addr, &start);
	if (b) {
		*out = describe(l, start, b);
		if (holds(out, addr))
			return true;
	}
	for (uint32_t i = 0; i < l->pendings; i++) {
		const struct pending *p = &l->pending[i];
		if (p->heap == LEAVING && p->known) {
			*out = describe(l, p->addr, &p->block);
			if (holds(out, addr))
				return true;
		}
		for (size_t j = 0; p->range == REMAPPING && j < p->pieces.count; j++) {
			*out = describe_range(l, &p->pieces.piece[j]);
			if (p->pieces.piece[j].open && holds(out, addr))
				return true;
		}
	}
	const struct range *r = ranges_from(&l->ranges, addr);
	if (!r || r->start > addr || !r->open)
		return false;
	*out = describe_range(l, r);
	return true;
}

void ledger_keep_freed(struct ledger *l, bool keep)
{
	l->keep_freed = keep;
}

bool ledger_below(const struct ledger *l, raddr_t addr, struct ledger_block *out)
{
	raddr_t start;
	const struct block *b = blocks_below(&awake(l)->blocks, addr, &start);
	if (b)
		*out = describe(l, start, b);
	return b != NULL;
}

bool ledger_find_freed(const struct ledger *l, raddr_t addr, struct ledger_freed *out)
{
	raddr_t start;
	const struct block *b = blocks_freed(&awake(l)->blocks, addr, &start);
	const struct freed_block *f = freed_find(&l->freed, addr);
	if (f && (!b || f->freed_tick >= block_tick(b))) {
		*out = (struct ledger_freed){
			.block = { .address = f->address, .size = f->size, .stack = line_at(l, f->line)->id, .thread = f->owner, .ms = f->tick * 10ull },
			.known = true, .thread = f->freed_owner, .stack = f->freed_stack, .ms = f->freed_tick * 10ull,
		};
		return true;
	}
	if (!b)
		return false;
	*out = (struct ledger_freed){ .block = describe(l, start, b), .thread = block_owner(b), .ms = block_tick(b) * 10ull };
	return true;
}

size_t ledger_memory(const struct ledger *l)
{
	return sizeof(*l) + blocks_memory(&l->blocks) + l->index_size * sizeof(uint32_t) + l->lines_used * sizeof(struct line) +
	       l->nthreads * sizeof(struct thread) + l->pending_room * sizeof(struct pending) + l->undo_room * sizeof(struct undo) +
	       l->lines_used * sizeof(uint32_t) + timeline_memory(&l->timeline) + ranges_memory(&l->ranges) + freed_memory(&l->freed);
}
