// SPDX-License-Identifier: GPL-3.0-or-later
#include "blocks/compact.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/secret.h"

/*
 * Extendible hashing: the first `depth` bits of the scrambled address lead through a directory to a
 * segment, which is a small table of 256 to 4096 entries. One that has become too full gets another
 * page of memory; when it has all it may have, it becomes two. One that has become too empty gives
 * pages back, or becomes one with its other half. So at most 4096 entries are ever moved at once,
 * some 20 us, and never is there an old table beside a new one.
 *
 * Within a segment entries lie in the order of their tags, each at its agent or as little behind it
 * as that order allows, without a gap in between. The agent grows with the tag, so a search begins
 * there and ends at the first larger tag or gap, also when nothing is found: 3 entries on average,
 * and taking out leaves no mark behind. The last entry of a segment is never used, searches end
 * there.
 */

#define BITS	    44u /* of a scrambled address */
#define MASK	    ((1ull << BITS) - 1)
#define TAG_BITS    40u
#define DEPTH_LEAST (BITS - TAG_BITS)
#define DEPTH_MOST  24u
#define PER_PAGE    ((uint32_t)(PAGE / sizeof(struct compact_entry)))
#define PAGES_MOST  (COMPACT_SEGMENT / PER_PAGE)
#define STRIDE	    (PAGES_MOST * PAGE)
#define SPILL	    32u /* entries at the end that are nobody's agent */
/*
 * so many of FULL_OF entries are used at most: beyond that each one more costs more time than its
 * memory is worth
 */
#define FULL	13u
#define FULL_OF 16u
#define FREED	1024u

struct compact_freed {
	raddr_t addr;
	struct block block;
};

/* ---- addresses ----------------------------------------------------------- */

static uint64_t scrambled(const struct compact *c, raddr_t addr)
{
	uint64_t k = (addr >> 3) * c->factor[0] & MASK;
	k ^= k >> BITS / 2;
	return k * c->factor[1] & MASK;
}

static raddr_t plain(const struct compact *c, uint64_t k)
{
	k = k * c->inverse[1] & MASK;
	k ^= k >> BITS / 2;
	return (k * c->inverse[0] & MASK) << 3;
}

/* modulo 2^64: each step doubles the bits that are right */
static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd;
	for (int i = 0; i < 5; i++)
		x *= 2 - odd * x;
	return x;
}

static void choose_factors(struct compact *c)
{
	for (unsigned i = 0; i < 2; i++) {
		c->factor[i] = secret(i);
		c->inverse[i] = inverse(c->factor[i]);
	}
}

/* ---- entries ------------------------------------------------------------- */

static uint64_t tag_of(const struct compact_entry *e) { return e->a >> 24; }

static struct compact_entry *entries(const struct compact *c, uint32_t segment)
{
	return (struct compact_entry *)(c->base + segment * STRIDE);
}

static uint32_t segment_of(const struct compact *c, uint64_t k)
{
	return c->directory[k >> (BITS - c->depth)];
}

static uint32_t agents(const struct compact_segment *s) { return s->pages * PER_PAGE - SPILL; }

static uint32_t agent_of(const struct compact_segment *s, uint64_t tag)
{
	return (uint32_t)((tag << s->depth & MASK) * agents(s) >> BITS);
}

static bool addressable(raddr_t addr) { return !(addr & 7) && addr >> (BITS + 3) == 0; }

bool compact_fits(raddr_t addr, const struct block *b)
{
	return addressable(addr) && block_size(b) < 1u << 20 && block_total(b);
}

static struct compact_entry packed(uint64_t k, const struct block *b)
{
	return (struct compact_entry){ k << 24 | block_size(b) << 4 | b->a >> 60, b->b };
}

static struct block unpacked(raddr_t addr, const struct compact_entry *e)
{
	return (struct block){
		(addr & BLOCK_OFFSET) | BLOCK_USED | (e->a >> 4 & 0xfffff) << 14 | e->a << 60, e->b
	};
}

static uint64_t scrambled_of(const struct compact_segment *s, const struct compact_entry *e)
{
	return (uint64_t)(s->prefix >> (s->depth - DEPTH_LEAST)) << TAG_BITS | tag_of(e);
}

static raddr_t address_of(const struct compact *c, const struct compact_segment *s,
			  const struct compact_entry *e)
{
	return plain(c, scrambled_of(s, e));
}

/* Where TAG is, or would have to be. */
static uint32_t seek(const struct compact_segment *s, const struct compact_entry *e, uint64_t tag)
{
	uint32_t i = agent_of(s, tag);
	while (e[i].b && tag_of(&e[i]) < tag)
		i++;
	return i;
}

static struct compact_entry *find(const struct compact *c, raddr_t addr, uint32_t *segment)
{
	uint64_t k = scrambled(c, addr), tag = k & ((1ull << TAG_BITS) - 1);
	if (!addressable(addr))
		return NULL;
	*segment = segment_of(c, k);
	struct compact_entry *e = entries(c, *segment);
	e += seek(&c->segment[*segment], e, tag);
	return e->b && tag_of(e) == tag ? e : NULL;
}

/* ---- segments ------------------------------------------------------------ */

/*
 * All entries of a segment, in their order: every place is copied, and the next one over it where
 * it was empty.
 */
static uint32_t gather(const struct compact *c, uint32_t segment, struct compact_entry *out)
{
	const struct compact_entry *e = entries(c, segment);
	uint32_t n = 0, end = c->segment[segment].pages * PER_PAGE;
	for (uint32_t i = 0; i + 1 < end; i++) {
		out[n] = e[i];
		n += e[i].b != 0;
	}
	return n;
}

static void give_pages(struct compact *c, uint32_t segment, uint32_t pages)
{
	struct compact_segment *s = &c->segment[segment];
	if (pages < s->pages)
		madvise(c->base + segment * STRIDE + pages * PAGE, (s->pages - pages) * PAGE,
			MADV_DONTNEED);
	c->pages = c->pages - s->pages + pages;
	s->pages = (uint8_t)pages;
}

/*
 * The segment has these N entries and no others, in so many PAGES. False: the last ones find no
 * place.
 */
static bool laid(struct compact *c, uint32_t segment, const struct compact_entry *v, uint32_t n,
		 uint32_t pages)
{
	const struct compact_segment *s = &c->segment[segment];
	struct compact_entry *e = entries(c, segment);
	uint32_t at = 0;
	give_pages(c, segment, pages);
	memset(e, 0, pages * PAGE);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t agent = agent_of(s, tag_of(&v[i]));
		at = agent > at ? agent : at;
		if (at >= pages * PER_PAGE - 1)
			return false;
		e[at++] = v[i];
	}
	c->segment[segment].count = (uint16_t)n;
	return true;
}

/* laid() in PAGES, or in more if they do not do; there is room, the caller has seen to that. */
static void lay(struct compact *c, uint32_t segment, const struct compact_entry *v, uint32_t n,
		uint32_t pages)
{
	while (!laid(c, segment, v, n, pages)) {
		pages++;
		assert(pages <= PAGES_MOST);
	}
}

/* Pages in which N entries leave every fifth place free. */
static uint32_t pages_for(uint32_t n)
{
	uint32_t pages = (n + n / 4 + SPILL) / PER_PAGE + 1;
	return pages < PAGES_MOST ? pages : PAGES_MOST;
}

static void direct(struct compact *c, uint32_t segment)
{
	const struct compact_segment *s = &c->segment[segment];
	unsigned shift = c->depth - s->depth;
	for (size_t i = 0; i < (size_t)1 << shift; i++)
		c->directory[((size_t)s->prefix << shift) + i] = segment;
}

static int directory_double(struct compact *c)
{
	size_t n = (size_t)1 << c->depth;
	uint32_t *v = realloc(c->directory, 2 * n * sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = n; i-- > 0;)
		v[2 * i] = v[2 * i + 1] = v[i];
	c->directory = v;
	c->depth++;
	return 0;
}

/* Room for so many segments. */
static int reserve(struct compact *c, uint32_t room)
{
	struct compact_segment *s = realloc(c->segment, room * sizeof(*s));
	void *base;
	if (!s)
		return -ENOMEM;
	c->segment = s;
	if (c->base)
		base = mremap(c->base, c->room * STRIDE, room * STRIDE, MREMAP_MAYMOVE);
	else
		base = mmap(NULL, room * STRIDE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return -ENOMEM;
	if (!c->base)
		madvise(base, room * STRIDE, MADV_NOHUGEPAGE); /* they would be mostly unused */
	c->base = base;
	c->room = room;
	return 0;
}

/* A segment without pages. Segments may move. */
static int segment_new(struct compact *c, uint32_t *segment)
{
	if (c->idle) {
		*segment = c->idle - 1;
		c->idle = c->segment[*segment].prefix;
	} else if (c->segments == c->room && reserve(c, c->room * 2)) {
		return -ENOMEM;
	} else {
		*segment = c->segments++;
	}
	c->segment[*segment] = (struct compact_segment){ 0 };
	return 0;
}

static int split(struct compact *c, uint32_t segment)
{
	struct compact_entry v[COMPACT_SEGMENT];
	unsigned depth = c->segment[segment].depth;
	uint32_t n = gather(c, segment, v), low = 0, new;
	if (depth == DEPTH_MOST || (depth == c->depth && directory_double(c)) ||
	    segment_new(c, &new))
		return -ENOMEM;
	while (low < n && !(tag_of(&v[low]) >> (BITS - 1 - depth) & 1))
		low++;
	struct compact_segment *s = &c->segment[segment], *t = &c->segment[new];
	s->depth = t->depth = (uint8_t)(depth + 1);
	s->prefix <<= 1;
	t->prefix = s->prefix | 1;
	lay(c, segment, v, low, pages_for(low));
	lay(c, new, v + low, n - low, pages_for(n - low));
	direct(c, new);
	return 0;
}

static int enlarge(struct compact *c, uint32_t segment)
{
	struct compact_entry v[COMPACT_SEGMENT];
	uint32_t pages = c->segment[segment].pages;
	if (pages == PAGES_MOST)
		return split(c, segment);
	lay(c, segment, v, gather(c, segment, v), pages + 1);
	return 0;
}

/* SEGMENT and its other half become one, if that leaves room. */
static bool merge(struct compact *c, uint32_t segment)
{
	struct compact_entry v[COMPACT_SEGMENT];
	const struct compact_segment *s = &c->segment[segment];
	if (s->depth == DEPTH_LEAST)
		return false;
	uint32_t other = c->directory[(size_t)(s->prefix ^ 1) << (c->depth - s->depth)];
	if (c->segment[other].depth != s->depth ||
	    c->segment[other].count + s->count > COMPACT_SEGMENT / 2)
		return false;
	uint32_t low = s->prefix & 1 ? other : segment, high = low == segment ? other : segment;
	uint32_t n = gather(c, low, v);
	n += gather(c, high, v + n);
	give_pages(c, high, 0);
	c->segment[high] = (struct compact_segment){ .prefix = c->idle };
	c->idle = high + 1;
	c->segment[low].prefix >>= 1;
	c->segment[low].depth--;
	lay(c, low, v, n, pages_for(n));
	direct(c, low);
	return true;
}

/* After an entry was taken out. */
static void thin(struct compact *c, uint32_t segment)
{
	struct compact_entry v[COMPACT_SEGMENT];
	const struct compact_segment *s = &c->segment[segment];
	if (s->count * 8 >= agents(s) * 3 || merge(c, segment) || pages_for(s->count) >= s->pages)
		return;
	lay(c, segment, v, gather(c, segment, v), pages_for(s->count));
}

/* ---- the table ----------------------------------------------------------- */

int compact_init(struct compact *c)
{
	memset(c, 0, sizeof(*c));
	choose_factors(c);
	c->depth = DEPTH_LEAST;
	c->directory = calloc((size_t)1 << DEPTH_LEAST, sizeof(*c->directory));
	if (!c->directory || reserve(c, 1u << DEPTH_LEAST)) {
		compact_release(c);
		return -ENOMEM;
	}
	c->segments = 1u << DEPTH_LEAST;
	for (uint32_t i = 0; i < c->segments; i++) {
		c->segment[i] = (struct compact_segment){ .prefix = i, .depth = DEPTH_LEAST };
		give_pages(c, i, 1);
		direct(c, i);
	}
	return 0;
}

void compact_release(struct compact *c)
{
	free(c->directory);
	free(c->segment);
	free(c->freed);
	if (c->base)
		munmap(c->base, c->room * STRIDE);
	memset(c, 0, sizeof(*c));
}

int compact_copy(struct compact *to, const struct compact *from)
{
	size_t directory = sizeof(uint32_t) << from->depth;
	*to = *from;
	to->base = NULL;
	to->segment = NULL;
	to->directory = malloc(directory);
	to->freed = from->freed ? malloc(FREED * sizeof(*to->freed)) : NULL;
	if (!to->directory || (from->freed && !to->freed) || reserve(to, from->room)) {
		compact_release(to);
		return -ENOMEM;
	}
	memcpy(to->directory, from->directory, directory);
	memcpy(to->segment, from->segment, from->segments * sizeof(*to->segment));
	if (from->freed)
		memcpy(to->freed, from->freed, FREED * sizeof(*to->freed));
	for (uint32_t i = 0; i < from->segments; i++)
		memcpy(entries(to, i), entries(from, i), from->segment[i].pages * PAGE);
	return 0;
}

size_t compact_memory(const struct compact *c)
{
	return c->pages * PAGE + (sizeof(*c->directory) << c->depth) +
	       c->segments * sizeof(*c->segment) + (c->freed ? FREED * sizeof(*c->freed) : 0);
}

bool compact_get(const struct compact *c, raddr_t addr, struct block *out)
{
	uint32_t segment;
	const struct compact_entry *e = find(c, addr, &segment);
	if (e)
		*out = unpacked(addr, e);
	return e;
}

/* Puts E, which has K, before the entry AT of its segment. False: the segment is full. */
static bool insert(struct compact *c, uint32_t segment, uint32_t at, struct compact_entry new)
{
	struct compact_segment *s = &c->segment[segment];
	struct compact_entry *e = entries(c, segment);
	uint32_t end = at;
	if (s->count >= agents(s) / FULL_OF * FULL)
		return false;
	while (e[end].b)
		end++;
	if (end == s->pages * PER_PAGE - 1)
		return false;
	memmove(&e[at + 1], &e[at], (end - at) * sizeof(*e));
	e[at] = new;
	s->count++;
	c->count++;
	return true;
}

int compact_put(struct compact *c, raddr_t addr, const struct block *b, struct block *was)
{
	uint64_t k = scrambled(c, addr);
	for (;;) {
		uint32_t segment = segment_of(c, k);
		struct compact_entry *e = entries(c, segment), new = packed(k, b);
		uint32_t at = seek(&c->segment[segment], e, tag_of(&new));
		was->a = 0;
		if (e[at].b && tag_of(&e[at]) == tag_of(&new)) {
			*was = unpacked(addr, &e[at]);
			e[at] = new;
			return 0;
		}
		if (insert(c, segment, at, new))
			return 0;
		int err = enlarge(c, segment);
		if (err)
			return err;
	}
}

bool compact_take(struct compact *c, raddr_t addr, struct block *out)
{
	uint32_t segment;
	struct compact_entry *found = find(c, addr, &segment);
	if (!found)
		return false;
	struct compact_segment *s = &c->segment[segment];
	struct compact_entry *e = entries(c, segment);
	uint32_t at = (uint32_t)(found - e), end = at + 1;
	*out = unpacked(addr, found);
	while (e[end].b && agent_of(s, tag_of(&e[end])) < end)
		end++;
	memmove(&e[at], &e[at + 1], (end - at - 1) * sizeof(*e));
	e[end - 1] = (struct compact_entry){ 0 };
	s->count--;
	c->count--;
	thin(c, segment);
	return true;
}

bool compact_count(struct compact *c, raddr_t addr)
{
	uint32_t segment;
	struct compact_entry *e = find(c, addr, &segment);
	if (e)
		e->b |= BLOCK_COUNTED;
	return e;
}

void compact_fetch(const struct compact *c, raddr_t addr)
{
	uint64_t k = scrambled(c, addr);
	uint32_t segment = segment_of(c, k);
	const struct compact_entry *e =
		entries(c, segment) + agent_of(&c->segment[segment], k & ((1ull << TAG_BITS) - 1));
	__builtin_prefetch(e, 1);
	__builtin_prefetch(e + 4, 1);
}

/* ---- what was taken out -------------------------------------------------- */

void compact_remember(struct compact *c, raddr_t addr, const struct block *b)
{
	if (!c->freed)
		c->freed = calloc(FREED, sizeof(*c->freed));
	if (c->freed)
		c->freed[c->taken++ % FREED] = (struct compact_freed){ addr, *b };
}

bool compact_freed(const struct compact *c, raddr_t addr, raddr_t *start, struct block *out)
{
	uint64_t least = c->taken < FREED ? 0 : c->taken - FREED;
	for (uint64_t i = c->freed ? c->taken : 0; i-- > least;) {
		const struct compact_freed *f = &c->freed[i % FREED];
		if (addr != f->addr && addr - f->addr >= block_size(&f->block))
			continue;
		*start = f->addr;
		*out = f->block;
		return true;
	}
	return false;
}

bool compact_left(const struct compact *c, raddr_t addr, struct block *out)
{
	uint64_t least = c->taken < FREED ? 0 : c->taken - FREED;
	for (uint64_t i = c->freed ? c->taken : 0; i-- > least;)
		if (c->freed[i % FREED].addr == addr) {
			*out = c->freed[i % FREED].block;
			return true;
		}
	return false;
}

/* ---- all of them --------------------------------------------------------- */

bool compact_walk(const struct compact *c, struct blocks_walk *w)
{
	for (; w->page < c->segments; w->page++, w->entry = 0) {
		const struct compact_segment *s = &c->segment[w->page];
		const struct compact_entry *e = entries(c, (uint32_t)w->page);
		for (; w->entry < s->pages * PER_PAGE && w->count < BLOCKS_WALK; w->entry++) {
			if (!e[w->entry].b)
				continue;
			w->addr[w->count] = address_of(c, s, &e[w->entry]);
			w->block[w->count] = unpacked(w->addr[w->count], &e[w->entry]);
			w->count++;
		}
		if (w->count == BLOCKS_WALK)
			return true;
	}
	return w->count;
}

/* Segments are split and joined between two calls, but the order of the hashes stays. */
bool compact_pass(const struct compact *c, uint64_t *at, size_t n,
		  void (*fn)(void *ctx, raddr_t addr, const struct block *b), void *ctx)
{
	size_t told = 0;
	while (*at <= MASK && told < n) {
		uint32_t segment = segment_of(c, *at);
		const struct compact_segment *s = &c->segment[segment];
		const struct compact_entry *e = entries(c, segment);
		for (uint32_t i = 0, end = s->pages * PER_PAGE; i < end; i++) {
			if (!e[i].b || scrambled_of(s, &e[i]) < *at)
				continue;
			raddr_t addr = address_of(c, s, &e[i]);
			struct block b = unpacked(addr, &e[i]);
			fn(ctx, addr, &b);
			told++;
		}
		*at = ((uint64_t)s->prefix + 1) << (BITS - s->depth);
	}
	return *at <= MASK;
}

size_t compact_drain(struct compact *c, raddr_t *addr, struct block *b)
{
	struct compact_entry v[COMPACT_SEGMENT];
	uint32_t n = 0;
	for (; c->drained < c->segments && !n; c->drained++) {
		const struct compact_segment *s = &c->segment[c->drained];
		n = s->pages ? gather(c, c->drained, v) : 0;
		for (uint32_t i = 0; i < n; i++) {
			addr[i] = address_of(c, s, &v[i]);
			b[i] = unpacked(addr[i], &v[i]);
		}
		if (n)
			lay(c, c->drained, NULL, 0, 1);
	}
	c->count -= n;
	return n;
}
