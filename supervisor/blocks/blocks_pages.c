// SPDX-License-Identifier: GPL-3.0-or-later
#include "blocks/mix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"

/*
 * The rare parts of the table: a page's first block, a chunk that has become too small, looking for
 * what is no longer used.
 *
 * An entry lies at its place (block_place) or up to BLOCK_WINDOW - 1 entries further on; each entry
 * that was passed over on the way is marked, so a search ends at the first unmarked one and taking
 * an entry out moves nothing. When no place is left within the window the chunk doubles. It need
 * not be full for that; but while it is less than a quarter full, entries are put further away
 * instead: only hostile addresses do that, and so they cannot make the table large. At 4096 entries
 * every address has a place of its own.
 *
 * Chunks that are not used any more go into lists by size. A page keeps its chunk when its last
 * block goes, for the next one; when the pool has grown by half since the last time, all pages are
 * looked through for chunks that are empty or eight times too large.
 */

#define PAGES_LEAST 256u
#define TRIM_LEAST  (64u << 10) /* entries */
/* of the table of pages, in one piece of a pass: most may be empty */
#define PASS_SLOTS (1u << 20)

/* All that an arena of that size has. */
#define DISPLACED_BYTES (256ul << 10)
_Static_assert(sizeof(struct blocks_displaced) <= DISPLACED_BYTES &&
		       sizeof(struct blocks_displaced) > DISPLACED_BYTES / 2,
	       "an arena doubles");

static struct arena displaced_arena(const struct blocks *t)
{
	return (struct arena){ .base = t->displaced, .size = t->displaced ? DISPLACED_BYTES : 0 };
}

/* What is known of the ring is found out again. */
/* Entries of the ring that are in use: most processes have few. */
static size_t displaced_count(const struct blocks *t)
{
	return t->displacing < BLOCKS_DISPLACED ? t->displacing : BLOCKS_DISPLACED;
}

static int copy_displaced(struct blocks *to, const struct blocks *from)
{
	struct arena displaced = { 0 };
	int err = arena_reach(&displaced, DISPLACED_BYTES);

	to->displaced = displaced.base;
	if (!err)
		memcpy(to->displaced->ring, from->displaced->ring,
		       displaced_count(from) * sizeof(struct block_displaced));
	return err;
}

int blocks_init(struct blocks *t)
{
	struct arena pages = { 0 }, displaced = { 0 };
	memset(t, 0, sizeof(*t));
	int err = arena_reach(&t->pool, sizeof(struct block));
	if (!err)
		err = arena_reach(&pages, PAGES_LEAST * sizeof(struct block_page));
	if (!err)
		err = arena_reach(&displaced, DISPLACED_BYTES);
	if (err) {
		arena_release(&pages);
		arena_release(&t->pool);
		return err;
	}
	t->displaced = displaced.base;
	t->page = pages.base;
	t->mask = PAGES_LEAST - 1;
	t->shift = 64 - (unsigned)__builtin_ctz(PAGES_LEAST);
	t->factor = secret(0);
	/* the chunk of pages that have none: never found, never free */
	((struct block *)t->pool.base)->a = BLOCK_PASSED;
	t->pool_used = 1;
	t->pool_trim = TRIM_LEAST;
	return 0;
}

static struct arena page_arena(const struct block_page *page, size_t mask)
{
	size_t size = (mask + 1) * sizeof(*page);
	return (struct arena){ .base = (void *)page,
			       .size = size < (64u << 10) ? 64u << 10 : size };
}

void blocks_release(struct blocks *t)
{
	struct arena pages = page_arena(t->page, t->mask), displaced = displaced_arena(t);
	arena_release(&pages);
	arena_release(&displaced);
	arena_release(&t->pool);
	t->page = NULL;
	t->displaced = NULL;
	if (t->mix)
		mix_free(t->mix);
	t->mix = NULL;
}

int blocks_copy(struct blocks *to, const struct blocks *from)
{
	struct arena old = page_arena(from->page, from->mask), pages = { 0 };
	*to = *from;
	to->pool = (struct arena){ 0 };
	to->mix = NULL;
	int err = arena_copy(&pages, &old, (from->mask + 1) * sizeof(struct block_page));
	to->page = pages.base;
	to->displaced = NULL;
	if (!err && from->displaced)
		err = copy_displaced(to, from);
	if (!err)
		err = arena_copy(&to->pool, &from->pool,
				 (size_t)from->pool_used * sizeof(struct block));
	if (!err && from->mix && !(to->mix = mix_copy(from->mix)))
		err = -ENOMEM;
	if (err)
		blocks_release(to);
	return err;
}

size_t blocks_memory(const struct blocks *t)
{
	return displaced_count(t) * sizeof(struct block_displaced) +
	       (t->mask + 1) * sizeof(struct block_page) +
	       (size_t)t->pool_used * sizeof(struct block) + (t->mix ? mix_memory(t->mix) : 0);
}

int blocks_compact(struct blocks *t, bool compact)
{
	if (t->mix)
		return mix_turn(t->mix, !compact);
	if (!compact)
		return 0;
	struct mix *m = mix_new(t);
	if (!m)
		return -ENOMEM;
	t->mix = m;
	return 0;
}

bool blocks_move(struct blocks *t, size_t n)
{
	struct mix *m = t->mix;
	if (!m || mix_move(m, n))
		return m;
	if (m->leaving) {
		uint32_t moves = t->moves + 1;
		t->mix = NULL;
		blocks_release(t);
		*t = m->pages;
		t->moves = moves;
		m->pages = (struct blocks){ 0 };
		mix_free(m);
	}
	return false;
}

/* ---- chunks -------------------------------------------------------------- */

static struct block *entry(const struct blocks *t, uint32_t i)
{
	return (struct block *)t->pool.base + i;
}

static void chunk_free(struct blocks *t, uint32_t chunk, unsigned class)
{
	if (!chunk)
		return;
	entry(t, chunk)->a = t->idle[class];
	t->idle[class] = chunk;
	t->idle_entries += 1u << class;
}

static uint32_t chunk_idle(struct blocks *t, unsigned class)
{
	uint32_t chunk = t->idle[class];
	if (chunk) {
		t->idle[class] = (uint32_t)entry(t, chunk)->a;
		t->idle_entries -= 1u << class;
	}
	return chunk;
}

/* A chunk of 1 << CLASS zeroed entries, 0 if out of memory. */
static uint32_t chunk_new(struct blocks *t, unsigned class)
{
	uint32_t chunk = 0, n = 1u << class;
	unsigned from = class;
	while (from < BLOCK_CLASSES && !(chunk = chunk_idle(t, from)))
		from++;
	if (chunk) {
		while (from > class) { /* a larger one: give back its upper halves */
			from--;
			chunk_free(t, chunk + (1u << from), from);
		}
		memset(entry(t, chunk), 0, n * sizeof(struct block));
		return chunk;
	}
	uint32_t align = n < 4 ? n : 4; /* cache lines */
	uint32_t first = (t->pool_used + align - 1) & -align;
	if (first > UINT32_MAX - 2 * n ||
	    arena_reach(&t->pool, (size_t)(first + n) * sizeof(struct block)))
		return 0;
	for (uint32_t i = t->pool_used; i < first; i++)
		chunk_free(t, i, 0);
	t->pool_used = first + n;
	return first;
}

/* ---- entries ------------------------------------------------------------- */

/*
 * Entries in a chunk from which on a collision makes it larger, by class: larger chunks sooner. In
 * the heap of most programs, of small blocks, a page has some 40 to 100, gets 128 entries, and
 * there its blocks do not collide; with few large ones in a page the memory counts.
 */
static const uint8_t crowd[] = { 1, 2, 4, 7, 12, 22, 40, 100 };

/*
 * The entry of page P for ADDR, if there is one; else a free one that it may have, *WAS false; else
 * NULL.
 */
static struct block *probe(struct blocks *t, struct block_page *p, raddr_t addr, bool *was)
{
	struct block *c = blocks_chunk(t, p), *found = NULL;
	uint32_t size = p->mask + 1u, agent = block_place(addr) & p->mask, n;
	uint32_t reach = p->count & PAGE_LONG || size < BLOCK_WINDOW ? size : BLOCK_WINDOW;
	uint64_t key = (addr & BLOCK_OFFSET) | BLOCK_USED;

	*was = false;
	for (n = 0; n < reach; n++) {
		struct block *b = &c[(agent + n) & p->mask];
		if ((b->a & (BLOCK_OFFSET | BLOCK_USED)) == key) {
			*was = true;
			return b;
		}
		if (!found && !(b->a & BLOCK_USED))
			found = b;
		if (!(b->a & BLOCK_PASSED)) {
			n++;
			break;
		}
	}
	if (found)
		return found;
	if (size <= 128 && (p->count & PAGE_COUNT) >= crowd[__builtin_ctz(size)])
		return NULL;
	reach = (p->count & PAGE_COUNT) * 4 < size || size < BLOCK_WINDOW ? size : BLOCK_WINDOW;
	for (; n < reach; n++) {
		struct block *b = &c[(agent + n) & p->mask];
		if (b->a & BLOCK_USED)
			continue;
		for (uint32_t i = 0; i < n; i++)
			c[(agent + i) & p->mask].a |= BLOCK_PASSED;
		p->count |= n < BLOCK_WINDOW ? PAGE_DIRTY : PAGE_DIRTY | PAGE_LONG;
		return b;
	}
	return NULL;
}

struct block *blocks_get_far(const struct blocks *t, raddr_t addr, const struct block_page *p)
{
	struct block *c = blocks_chunk(t, p);
	for (uint32_t i = 0; i <= p->mask; i++)
		if ((c[i].a & (BLOCK_OFFSET | BLOCK_USED)) == ((addr & BLOCK_OFFSET) | BLOCK_USED))
			return &c[i];
	return NULL;
}

/*
 * A free entry for ADDR in a chunk that is being filled, where it cannot be yet; NULL: none near
 * enough.
 */
static inline struct block *seat(struct block *c, struct block_page *p, raddr_t addr)
{
	uint32_t i = block_place(addr) & p->mask, n = 0;
	while (n < BLOCK_WINDOW && c[(i + n) & p->mask].a & BLOCK_USED)
		n++;
	if (n == BLOCK_WINDOW)
		return NULL;
	for (uint32_t j = 0; j < n; j++) {
		c[(i + j) & p->mask].a |= BLOCK_PASSED;
		p->count |= PAGE_DIRTY;
	}
	return &c[(i + n) & p->mask];
}

/*
 * What is left in a chunk of SIZE entries at C of blocks that are no more goes where it is vacant.
 */
static void keep_left(struct blocks *t, const struct block_page *p, const struct block *c,
		      uint32_t size)
{
	struct block *to = blocks_chunk(t, p);
	for (uint32_t i = 0; i < size; i++) {
		struct block *b = &to[block_place(c[i].a & BLOCK_OFFSET) & p->mask];
		if (c[i].a & BLOCK_USED || !(c[i].a & ~BLOCK_PASSED))
			continue;
		if (b->a & ~BLOCK_PASSED) {
			blocks_displace(t, p, &c[i], ~c[i].a);
			continue;
		}
		*b = (struct block){ (c[i].a & ~BLOCK_PASSED) | (b->a & BLOCK_PASSED), c[i].b };
	}
}

/*
 * Gives page P a chunk of at least 1 << CLASS entries; it may need more to find a place for each.
 */
static int resize(struct blocks *t, struct block_page *p, unsigned class)
{
	for (; class < BLOCK_CLASSES; class ++) {
		struct block_page new = { .number = p->number,
					  .mask = (uint16_t)((1u << class) - 1),
					  .chunk = chunk_new(t, class) };
		if (!new.chunk)
			return -ENOMEM;
		const struct block *c = blocks_chunk(t, p);
		struct block *to = blocks_chunk(t, &new);
		uint32_t i, size = p->chunk ? p->mask + 1u : 0;
		for (i = 0; i < size; i++) {
			bool was;
			if (!(c[i].a & BLOCK_USED))
				continue;
			struct block *b = seat(to, &new, c[i].a & BLOCK_OFFSET);
			if (!b && !(b = probe(t, &new, c[i].a & BLOCK_OFFSET, &was)))
				break;
			b->a = (c[i].a & ~BLOCK_PASSED) | (b->a & BLOCK_PASSED);
			b->b = c[i].b;
			new.count++;
		}
		if (i == size) {
			keep_left(t, &new, c, size);
			chunk_free(t, p->chunk, (unsigned)__builtin_ctz(p->mask + 1u));
			*p = new;
			return 0;
		}
		chunk_free(t, new.chunk, class);
	}
	return -ENOMEM;
}

/* ---- pages --------------------------------------------------------------- */

/* Makes a table of 1 << BITS pages; pages without blocks are left out. */
static int rehash(struct blocks *t, unsigned bits)
{
	struct arena pages = { 0 }, old = page_arena(t->page, t->mask);
	size_t n = t->mask + 1;
	struct block_page *from = t->page;
	int err = arena_reach(&pages, sizeof(struct block_page) << bits);
	if (err)
		return err;
	t->moves++;
	t->page = pages.base;
	t->mask = ((size_t)1 << bits) - 1;
	t->shift = 64 - bits;
	t->pages = 0;
	for (size_t j = 0; j < n; j++) {
		if (!from[j].number)
			continue;
		if (!(from[j].count & PAGE_COUNT)) {
			chunk_free(t, from[j].chunk, (unsigned)__builtin_ctz(from[j].mask + 1u));
			continue;
		}
		size_t i = blocks_slot(t, from[j].number - 1);
		while (t->page[i].number)
			i = (i + 5) & t->mask;
		t->page[i] = from[j];
		t->pages++;
	}
	arena_release(&old);
	return 0;
}

static struct block_page *page_add(struct blocks *t, raddr_t addr)
{
	/* then a table that is emptier, and so faster, costs little */
	bool dense = t->pool_used / 8 > t->pages;
	if (t->pages >= (t->mask + 1) / 8 * (dense ? 3 : 6)) {
		size_t live = 0;
		for (size_t i = 0; i <= t->mask; i++)
			live += (t->page[i].count & PAGE_COUNT) != 0;
		int err = rehash(t, 64 - t->shift + (live > (t->mask + 1) / 16 * (dense ? 3 : 6)));
		if (err && t->pages >= t->mask) /* one must stay free, searches end there */
			return NULL;
	}
	size_t i = blocks_slot(t, addr >> 12);
	while (t->page[i].number)
		i = (i + 5) & t->mask;
	t->page[i] = (struct block_page){ .number = (addr >> 12) + 1 };
	t->pages++;
	return &t->page[i];
}

/* What a new page begins with: heaps grow upwards, so what the page below has, if it needs that. */
static unsigned first_class(const struct blocks *t, raddr_t addr)
{
	const struct block_page *p = blocks_page(t, addr - PAGE);
	uint32_t size = p ? p->mask + 1u : 1, count = p ? p->count & PAGE_COUNT : 0;
	if (size <= 2 || size > 256 || count * 4 < size)
		return 0;
	return (unsigned)__builtin_ctz(size) - (count * 2 < size);
}

static void trim(struct blocks *t)
{
	for (size_t i = 0; i <= t->mask; i++) {
		struct block_page *p = &t->page[i];
		uint32_t count = p->count & PAGE_COUNT, size = p->mask + 1u;
		if (!p->chunk)
			continue;
		if (!count) {
			chunk_free(t, p->chunk, (unsigned)__builtin_ctz(size));
			p->chunk = p->mask = p->count = 0;
		} else if (count * 8 <= size) {
			unsigned class = 32 - (unsigned)__builtin_clz(count);
			if (resize(t, p, class))
				return;
		}
	}
}

/* A place in the pages for ADDR; *WAS: it is the one that ADDR has. NULL: out of memory. */
static struct block *place(struct blocks *t, raddr_t addr, bool *was)
{
	if (t->pool_used >= t->pool_trim) {
		trim(t);
		t->pool_trim = t->pool_used + t->pool_used / 2 < UINT32_MAX
				       ? t->pool_used + t->pool_used / 2
				       : UINT32_MAX;
	}
	struct block_page *p = blocks_page(t, addr);
	if (!p && !(p = page_add(t, addr)))
		return NULL;
	if (!p->chunk && resize(t, p, first_class(t, addr)))
		return NULL;
	struct block *b;
	while (!(b = probe(t, p, addr, was)))
		if (resize(t, p, (unsigned)__builtin_ctz(p->mask + 1u) + 1))
			return NULL;
	if (!*was)
		p->count++;
	return b;
}

/* ---- single blocks ------------------------------------------------------- */

bool blocks_put_slowly(struct blocks *t, raddr_t addr, struct block block, struct block *was)
{
	bool there;
	if (t->mix)
		return mix_put(t->mix, addr, block, was);
	struct block *b = place(t, addr, &there);
	*was = b && there ? *b : (struct block){ 0 };
	if (b && !there)
		blocks_displace(t, blocks_page(t, addr), b, addr);
	if (b)
		*b = (struct block){ block.a | (b->a & BLOCK_PASSED), block.b };
	return b;
}

bool blocks_put(struct blocks *t, raddr_t addr, struct block block, struct block *was)
{
	return blocks_put_in(t, blocks_page(t, addr), addr, block_place(addr), block, was);
}

static struct block *find(const struct blocks *t, raddr_t addr, struct block_page **page)
{
	*page = blocks_page(t, addr);
	return *page ? blocks_get_in(t, *page, addr, block_place(addr)) : NULL;
}

const struct block *blocks_get(const struct blocks *t, raddr_t addr, struct block *copy)
{
	struct block_page *page;
	return t->mix ? mix_get(t->mix, addr, copy) : find(t, addr, &page);
}

bool blocks_take(struct blocks *t, raddr_t addr, struct block stamp, struct block *out)
{
	struct block_page *page;
	if (t->mix)
		return mix_take(t->mix, addr, stamp, out);
	struct block *b = find(t, addr, &page);
	if (!b)
		return false;
	*out = (struct block){ b->a & ~BLOCK_PASSED, b->b };
	blocks_take_in(t, page, b, stamp);
	return true;
}

void blocks_count(struct blocks *t, raddr_t addr)
{
	struct block_page *page;
	if (t->mix)
		mix_count(t->mix, addr);
	else
		find(t, addr, &page)->b |= BLOCK_COUNTED;
}

void blocks_fetch_slowly(const struct blocks *t, raddr_t addr)
{
	compact_fetch(&t->mix->compact, addr);
}

/* ---- questions ----------------------------------------------------------- */

bool blocks_walk(const struct blocks *t, struct blocks_walk *w)
{
	if (t->mix)
		return mix_walk(t->mix, w);
	w->count = 0;
	for (; w->page <= t->mask; w->page++, w->entry = 0) {
		const struct block_page *p = &t->page[w->page];
		if (!(p->count & PAGE_COUNT))
			continue;
		if (w->page < t->mask)
			__builtin_prefetch(blocks_chunk(t, p + 1));
		for (const struct block *c = blocks_chunk(t, p); w->entry <= p->mask; w->entry++) {
			const struct block *b = &c[w->entry];
			if (!(b->a & BLOCK_USED))
				continue;
			if (w->count == BLOCKS_WALK)
				return true;
			w->addr[w->count] = (p->number - 1) << 12 | (b->a & BLOCK_OFFSET);
			w->block[w->count++] = *b;
		}
	}
	return w->count;
}

/*
 * What changes when a pass might miss a block, or meet one again, and is never what it was before:
 * each mix has a number of its own, and within one it grows.
 */
static uint64_t moves(const struct blocks *t)
{
	return t->mix ? 1ull << 63 | (uint64_t)t->moves << 40 | mix_moves(t->mix) : t->moves;
}

int blocks_pass_pages(const struct blocks *t, struct blocks_pass *w, size_t n,
		      void (*fn)(void *ctx, raddr_t addr, const struct block *b), void *ctx)
{
	size_t told = 0;
	uint64_t end = t->mask - w->at < PASS_SLOTS ? t->mask : w->at + PASS_SLOTS;
	for (; w->at <= end && told < n; w->at++) {
		const struct block_page *p = &t->page[w->at];
		if (!(p->count & PAGE_COUNT))
			continue;
		if (w->pages) {
			fn(ctx, (p->number - 1) << 12, NULL);
			told++;
			continue;
		}
		if (w->at < t->mask)
			__builtin_prefetch(blocks_chunk(t, p + 1));
		const struct block *c = blocks_chunk(t, p);
		for (uint32_t i = 0; i <= p->mask; i++)
			if (c[i].a & BLOCK_USED) {
				fn(ctx, (p->number - 1) << 12 | (c[i].a & BLOCK_OFFSET), &c[i]);
				told++;
			}
	}
	return w->at <= t->mask;
}

int blocks_pass(const struct blocks *t, struct blocks_pass *w, size_t n,
		void (*fn)(void *ctx, raddr_t addr, const struct block *b), void *ctx)
{
	if ((w->at || w->part) && w->moves != moves(t))
		return -EAGAIN;
	w->moves = moves(t);
	return t->mix ? mix_pass(t->mix, w, n, fn, ctx) : blocks_pass_pages(t, w, n, fn, ctx);
}

bool blocks_below(const struct blocks *t, raddr_t addr, raddr_t *start, struct block *out)
{
	if (t->mix)
		return mix_below(t->mix, addr, start, out);
	const struct block_page *p = blocks_page(t, addr);
	uint64_t limit = addr & BLOCK_OFFSET;
	for (int turn = 0; turn < 2; turn++) {
		const struct block *best = NULL;
		if (p && p->chunk) {
			const struct block *c = blocks_chunk(t, p);
			for (uint32_t i = 0; i <= p->mask; i++) {
				uint64_t o = c[i].a & BLOCK_OFFSET;
				if ((c[i].a & BLOCK_USED) && o <= limit &&
				    (!best || o > (best->a & BLOCK_OFFSET)))
					best = &c[i];
			}
		}
		if (best) {
			*start = (p->number - 1) << 12 | (best->a & BLOCK_OFFSET);
			*out = *best;
			return true;
		}
		/* then the last one of the nearest page below that has any */
		p = NULL;
		for (size_t i = 0; turn == 0 && i <= t->mask; i++) {
			const struct block_page *q = &t->page[i];
			if ((q->count & PAGE_COUNT) && q->number - 1 < addr >> 12 &&
			    (!p || q->number > p->number))
				p = q;
		}
		limit = BLOCK_OFFSET;
	}
	return false;
}

/* A block can have been as large as it likes, so every page up to ADDR's is looked at. */
bool blocks_freed(const struct blocks *t, raddr_t addr, raddr_t *start, struct block *out)
{
	const struct block *best = NULL;
	if (t->mix)
		return mix_freed(t->mix, addr, start, out);
	for (size_t i = 0; i <= t->mask; i++) {
		const struct block_page *p = &t->page[i];
		if (!p->chunk || p->number - 1 > addr >> 12)
			continue;
		const struct block *c = blocks_chunk(t, p);
		for (uint32_t j = 0; j <= p->mask; j++) {
			raddr_t at = (p->number - 1) << 12 | (c[j].a & BLOCK_OFFSET);
			if ((c[j].a & BLOCK_USED) || !(c[j].a & ~BLOCK_PASSED) || at > addr ||
			    (addr != at && addr - at >= block_size(&c[j])))
				continue;
			if (best && block_tick(&c[j]) < block_tick(best))
				continue;
			best = &c[j];
			*start = at;
		}
	}
	if (best)
		*out = *best;
	if (best && *start == addr) /* several may have been there in one tick */
		return blocks_left(t, addr, out);
	return best;
}

static uint32_t *newest_of(const struct blocks *t, raddr_t addr)
{
	return &t->displaced->newest[addr * t->factor >> 52];
}

/* What was displaced last at ADDR, if it still is in the ring. */
static const struct block *find_displaced(const struct blocks *t, raddr_t addr)
{
	struct blocks_displaced *d = t->displaced;
	uint32_t first = t->displacing - BLOCKS_DISPLACED, age = 0;

	if (!d)
		return NULL;
	if (t->displacing - d->known > BLOCKS_DISPLACED)
		d->known = first;
	for (; d->known != t->displacing; d->known++) {
		uint32_t *newest = newest_of(t, d->ring[d->known % BLOCKS_DISPLACED].addr);

		d->older[d->known % BLOCKS_DISPLACED] = *newest;
		*newest = d->known + 1;
	}
	for (uint32_t at = *newest_of(t, addr); at; at = d->older[(at - 1) % BLOCKS_DISPLACED]) {
		const struct block_displaced *b = &d->ring[(at - 1) % BLOCKS_DISPLACED];
		uint32_t before = age;

		age = t->displacing - (at - 1);
		if (age > BLOCKS_DISPLACED || age <= before)
			return NULL; /* that has left the ring */
		if (b->addr == addr && b->block.a)
			return &b->block;
	}
	return NULL;
}

/*
 * A block is put into the first entry on its way that is not in use, so of what is left of several
 * that were released in one tick the first on the way was the last.
 */
bool blocks_left(const struct blocks *t, raddr_t addr, struct block *out)
{
	const struct block_page *p = blocks_page(t, addr);
	const struct block *best = NULL;
	uint32_t place = block_place(addr);
	if (t->mix)
		return mix_left(t->mix, addr, out);
	for (uint32_t i = 0; p && p->chunk && i <= p->mask; i++) {
		const struct block *b = blocks_chunk(t, p) + ((place + i) & p->mask);
		if ((b->a & (BLOCK_OFFSET | BLOCK_USED)) != (addr & BLOCK_OFFSET) ||
		    !(b->a & ~BLOCK_PASSED) || (best && block_tick(b) <= block_tick(best)))
			continue;
		best = b;
	}
	const struct block *displaced = find_displaced(t, addr);
	if (displaced && (!best || block_tick(displaced) > block_tick(best)))
		best = displaced;
	if (best)
		*out = *best;
	return best;
}
