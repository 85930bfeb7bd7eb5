// SPDX-License-Identifier: GPL-3.0-or-later
#include "blocks/page_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "blocks/blocks.h"

/*
 * Asked seldom, and added to when a page gets its first block (or with the compact table each
 * time): then mostly to the leaf that was used last.
 */
#define PAGE_BITS      12u
#define LEAF_BITS      24u /* bytes of addresses */
#define LEAF_PAGE_BITS (LEAF_BITS - PAGE_BITS)
#define WORDS	       ((1u << LEAF_PAGE_BITS) / 64)
#define LEAVES	       32768u /* 16 MiB of memory, 512 GiB of addresses */

struct page_leaf {
	uint64_t number; /* address >> LEAF_BITS */
	uint64_t word[WORDS];
};

void page_set_release(struct page_set *s)
{
	free(s->leaf);
	free(s->index);
	*s = (struct page_set){ 0 };
}

int page_set_copy(struct page_set *to, const struct page_set *from)
{
	size_t room = from->room * sizeof(*from->leaf),
	       index = ((size_t)from->mask + 1) * sizeof(*from->index);

	*to = (struct page_set){ .full = from->full };
	if (!from->leaves)
		return 0;
	to->leaf = malloc(room);
	to->index = malloc(index);
	if (!to->leaf || !to->index) {
		page_set_release(to);
		return -ENOMEM;
	}
	memcpy(to->leaf, from->leaf, from->leaves * sizeof(*from->leaf));
	memcpy(to->index, from->index, index);
	to->leaves = from->leaves;
	to->room = from->room; /* a power of two, on which the index' mask rests */
	to->mask = from->mask;
	to->factor = from->factor;
	return 0;
}

static uint32_t slot(const struct page_set *s, uint64_t number)
{
	uint32_t i = (uint32_t)(number * s->factor >> 40) & s->mask;

	while (s->index[i] && s->leaf[s->index[i] - 1].number != number)
		i = (i + 1) & s->mask;
	return i;
}

static struct page_leaf *find(const struct page_set *s, uint64_t number)
{
	uint32_t n;

	if (s->last && s->leaf[s->last - 1].number == number)
		return &s->leaf[s->last - 1];
	n = s->leaves ? s->index[slot(s, number)] : 0;
	return n ? &s->leaf[n - 1] : NULL;
}

/* Twice the leaves, and an index for them that is half empty. */
static bool grow(struct page_set *s)
{
	uint32_t room = s->room ? s->room * 2 : 8, mask = room * 2 - 1;
	struct page_leaf *leaf;
	uint32_t *index;

	if (room > LEAVES)
		return false;
	leaf = realloc(s->leaf, room * sizeof(*leaf));
	if (!leaf)
		return false;
	s->leaf = leaf;
	index = calloc((size_t)mask + 1, sizeof(*index));
	if (!index)
		return false;
	free(s->index);
	s->index = index;
	s->mask = mask;
	s->room = room;
	if (!s->factor)
		s->factor = secret(0);
	for (uint32_t i = 0; i < s->leaves; i++)
		s->index[slot(s, s->leaf[i].number)] = i + 1;
	return true;
}

/* NULL: it is full. */
static struct page_leaf *make(struct page_set *s, uint64_t number)
{
	struct page_leaf *leaf = find(s, number);

	if (!leaf) {
		if (s->leaves == s->room && !grow(s)) {
			s->full = true;
			return NULL;
		}
		leaf = &s->leaf[s->leaves];
		*leaf = (struct page_leaf){ .number = number };
		s->index[slot(s, number)] = ++s->leaves;
	}
	s->last = (uint32_t)(leaf - s->leaf) + 1;
	return leaf;
}

/* Bits FROM to TO - 1 of a word; TO is at most 64. */
static uint64_t bits(unsigned from, unsigned to)
{
	return (to < 64 ? (1ull << to) - 1 : ~0ull) & ~0ull << from;
}

/* What of the pages FIRST to END - 1 lies in one word: *WORD of *LEAF, as bits. The next page. */
static uint64_t piece(uint64_t first, uint64_t end, uint64_t *number, uint32_t *word,
		      uint64_t *mask)
{
	uint64_t next = (first | 63) + 1;
	unsigned from = first & 63;

	next = next < end ? next : end;
	*number = first >> LEAF_PAGE_BITS;
	*word = (uint32_t)(first >> 6) % WORDS;
	*mask = bits(from, from + (unsigned)(next - first));
	return next;
}

void page_set_add(struct page_set *s, raddr_t addr, uint64_t len)
{
	uint64_t first = addr >> PAGE_BITS, number, mask, end;
	struct page_leaf *leaf;
	uint32_t word;

	len = !len ? 1 : len < PAGE_SET_SPAN ? len : PAGE_SET_SPAN;
	end = ((addr + len - 1) >> PAGE_BITS) + 1;
	while (first < end) {
		first = piece(first, end, &number, &word, &mask);
		leaf = make(s, number);
		if (!leaf)
			return;
		leaf->word[word] |= mask;
	}
}

/* Of the pages FIRST to END - 1, which are all LEAF's. */
static uint64_t count_in(const struct page_leaf *leaf, uint64_t first, uint64_t end)
{
	uint64_t number, mask, count = 0;
	uint32_t word;

	while (first < end) {
		first = piece(first, end, &number, &word, &mask);
		count += (unsigned)__builtin_popcountll(leaf->word[word] & mask);
	}
	return count;
}

/* Ranges are the target's to choose: one of many terabytes costs no more than all leaves do. */
uint64_t page_set_count(const struct page_set *s, raddr_t start, raddr_t end)
{
	uint64_t first = start >> PAGE_BITS, last = end >> PAGE_BITS, lowest, numbers, count = 0,
		 known = 0;

	if (first >= last)
		return 0;
	lowest = first >> LEAF_PAGE_BITS;
	numbers = ((last - 1) >> LEAF_PAGE_BITS) - lowest + 1;
	for (uint64_t i = 0; i < numbers && i < s->leaves; i++) {
		const struct page_leaf *leaf = numbers < s->leaves ? find(s, lowest + i)
								   : &s->leaf[i];
		uint64_t from, to;

		if (!leaf)
			continue;
		from = leaf->number << LEAF_PAGE_BITS;
		to = from + (1u << LEAF_PAGE_BITS);
		from = from > first ? from : first;
		to = to < last ? to : last;
		if (from >= to)
			continue;
		count += count_in(leaf, from, to);
		known += to - from;
	}
	return s->full ? count + (last - first - known) : count;
}

/* The first page from PAGE on that is in LEAF, or is not; or the number of its pages. */
static unsigned next_page(const struct page_leaf *leaf, unsigned page, bool member)
{
	while (page < 1u << LEAF_PAGE_BITS) {
		uint64_t word = leaf->word[page / 64], left;

		left = (member ? word : ~word) >> page % 64;
		if (left)
			return page + (unsigned)__builtin_ctzll(left);
		page = (page / 64 + 1) * 64;
	}
	return page;
}

bool page_set_run(const struct page_set *s, uint64_t *at, raddr_t *start, raddr_t *end)
{
	while (*at >> LEAF_PAGE_BITS < s->leaves) {
		uint64_t i = *at >> LEAF_PAGE_BITS;
		const struct page_leaf *leaf = &s->leaf[i];
		raddr_t base = leaf->number << LEAF_BITS;
		unsigned from = next_page(leaf, (unsigned)*at & ((1u << LEAF_PAGE_BITS) - 1), true),
			 to = next_page(leaf, from, false);

		*at = (i << LEAF_PAGE_BITS) + to;
		if (from == to)
			continue;
		*start = base + ((raddr_t)from << PAGE_BITS);
		*end = base + ((raddr_t)to << PAGE_BITS);
		return true;
	}
	return false;
}

size_t page_set_memory(const struct page_set *s)
{
	return s->room * (sizeof(*s->leaf) + 2 * sizeof(*s->index));
}
