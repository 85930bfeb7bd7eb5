// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

/*
 * A region ends before a gap of GAP bytes, and where an offset would not fit into 32 bits any more.
 * Its buckets are as wide as its blocks are apart, on average, so that there are never many more
 * buckets than blocks.
 */
#define GAP	      (1u << 20)
#define FILTER_LEAST  10u
#define FILTER_MOST   16u
#define GRANULE_SHIFT 21

/* Up to where addresses are found, INDEX_BEHIND included. */
static raddr_t end_of(const struct capture_block *b)
{
	uint64_t size = b->size == 0 ? 1 : b->size == 8 ? 9 : b->size;

	return b->address + size < b->address ? UINT64_MAX : b->address + size;
}

static unsigned bits_of(uint64_t n)
{
	unsigned bits = 0;

	while (n >> bits)
		bits++;
	return bits;
}

/* Blocks from FIRST on that are one region: the first that is not in it. */
static size_t region_end(const struct leaks_index *x, size_t first, raddr_t *end)
{
	raddr_t start = x->block[first].address;
	size_t i = first;

	*end = start;
	while (i < x->blocks) {
		const struct capture_block *b = &x->block[i];

		if (i > first && (b->address - start >= INDEX_BIG ||
				  (b->address > *end && b->address - *end >= GAP)))
			break;
		if (end_of(b) > *end)
			*end = end_of(b);
		i++;
	}
	/* one long block may reach into the next region: there it is not found, nor is its end */
	if (i<x->blocks && * end> x->block[i].address)
		*end = x->block[i].address;
	return i;
}

static int add_region(struct leaks_index *x, size_t first, size_t count, raddr_t end,
		      uint32_t *buckets)
{
	struct index_region *r = &x->region[x->regions];
	struct index_entry *entry = x->entries.base;
	uint64_t n;
	uint32_t *bucket;
	size_t i = first;

	*r = (struct index_region){ .start = x->block[first].address,
				    .first = (uint32_t)first,
				    .bucket = *buckets };
	r->span = end > r->start ? end - r->start : 1;
	r->shift = bits_of(r->span / count);
	n = (r->span - 1) >> r->shift;
	n++;
	if (n >= INDEX_NONE - *buckets - 1)
		return -E2BIG;
	if (arena_reach(&x->buckets, (*buckets + n + 1) * sizeof(*bucket)))
		return -ENOMEM;
	bucket = (uint32_t *)x->buckets.base + *buckets;
	for (uint64_t k = 0; k < n; k++) {
		while (i < first + count && x->block[i].address - r->start < k << r->shift)
			i++;
		bucket[k] = (uint32_t)i;
	}
	bucket[n] = (uint32_t)(first + count);
	for (i = first; i < first + count; i++) {
		const struct capture_block *b = &x->block[i];

		entry[i].offset = (uint32_t)(b->address - r->start);
		entry[i].size = b->size < INDEX_BIG ? (uint32_t)b->size : INDEX_BIG;
	}
	*buckets += (uint32_t)n + 1;
	x->regions++;
	return 0;
}

static int make_regions(struct leaks_index *x)
{
	uint32_t buckets = 0;
	size_t room = 0, next;
	raddr_t end;
	int err = 0;

	for (size_t i = 0; i < x->blocks; i = region_end(x, i, &end))
		room++;
	x->region = calloc(room + 1, sizeof(*x->region));
	if (!x->region || arena_reach(&x->entries, (x->blocks + 1) * sizeof(struct index_entry)))
		return -ENOMEM;
	for (size_t i = 0; i < x->blocks && !err; i = next) {
		next = region_end(x, i, &end);
		err = add_region(x, i, next - i, end, &buckets);
	}
	return err;
}

/*
 * Each granule that a region touches has a region's number in its place of the filter, the last
 * one's where several have one place. A region of more granules than the filter has places fills
 * it.
 */
static int make_filter(struct leaks_index *x)
{
	uint64_t granules = 0;
	unsigned bits;

	for (uint32_t i = 0; i < x->regions; i++)
		granules += (x->region[i].span >> GRANULE_SHIFT) + 2;
	bits = bits_of(granules * 4);
	bits = bits < FILTER_LEAST ? FILTER_LEAST : bits > FILTER_MOST ? FILTER_MOST : bits;
	x->filter_shift = 64 - bits;
	x->filter = malloc(sizeof(*x->filter) << bits);
	if (!x->filter)
		return -ENOMEM;
	memset(x->filter, 0xff, sizeof(*x->filter) << bits);
	for (uint32_t i = 0; i < x->regions; i++) {
		const struct index_region *r = &x->region[i];
		uint64_t first = r->start >> GRANULE_SHIFT,
			 last = (r->start + r->span - 1) >> GRANULE_SHIFT;

		if (last - first >= 1u << bits)
			for (size_t k = 0; k < 1u << bits; k++)
				x->filter[k] = i;
		else
			for (uint64_t g = first; g <= last; g++)
				x->filter[g * 0x9e3779b97f4a7c15ull >> x->filter_shift] = i;
	}
	return 0;
}

int index_init(struct leaks_index *x, const struct leaks_image *image)
{
	int err;

	*x = (struct leaks_index){ .block = image->block, .blocks = image->blocks };
	if (x->blocks > LEAKS_BLOCKS)
		return -E2BIG;
	err = make_regions(x);
	if (!err && x->regions) {
		const struct index_region *last = &x->region[x->regions - 1];

		x->low = x->region[0].start;
		x->span = last->start + last->span - x->low;
	}
	if (!err)
		err = make_filter(x);
	if (err)
		index_release(x);
	return err;
}

void index_release(struct leaks_index *x)
{
	free(x->region);
	free(x->filter);
	arena_release(&x->entries);
	arena_release(&x->buckets);
	*x = (struct leaks_index){ 0 };
}

uint32_t index_region_far(const struct leaks_index *x, raddr_t address)
{
	uint32_t low = 0, high = x->regions;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (x->region[middle].start <= address)
			low = middle;
		else
			high = middle;
	}
	return address - x->region[low].start < x->region[low].span ? low : INDEX_NONE;
}

uint32_t index_from(const struct leaks_index *x, raddr_t address)
{
	return (uint32_t)SEARCH(i, x->blocks, x->block[i].address < address);
}
