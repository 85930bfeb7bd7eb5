// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ledger_state.h"

#include "inject/wire_event.h"
#include "inject/wire_stack.h"

#include <stdlib.h>

/*
 * A ledger is made when a process is planted or forked, fed by its stream, asked by the shell, and
 * freed with the process' record. Live blocks are in blocks.h, own mappings in ranges.h; here is
 * what is summed up from them: one 64-byte line per stack that ever allocated, and totals. Here too
 * is the path of most events (ledger_batch), with all that it calls in one file or inline. The
 * other subjects have files of their own (ledger_state.h).
 *
 * Stack ids are node ids of the image, and most nodes are inner frames that never allocate: an
 * index (4 bytes per id) leads to the stack total, and a block's entry keeps the stack total's
 * number, so that a free needs no index.
 *
 * realloc. What is leaving is taken out of the table at once, another thread may be given its
 * address before the outcome is known, and kept in the thread's `pending`, still counted, until
 * BECAME, STAYED or GONE. ledger_map.c does the same with pieces of ranges.
 */

#define LEDGER_BATCH 64u
#define TOTALS_NEAR  8192u /* half a MB: so many are in the processor's caches anyhow */

/* ---- stack totals -------------------------------------------------------- */

uint32_t ledger_total_new(struct ledger *l, uint32_t stack)
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
	if (arena_reach(&l->totals, (l->totals_used + 1) * sizeof(struct stack_total)))
		return 0;
	if (arena_reach(&l->touched, (l->totals_used + 1) * sizeof(uint32_t)))
		return 0;
	total_at(l, l->totals_used)->id = stack;
	return index[stack] = l->totals_used++;
}

/* ---- life ---------------------------------------------------------------- */

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
	activity_init(&l->activity);
	l->epoch = l->interval_epoch = 1;
	if (arena_reach(&l->totals, sizeof(struct stack_total)) ||
	    arena_reach(&l->threads, sizeof(struct thread)) ||
	    arena_reach(&l->touched, sizeof(uint32_t))) {
		ledger_free(l);
		return NULL;
	}
	l->totals_used = 1;
	l->heap_counts = count & LEDGER_COUNT_HEAP;
	l->mmap_counts = count & LEDGER_COUNT_MMAP;
	return l;
}

void ledger_free(struct ledger *l)
{
	if (!l)
		return;
	while (l->children)
		ledger_inherit(l->children);
	while (l->listings)
		listing_leave(l->listings);
	if (l->parent)
		ledger_leave_parent(l);
	for (uint32_t i = 0; i < l->pendings; i++)
		pieces_release(&l->pending[i].pieces);
	free(l->pending);
	pieces_release(&l->scratch);
	freed_release(&l->freed);
	weights_release(&l->weights);
	arena_release(&l->variances);
	ranges_release(&l->ranges);
	free(l->undo);
	free(l->at_peak);
	timeline_release(&l->timeline);
	activity_release(&l->activity);
	arena_release(&l->touched);
	arena_release(&l->threads);
	arena_release(&l->index);
	arena_release(&l->totals);
	blocks_release(&l->blocks);
	page_set_release(&l->lain);
	free(l);
}

int ledger_compact(struct ledger *l, bool compact) { return blocks_compact(&l->blocks, compact); }

/* Not under the eyes of a listing, which would lose its place. */
bool ledger_move(struct ledger *l) { return !l->listings && blocks_move(&l->blocks, 2048); }

/* ---- sampling ------------------------------------------------------------ */

/* B at ADDR stands for W from now on, or for itself again. False: out of memory. */
static bool weigh(struct ledger *l, raddr_t addr, const struct block *b, struct weight w)
{
	uint32_t total = block_total(b);

	if (arena_reach(&l->variances, (total + (size_t)1) * sizeof(unsigned __int128)) ||
	    weights_put(&l->weights, addr, &w))
		return false;
	*variance_at(l, total) += weight_variance(w, block_size(b));
	return true;
}

static void unweigh(struct ledger *l, raddr_t addr, const struct block *b)
{
	struct weight w;

	if (!weights_get(&l->weights, addr, &w))
		return;
	*variance_at(l, block_total(b)) -= weight_variance(w, block_size(b));
	weights_take(&l->weights, addr);
}

/* B at ADDR, which was counted, is gone. */
static __attribute__((noinline)) void uncount(struct ledger *l, raddr_t addr, const struct block *b)
{
	unweigh(l, addr, b);
	if (l->known)
		wire_known_take(l->known, addr);
}

void ledger_count_all(struct ledger *l, bool counted)
{
	struct blocks_walk w = { 0 };
	while (blocks_walk(&l->blocks, &w))
		for (size_t i = 0; i < w.count; i++) {
			if (!(w.block[i].b & BLOCK_COUNTED) != !counted)
				continue;
			blocks_count(&l->blocks, w.addr[i]);
			wire_known_add(l->known, w.addr[i]);
		}
	for (uint32_t i = 0; i < l->pendings; i++) {
		struct pending *p = &l->pending[i];
		if (p->heap != LEAVING || !p->known || !(p->block.b & BLOCK_COUNTED) != !counted)
			continue;
		p->block.b |= BLOCK_COUNTED;
		wire_known_add(l->known, p->addr);
	}
}

void ledger_sampled(struct ledger *l, uint64_t period)
{
	if (!l->sampled)
		l->sampled_ms = l->now_ms;
	l->sampled = true;
	l->period = period;
}

void ledger_known(struct ledger *l, uint8_t *known)
{
	l->known = known;
	if (known && !l->parent) /* else when it has its own blocks */
		ledger_count_all(l, true);
}

void ledger_know_all(struct ledger *l, bool on)
{
	wake(l);
	l->know_all = on && l->known;
	if (l->know_all)
		ledger_count_all(l, false);
}

void ledger_went_on(struct ledger *l, uint32_t thread) { thread_at(l, thread)->last = 0; }

/* ---- blocks -------------------------------------------------------------- */

/* the body of ledger_batch's loop */
#define INLINE static inline __attribute__((always_inline))

struct spot { /* where an address belongs in the table */
	struct block_page *page;
	uint32_t place;
};

static inline struct spot spot_of(const struct ledger *l, raddr_t addr)
{
	return (struct spot){ blocks_page(&l->blocks, addr), block_place(addr) };
}

/* Somebody has the address of B, whose free was never seen. */
static __attribute__((noinline)) void free_unseen(struct ledger *l, raddr_t addr,
						  const struct block *b)
{
	l->overlaid = true;
	heap_less(l, block_total(b), weight_of(l, addr, b), false);
	if (b->b & BLOCK_COUNTED)
		uncount(l, addr, b);
}

INLINE void grant_block(struct ledger *l, struct thread *t, uint32_t owner, struct spot at,
			raddr_t addr, uint64_t size, uint32_t stack, unsigned family)
{
	uint32_t total = total_of(l, stack);
	struct block b = block_at(addr, size, total, owner, l->tick), was;
	if (__builtin_expect(l->know_all, 0))
		b.b |= BLOCK_COUNTED;
	if (__builtin_expect(!at.page, 0)) /* else it is there already */
		page_set_add(&l->lain, addr, size);
	bool put = blocks_put_in(&l->blocks, at.page, addr, at.place, b, &was);
	if (__builtin_expect(was.a != 0, 0))
		free_unseen(l, addr, &was);
	if (__builtin_expect(!put, 0))
		return;
	heap_more(l, total, (struct weight){ size, 1 });
	total_gave(l, total, family);
	if (__builtin_expect(l->know_all, 0))
		wire_known_add(l->known, addr);
	t->last = addr;
}

static inline bool is_temporary(struct thread *t, uint32_t owner, raddr_t addr,
				const struct block *b)
{
	if (t->last != addr || block_owner(b) != owner)
		return false;
	t->last = 0;
	return true;
}

/* The freed table knows more of B than what is left of it in its place. */
static __attribute__((noinline)) void remember(struct ledger *l, raddr_t addr,
					       const struct block *b, uint32_t owner,
					       uint32_t stack)
{
	struct freed_block f = {
		.address = addr,
		.size = block_size(b),
		.total = block_total(b),
		.owner = block_owner(b),
		.tick = block_tick(b),
		.freed_owner = owner,
		.freed_tick = l->tick,
		.freed_stack = stack,
	};
	freed_add(&l->freed, &f);
}

void ledger_keep_freed(struct ledger *l, bool keep) { l->keep_freed = keep; }

INLINE void release_block(struct ledger *l, struct thread *t, uint32_t thread, struct block stamp,
			  struct spot at, raddr_t addr, bool from_libc, uint32_t stack,
			  unsigned family)
{
	uint32_t owner = owner_of(thread);
	struct block *in = at.page ? blocks_get_in(&l->blocks, at.page, addr, at.place) : NULL, out;
	const struct block *b = in;
	if (__builtin_expect(!in && l->blocks.mix, 0))
		b = blocks_take(&l->blocks, addr, stamp, &out) ? &out : NULL;
	if (__builtin_expect(!b, 0)) {
		l->unknown_frees += !from_libc && !l->sampled;
		if (!from_libc)
			ledger_wrong_unknown(l, thread, addr, stack, family, false);
		return;
	}
	heap_less(l, block_total(b), weight_of(l, addr, b), is_temporary(t, owner, addr, b));
	if (__builtin_expect((b->b & BLOCK_COUNTED) != 0, 0))
		uncount(l, addr, b);
	if (__builtin_expect(stack, 0)) {
		if (!from_libc)
			ledger_wrong_family(l, thread, addr, b, stack, family);
		remember(l, addr, b, owner, stack);
	}
	if (__builtin_expect(in != NULL, 1))
		blocks_take_in(&l->blocks, at.page, in, stamp);
}

void ledger_family(struct ledger *l, unsigned family) { l->family = family; }

void ledger_late(struct ledger *l, bool late) { l->late = late; }

/* Of the event at hand. */
static inline unsigned take_family(struct ledger *l)
{
	unsigned family = l->family;

	l->family = FAMILY_HEAP;
	return family;
}

static void alloc(struct ledger *l, uint32_t thread, raddr_t addr, uint64_t size, uint32_t stack,
		  unsigned family)
{
	if (__builtin_expect(l->odd, 0))
		ledger_changing(l, addr);
	struct spot at = spot_of(l, addr);
	size = size < BLOCK_SIZE_MAX ? size : BLOCK_SIZE_MAX;
	if (at.page && size > BLOCK_OFFSET + 1 - (addr & BLOCK_OFFSET))
		page_set_add(&l->lain, addr, size);
	grant_block(l, thread_at(l, thread), owner_of(thread), at, addr, size, stack, family);
}

void ledger_alloc(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t size,
		  uint32_t stack)
{
	event(l, ms);
	alloc(l, thread, addr, size, stack, take_family(l));
}

/* The block sampled with PERIOD, 0: not sampled, is one that the hook has counted. */
static void alloc_counted(struct ledger *l, uint32_t thread, raddr_t addr, uint64_t size,
			  uint32_t stack, uint64_t period, unsigned family)
{
	struct thread *t = thread_at(l, thread);
	uint32_t total = total_of(l, stack);
	struct weight w;
	size = size < BLOCK_SIZE_MAX ? size : BLOCK_SIZE_MAX;
	struct block b = block_at(addr, size, total, owner_of(thread), l->tick), was;
	b.b |= BLOCK_COUNTED;
	if (__builtin_expect(l->odd, 0))
		ledger_changing(l, addr);
	bool put = blocks_put(&l->blocks, addr, b, &was);
	if (was.a)
		free_unseen(l, addr, &was);
	if (!put)
		return;
	w = weights_of(&l->weights, size, period);
	if (period && weigh(l, addr, &b, w))
		total_at(l, total)->sampled = true;
	else if (period)
		w = (struct weight){ size, 1 }; /* out of memory: it stands for itself */
	heap_more(l, total, w);
	total_gave(l, total, family);
	t->last = addr;
}

void ledger_alloc_counted(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr,
			  uint64_t size, uint32_t stack, uint64_t period)
{
	event(l, ms);
	alloc_counted(l, thread, addr, size, stack, period, take_family(l));
}

void ledger_release_by(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, bool from_libc,
		       uint32_t stack)
{
	event(l, ms);
	if (__builtin_expect(l->odd, 0))
		ledger_changing(l, addr);
	release_block(l, thread_at(l, thread), thread, block_stamp(owner_of(thread), l->tick),
		      spot_of(l, addr), addr, from_libc, stack, take_family(l));
}

void ledger_release(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, bool from_libc)
{
	ledger_release_by(l, thread, ms, addr, from_libc, 0);
}

/*
 * A block that is freed by the very next event need not go into the table, if nobody is there and
 * it makes no new high: half of the cost of a pair, and a fifth of clang's frees.
 */
static inline bool is_nothing(const struct ledger *l, struct spot at, uint64_t size)
{
	return l->heap_counts && l->counted + size <= l->high &&
	       blocks_vacant(&l->blocks, at.page, at.place);
}

INLINE void came_and_went(struct ledger *l, struct thread *t, struct block stamp, struct spot at,
			  raddr_t addr, uint64_t size, uint32_t stack, unsigned family)
{
	uint32_t total = total_of(l, stack);
	heap_pair(l, total, size);
	total_gave(l, total, family);
	blocks_leave(&l->blocks, at.page, addr, at.place, size, total, stamp);
	t->last = 0;
}

static inline void total_fetch(const struct ledger *l, uint32_t total)
{
	__builtin_prefetch(total_at(l, total), 1);
}

/* Finds the pages that the N addresses of E are in; sends for their entries and stack totals. */
INLINE void fetch_entries(const struct ledger *l, const struct wire_event *e, size_t n,
			  struct spot *spot)
{
	raddr_t before = UINT64_MAX;
	for (size_t i = 0; i < n; i++) {
		if (wire_address(e[i]) == before) {
			spot[i] = spot[i - 1];
			continue;
		}
		before = wire_address(e[i]);
		spot[i] = spot_of(l, before);
		blocks_fetch(&l->blocks, spot[i].page, before, spot[i].place);
		uint32_t stack = wire_stack(e[i]);
		if (stack < l->index_size)
			total_fetch(l, ((uint32_t *)l->index.base)[stack]);
	}
}

/* Before fetch_entries(): for what leads to them. */
INLINE void fetch_ways(const struct ledger *l, const struct wire_event *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		blocks_fetch_page(&l->blocks, wire_address(e[i]));
		/* there may be none yet */
		__builtin_prefetch((const void *)((uintptr_t)l->index.base +
						  wire_stack(e[i]) * sizeof(uint32_t)));
	}
}

/* After fetch_entries(): for the totals of what is freed, which only an entry tells. */
INLINE void fetch_freed(const struct ledger *l, const struct wire_event *e, size_t n,
			const struct spot *spot)
{
	for (size_t i = 0; i < n; i++) {
		if (wire_kind(e[i]) == WIRE_ALLOC || !spot[i].page)
			continue;
		const struct block *b =
			blocks_get_in(&l->blocks, spot[i].page, wire_address(e[i]), spot[i].place);
		if (b)
			total_fetch(l, block_total(b));
	}
}

/*
 * What the batch needs is sent for before it is looked at, all of one level at once, so that the
 * misses wait for each other as little as they can. (10^6 blocks of 50 000 stacks, replaced at
 * random: 53 ns an event with three levels, 93 with fetch_entries() alone.)
 */
void ledger_batch(struct ledger *l, uint32_t thread, uint64_t ms, const struct wire_event *e,
		  size_t n)
{
	struct spot spot[LEDGER_BATCH];
	struct thread *t = thread_at(l, thread);
	uint32_t owner = owner_of(thread);

	bool forked = l->odd && (l->parent || l->children);
	for (; n > LEDGER_BATCH || (n && forked); e++, n--) {
		ledger_family(l, wire_family(*e));
		if (wire_kind(*e) == WIRE_ALLOC)
			ledger_alloc(l, thread, ms, wire_address(*e), wire_size(*e),
				     wire_stack(*e));
		else
			ledger_release_by(l, thread, ms, wire_address(*e),
					  wire_size(*e) & WIRE_FROM_LIBC, wire_stack(*e));
	}
	if (!n)
		return;
	event(l, ms);
	l->events += n - 1;
	for (size_t i = 0; __builtin_expect(l->listings != NULL, 0) && i < n; i++)
		listings_note(l, wire_address(e[i]));
	struct block stamp = block_stamp(owner, l->tick);
	bool far = l->totals_used > TOTALS_NEAR;
	if (far)
		fetch_ways(l, e, n);
	fetch_entries(l, e, n, spot);
	if (far)
		fetch_freed(l, e, n, spot);
	uint32_t moves = l->blocks.moves;
	for (size_t i = 0; i < n; i++) {
		raddr_t addr = wire_address(e[i]);
		/* it may have come or moved since */
		if (__builtin_expect(!spot[i].page || l->blocks.moves != moves, 0))
			spot[i].page = blocks_page(&l->blocks, addr);
		if (wire_kind(e[i]) == WIRE_ALLOC && i + 1 < n && wire_address(e[i + 1]) == addr &&
		    wire_kind(e[i + 1]) == WIRE_FREE && !wire_stack(e[i + 1]) &&
		    is_nothing(l, spot[i], wire_size(e[i]))) {
			came_and_went(l, t, stamp, spot[i], addr, wire_size(e[i]), wire_stack(e[i]),
				      wire_family(e[i]));
			i++;
		} else if (wire_kind(e[i]) == WIRE_ALLOC)
			grant_block(l, t, owner, spot[i], addr, wire_size(e[i]), wire_stack(e[i]),
				    wire_family(e[i]));
		else
			release_block(l, t, thread, stamp, spot[i], addr,
				      wire_size(e[i]) & WIRE_FROM_LIBC, wire_stack(e[i]),
				      wire_family(e[i]));
	}
}

void ledger_weigh_back(struct ledger *l, raddr_t addr, const struct block *b, struct weight w)
{
	struct weight own = { block_size(b), 1 };
	if ((w.bytes == own.bytes && w.count == own.count) || weigh(l, addr, b, w))
		return;
	heap_less(l, block_total(b), w, false); /* out of memory: it stands for itself */
	heap_more(l, block_total(b), own);
}

static void heap_back(struct ledger *l, struct pending *p)
{
	if (p->known) {
		struct block copy;
		if (l->odd)
			ledger_changing(l, p->addr);
		if (!blocks_get(&l->blocks, p->addr, &copy) &&
		    blocks_put(&l->blocks, p->addr, p->block, &copy)) {
			ledger_weigh_back(l, p->addr, &p->block, p->weight);
			if (p->temporary)
				((struct thread *)l->threads.base)[p->slot].last = p->addr;
		} else {
			/* somebody else has its address */
			heap_less(l, block_total(&p->block), p->weight, false);
			if (p->block.b & BLOCK_COUNTED && l->known)
				wire_known_take(l->known, p->addr);
		}
	}
	p->heap = NOTHING;
}

void ledger_leave_by(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old, uint32_t stack)
{
	event(l, ms);
	unsigned family = take_family(l);
	struct pending *p = ledger_pending_make(l, thread);
	if (!p)
		return;
	if (p->heap == LEAVING) /* its outcome never came */
		heap_back(l, p);
	if (l->odd)
		ledger_changing(l, old);
	p->heap = LEAVING;
	p->addr = old;
	p->known = blocks_take(&l->blocks, old, block_stamp(owner_of(thread), l->tick), &p->block);
	if (!p->known) {
		ledger_wrong_unknown(l, thread, old, stack, family, true);
		return;
	}
	p->temporary = is_temporary(thread_at(l, thread), owner_of(thread), old, &p->block);
	p->weight = weight_of(l, old, &p->block);
	if (p->block.b & BLOCK_COUNTED)
		unweigh(l, old, &p->block);
}

void ledger_leave(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t old)
{
	ledger_leave_by(l, thread, ms, old, 0);
}

/*
 * The family of a block that realloc made of another one: the heap's, if that one was. An
 * operator's is left to those who use it so.
 */
static unsigned family_of(const struct ledger *l, const struct pending *p, unsigned family)
{
	return family == FAMILY_HEAP && p->known &&
			       total_at(l, block_total(&p->block))->families == 1u << FAMILY_HEAP
		       ? FAMILY_HEAP
		       : FAMILY_ANY;
}

/*
 * The end of a LEAVE by FAMILY: the old block is gone. The family of the one that takes its place.
 */
static unsigned leave_done(struct ledger *l, uint32_t thread, uint32_t stack, unsigned family)
{
	struct pending *p = pending_of(l, thread);
	if (!p || p->heap != LEAVING)
		return FAMILY_ANY;
	family = family_of(l, p, family);
	if (p->known) {
		heap_less(l, block_total(&p->block), p->weight, p->temporary);
		if (p->block.b & BLOCK_COUNTED && l->known)
			wire_known_take(l->known, p->addr);
		if (__builtin_expect(l->keep_freed, 0))
			remember(l, p->addr, &p->block, owner_of(thread), stack);
	} else
		l->unknown_frees += !l->sampled;
	p->heap = NOTHING;
	ledger_pending_rest(l, p);
	return family;
}

void ledger_became(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr, uint64_t size,
		   uint32_t stack)
{
	event(l, ms);
	alloc(l, thread, addr, size, stack, leave_done(l, thread, stack, take_family(l)));
}

void ledger_became_counted(struct ledger *l, uint32_t thread, uint64_t ms, raddr_t addr,
			   uint64_t size, uint32_t stack, uint64_t period)
{
	event(l, ms);
	alloc_counted(l, thread, addr, size, stack, period,
		      leave_done(l, thread, stack, take_family(l)));
}

void ledger_stayed(struct ledger *l, uint32_t thread, uint64_t ms)
{
	event(l, ms);
	struct pending *p = pending_of(l, thread);
	if (!p || p->heap != LEAVING)
		return;
	heap_back(l, p);
	ledger_pending_rest(l, p);
}

void ledger_gone_by(struct ledger *l, uint32_t thread, uint64_t ms, uint32_t stack)
{
	event(l, ms);
	leave_done(l, thread, stack, take_family(l));
}

void ledger_gone(struct ledger *l, uint32_t thread, uint64_t ms)
{
	ledger_gone_by(l, thread, ms, 0);
}
