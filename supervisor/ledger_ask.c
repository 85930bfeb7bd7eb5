/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ledger_state.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Questions about the present. Blocks and ranges that a call under way has taken out of the tables are live until its outcome is known, so the
 * answers take them from `pending` as well.
 */

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
		.events = l->events, .estimated = l->sampled,
	};
}

bool ledger_resizing(const struct ledger *l)
{
	for (uint32_t i = 0; i < l->pendings; i++)
		if (l->pending[i].heap == LEAVING || l->pending[i].range == REMAPPING)
			return true;
	return false;
}

size_t ledger_stacks(const struct ledger *l)
{
	return awake(l)->index_size;
}

const struct ledger_stack *ledger_stack(const struct ledger *l, uint32_t stack)
{
	static const struct ledger_stack none;
	const struct line *ln = line_seen(l, stack);
	return ln ? &ln->s : &none;
}

static struct ledger_block describe_as(const struct ledger *l, raddr_t addr, const struct block *b, struct weight w)
{
	return (struct ledger_block){
		.address = addr, .size = block_size(b), .bytes = w.bytes, .count = w.count, .stack = line_at(l, block_line(b))->id,
		.thread = block_owner(b), .ms = block_tick(b) * 10ull,
	};
}

static struct ledger_block describe(const struct ledger *l, raddr_t addr, const struct block *b)
{
	return describe_as(l, addr, b, weight_of(l, addr, b));
}

static struct ledger_block describe_range(const struct ledger *l, const struct range *r)
{
	return (struct ledger_block){
		.address = r->start, .size = r->end - r->start, .bytes = r->end - r->start, .count = 1, .stack = line_at(l, r->grant->line)->id,
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
			v[n++] = describe_as(l, p->addr, &p->block, p->weight);
		for (size_t j = 0; mapping && p->range == REMAPPING && j < p->pieces.count; j++)
			if (p->pieces.piece[j].open)
				v[n++] = describe_range(l, &p->pieces.piece[j]);
	}
	qsort(v, n, sizeof(*v), by_address);
	*out = v;
	return (ssize_t)n;
}

/* Page by page: while one's blocks are told, the stacks' lines of the next one's and the entries of the one after it are on their way. */
static void page_prefetch(const struct ledger *l, const struct block_page *p)
{
	const struct block *c = blocks_chunk(&l->blocks, p);
	for (uint32_t j = 0; (p->count & PAGE_COUNT) && j <= p->mask; j++)
		if (c[j].a & BLOCK_USED)
			__builtin_prefetch(line_at(l, block_line(&c[j])));
}

static int each_heap(const struct ledger *l, int (*fn)(void *ctx, const struct ledger_block *b), void *ctx)
{
	const struct blocks *t = &l->blocks;
	struct ledger_block *extra;
	int err = 0;
	ssize_t more = pending_blocks(l, false, &extra);
	if (more < 0)
		return (int)more;
	for (ssize_t i = 0; i < more && !err; i++)
		err = fn(ctx, &extra[i]);
	free(extra);
	for (size_t i = 0; i <= t->mask && !err; i++) {
		const struct block_page *p = &t->page[i];
		const struct block *c = blocks_chunk(t, p);
		if (i + 2 <= t->mask)
			__builtin_prefetch(blocks_chunk(t, p + 2));
		if (i < t->mask)
			page_prefetch(l, p + 1);
		for (uint32_t j = 0; (p->count & PAGE_COUNT) && j <= p->mask && !err; j++) {
			if (!(c[j].a & BLOCK_USED))
				continue;
			struct ledger_block found = describe(l, (p->number - 1) << 12 | (c[j].a & BLOCK_OFFSET), &c[j]);
			err = fn(ctx, &found);
		}
	}
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
	       l->lines_used * sizeof(uint32_t) + timeline_memory(&l->timeline) + ranges_memory(&l->ranges) + freed_memory(&l->freed) +
	       weights_memory(&l->weights);
}
