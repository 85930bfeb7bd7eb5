// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ledger_state.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Questions about the present. Blocks and ranges that a call under way has taken out of the tables
 * are live until its outcome is known, so the answers take them from `pending` as well.
 */

void ledger_totals(const struct ledger *l, struct ledger_totals *out)
{
	struct high h = high_of(l);
	*out = (struct ledger_totals){
		.heap = l->heap,
		.mmap = l->mmap,
		.mmap_reserved = l->reserved,
		.live_blocks = l->inherited + l->allocs - l->frees,
		.allocs = l->allocs,
		.frees = l->frees,
		.maps = l->maps,
		.unmaps = l->unmaps,
		.unknown_frees = l->unknown_frees,
		.temporary = l->temporary,
		.total_allocated = l->total_allocated,
		.peak = h.bytes > l->peak ? h.bytes : l->peak,
		.peak_ms = h.bytes > l->peak ? h.ms : l->peak_ms,
		.events = l->events,
		.estimated = l->sampled,
		.sampled_ms = l->sampled_ms,
		.period = l->period,
	};
}

bool ledger_resizing(const struct ledger *l)
{
	for (uint32_t i = 0; i < l->pendings; i++)
		if (l->pending[i].heap == LEAVING || l->pending[i].range == REMAPPING)
			return true;
	return false;
}

size_t ledger_stacks(const struct ledger *l) { return awake(l)->index_size; }

const struct ledger_stack *ledger_stack(const struct ledger *l, uint32_t stack)
{
	static const struct ledger_stack none;
	const struct stack_total *st = total_seen(l, stack);
	return st ? &st->s : &none;
}

size_t ledger_stacks_seen(const struct ledger *l) { return awake(l)->totals_used; }

const struct ledger_stack *ledger_stack_seen(const struct ledger *l, size_t i, uint32_t *stack)
{
	const struct stack_total *st = total_at(l, (uint32_t)i);
	*stack = st->id;
	return &st->s;
}

double ledger_variance(const struct ledger *l, uint32_t stack)
{
	const struct stack_total *st = total_seen(l, stack);
	const unsigned __int128 *variance =
		st && l->heap_counts ? variance_at(l, ((uint32_t *)l->index.base)[stack]) : NULL;

	return variance ? (double)*variance : 0;
}

double ledger_past_variance(const struct ledger *l, uint32_t stack, uint64_t ms, int64_t bytes,
			    int64_t count)
{
	const struct stack_total *st = total_seen(l, stack);

	return st && st->sampled && ms >= l->sampled_ms ? weights_variance(bytes, count, l->period)
							: 0;
}

static struct ledger_block describe_as(const struct ledger *l, raddr_t addr, const struct block *b,
				       struct weight w)
{
	return (struct ledger_block){
		.address = addr,
		.size = block_size(b),
		.bytes = w.bytes,
		.count = w.count,
		.stack = total_at(l, block_total(b))->id,
		.thread = block_owner(b),
		.ms = block_tick(b) * 10ull,
	};
}

static struct ledger_block describe(const struct ledger *l, raddr_t addr, const struct block *b)
{
	return describe_as(l, addr, b, weight_of(l, addr, b));
}

static struct ledger_block describe_range(const struct ledger *l, const struct range *r)
{
	return (struct ledger_block){
		.address = r->start,
		.size = r->end - r->start,
		.bytes = r->end - r->start,
		.count = 1,
		.stack = total_at(l, r->grant->total)->id,
		.thread = r->grant->thread,
		.ms = r->grant->tick * 10ull,
		.mapping = true,
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
			v[n++] = describe_as(l, p->addr, &p->block, p->weight);
		for (size_t j = 0; mapping && p->range == REMAPPING && j < p->pieces.count; j++)
			if (p->pieces.piece[j].open)
				v[n++] = describe_range(l, &p->pieces.piece[j]);
	}
	qsort(v, n, sizeof(*v), by_address);
	*out = v;
	return (ssize_t)n;
}

int ledger_each_leaving(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b),
			void *ctx)
{
	struct ledger_block *extra;
	int err = 0;
	ssize_t more = pending_blocks(l, false, &extra);
	if (more < 0)
		return (int)more;
	for (ssize_t i = 0; i < more && !err; i++)
		err = fn(ctx, &extra[i]);
	free(extra);
	return err;
}

/* CLOSED: those that are not accessible, too. */
static int each_mapping(const struct ledger *l, bool closed,
			int (*fn)(void *ctx, const struct ledger_block *b), void *ctx)
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
		if (r->open || closed) {
			struct ledger_block found = describe_range(l, r);
			err = fn(ctx, &found);
		}
		r = ranges_from(&l->ranges, r->end);
	}
	free(extra);
	return err;
}

int ledger_each_mapping(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b),
			void *ctx)
{
	return each_mapping(awake(l), false, fn, ctx);
}

int ledger_each_range(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b),
		      void *ctx)
{
	return each_mapping(awake(l), true, fn, ctx);
}

int ledger_lain(const struct ledger *l, struct page_set *out)
{
	return page_set_copy(out, &awake(l)->lain);
}

struct telling_pages {
	void (*fn)(void *ctx, raddr_t addr);
	void *ctx;
};

static void tell_page(void *ctx, raddr_t addr, const struct block *b)
{
	const struct telling_pages *t = ctx;
	(void)b;
	t->fn(t->ctx, addr);
}

int ledger_pass_pages(const struct ledger *l, struct blocks_pass *w, size_t n,
		      void (*fn)(void *ctx, raddr_t addr), void *ctx)
{
	struct telling_pages t = { fn, ctx };
	w->pages = true;
	return blocks_pass(&awake(l)->blocks, w, n, tell_page, &t);
}

size_t ledger_some(const struct ledger *l, raddr_t *addr, size_t most)
{
	const struct blocks *t = &awake(l)->blocks;
	struct blocks_walk w = {
		.page = t->mix ? 0 : (size_t)(l->events * 0x9e3779b97f4a7c15ull >> 20) & t->mask
	};
	size_t n = 0;
	while (n < most && blocks_walk(t, &w))
		for (size_t i = 0; i < w.count && n < most; i++)
			addr[n++] = w.addr[i];
	return n;
}

bool ledger_holds(const struct ledger *l, raddr_t addr)
{
	struct block copy;
	return blocks_get(&awake(l)->blocks, addr, &copy);
}

static bool holds(const struct ledger_block *b, raddr_t addr)
{
	return addr == b->address || addr - b->address < b->size;
}

bool ledger_find(const struct ledger *l, raddr_t addr, struct ledger_block *out)
{
	struct block b;
	raddr_t start;
	if (blocks_below(&awake(l)->blocks, addr, &start, &b)) {
		*out = describe(l, start, &b);
		if (holds(out, addr))
			return true;
	}
	for (uint32_t i = 0; i < l->pendings; i++) {
		const struct pending *p = &l->pending[i];
		if (p->heap == LEAVING && p->known) {
			*out = describe_as(l, p->addr, &p->block, p->weight);
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

bool ledger_below(const struct ledger *l, raddr_t addr, struct ledger_block *out)
{
	struct block b;
	raddr_t start;
	if (!blocks_below(&awake(l)->blocks, addr, &start, &b))
		return false;
	*out = describe(l, start, &b);
	return true;
}

bool ledger_find_freed(const struct ledger *l, raddr_t addr, struct ledger_freed *out)
{
	struct block b;
	raddr_t start;
	bool left = blocks_freed(&awake(l)->blocks, addr, &start, &b);
	const struct freed_block *f = freed_find(&l->freed, addr);

	if (f && (!left ||
		  (f->address == start ? freed_is_last(f, &b) : f->freed_tick >= block_tick(&b)))) {
		*out = (struct ledger_freed){
			.block = { .address = f->address,
				   .size = f->size,
				   .stack = total_at(l, f->total)->id,
				   .thread = f->owner,
				   .ms = f->tick * 10ull },
			.known = true,
			.thread = f->freed_owner,
			.stack = f->freed_stack,
			.ms = f->freed_tick * 10ull,
		};
		return true;
	}
	if (!left)
		return false;
	*out = (struct ledger_freed){ .block = describe(l, start, &b),
				      .thread = block_owner(&b),
				      .ms = block_tick(&b) * 10ull };
	return true;
}

size_t ledger_memory(const struct ledger *l)
{
	return sizeof(*l) + blocks_memory(&l->blocks) + l->index_size * sizeof(uint32_t) +
	       l->totals_used * sizeof(struct stack_total) + l->nthreads * sizeof(struct thread) +
	       l->pending_room * sizeof(struct pending) + l->undo_room * sizeof(struct undo) +
	       l->totals_used * sizeof(uint32_t) + timeline_memory(&l->timeline) +
	       l->activity.room * sizeof(struct activity_point) + page_set_memory(&l->lain) +
	       ranges_memory(&l->ranges) + freed_memory(&l->freed) + weights_memory(&l->weights) +
	       (l->variances.base ? l->totals_used * sizeof(unsigned __int128) : 0);
}
