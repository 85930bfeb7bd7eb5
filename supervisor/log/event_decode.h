/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * event_decode.h - STATE and EVENTS blocks of a log (format.h) back into a ledger. No I/O. Trusts
 * nothing: whatever is in a block, there is an answer to it, and memory stays within a few times
 * what was read, and 16 MB.
 *
 * The STATE and EVENTS blocks of one process are fed in order, beginning with any STATE that is
 * there whole. From there it is possible to jump to a later STATE: then the timeline has a gap, and
 * everything else is right.
 */
#ifndef MTRUN_EVENT_DECODE_H
#define MTRUN_EVENT_DECODE_H

#include "log/format.h"
#include "log/segment.h"

struct ledger;
struct log_decoder;

#define LOG_NEVER UINT64_MAX

/* L: from ledger_replay_new(), and borrowed as long as the decoder lives. NULL: out of memory. */
struct log_decoder *log_decoder_new(struct ledger *l) MUST_USE;
void log_decoder_free(struct log_decoder *d);

/*
 * Applies B, whose type, flags, raw and len are looked at, from *AT on, 0 to begin with. 0: all of
 * it. 1: the next thing would be that time comes to STOP_MS or later: *AT is where to go on (with
 * the same block, and another STOP_MS), and the ledger's present interval is the one before.
 * LOG_NEVER: not stopped. -EINVAL: something is not as it must be, -ENOMEM: then the ledger holds
 * what was applied before that, and only a STATE is taken from here on. (STOP_MS is to be a
 * multiple of TIMELINE_MS where an interval is wanted whole.)
 */
int log_decode(struct log_decoder *d, const struct log_block *b, uint64_t stop_ms,
	       size_t *at) MUST_USE;
/* Whether the ledger holds a moment: a STATE has been applied whole, nothing was wrong since. */
bool log_decoder_ready(const struct log_decoder *d);

/*
 * What the beginning of an EVENTS block says of it, into B's first_ms, last_ms and events; or a
 * STATE's. -EINVAL: it is not one, or it goes on with one.
 */
int log_decode_head(struct log_block *b) MUST_USE;

size_t log_decoder_memory(const struct log_decoder *d);

/*
 * How long the blocks of a stack were there, from the first STATE on: those of then, and those that
 * have come since.
 */
struct log_lifetime {
	uint32_t stack;
	uint64_t blocks;
	uint64_t block_ms; /* of all of them together */
};
/*
 * From now on these are added up. To be called before the first block. FROM_MS: when the record
 * begins; the first STATE's time is that of its latest event, which may be long before.
 */
void log_decoder_lifetimes(struct log_decoder *d, uint64_t from_ms);
/*
 * Of the ledger's total NUMBER. Those that are live have lived up to END_MS. False: it has had no
 * blocks.
 */
bool log_decoder_lifetime(const struct log_decoder *d, uint32_t number, uint64_t end_ms,
			  struct log_lifetime *out);

#endif
