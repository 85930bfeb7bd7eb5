/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stream.h - takes events out of a process' rings, puts them in order, and feeds the ledger. Trusts
 * nothing that it reads. No system call but the futex wake of a writer that waits for room.
 */
#ifndef MTRUN_STREAM_H
#define MTRUN_STREAM_H

#include "base/types.h"
#include "inject/wire.h"

struct ledger;
struct shared;
struct stream;

struct stream_stats {
	/* gaps: numbers that were taken but never came (a thread killed in between) */
	uint64_t events, held_now, held_most, gaps;
	/* deep: of the truncated ones; bad: malformed, ignored */
	uint64_t dropped, truncated, deep, waited_ms, bad;
};

/*
 * OWN(ctx, stack) says whether a mapping whose innermost frame is that of STACK is the program's
 * own. Both pointers are borrowed.
 */
struct stream *stream_new(struct shared *shared, struct ledger *ledger,
			  bool (*own)(void *ctx, uint32_t stack), void *ctx) MUST_USE;
void stream_free(struct stream *s);

/*
 * Takes what is there, at most about BUDGET events; NOW is our clock in ms since tracing began.
 * Returns how many were taken: less than BUDGET means that the rings were empty when looked at.
 */
size_t stream_take(struct stream *s, uint64_t now, size_t budget);
/*
 * Everything that was in the rings when called is applied when it returns; gaps older than a second
 * (or, with ENDED, all) are given up.
 */
void stream_settle(struct stream *s, uint64_t now, bool ended);
/*
 * What comes from now on is LEDGER's (borrowed), events that are held still among it; its threads
 * are those that there are.
 */
void stream_switch(struct stream *s, struct ledger *ledger);
/* From now on few events are held: what they say matters to nobody. */
void stream_hold_few(struct stream *s);
/* Bytes that are taken by events that are held, now or before. */
uint64_t stream_memory(const struct stream *s);
/*
 * The thread that owns slot with thread pointer FS ended: take the rest of its ring, free the slot.
 */
void stream_thread_gone(struct stream *s, uint64_t now, uint64_t fs);
/*
 * FN is called after each event, which are applied one by one for that; it may take none itself.
 * CTX is borrowed. NULL: nobody is.
 */
typedef void stream_watcher(void *ctx, uint32_t thread, struct wire_event e);
void stream_watch(struct stream *s, stream_watcher *fn, void *ctx);
void stream_stats(const struct stream *s, struct stream_stats *out);
/*
 * How many events of SLOT were taken out so far: compares with the slot's `head`. WIRE_THREADS:
 * what was ready of handlers' events, as `signal_head`.
 */
uint64_t stream_taken(const struct stream *s, uint32_t slot);
/*
 * Events that were taken out and not applied yet; *BYTES: of the blocks that they say were given.
 */
size_t stream_held(const struct stream *s, uint64_t *bytes);
/*
 * Sum of the target's address counters minus events applied: 0 when nothing was lost or is pending.
 */
int64_t stream_missing(const struct stream *s);

#endif
