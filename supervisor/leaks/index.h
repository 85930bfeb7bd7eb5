/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * index.h - which live block an address is in. The heart of the scan: it is asked for every word of
 * memory that could be an address.
 *
 *	filter	 by a hash of address >> 21: where a region may be, or that there is none
 *	regions	 parts of the address space with blocks, with no wide gap in between
 *	buckets	 of 512 bytes or so, as many as there are blocks: the first block that begins there
 *	entries	 8 bytes a block: where it begins in its region, and its size
 *
 * 12 bytes a block. What a look-up needs can be sent for one step ahead (the three functions
 * below), so that many are under way at a time: 10^8 of them a second. Buckets of 16 bytes, with
 * what is in the entries, save a step and are no faster: 4.3 s for 10^7 blocks either way.
 */
#ifndef MTRUN_LEAKS_INDEX_H
#define MTRUN_LEAKS_INDEX_H

#include "base/arena.h"
#include "leaks/memory_image.h"

#define INDEX_NONE UINT32_MAX
#define INDEX_BIG  UINT32_MAX /* entry.size: look at the block itself */
/* *INTO of an address that is right behind a block of 8 bytes */
#define INDEX_BEHIND UINT64_MAX

struct index_region {
	raddr_t start;
	uint64_t span;	 /* up to the end of its last block, one byte at least */
	uint32_t first;	 /* its first block, */
	uint32_t bucket; /* and bucket */
	uint32_t shift;	 /* of addresses to buckets */
};

struct index_entry {
	uint32_t offset, size;
};

struct leaks_index {
	const struct capture_block *block;
	size_t blocks;
	raddr_t low; /* no block is outside of this and `span` bytes */
	uint64_t span;
	struct index_region *region;
	uint32_t regions;
	unsigned filter_shift;
	uint32_t *filter;     /* a region's number */
	struct arena entries; /* struct index_entry */
	struct arena buckets; /* uint32_t; one more than a region has, each time */
};

/* IMAGE's blocks; borrowed. 0, -ENOMEM, -E2BIG: they are too many. */
int index_init(struct leaks_index *x, const struct leaks_image *image) MUST_USE;
void index_release(struct leaks_index *x);
/* The region of ADDRESS, whichever that is. */
uint32_t index_region_far(const struct leaks_index *x, raddr_t address);
/* The first block that begins at ADDRESS or above, or how many blocks there are. */
uint32_t index_from(const struct leaks_index *x, raddr_t address);

/* A quick no for most words that are no addresses. */
static inline bool index_may(const struct leaks_index *x, uint64_t word)
{
	return word - x->low < x->span;
}

/* The number of the region that WORD, of which index_may() is true, is in, or INDEX_NONE. */
static inline uint32_t index_region(const struct leaks_index *x, uint64_t word)
{
	uint32_t r = x->filter[(word >> 21) * 0x9e3779b97f4a7c15ull >> x->filter_shift];

	if (r == INDEX_NONE || word - x->region[r].start < x->region[r].span)
		return r;
	return index_region_far(x, word);
}

static inline const uint32_t *index_bucket(const struct leaks_index *x,
					   const struct index_region *r, uint64_t word)
{
	return (const uint32_t *)x->buckets.base + r->bucket + ((word - r->start) >> r->shift);
}

static inline const struct index_entry *index_entry(const struct leaks_index *x, uint32_t block)
{
	return (const struct index_entry *)x->entries.base + block;
}

/*
 * The block in region R that WORD is in, *INTO how far, or INDEX_NONE. A block of no bytes has one
 * for this; what is right behind one of 8 bytes is said to be so.
 */
static inline uint32_t index_find_in(const struct leaks_index *x, const struct index_region *r,
				     uint64_t word, uint64_t *into)
{
	const uint32_t *bucket = index_bucket(x, r, word);
	uint32_t low = bucket[0], high = bucket[1];
	uint64_t at = word - r->start, size;

	while (high - low > 8) {
		uint32_t middle = low + (high - low) / 2;

		if (index_entry(x, middle)->offset <= at)
			low = middle;
		else
			high = middle;
	}
	while (low < high && index_entry(x, low)->offset <= at)
		low++;
	if (low == r->first)
		return INDEX_NONE;
	low--;
	size = index_entry(x, low)->size;
	if (size == INDEX_BIG)
		size = x->block[low].size;
	*into = at - index_entry(x, low)->offset;
	if (*into < size || !*into)
		return low;
	if (*into != 8 || size != 8)
		return INDEX_NONE;
	*into = INDEX_BEHIND;
	return low;
}

/* index_may(), index_region() and index_find_in() at once, for single questions. */
static inline uint32_t index_find(const struct leaks_index *x, uint64_t word, uint64_t *into)
{
	uint32_t r = index_may(x, word) ? index_region(x, word) : INDEX_NONE;

	return r == INDEX_NONE ? r : index_find_in(x, &x->region[r], word, into);
}

#endif
