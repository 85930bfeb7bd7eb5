// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/profile_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/secret.h"
#include "ledger/block_list.h"
#include "ledger/weights.h"
#include "process/usable.h"

/*
 * The ledger keeps sums per stack, now and at the peak; those are copied in one pass over the stack
 * ids. For what only blocks can tell, they are gathered by (stack, thread, size).
 */
static void sum(int64_t *v, uint64_t more)
{
	if (more > INT64_MAX || __builtin_add_overflow(*v, (int64_t)more, v))
		*v = INT64_MAX;
}

static struct profile_row *append(struct profile *p)
{
	if (array_room(&p->row, p->count, &p->room, sizeof(*p->row)))
		return NULL;
	p->row[p->count] = (struct profile_row){ 0 };
	return &p->row[p->count++];
}

static int from_stacks(struct profile *p, const struct ledger *ledger,
		       const struct profile_ask *ask)
{
	size_t n = ledger_stacks_seen(ledger);
	struct ledger_totals totals;

	ledger_totals(ledger, &totals);
	p->ms = ask->detail & PROFILE_PEAK ? totals.peak_ms : ask->now_ms;
	p->has_totals = true;
	for (size_t i = 1; i < n; i++) {
		uint32_t id;
		const struct ledger_stack *s = ledger_stack_seen(ledger, i, &id);
		int64_t size = s->live_bytes, count = s->live_count;
		struct profile_row *row;

		if (ask->detail & PROFILE_PEAK)
			ledger_stack_at_peak(ledger, id, &size, &count);
		if (size == 0 && count == 0 &&
		    (!(ask->detail & PROFILE_DEAD) || s->total_count == 0))
			continue;
		row = append(p);
		if (!row)
			return -ENOMEM;
		*row = (struct profile_row){ .stack = id,
					     .size = size,
					     .count = count,
					     .total_size = s->total_bytes,
					     .total_count = s->total_count,
					     .temporary = s->temporary };
		if (!p->has_variance)
			continue;
		row->variance = ask->detail & PROFILE_PEAK
					? ledger_past_variance(ledger, id, p->ms, size, count)
					: ledger_variance(ledger, id);
	}
	return 0;
}

/* What is usable, summed by stack. */
struct usable_sums {
	const struct profile_ask *ask;
	int64_t *of_stack;
	size_t stacks; /* of those that P has, one more than the last */
};

static bool counted(const struct profile_ask *ask, const struct ledger_block *b)
{
	return ask->counted & (b->mapping ? LEDGER_COUNT_MMAP : LEDGER_COUNT_HEAP);
}

static int sum_usable(void *ctx, const struct ledger_block *b, uint64_t usable)
{
	struct usable_sums *s = ctx;

	if (counted(s->ask, b) && b->stack < s->stacks)
		sum(&s->of_stack[b->stack], usable);
	return 0;
}

static int add_usable(struct profile *p, const struct block_list *blocks,
		      const struct profile_ask *ask)
{
	struct usable_sums s = { .ask = ask };
	int err;

	for (size_t i = 0; i < p->count; i++)
		s.stacks = p->row[i].stack < s.stacks ? s.stacks : p->row[i].stack + 1;
	s.of_stack = calloc(s.stacks + 1, sizeof(*s.of_stack));
	err = s.of_stack ? usable_each(ask->usable, blocks, sum_usable, &s) : -ENOMEM;
	for (size_t i = 0; !err && i < p->count; i++)
		p->row[i].usable = s.of_stack[p->row[i].stack];
	free(s.of_stack);
	return err;
}

static int from_past(struct profile *p, const struct ledger *ledger, uint64_t ms)
{
	struct ledger_interval interval;
	struct ledger_held *held;
	ssize_t n = ledger_past(ledger, ms, &held);

	if (n < 0)
		return (int)n;
	ledger_interval(ledger, ms, &interval);
	p->ms = interval.ms;
	for (ssize_t i = 0; i < n; i++) {
		struct profile_row *row = append(p);

		if (!row)
			break;
		*row = (struct profile_row){ .stack = held[i].stack,
					     .size = held[i].bytes,
					     .count = held[i].count };
		if (p->has_variance)
			row->variance = ledger_past_variance(ledger, row->stack, p->ms, row->size,
							     row->count);
	}
	free(held);
	return p->count == (size_t)n ? 0 : -ENOMEM;
}

struct gather {
	struct profile *p;
	const struct block_list *blocks;
	const struct profile_ask *ask;
	/* row number + 1 by stack, where nothing else tells rows apart; else NULL */
	uint32_t *of_stack;
	uint32_t *bucket; /* row number + 1, open addressing */
	size_t nbuckets;  /* power of two */
	uint32_t last;	  /* row + 1 of the last block: neighbours are often alike */
};

static size_t gather_hash(uint32_t stack, uint32_t thread, uint64_t block)
{
	uint64_t h = (stack ^ (uint64_t)thread << 32) * secret(0);

	h = (h ^ h >> 29 ^ block) * secret(1);
	return (size_t)(h ^ h >> 32);
}

static bool gather_is(const struct profile_row *row, const struct profile_row *key)
{
	return row->stack == key->stack && row->thread == key->thread && row->block == key->block;
}

static int gather_rehash(struct gather *g)
{
	size_t n = g->nbuckets ? g->nbuckets * 2 : 4096;
	uint32_t *bucket = calloc(n, sizeof(*bucket));

	if (!bucket)
		return -ENOMEM;
	for (size_t i = 0; i < g->p->count; i++) {
		const struct profile_row *r = &g->p->row[i];
		size_t at = gather_hash(r->stack, r->thread, r->block) & (n - 1);

		while (bucket[at])
			at = (at + 1) & (n - 1);
		bucket[at] = (uint32_t)i + 1;
	}
	free(g->bucket);
	g->bucket = bucket;
	g->nbuckets = n;
	return 0;
}

static struct profile_row *gather_row(struct gather *g, const struct profile_row *key)
{
	size_t at;
	struct profile_row *row;

	if (g->of_stack) {
		uint32_t *number = &g->of_stack[key->stack];

		row = *number ? &g->p->row[*number - 1] : append(g->p);
		if (row && !*number) {
			*row = *key;
			*number = (uint32_t)g->p->count;
		}
		return row;
	}
	if (g->last && gather_is(&g->p->row[g->last - 1], key))
		return &g->p->row[g->last - 1];
	if (g->p->count * 2 >= g->nbuckets && gather_rehash(g))
		return NULL;
	for (at = gather_hash(key->stack, key->thread, key->block) & (g->nbuckets - 1);
	     g->bucket[at]; at = (at + 1) & (g->nbuckets - 1))
		if (gather_is(&g->p->row[g->bucket[at] - 1], key)) {
			g->last = g->bucket[at];
			return &g->p->row[g->last - 1];
		}
	row = append(g->p);
	if (!row)
		return NULL;
	*row = *key;
	g->bucket[at] = g->last = (uint32_t)g->p->count;
	return row;
}

static int gather_usable(void *ctx, const struct ledger_block *b, uint64_t usable)
{
	struct gather *g = ctx;
	struct profile_row key = { .stack = g->ask->detail & PROFILE_NO_STACKS ? 0 : b->stack },
			   *row;

	if (!counted(g->ask, b))
		return 0;
	if (g->ask->min_age_ms && b->ms + g->ask->min_age_ms > g->ask->now_ms)
		return 0;
	if (g->ask->detail & PROFILE_THREADS)
		key.thread = (uint32_t)block_list_tid(g->blocks, b->thread);
	if (g->ask->detail & PROFILE_SIZES)
		key.block = b->size;
	row = gather_row(g, &key);
	if (!row)
		return -ENOMEM;
	sum(&row->size, b->bytes);
	sum(&row->count, b->count);
	sum(&row->usable, usable);
	row->variance += (double)weight_variance((struct weight){ b->bytes, b->count }, b->size);
	return 0;
}

static uint32_t stacks_in(const struct block_list *blocks)
{
	uint32_t n = 0;

	for (size_t i = 0; i < blocks->count; i++)
		n = blocks->block[i].stack < n ? n : blocks->block[i].stack + 1;
	return n;
}

static int from_blocks(struct profile *p, const struct block_list *blocks,
		       const struct profile_ask *ask)
{
	struct gather g = { .p = p, .blocks = blocks, .ask = ask };
	int err = 0;

	if (!(ask->detail & (PROFILE_THREADS | PROFILE_SIZES))) {
		g.of_stack = calloc(stacks_in(blocks) + 1, sizeof(*g.of_stack));
		if (!g.of_stack)
			return -ENOMEM;
	}
	if (ask->usable)
		err = usable_each(ask->usable, blocks, gather_usable, &g);
	for (size_t i = 0; !ask->usable && i < blocks->count && !err; i++) {
		struct ledger_block b = block_list_get(blocks, i);

		err = gather_usable(&g, &b, 0);
	}
	free(g.of_stack);
	free(g.bucket);
	return err;
}

/* Whether only single blocks can tell it, and the sums are not needed. */
static bool is_of_blocks(const struct profile_ask *ask)
{
	return ask->detail & (PROFILE_THREADS | PROFILE_SIZES) || ask->min_age_ms;
}

bool profile_needs_blocks(const struct profile_ask *ask)
{
	return is_of_blocks(ask) || ask->usable;
}

int profile_from_ledger(struct profile *p, const struct ledger *ledger,
			const struct profile_ask *ask)
{
	struct ledger_totals totals;
	int err = 0;

	ledger_totals(ledger, &totals);
	p->estimated = totals.estimated;
	p->has_variance = totals.estimated && totals.period;
	p->peak = totals.peak;
	p->peak_ms = totals.peak_ms;
	p->ms = ask->now_ms;
	if (profile_needs_blocks(ask) && ask->detail & (PROFILE_PEAK | PROFILE_PAST))
		err = -EINVAL;
	else if (ask->detail & PROFILE_PAST)
		err = from_past(p, ledger, ask->at_ms);
	else if (!is_of_blocks(ask))
		err = from_stacks(p, ledger, ask);
	if (ask->detail & (PROFILE_PEAK | PROFILE_PAST) && p->ms < totals.sampled_ms)
		p->estimated = p->has_variance = false;
	if (err)
		profile_release(p);
	return err;
}

int profile_add_blocks(struct profile *p, const struct block_list *blocks,
		       const struct profile_ask *ask)
{
	int err = is_of_blocks(ask) ? from_blocks(p, blocks, ask) : add_usable(p, blocks, ask);

	p->has_usable = ask->usable;
	if (err)
		profile_release(p);
	return err;
}
