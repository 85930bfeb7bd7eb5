/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * profile_make.h - a profile of what a ledger holds: now, at its peak, or at a time in between.
 *
 * The sums by stack are in the ledger. Who allocated a block, how large each one is, how old, and
 * what is usable of it, is told by a list of its blocks of the same moment (ledger/block_list.h).
 */
#ifndef MTRUN_PROFILE_MAKE_H
#define MTRUN_PROFILE_MAKE_H

#include "base/types.h"
#include "process/profile.h"

struct block_list;
struct ledger;
struct usable;

enum profile_detail {
	PROFILE_PEAK = 1,    /* what was live at the peak */
	PROFILE_THREADS = 2, /* rows tell allocating threads apart; live blocks only */
	PROFILE_SIZES = 4,   /* rows tell block sizes apart; live blocks only */
	PROFILE_DEAD = 8,    /* also stacks that hold nothing */
	/* with _THREADS, _SIZES: stacks are not told apart, all are 0 */
	PROFILE_NO_STACKS = 16,
	/* what was live at the maximum of the interval that `at_ms` is in */
	PROFILE_PAST = 32,
};

struct profile_ask {
	unsigned detail;  /* enum profile_detail */
	unsigned counted; /* LEDGER_COUNT_*: which kinds are in it */
	uint64_t now_ms;
	uint64_t min_age_ms; /* only blocks at least this old; 0: all */
	uint64_t at_ms;
	/* NULL: not asked for; else its rule is known, and it is what is live now */
	const struct usable *usable;
};

/* Whether only single blocks can tell it. */
bool profile_needs_blocks(const struct profile_ask *ask);
/*
 * The sums by stack, in no order, without what only blocks can tell, into P, which is empty (it may
 * have room); for profile_settle(). 0, -ENOMEM, or -EINVAL if the peak or the
 * past is asked for in a detail that is not kept, or what is usable of it.
 */
int profile_from_ledger(struct profile *p, const struct ledger *ledger,
			const struct profile_ask *ask) MUST_USE;
/*
 * What only BLOCKS can tell. Where the sums are needed P has them, and keeps its rows. 0 or
 * -ENOMEM.
 */
int profile_add_blocks(struct profile *p, const struct block_list *blocks,
		       const struct profile_ask *ask) MUST_USE;

#endif
