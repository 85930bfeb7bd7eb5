// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ledger_state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

/*
 * The child's table is the parent's, but the child mostly execs and never needs it. So it only
 * registers with the parent, which from then on writes down for it what it changes (`undo`). The
 * first event or question of the child copies the parent's table and undoes that. `odd` is set in
 * both for the while, the one test that this costs the others.
 */

#define UNDO_LEAST 4096u

static bool undo_add(struct ledger *c, raddr_t addr, const struct block *b, struct weight w)
{
	if (c->undos == c->undo_room) {
		const struct ledger *l = c->parent;
		if (c->undos >= UNDO_LEAST + (l->allocs - l->frees + l->inherited) / 2)
			return false;
	}
	if (array_room(&c->undo, c->undos, &c->undo_room, sizeof(*c->undo)))
		return false;
	c->undo[c->undos++] = (struct undo){ .addr = addr,
					     .old = b ? (struct block){ b->a & ~BLOCK_PASSED, b->b }
						      : (struct block){ 0 },
					     .weight = w };
	return true;
}

void ledger_changing(struct ledger *l, raddr_t addr)
{
	struct block copy;
	const struct block *b = l->children ? blocks_get(&l->blocks, addr, &copy) : NULL;
	struct weight w = b ? weight_of(l, addr, b) : (struct weight){ 0 };
	for (struct ledger *c = l->children, *next; c; c = next) {
		next = c->sibling;
		if (!undo_add(c, addr, b, w))
			ledger_inherit(c);
	}
	listings_note(l, addr);
}

void ledger_is_odd(struct ledger *l) { l->odd = l->parent || l->children || l->listings; }

void ledger_leave_parent(struct ledger *l)
{
	struct ledger **at = &l->parent->children;
	while (*at != l)
		at = &(*at)->sibling;
	*at = l->sibling;
	ledger_is_odd(l->parent);
	l->parent = l->sibling = NULL;
	ledger_is_odd(l);
}

static void revert(struct ledger *l, const struct undo *u)
{
	struct block was;
	weights_take(&l->weights, u->addr);
	if (!u->old.a)
		blocks_take(&l->blocks, u->addr, block_stamp(0, l->tick), &was);
	else if (blocks_put(&l->blocks, u->addr, u->old, &was))
		ledger_weigh_back(l, u->addr, &u->old, u->weight);
}

/* All sums anew, from the blocks and ranges. */
static void sum_up(struct ledger *l)
{
	struct stack_total *total = l->totals.base;
	for (uint32_t i = 0; i < l->totals_used; i++)
		total[i] = (struct stack_total){ .id = total[i].id,
						 .families = total[i].families,
						 .sampled = total[i].sampled };
	uint64_t mmap = l->mmap, counted = l->counted;
	for (const struct range *r = ranges_from(&l->ranges, 0); r;
	     r = ranges_from(&l->ranges, r->end))
		if (r->open)
			ledger_grant_account(l, r->grant, r->end - r->start);
	l->mmap = mmap;
	l->counted = counted;
	arena_release(&l->variances);
	if (l->weights.used &&
	    arena_reach(&l->variances, l->totals_used * sizeof(unsigned __int128)))
		weights_release(&l->weights); /* out of memory: blocks stand for themselves */
	struct blocks_walk w = { 0 };
	while (l->heap_counts && blocks_walk(&l->blocks, &w))
		for (size_t i = 0; i < w.count; i++) {
			struct weight weight = weight_of(l, w.addr[i], &w.block[i]);
			uint32_t at = block_total(&w.block[i]);
			add(&total[at].s.live_bytes, weight.bytes);
			add(&total[at].s.live_count, weight.count);
			if (l->variances.base)
				*variance_at(l, at) +=
					weight_variance(weight, block_size(&w.block[i]));
		}
	l->touches = 0;
	for (uint32_t i = 1; i < l->totals_used; i++) {
		total[i].epoch = 0;
		/* the first point has them all */
		if (total[i].s.live_bytes || total[i].s.live_count)
			total_change(l, i);
	}
}

static void inherit(struct ledger *l)
{
	const struct ledger *parent = l->parent;
	struct blocks blocks;
	ledger_leave_parent(l);
	if (blocks_copy(&blocks, &parent->blocks))
		return; /* out of memory: the blocks stay unknown */
	blocks_release(&l->blocks);
	l->blocks = blocks;
	if (page_set_copy(&l->lain, &parent->lain))
		l->lain.full = true; /* out of memory: any page may be one */
	if (weights_copy(&l->weights, &parent->weights))
		/* out of memory: blocks stand for themselves */
		weights_release(&l->weights);
	for (size_t i = l->undos; i-- > 0;)
		revert(l, &l->undo[i]);
	free(l->undo);
	l->undo = NULL;
	l->undos = l->undo_room = 0;
	if (arena_reach(&l->touched, parent->totals_used * sizeof(uint32_t)) ||
	    arena_copy(&l->index, &parent->index, parent->index_size * sizeof(uint32_t)) ||
	    arena_copy(&l->totals, &parent->totals,
		       parent->totals_used * sizeof(struct stack_total)))
		return;
	l->index_size = parent->index_size;
	l->totals_used = parent->totals_used;
	sum_up(l);
	if (l->known)
		ledger_count_all(l, true);
}

/* What the child takes over is nothing that happens: a log of it begins with the whole. */
void ledger_inherit(struct ledger *l)
{
	const struct ledger_listener *log = l->log;
	l->log = NULL;
	inherit(l);
	l->log = log;
}

static int ranges_inherit(struct ledger *l, const struct ledger *parent)
{
	int err = 0;
	for (const struct range *r = ranges_from(&parent->ranges, 0); r && !err;
	     r = ranges_from(&parent->ranges, r->end)) {
		struct grant *g = r->grant->twin, *old = r->grant;
		if (!g) {
			g = grant_new(old->total, old->thread, old->tick, old->charged);
			if (!g) {
				err = -ENOMEM;
				break;
			}
			old->twin = g; /* and one reference for the time of copying */
		}
		g->refs++;
		err = ranges_put(&l->ranges, &(struct range){ r->start, r->end, g, r->open });
		if (err)
			grant_put(g);
	}
	for (const struct range *r = ranges_from(&parent->ranges, 0); r;
	     r = ranges_from(&parent->ranges, r->end)) {
		if (r->grant->twin)
			grant_put(r->grant->twin);
		r->grant->twin = NULL;
	}
	return err;
}

/*
 * Where another thread of the parent was in a realloc or mremap, the child has the old block still.
 */
static int pending_inherit(struct ledger *l, const struct ledger *parent)
{
	for (uint32_t i = 0; i < parent->pendings; i++) {
		const struct pending *p = &parent->pending[i];
		struct block copy;
		if (p->heap == LEAVING && p->known) {
			if (blocks_get(&parent->blocks, p->addr, &copy)) {
				l->heap -= p->weight.bytes;
				l->inherited -= p->weight.count;
				continue;
			}
			if (!undo_add(l, p->addr, &p->block, p->weight))
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
			r.grant = grant_new(r.grant->total, r.grant->thread, r.grant->tick,
					    r.grant->charged);
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
	struct ledger *l = ledger_new((parent->heap_counts ? LEDGER_COUNT_HEAP : 0) |
				      (parent->mmap_counts ? LEDGER_COUNT_MMAP : 0));
	if (!l)
		return NULL;
	l->sampled = parent->sampled;
	l->period = parent->period;
	l->overlaid = parent->overlaid;
	l->heap = parent->heap;
	l->inherited = parent->inherited + parent->allocs - parent->frees;
	l->mmap = parent->mmap;
	l->reserved = parent->reserved;
	l->parent = parent;
	l->sibling = parent->children;
	parent->children = l;
	parent->odd = l->odd = true;
	if (arena_copy(&l->threads, &parent->threads,
		       (parent->nthreads + 1) * sizeof(struct thread)) ||
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
