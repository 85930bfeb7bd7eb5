/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * prefixes.h - pointers into the middle of a block, and which of them are how its owner holds it.
 *
 * Much software puts a few bytes of its own before what it hands out: a length, a reference count,
 * a list's links. Nothing points to the beginning of such a block, so memcheck's rule (only a
 * pointer to the beginning is a sure one) would call 39 to 99 % of a program's blocks possibly
 * lost. An offset is usual where many blocks from one stack, or from stacks of one family
 * (memory_image.h), are pointed to there; and it is recognised where the block's own bytes say what
 * its prefix is.
 *
 * Offsets are numbered by family while memory is swept, so that a pointer can be remembered in 4
 * bytes with its offset: 0 is the beginning, 1 to 14 are the first 14 others that were seen, 15 is
 * all the rest. Of a family with few blocks nothing can be learnt; its places 1 to 14 are offsets
 * that known prefixes have.
 *
 * The first 14 need not be the usual ones: while sqlite3 balances its tree, an array points to the
 * cells of some pages, each at an offset of its own. So what comes later is counted by a hash, its
 * crowd. Where that says that an offset without a place may be usual, and a block would be possibly
 * lost for it, memory is swept once more: then only the usual offsets keep their places, and only
 * such get one of which the crowd has seen enough.
 */
#ifndef MTRUN_LEAKS_PREFIXES_H
#define MTRUN_LEAKS_PREFIXES_H

#include <pthread.h>

#include "base/arena.h"
#include "leaks/memory_image.h"

#define PLACE_BITS    4u
#define PLACE_START   0u
#define PLACE_OTHER   15u
#define PREFIX_PLACES (PLACE_OTHER - 1)

enum prefix {
	PREFIX_UNKNOWN,
	PREFIX_SDS,    /* redis' strings: lengths and a type before the text */
	PREFIX_LENGTH, /* the size of the rest (sqlite3, many wrappers of malloc) */
	PREFIX_ARRAY,  /* new[]: how many objects there are */
	PREFIX_STRING, /* std::string with a reference count: length, capacity, count */
	PREFIX_GC,     /* Python's list of all containers */
	PREFIX_COUNTS, /* Rust's Arc and Rc: two counts of references */
	PREFIX_BASE,   /* multiple inheritance: the second class's table */
	PREFIX_DTV,    /* glibc's vector of a thread's thread-local blocks: its length */
	PREFIX_ALIGNED, /* aligned by hand: it knows the beginning's address, or it could not be freed */
	PREFIX_TREE,  /* glibc's tsearch(): a red node's pointer to its left one has a bit set */
	PREFIX_TABLE, /* hashbrown, Rust's HashMap: the entries */
	PREFIXES
};
/* "sds", "GC head", ...; of UNKNOWN "learnt". */
const char *prefix_name(enum prefix prefix);
/*
 * What prefix B's own bytes say that it has, if it is held at OFFSET. UNKNOWN: none that is known.
 */
enum prefix prefix_recognise(const struct leaks_image *image, const struct capture_block *b,
			     uint64_t offset);

/*
 * hashbrown's tables are held where their control bytes begin, behind the entries: an offset that
 * is another one for each size, so that no place can be learnt. Such a pointer counts as one to the
 * beginning.
 */
#define TABLE_GROUP 16u /* control bytes that are compared at a time; so many stand twice */
bool prefix_is_table(const struct leaks_image *image, const struct capture_block *b,
		     uint64_t offset);
/*
 * Whether the sizes are those of such a table: an entry has a byte at least. Few other blocks'
 * are, but for what is held behind 16 bytes, as all of Python's containers are.
 */
static inline bool prefix_may_be_table(const struct capture_block *b, uint64_t offset)
{
	uint64_t buckets = b->size - offset - TABLE_GROUP;

	return !(offset % TABLE_GROUP) && offset < b->size && b->size - offset > TABLE_GROUP &&
	       buckets >= 4 && !(buckets & (buckets - 1)) && offset >= buckets &&
	       (offset > 16 || buckets == 4);
}

/* B has 8 bytes: what new[] asks for if there are no objects. */
bool prefix_is_empty_array(const struct leaks_image *image, const struct capture_block *b);

struct prefix_stack {
	uint32_t stack, family; /* index of the latter */
};
struct prefix_family {
	uint64_t number;
	uint32_t blocks;
	uint32_t first; /* of its offsets: index + 1 in `offset`; 0: it has none of its own */
	uint32_t crowd; /* index + 1 in `crowd`; 0: all its offsets have places */
	bool missed;	/* once settled: one without a place may be usual */
};
#define CROWD_BITS 7u
struct prefix_crowd {
	uint32_t words[1u << CROWD_BITS]; /* that point to offsets without a place, by their hash */
};
struct prefix_offset {
	uint32_t bytes;	 /* 0: not in use */
	uint32_t blocks; /* how many are pointed to there */
	uint8_t kind;	 /* enum prefix, of those that were looked at (`tries`), the last known */
	uint8_t tries;
};

struct prefixes {
	const struct leaks_image *image;
	struct arena table; /* uint32_t by a hash of the stack: its number + 1, 0: none */
	unsigned bits;	    /* of the table */
	struct arena stack; /* struct prefix_stack, by number */
	uint32_t stacks;
	struct arena family_table; /* the same of families */
	unsigned family_bits;
	struct arena family; /* struct prefix_family */
	uint32_t families;
	struct arena offset; /* struct prefix_offset, PREFIX_PLACES for a family that has any */
	uint32_t offsets;
	struct arena crowd; /* struct prefix_crowd */
	uint32_t crowds, most_crowds;
	/*
	 * uint16_t a block: where it is pointed into, a bit a place; once settled, the places of
	 * its family that are usual
	 */
	struct arena seen;
	pthread_mutex_t lock; /* of new entries in `offset` and `crowd` */
};

int prefixes_init(struct prefixes *p, const struct leaks_image *image) MUST_USE;
void prefixes_release(struct prefixes *p);

/* The number, below p->stacks, of a stack that some block is from. */
uint32_t prefixes_stack(const struct prefixes *p, uint32_t stack);

/*
 * Something points INTO bytes, more than none, behind the beginning of BLOCK: its place, which is
 * learnt from this. Two threads may ask at a time.
 */
unsigned prefixes_learn(struct prefixes *p, uint32_t block, uint64_t into);
/* prefixes_learn() without learning. */
unsigned prefixes_place(const struct prefixes *p, uint32_t block, uint64_t into);
/* What that will need of BLOCK is sent for. */
static inline void prefixes_fetch(const struct prefixes *p, uint32_t block)
{
	__builtin_prefetch(&p->image->block[block].stack);
	__builtin_prefetch((const uint16_t *)p->seen.base + block, 1);
}
/* All memory was looked at: what is usual is known from now on. */
void prefixes_settle(struct prefixes *p);
/* The places of BLOCK's family that are usual, a bit each. */
static inline unsigned prefixes_usual(const struct prefixes *p, uint32_t block)
{
	return ((const uint16_t *)p->seen.base)[block];
}
/* Settled: whether an offset of BLOCK's family that found no place may be a usual one. */
bool prefixes_missed(const struct prefixes *p, uint32_t block);
/* All memory will be looked at once more: such offsets get places. */
void prefixes_again(struct prefixes *p);
/* The offset of PLACE of BLOCK's family, in bytes; 0: not known. */
uint64_t prefixes_offset(const struct prefixes *p, uint32_t block, unsigned place);
/* What it is the end of, where it is usual. */
enum prefix prefixes_kind(const struct prefixes *p, uint32_t block, unsigned place);

#endif
