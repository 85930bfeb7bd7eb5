/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ledger_changes.h - all that ever happens to a ledger's stack totals, as it is told to whoever
 * writes it down (log/event_encode.c).
 */
#ifndef MTRUN_LEDGER_CHANGES_H
#define MTRUN_LEDGER_CHANGES_H

#include "base/types.h"

/* What happens to a stack's total. The first four are of heap blocks. */
enum log_kind {
	LOG_ALLOC,
	LOG_FREE,
	LOG_FREE_TEMPORARY, /* it was the last that its thread had allocated */
	/* allocated, and freed at once, below the highest moment of the interval: count is 1 */
	LOG_PAIR,
	/*
	 * accessible bytes of its mappings become more or (negative) less; count: mappings that
	 * have any
	 */
	LOG_GRANT,
	LOG_GRANTED, /* so many bytes more in all, by COUNT calls */
	LOG_KINDS
};
#define LEDGER_SAMPLED 4u /* beside LEDGER_COUNT_*: some blocks stand for others */

/*
 * Called before a change is made, so that all that was told before is what the ledger holds. TOTAL
 * is its number of a stack.
 */
struct ledger_listener {
	void *ctx;
	void (*change)(void *ctx, enum log_kind kind, uint32_t total, uint64_t bytes,
		       uint64_t count);
	void (*time)(void *ctx, uint64_t ms);
};

#endif
