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

struct ledger;
struct ledger_block;

enum usable_rule { USABLE_UNKNOWN, USABLE_GLIBC, USABLE_JEMALLOC };

struct usable {			     /* usable_init() (usable_rule.h) */
	const struct ledger *ledger; /* of the process */
	pid_t via;		     /* by which its memory is read */
	enum usable_rule rule;
	char why[128]; /* USABLE_UNKNOWN: the reason, for people */
};

/*
 * Calls FN for each live block, in no order, until it returns nonzero; that is returned. -ENOMEM.
 * The rule must be known. A mapping's is its size. What the process does to a block meanwhile never
 * makes it less than the block's size.
 */
int usable_each(const struct usable *u,
		int (*fn)(void *ctx, const struct ledger_block *b, uint64_t usable), void *ctx);
/*
 * The sum over the heap. 0, -ENOMEM, -ENOTSUP: the rule is not known, or -EFBIG: the blocks begin
 * in more pages than PAGES, each of which costs about 0.6 us to read.
 */
int usable_sum(const struct usable *u, size_t pages, uint64_t *sum) MUST_USE;

/*
 * The rules alone. Of glibc: for a block of SIZE at ADDRESS with PREVIOUS and HEAD, the two words
 * before it.
 */
uint64_t usable_glibc(raddr_t address, uint64_t size, uint64_t previous, uint64_t head);
uint64_t usable_jemalloc(uint64_t size);

#endif
