/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * page_tally.h - pages in memory, and what of each is live. Pure arithmetic: told first which pages
 * there are, then which blocks, in any order; then asked. Whatever the addresses and sizes of
 * blocks are, each takes the same short time. Caller's storage.
 */
#ifndef MTRUN_PAGE_TALLY_H
#define MTRUN_PAGE_TALLY_H

#include "base/types.h"

struct tally_span { /* of pages in memory, without a gap */
	raddr_t start, end;
	size_t first; /* how many pages lie in the spans before */
	unsigned row; /* the caller's: what holds the pages that have no live byte */
};

struct page_tally { /* zeros: there are none */
	struct tally_span *span;
	size_t spans, room;
	size_t count; /* of pages */
	size_t hint;  /* the span found last */
	/* the page found last (blocks come page by page), and its number */
	raddr_t last;
	size_t last_number;
	/* by page: bytes of live blocks in it; of the blocks that do not fill it, the owner + 1 */
	uint16_t *live;
	uint32_t *owner;
	/* blocks that fill it: what is more than of the page before */
	int32_t *whole;
	/*
	 * owners whose groups are equal are one; beyond GROUPS or in group 0: each is one alone.
	 * Borrowed
	 */
	const uint32_t *group;
	size_t groups;
};

#define TALLY_NOBODY  0u
#define TALLY_SEVERAL UINT32_MAX

/* The next pages in memory, behind those before. 0 or -ENOMEM. */
int tally_add(struct page_tally *p, raddr_t start, raddr_t end, unsigned row) MUST_USE;
/* All are there. Of blocks nothing is known (any more). 0 or -ENOMEM. */
int tally_begin(struct page_tally *p) MUST_USE;
/* A block; OWNER is below UINT32_MAX - 1. One of no bytes counts as one of one. */
void tally_block(struct page_tally *p, raddr_t addr, uint64_t size, uint32_t owner);
/*
 * All blocks were told. FN for each run of pages of one span that are alike: LIVE bytes in each (0:
 * none, and OWNER is TALLY_NOBODY), OWNER: of all that is live there, plus 1; or TALLY_SEVERAL. A
 * page that one block fills is nobody's: it is full.
 */
struct tally_run {
	raddr_t start, end;
	unsigned row;
	unsigned live; /* in each page, at most PAGE */
	uint32_t owner;
};
void tally_each(const struct page_tally *p, void (*fn)(void *ctx, const struct tally_run *run),
		void *ctx);
void tally_release(struct page_tally *p);

#endif
