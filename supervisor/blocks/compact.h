/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * compact.h - live blocks by address in as little memory as they need: one hash table, 16 bytes an
 * entry, 13 of 16 in use at most.
 *
 * An entry has no room for the whole address: it is a number of 44 bits, scrambled one to one; 4
 * bits of that follow from where the entry is, the other 40 are in it. Blocks that cannot be said
 * so (compact_fits) must go elsewhere: those not aligned to 8, of 1 MiB and more.
 *
 * Measured with tests/bench/ledger.c on two busy cores, from the ring to the end of the ledger, ns
 * an event: pairs 33; 10^4, 10^5 and 10^6 live blocks, one replaced at random, 71, 89 and 176.
 * Bytes for a live block: 21 whatever the heap is like. With 7 of 8 in use instead of 13 of 16:
 * 19.4, and 84, 102 and 205 ns.
 */
#ifndef MTRUN_COMPACT_H
#define MTRUN_COMPACT_H

#include "blocks/blocks.h"

/*
 *       63                 24 23      4 3     0
 *  a   |      tag (40)       | size (20)|tick hi|     sorted by tag
 *  b   |      as in struct block                |     0: no entry. (Else its total is not 0.)
 */
struct compact_entry {
	uint64_t a, b;
};

/* Entries whose scrambled addresses begin with the same bits. */
struct compact_segment {
	/* those bits; of a segment that is not in use: the next such, plus 1 */
	uint32_t prefix;
	uint8_t depth;	/* how many */
	uint8_t pages;	/* of memory; 0: not in use */
	uint16_t count; /* of entries */
};

struct compact {
	uint32_t *directory; /* the segment by the first `depth` bits */
	unsigned depth;
	struct compact_segment *segment;
	/* room: reserved, also in `base`; idle: first segment not in use, plus 1 */
	uint32_t segments, room, idle;
	/* segments before this one are empty, compact_drain() was there */
	uint32_t drained;
	/* segment I is at I * 64 KiB; only what it uses of that is ever touched */
	uint8_t *base;
	size_t count; /* of entries */
	size_t pages; /* of 4 KiB, in use by all segments */
	/* random: the target must not be able to choose addresses that collide */
	uint64_t factor[2], inverse[2];
	struct compact_freed *freed; /* a ring of those that were taken out last */
	uint64_t taken;
};

#define COMPACT_SEGMENT 4096u /* more entries no segment has */

int compact_init(struct compact *c) MUST_USE;
void compact_release(struct compact *c);
/* A copy that shares nothing. TO is uninitialised storage. */
int compact_copy(struct compact *to, const struct compact *from) MUST_USE;
size_t compact_memory(const struct compact *c);

bool compact_fits(raddr_t addr, const struct block *b);
bool compact_get(const struct compact *c, raddr_t addr, struct block *out);
/*
 * B, which fits, lives at ADDR; what lived there is in *WAS, of which `a` is 0 if nothing did.
 * -ENOMEM, also if the table can have no more entries there.
 */
int compact_put(struct compact *c, raddr_t addr, const struct block *b, struct block *was) MUST_USE;
/* What lives at ADDR is in *OUT and no longer in the table. False: nothing does. */
bool compact_take(struct compact *c, raddr_t addr, struct block *out);
/* Whether something lives at ADDR: it gets BLOCK_COUNTED. */
bool compact_count(struct compact *c, raddr_t addr);
void compact_fetch(const struct compact *c, raddr_t addr);

/* B, that was at ADDR, was taken out: blocks_freed() of the last of them. B has the stamp. */
void compact_remember(struct compact *c, raddr_t addr, const struct block *b);
bool compact_freed(const struct compact *c, raddr_t addr, raddr_t *start, struct block *out);
bool compact_left(const struct compact *c, raddr_t addr, struct block *out);

/* Part of blocks_walk(). */
bool compact_walk(const struct compact *c, struct blocks_walk *w);
/*
 * Part of blocks_pass(): all whose hash is at least *AT, in its order, until FN was told of N or
 * some thousands more. Whether there are more, from *AT on.
 */
bool compact_pass(const struct compact *c, uint64_t *at, size_t n,
		  void (*fn)(void *ctx, raddr_t addr, const struct block *b), void *ctx);
/*
 * Takes out up to COMPACT_SEGMENT blocks, any: how many; 0: there are no more. Nothing may be put
 * in from the first call on until the last.
 */
size_t compact_drain(struct compact *c, raddr_t *addr, struct block *b);

#endif
