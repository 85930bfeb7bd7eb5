// SPDX-License-Identifier: GPL-3.0-or-later
#include "blocks/mix.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Switching the layout of a table of 10^7 blocks takes seconds, and for so long nobody may wait. So
 * nothing is done at once: the table becomes a mix, new blocks go to where they belong from then
 * on, those that are there follow little by little, and every question looks at all places, of
 * which at most one has the answer. Turning back on the way is no special case: the old pages and
 * the new ones change their roles.
 *
 *      compact wanted:   old -> compact, pages (what does not fit) afterwards `old` is gone, the
 *                        mix stays
 *      pages wanted:     old, compact -> pages afterwards `pages` are the table, the mix is gone
 */

struct mix *mix_new(struct blocks *t)
{
	struct mix *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	if (compact_init(&m->compact))
		goto no_compact;
	if (blocks_init(&m->pages))
		goto no_pages;
	m->old = *t;
	if (blocks_init(t))
		goto no_table;
	t->moves = m->old.moves + 1;
	return m;

no_table:
	*t = m->old;
	blocks_release(&m->pages);
no_pages:
	compact_release(&m->compact);
no_compact:
	free(m);
	return NULL;
}

void mix_free(struct mix *m)
{
	compact_release(&m->compact);
	blocks_release(&m->pages);
	blocks_release(&m->old);
	free(m);
}

struct mix *mix_copy(const struct mix *m)
{
	struct mix *to = calloc(1, sizeof(*to));
	if (!to)
		return NULL;
	to->leaving = m->leaving;
	to->moved = m->moved;
	to->changes = m->changes;
	if (compact_copy(&to->compact, &m->compact) || blocks_copy(&to->pages, &m->pages) ||
	    (m->old.page && blocks_copy(&to->old, &m->old))) {
		mix_free(to);
		return NULL;
	}
	return to;
}

size_t mix_memory(const struct mix *m)
{
	return sizeof(*m) + compact_memory(&m->compact) + blocks_memory(&m->pages) +
	       (m->old.page ? blocks_memory(&m->old) : 0);
}

int mix_turn(struct mix *m, bool leaving)
{
	if (m->leaving == leaving)
		return 0;
	if (!leaving && !m->old.page) {
		uint32_t moves = m->old.moves;
		if (blocks_init(&m->old))
			return -ENOMEM;
		m->old.moves = moves;
	}
	if (m->old.page) {
		struct blocks pages = m->pages;
		m->pages = m->old;
		m->old = pages;
	}
	m->leaving = leaving;
	m->moved = 0;
	m->compact.drained = 0;
	m->changes++;
	return 0;
}

/* ---- single blocks ------------------------------------------------------- */

const struct block *mix_get(const struct mix *m, raddr_t addr, struct block *copy)
{
	if (compact_get(&m->compact, addr, copy))
		return copy;
	const struct block *b = blocks_get(&m->pages, addr, copy);
	return b || !m->old.page ? b : blocks_get(&m->old, addr, copy);
}

static bool take_from_pages(struct mix *m, raddr_t addr, struct block stamp, struct block *out)
{
	return blocks_take(&m->pages, addr, stamp, out) ||
	       (m->old.page && blocks_take(&m->old, addr, stamp, out));
}

/* To where it belongs, in neither of which it is yet. */
static bool settle(struct mix *m, raddr_t addr, struct block block, struct block *was)
{
	if (!m->leaving && compact_fits(addr, &block) &&
	    !compact_put(&m->compact, addr, &block, was))
		return true;
	return blocks_put(&m->pages, addr, block, was);
}

bool mix_put(struct mix *m, raddr_t addr, struct block block, struct block *was)
{
	struct block before, stamp = block_stamp(block_owner(&block), block_tick(&block));
	bool compact = !m->leaving && compact_fits(addr, &block);
	bool other = take_from_pages(m, addr, stamp, &before) ||
		     (!compact && compact_take(&m->compact, addr, &before));
	bool put = settle(m, addr, block, was);
	if (other)
		*was = before;
	return put;
}

bool mix_take(struct mix *m, raddr_t addr, struct block stamp, struct block *out)
{
	if (!compact_take(&m->compact, addr, out))
		return take_from_pages(m, addr, stamp, out);
	struct block left = { (out->a & ~(BLOCK_USED | 0xfull << 60)) | stamp.a,
			      (out->b & 0xffffff) | stamp.b };
	compact_remember(&m->compact, addr, &left);
	return true;
}

void mix_count(struct mix *m, raddr_t addr)
{
	struct block copy;
	if (compact_count(&m->compact, addr))
		return;
	blocks_count(blocks_get(&m->pages, addr, &copy) || !m->old.page ? &m->pages : &m->old,
		     addr);
}

/* ---- moving -------------------------------------------------------------- */

/* The blocks of page P of the old table. Out of memory: some stay. */
static size_t move_page(struct mix *m, struct block_page *p)
{
	struct block *c = blocks_chunk(&m->old, p);
	size_t n = 0;
	for (uint32_t i = 0; (p->count & PAGE_COUNT) && i <= p->mask; i++) {
		struct block b = { c[i].a & ~BLOCK_PASSED, c[i].b }, was;
		if (!(b.a & BLOCK_USED))
			continue;
		if (!settle(m, (p->number - 1) << 12 | (b.a & BLOCK_OFFSET), b, &was))
			break;
		c[i] = (struct block){ c[i].a & BLOCK_PASSED, 0 };
		p->count--;
		n++;
	}
	return n;
}

/* The blocks of one segment. Out of memory: the rest goes back. */
static size_t move_segment(struct mix *m)
{
	struct {
		raddr_t addr[COMPACT_SEGMENT];
		struct block block[COMPACT_SEGMENT];
	} *v = malloc(sizeof(*v));
	size_t n = v ? compact_drain(&m->compact, v->addr, v->block) : 0, i = 0;
	struct block was;
	while (i < n && settle(m, v->addr[i], v->block[i], &was))
		i++;
	if (i < n)
		m->compact.drained = 0;
	for (size_t k = i; k < n; k++)
		if (compact_put(&m->compact, v->addr[k], &v->block[k], &was))
			break;
	free(v);
	return i;
}

bool mix_move(struct mix *m, size_t n)
{
	m->changes += m->old.page || m->leaving;
	for (size_t done = 0; m->old.page && done < n; done++) {
		struct block_page *p = &m->old.page[m->moved];
		done += move_page(m, p);
		if (p->count & PAGE_COUNT)
			return true;
		if (m->moved++ == m->old.mask)
			blocks_release(&m->old);
	}
	if (m->old.page)
		return true;
	for (size_t done = 0, k; m->leaving && done < n; done += k)
		if (!(k = move_segment(m)))
			break;
	return m->leaving && m->compact.count;
}

/* ---- questions ----------------------------------------------------------- */

bool mix_walk(const struct mix *m, struct blocks_walk *w)
{
	w->count = 0;
	for (; w->part < 3; w->part++, w->page = w->entry = 0)
		if (w->part == 0   ? compact_walk(&m->compact, w)
		    : w->part == 1 ? blocks_walk(&m->pages, w)
				   : m->old.page && blocks_walk(&m->old, w))
			return true;
	return false;
}

uint64_t mix_moves(const struct mix *m) { return m->changes + m->pages.moves + m->old.moves; }

int mix_pass(const struct mix *m, struct blocks_pass *w, size_t n,
	     void (*fn)(void *ctx, raddr_t addr, const struct block *b), void *ctx)
{
	int more = 0;
	if (w->part == 0)
		more = compact_pass(&m->compact, &w->at, n, fn, ctx);
	else if (w->part == 1 || m->old.page)
		more = blocks_pass_pages(w->part == 1 ? &m->pages : &m->old, w, n, fn, ctx);
	if (more)
		return 1;
	w->at = 0;
	return w->part++ < 2;
}

bool mix_below(const struct mix *m, raddr_t addr, raddr_t *start, struct block *out)
{
	struct blocks_walk w = { 0 };
	const struct block *b = mix_get(m, addr, out);
	bool found = b;
	if (b) {
		*out = *b;
		*start = addr;
	}
	while (!b && mix_walk(m, &w))
		for (size_t i = 0; i < w.count; i++) {
			if (w.addr[i] > addr || (found && w.addr[i] < *start))
				continue;
			*start = w.addr[i];
			*out = w.block[i];
			found = true;
		}
	return found;
}

bool mix_freed(const struct mix *m, raddr_t addr, raddr_t *start, struct block *out)
{
	const struct blocks *t[] = { &m->pages, &m->old };
	bool found = compact_freed(&m->compact, addr, start, out);
	for (int i = 0; i < 2; i++) {
		struct block b;
		raddr_t at;
		if (!t[i]->page || !blocks_freed(t[i], addr, &at, &b) ||
		    (found && block_tick(&b) <= block_tick(out)))
			continue;
		*start = at;
		*out = b;
		found = true;
	}
	return found;
}

bool mix_left(const struct mix *m, raddr_t addr, struct block *out)
{
	const struct blocks *t[] = { &m->pages, &m->old };
	bool found = compact_left(&m->compact, addr, out);
	for (int i = 0; i < 2; i++) {
		struct block b;
		if (!t[i]->page || !blocks_left(t[i], addr, &b) ||
		    (found && block_tick(&b) <= block_tick(out)))
			continue;
		*out = b;
		found = true;
	}
	return found;
}
