/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * blocks.h - the live blocks by address: what an allocation puts in and a free takes out, some ten
 * million times a second.
 *
 * There are two layouts behind one interface. The one for speed is described here, and its parts
 * that run for each event are inline; the one that needs least memory is in compact.h, and a table
 * that is not pages alone is a mix (mix.h). Blocks go in and come out by value, so that nobody need
 * know which it is.
 *
 * Each 4 KiB page of the heap that holds the beginning of a block has a small table of its own, its
 * chunk, of 1, 2, 4 ... entries of 16 bytes; the pages are found in one hash table. So the table
 * has the program's own locality (neighbours in the heap share a cache line here), costs 16 to 32
 * bytes a block however large or sparse the blocks are, and never moves more than one page's
 * entries at a time.
 *
 *      page table                        pool of entries
 *      +----------+-------+-----+-----+     +----+----+----+----+
 *      | number   | chunk | mask|count| --> | e  | e  |    | e  |  mask + 1 entries, linear probing
 *      +----------+-------+-----+-----+     +----+----+----+----+
 *
 * A table indexed directly by address would save one look-up, but takes 2 KB for a block of 4 KiB.
 * Measured with tests/bench/ledger.c on two busy cores, from the ring to the end of the ledger, ns
 * an event: pairs 7, sqlite3 10, python3 16, clang 22, jq 28 (it only grows); 10^5 and 10^6 live
 * blocks, one replaced at random, 17 and 33. Bytes of this table for a live block: all of 24 bytes
 * 17, 16 bytes to 4 KiB mixed 41, 4 KiB or 100 KB 44 to 58.
 */
#ifndef MTRUN_BLOCKS_H
#define MTRUN_BLOCKS_H

#include "base/arena.h"
#include "base/types.h"

/*
 *       63    60 59                14  13   12  11      0
 *  a   | tick hi |      size (46)    | P  | U | offset   |
 *  b   |    tick lo (24)   | owner (16) | C |  total (23) |
 *       63               40 39        24 23  22          0
 *
 * U: used. P: passed, an entry that belongs here lies further on. total: number of the stack's
 * total; owner: thread, saturating; tick: 10 ms. C: it is in wire_process.known, and may stand for
 * more (weights.h).
 */
struct block {
	uint64_t a, b;
};
#define BLOCK_OFFSET	0xfffull
#define BLOCK_USED	(1ull << 12)
#define BLOCK_PASSED	(1ull << 13)
#define BLOCK_COUNTED	(1ull << 23) /* in b */
#define BLOCK_SIZE_MAX	((1ull << 46) - 1)
#define BLOCK_TICK_MAX	((1u << 28) - 1)
#define BLOCK_OWNER_MAX 0xffffu

struct block_page {
	uint64_t number; /* address >> 12, plus 1; 0: free */
	uint32_t chunk;	 /* index of its first entry in the pool */
	uint16_t mask;	 /* entries - 1 */
	uint16_t count;	 /* of live blocks, and PAGE_* */
};
#define PAGE_DIRTY 0x8000u /* some entry has the passed mark */
/* an entry may be further from its place than BLOCK_WINDOW */
#define PAGE_LONG  0x4000u
#define PAGE_COUNT 0x3fffu

/* how far from its place an entry may be, but in a LONG page */
#define BLOCK_WINDOW  8u
#define BLOCK_CLASSES 13 /* chunks of 1 .. 4096 entries */

/* What was left of a block, and had to give its place to another one. */
struct block_displaced {
	raddr_t addr;
	struct block block;
};
#define BLOCKS_DISPLACED 4096u
struct blocks_displaced {
	struct block_displaced ring[BLOCKS_DISPLACED]; /* the last ones */
	/*
	 * Where in the ring an address is, as of when somebody asked last: chains by a hash of it,
	 * the newest first. Places are counted from 1 on, as `displacing` goes on.
	 */
	uint32_t known; /* before this one */
	uint32_t newest[BLOCKS_DISPLACED], older[BLOCKS_DISPLACED];
};

struct blocks {
	struct block_page *page; /* 1 << bits of them */
	size_t mask;
	unsigned shift; /* 64 - bits */
	/*
	 * how often the pages have moved: pointers to them are void then. (The table may come to
	 * lie where it was.)
	 */
	uint32_t moves;
	/* odd, random: the target must not be able to choose addresses that collide */
	uint64_t factor;
	size_t pages; /* in use, also by pages without blocks */
	struct arena pool;
	uint32_t pool_used; /* entries handed out; entry 0 never is */
	uint32_t pool_trim; /* when to look for unused chunks */
	/* free chunks by class, chained by their first word; 0: none */
	uint32_t idle[BLOCK_CLASSES];
	uint64_t idle_entries;
	struct blocks_displaced *displaced;
	uint32_t displacing; /* where the next one goes in the ring, modulo BLOCKS_DISPLACED */
	/* NULL: the blocks are in these pages. Else they are there, and there are no pages here */
	struct mix *mix;
};

int blocks_init(struct blocks *t) MUST_USE;
void blocks_release(struct blocks *t);
/* A copy that shares nothing. TO is uninitialised storage. */
int blocks_copy(struct blocks *to, const struct blocks *from) MUST_USE;
size_t blocks_memory(const struct blocks *t);
/*
 * From now on the layout that needs least memory, or the one for speed. What is there is moved by
 * blocks_move() until that is false: N blocks at a time, or some thousands more. 0 or -ENOMEM: all
 * is as it was.
 */
int blocks_compact(struct blocks *t, bool compact) MUST_USE;
bool blocks_move(struct blocks *t, size_t n);

/*
 * The live block that begins at ADDR, in the table or in *COPY; NULL: none. Good until the table
 * changes.
 */
const struct block *blocks_get(const struct blocks *t, raddr_t addr, struct block *copy);
/*
 * BLOCK, made with block_at(), now lives at ADDR. What lived there before is in *WAS, of which `a`
 * is 0 if nothing did. False: out of memory, nothing lives there.
 */
bool blocks_put(struct blocks *t, raddr_t addr, struct block block, struct block *was);
/*
 * The block at ADDR, now in *OUT, is no more: who took it out, and when, is in STAMP. What it was
 * stays readable (blocks_freed) until its place is needed. False: nothing lives there.
 */
bool blocks_take(struct blocks *t, raddr_t addr, struct block stamp, struct block *out);
/* The block at ADDR, which is there, gets BLOCK_COUNTED. */
void blocks_count(struct blocks *t, raddr_t addr);
/*
 * For the inline functions: the rest of a page with PAGE_LONG; where no place was at hand; where
 * the blocks are not in pages alone.
 */
struct block *blocks_get_far(const struct blocks *t, raddr_t addr, const struct block_page *p);
bool blocks_put_slowly(struct blocks *t, raddr_t addr, struct block block, struct block *was);
void blocks_fetch_slowly(const struct blocks *t, raddr_t addr);

/*
 * All blocks, BLOCKS_WALK at a time: begins with a walk of zeros, false is the end. The table may
 * not change meanwhile but by blocks_count().
 */
#define BLOCKS_WALK 64u
struct blocks_walk {
	size_t count;
	raddr_t addr[BLOCKS_WALK];
	struct block block[BLOCKS_WALK];
	size_t page, entry; /* where it is */
	unsigned part;
};
bool blocks_walk(const struct blocks *t, struct blocks_walk *w);
/*
 * A walk while the table changes between two calls: each tells FN of N more blocks, or some
 * thousands more. A block that is there all the time is told once. 1: there is more, 0: that was
 * all, -EAGAIN: the table was laid out anew meanwhile, so it is all for nothing. Begins with a pass
 * of zeros. PAGES: all pages that blocks begin in are to be told; B is NULL, and ADDR some address
 * in the page, which may be told more than once.
 */
struct blocks_pass {
	bool pages;
	uint64_t at; /* where it is: a page's place, a compact entry's hash */
	unsigned part;
	uint64_t moves;
};
/* More than N by so many at most. */
#define BLOCKS_PASS_BEYOND 4096u
int blocks_pass(const struct blocks *t, struct blocks_pass *w, size_t n,
		void (*fn)(void *ctx, raddr_t addr, const struct block *b), void *ctx) MUST_USE;
/* Of its pages alone, which have not moved: for mix.c. */
int blocks_pass_pages(const struct blocks *t, struct blocks_pass *w, size_t n,
		      void (*fn)(void *ctx, raddr_t addr, const struct block *b),
		      void *ctx) MUST_USE;
/* The live block with the highest address that is <= ADDR, if any. */
bool blocks_below(const struct blocks *t, raddr_t addr, raddr_t *start, struct block *out);
/*
 * What is left of the block freed last of those that ADDR was in, if it still is: its size and
 * stack total; owner and tick are those of its release.
 */
bool blocks_freed(const struct blocks *t, raddr_t addr, raddr_t *start, struct block *out);
/* blocks_freed() for the block freed last that began at ADDR itself; much quicker. */
bool blocks_left(const struct blocks *t, raddr_t addr, struct block *out);

static inline uint64_t block_size(const struct block *b) { return b->a >> 14 & BLOCK_SIZE_MAX; }
static inline uint32_t block_total(const struct block *b) { return b->b & 0x7fffff; }
static inline uint32_t block_owner(const struct block *b) { return b->b >> 24 & 0xffff; }
static inline uint32_t block_tick(const struct block *b)
{
	return (uint32_t)(b->a >> 60) << 24 | (uint32_t)(b->b >> 40);
}

static inline struct block block_at(raddr_t addr, uint64_t size, uint32_t total, uint32_t owner,
				    uint32_t tick)
{
	return (struct block){ (addr & BLOCK_OFFSET) | BLOCK_USED | size << 14 |
				       (uint64_t)(tick >> 24) << 60,
			       (uint64_t)tick << 40 | (uint64_t)owner << 24 | total };
}

/* What of an entry says who and when. */
static inline struct block block_stamp(uint32_t owner, uint32_t tick)
{
	return (struct block){ (uint64_t)(tick >> 24) << 60,
			       (uint64_t)tick << 40 | (uint64_t)owner << 24 };
}

/*
 * Where in a full-size chunk an offset belongs: neighbours at 32 bytes (the least distance in
 * glibc) get neighbouring entries, and each of the next smaller alignments one bit above. Smaller
 * chunks fold this over: dense runs and all the usual strides then still collide little.
 */
static inline uint32_t block_place(raddr_t addr)
{
	uint32_t o = addr & BLOCK_OFFSET, i = o >> 5 | (o & 16) << 3;
	if (__builtin_expect(o & 15, 0))
		i |= (o & 8) << 5 | (o & 7) << 9;
	return i;
}

static inline size_t blocks_slot(const struct blocks *t, uint64_t number)
{
	/* four neighbours share a cache line */
	return (number >> 2) * t->factor >> t->shift ^ (number & 3);
}

static inline struct block_page *blocks_page(const struct blocks *t, raddr_t addr)
{
	uint64_t number = addr >> 12;
	size_t i = blocks_slot(t, number);
	while (t->page[i].number != number + 1) {
		if (!t->page[i].number)
			return NULL;
		/* the next group; odd, so that every slot is reached */
		i = (i + 5) & t->mask;
	}
	return &t->page[i];
}

/* blocks_page(ADDR) is to come. */
static inline void blocks_fetch_page(const struct blocks *t, raddr_t addr)
{
	__builtin_prefetch(&t->page[blocks_slot(t, addr >> 12)]);
}

static inline struct block *blocks_chunk(const struct blocks *t, const struct block_page *p)
{
	return (struct block *)t->pool.base + p->chunk;
}

/* The live block that begins at ADDR, in its page P; or NULL. PLACE: block_place(ADDR). */
static inline struct block *blocks_get_in(const struct blocks *t, const struct block_page *p,
					  raddr_t addr, uint32_t place)
{
	struct block *c = blocks_chunk(t, p);
	uint64_t key = (addr & BLOCK_OFFSET) | BLOCK_USED;
	for (uint32_t n = 0; n < BLOCK_WINDOW; n++, place++) {
		struct block *b = &c[place & p->mask];
		if ((b->a & (BLOCK_OFFSET | BLOCK_USED)) == key)
			return b;
		if (!(b->a & BLOCK_PASSED))
			return NULL;
	}
	return p->count & PAGE_LONG ? blocks_get_far(t, addr, p) : NULL;
}

/*
 * B, an entry of page P that is not in use, is about to get ADDR: what is left there of another
 * block goes into the ring. Without a branch, which nothing could foretell.
 */
static inline void blocks_displace(struct blocks *t, const struct block_page *p,
				   const struct block *b, raddr_t addr)
{
	struct block_displaced *d = &t->displaced->ring[t->displacing % BLOCKS_DISPLACED];
	d->addr = (p->number - 1) << 12 | (b->a & BLOCK_OFFSET);
	d->block = *b;
	t->displacing += (((b->a ^ addr) & BLOCK_OFFSET) != 0) & ((b->a & ~BLOCK_PASSED) != 0);
}

/* BLOCK is put in at ADDR, in page P if that is there; as blocks_put(). */
static inline bool blocks_put_in(struct blocks *t, struct block_page *p, raddr_t addr,
				 uint32_t place, struct block block, struct block *was)
{
	if (__builtin_expect(p != NULL, 1)) {
		struct block *b = blocks_chunk(t, p) + (place & p->mask);
		if (__builtin_expect(!(b->a & (BLOCK_USED | BLOCK_PASSED)), 1)) {
			blocks_displace(t, p, b, addr);
			p->count++;
			*b = block;
			was->a = 0;
			return true;
		}
	}
	return blocks_put_slowly(t, addr, block, was);
}

/* Whether nothing lives at an address with this PLACE in P, as far as one look can tell. */
static inline bool blocks_vacant(const struct blocks *t, const struct block_page *p, uint32_t place)
{
	return p && !(blocks_chunk(t, p)[place & p->mask].a & (BLOCK_USED | BLOCK_PASSED));
}

/* Where blocks_vacant() is true: as if a block had been put in and taken out again. */
static inline void blocks_leave(struct blocks *t, const struct block_page *p, raddr_t addr,
				uint32_t place, uint64_t size, uint32_t total, struct block stamp)
{
	struct block *b = &blocks_chunk(t, p)[place & p->mask];
	if (__builtin_expect((b->a ^ addr) & BLOCK_OFFSET, 0))
		blocks_displace(t, p, b, addr);
	*b = (struct block){ stamp.a | size << 14 | (addr & BLOCK_OFFSET), stamp.b | total };
}

/* B, found by blocks_get_in in page P, is no more. */
static inline void blocks_take_in(struct blocks *t, struct block_page *p, struct block *b,
				  struct block stamp)
{
	b->a = (b->a & ~(BLOCK_USED | 0xfull << 60)) | stamp.a;
	b->b = (b->b & 0xffffff) | stamp.b;
	if (__builtin_expect((uint16_t)--p->count & PAGE_COUNT, 1))
		return;
	if (p->count) { /* empty: its marks mean nothing any more */
		struct block *c = blocks_chunk(t, p);
		for (uint32_t i = 0; i <= p->mask; i++)
			c[i].a &= ~BLOCK_PASSED;
		p->count = 0;
	}
}

/* What a look-up of ADDR, whose page is P, will need is sent for. */
static inline void blocks_fetch(const struct blocks *t, const struct block_page *p, raddr_t addr,
				uint32_t place)
{
	if (p)
		__builtin_prefetch(blocks_chunk(t, p) + (place & p->mask), 1);
	else if (__builtin_expect(t->mix != NULL, 0))
		blocks_fetch_slowly(t, addr);
}

#endif
