/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * page_set.h - a set of pages (4 KiB) of a process: those that blocks have ever been in. A bit a
 * page, in leaves of 16 MiB of addresses that come when they are needed. It has an end: addresses
 * are the target's word. Where a leaf could not be had any more (`full`) all pages count as
 * members.
 */
#ifndef MTRUN_PAGE_SET_H
#define MTRUN_PAGE_SET_H

#include "base/types.h"

/* of one page_set_add(), so that a forged size costs little: what lies behind is left out */
#define PAGE_SET_SPAN ((uint64_t)4 << 30)

struct page_leaf;

struct page_set { /* all zeros: empty */
	struct page_leaf *leaf;
	uint32_t leaves, room;
	uint32_t *index; /* by hash: a leaf's number + 1 */
	uint32_t mask;
	uint64_t factor; /* the hash's: secret() */
	uint32_t last;	 /* number + 1 of the leaf that was used last */
	bool full;
};

void page_set_release(struct page_set *s);
/* A copy that shares nothing. TO is uninitialised storage. 0 or -ENOMEM: it is empty. */
int page_set_copy(struct page_set *to, const struct page_set *from) MUST_USE;
/* The pages that have any of the LEN bytes from ADDR on; LEN 0 is as 1. */
void page_set_add(struct page_set *s, raddr_t addr, uint64_t len);
/* How many of the pages of [START, END), page multiples, are in it. */
uint64_t page_set_count(const struct page_set *s, raddr_t start, raddr_t end);
/*
 * The runs of neighbouring pages that are in it, leaf by leaf, in no order: from *AT on, which is 0
 * at first, into [*START, *END). False: there are no more. Not for a full one.
 */
bool page_set_run(const struct page_set *s, uint64_t *at, raddr_t *start, raddr_t *end);
size_t page_set_memory(const struct page_set *s);

#endif
