// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

/*
 * A row of leaves of up to LEAF ranges each: two binary searches to find, one short memmove to
 * change, also with 10^6 mappings. Programs have tens of mappings, so nothing here is tuned further
 * than that.
 */

#define LEAF 128u

struct range_leaf {
	size_t count;
	struct range range[LEAF];
};

struct place {
	size_t leaf, i;
};

struct grant *grant_new(uint32_t total, uint32_t thread, uint32_t tick, bool charged)
{
	struct grant *g = malloc(sizeof(*g));
	if (g)
		*g = (struct grant){ .refs = 1,
				     .total = total,
				     .thread = thread,
				     .tick = tick,
				     .charged = charged };
	return g;
}

void grant_put(struct grant *g)
{
	if (!--g->refs)
		free(g);
}

void pieces_clear(struct pieces *p)
{
	for (size_t i = 0; i < p->count; i++)
		grant_put(p->piece[i].grant);
	p->count = 0;
}

void pieces_release(struct pieces *p)
{
	pieces_clear(p);
	free(p->piece);
	*p = (struct pieces){ 0 };
}

void ranges_release(struct ranges *r)
{
	for (size_t l = 0; l < r->leaves; l++) {
		for (size_t i = 0; i < r->leaf[l]->count; i++)
			grant_put(r->leaf[l]->range[i].grant);
		free(r->leaf[l]);
	}
	free(r->leaf);
	*r = (struct ranges){ 0 };
}

size_t ranges_memory(const struct ranges *r)
{
	return r->leaves * sizeof(struct range_leaf) + r->room * sizeof(*r->leaf) +
	       r->count * sizeof(struct grant);
}

static raddr_t end_of(const struct range_leaf *f) { return f->range[f->count - 1].end; }

/* The first range with end > ADDR; past the last leaf if there is none. */
static struct place seek(const struct ranges *r, raddr_t addr)
{
	struct place at = { SEARCH(i, r->leaves, end_of(r->leaf[i]) <= addr), 0 };
	if (at.leaf < r->leaves) {
		const struct range_leaf *f = r->leaf[at.leaf];
		at.i = SEARCH(i, f->count, f->range[i].end <= addr);
	}
	return at;
}

const struct range *ranges_from(const struct ranges *r, raddr_t addr)
{
	struct place at = seek(r, addr);
	return at.leaf < r->leaves ? &r->leaf[at.leaf]->range[at.i] : NULL;
}

static int leaf_add(struct ranges *r, size_t where)
{
	if (array_room(&r->leaf, r->leaves, &r->room, sizeof(*r->leaf)))
		return -ENOMEM;
	struct range_leaf *f = malloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->count = 0;
	memmove(&r->leaf[where + 1], &r->leaf[where], (r->leaves - where) * sizeof(*r->leaf));
	r->leaf[where] = f;
	r->leaves++;
	return 0;
}

static int insert(struct ranges *r, const struct range *piece)
{
	struct place at = seek(r, piece->start);
	if (at.leaf == r->leaves) { /* behind all */
		if (!r->leaves) {
			int err = leaf_add(r, 0);
			if (err)
				return err;
		}
		at.leaf = r->leaves - 1;
		at.i = r->leaf[at.leaf]->count;
	}
	struct range_leaf *f = r->leaf[at.leaf];
	/* split; at the very end begin a new one, so that ascending rows fill them */
	if (f->count == LEAF) {
		size_t keep = at.i == LEAF ? LEAF : LEAF / 2;
		int err = leaf_add(r, at.leaf + 1);
		if (err)
			return err;
		struct range_leaf *g = r->leaf[at.leaf + 1];
		memcpy(g->range, f->range + keep, (LEAF - keep) * sizeof(struct range));
		g->count = LEAF - keep;
		f->count = keep;
		if (at.i > keep || keep == LEAF) {
			f = g;
			at.i -= keep;
		}
	}
	memmove(&f->range[at.i + 1], &f->range[at.i], (f->count - at.i) * sizeof(struct range));
	f->range[at.i] = *piece;
	f->count++;
	r->count++;
	return 0;
}

static void delete (struct ranges *r, struct place at)
{
	struct range_leaf *f = r->leaf[at.leaf];
	f->count--;
	memmove(&f->range[at.i], &f->range[at.i + 1], (f->count - at.i) * sizeof(struct range));
	r->count--;
	if (f->count)
		return;
	free(f);
	r->leaves--;
	memmove(&r->leaf[at.leaf], &r->leaf[at.leaf + 1], (r->leaves - at.leaf) * sizeof(*r->leaf));
}

static int append(struct pieces *p, const struct range *piece)
{
	if (array_room(&p->piece, p->count, &p->room, sizeof(*p->piece)))
		return -ENOMEM;
	p->piece[p->count++] = *piece;
	piece->grant->refs++;
	return 0;
}

/* Makes ADDR a border: a range that spans it becomes two. */
static int split(struct ranges *r, raddr_t addr)
{
	struct place at = seek(r, addr);
	if (at.leaf == r->leaves || r->leaf[at.leaf]->range[at.i].start >= addr)
		return 0;
	struct range *low = &r->leaf[at.leaf]->range[at.i], high = *low;
	raddr_t end = low->end;
	high.start = addr;
	low->end = addr;
	int err = insert(r, &high);
	if (err)
		r->leaf[at.leaf]->range[at.i].end = end;
	else
		high.grant->refs++;
	return err;
}

int ranges_cut(struct ranges *r, raddr_t start, raddr_t end, struct pieces *out)
{
	const struct range *first = ranges_from(r, start);
	if (start >= end || !first || first->start >= end)
		return 0;
	int err = split(r, start);
	if (!err)
		err = split(r, end);
	size_t before = out ? out->count : 0;
	struct place at = seek(r, start);
	for (struct place p = at; !err && out && p.leaf < r->leaves; p.leaf++, p.i = 0)
		for (; !err && p.i < r->leaf[p.leaf]->count &&
		       r->leaf[p.leaf]->range[p.i].start < end;
		     p.i++)
			err = append(out, &r->leaf[p.leaf]->range[p.i]);
	if (err) {
		while (out && out->count > before)
			grant_put(out->piece[--out->count].grant);
		return err;
	}
	for (at = seek(r, start); at.leaf < r->leaves && r->leaf[at.leaf]->range[at.i].start < end;
	     at = seek(r, start)) {
		grant_put(r->leaf[at.leaf]->range[at.i].grant);
		delete (r, at);
	}
	return 0;
}

static bool joins(const struct range *low, const struct range *high)
{
	return low->end == high->start && low->grant == high->grant && low->open == high->open;
}

int ranges_put(struct ranges *r, const struct range *piece)
{
	struct place next = seek(r, piece->start);
	if (piece->start) {
		struct place prev = seek(r, piece->start - 1);
		struct range *low = prev.leaf < r->leaves ? &r->leaf[prev.leaf]->range[prev.i]
							  : NULL;
		if (low && joins(low, piece)) {
			low->end = piece->end;
			grant_put(piece->grant);
			next = seek(r, piece->end);
			struct range *high =
				next.leaf < r->leaves ? &r->leaf[next.leaf]->range[next.i] : NULL;
			if (high && joins(low, high)) {
				low->end = high->end;
				grant_put(high->grant);
				delete (r, next);
			}
			return 0;
		}
	}
	struct range *high = next.leaf < r->leaves ? &r->leaf[next.leaf]->range[next.i] : NULL;
	if (high && joins(piece, high)) {
		high->start = piece->start;
		grant_put(piece->grant);
		return 0;
	}
	return insert(r, piece);
}
