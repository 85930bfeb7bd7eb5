/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * usable.h - what the allocator set aside for each live heap block of a process, as
 * malloc_usable_size() would say: read from the process' memory or computed from the allocator's
 * rules, never by calling into the process. Where the rules are not certain it is unknown, and why
 * is said. Caller's storage, nothing to free; good as long as the process stays as it is.
 */
#ifndef MTRUN_USABLE_H
#define MTRUN_USABLE_H

#include "base/types.h"

struct block_list;
struct ledger_block;

enum usable_rule { USABLE_UNKNOWN, USABLE_GLIBC, USABLE_JEMALLOC };

struct usable {	   /* usable_init() (usable_rule.h) */
	pid_t via; /* by which the memory of the process is read */
	enum usable_rule rule;
	char why[128]; /* USABLE_UNKNOWN: the reason, for people */
};

/*
 * Calls FN for each of BLOCKS, the live ones of the process, those of each page together, until it
 * returns nonzero; that is returned. -ENOMEM. The rule must be known. A mapping's is its size. What
 * the process has done to a block since never makes it less than the block's size.
 */
int usable_each(const struct usable *u, const struct block_list *blocks,
		int (*fn)(void *ctx, const struct ledger_block *b, uint64_t usable), void *ctx);
/* The sum over the heap. 0, -ENOMEM, or -ENOTSUP: the rule is not known. */
int usable_sum(const struct usable *u, const struct block_list *blocks, uint64_t *sum) MUST_USE;

/*
 * The rules alone. Of glibc: for a block of SIZE at ADDRESS with PREVIOUS and HEAD, the two words
 * before it.
 */
uint64_t usable_glibc(raddr_t address, uint64_t size, uint64_t previous, uint64_t head);
uint64_t usable_jemalloc(uint64_t size);

#endif
