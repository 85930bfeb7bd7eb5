/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stream.h - takes events out of a process' rings, puts them in order, and feeds the ledger. Trusts
 * nothing that it reads. No system call but the futex wake of a writer that waits for room.
 */
#ifndef MTRUN_STREAM_H
#define MTRUN_STREAM_H

#include "base/types.h"
#include "inject/wire_event.h"

struct ledger;
struct shared;
struct stream;

struct stream_stats {
	/* gaps: sequence numbers that were taken but never came (a thread killed in between) */
	uint64_t events, held_now, held_most, gaps;
	/* deep: how many of `truncated` were deeper than --depth; bad: what no hook writes */
	uint64_t dropped, truncated, deep, waited_ms, bad;
};

/*
 * OWN(CTX, STACK) says whether a mapping that was made with STACK is the program's own. SHARED,
 * LEDGER and CTX are borrowed. NULL: out of memory.
 */
struct stream *stream_new(struct shared *shared, struct ledger *ledger,
			  bool (*own)(void *ctx, uint32_t stack), void *ctx) MUST_USE;
void stream_free(struct stream *s);

/*
 * Takes what is there, about BUDGET slots of the rings at most; NOW: ms since tracing began.
 * Returns how many were taken: less than BUDGET means that the rings were empty, or stood still for
 * a ticket.
 */
size_t stream_take(struct stream *s, uint64_t now, size_t budget);
/*
 * Applies everything that was in the rings when called, but for events whose predecessors are still
 * missing after some milliseconds (stream_stats.held_now). Gaps older than a second, with ENDED
 * all, are given up.
 */
void stream_settle(struct stream *s, uint64_t now, bool ended);
/*
 * stream_settle() for one of several streams: all of them together wait *NAPS ms at most, which is
 * counted down.
 */
#define STREAM_NAPS 40u /* what stream_settle() may wait */
void stream_settle_within(struct stream *s, uint64_t now, bool ended, unsigned *naps);
/* What is applied from now on, held events included, goes to LEDGER (borrowed). */
void stream_switch(struct stream *s, struct ledger *ledger);
/* From now on few events are held: their order matters to nobody. */
void stream_hold_few(struct stream *s);
/* Bytes of the memory for held events, which does not shrink. */
uint64_t stream_memory(const struct stream *s);
/* The thread with the thread pointer FS has ended: takes the rest of its ring, frees its slot. */
void stream_thread_gone(struct stream *s, uint64_t now, uint64_t fs);
/*
 * FN is called after each event; events are applied one by one for that. FN may not call the
 * stream. CTX is borrowed. FN NULL: nobody is called.
 */
typedef void stream_watcher(void *ctx, uint32_t thread, struct wire_event e);
void stream_watch(struct stream *s, stream_watcher *fn, void *ctx);
void stream_stats(const struct stream *s, struct stream_stats *out);
/*
 * How many events of SLOT were taken so far, to be compared with the slot's `head`. SLOT
 * WIRE_THREADS: of handlers' events, to be compared with `signal_head`.
 */
uint64_t stream_taken(const struct stream *s, uint32_t slot);
/* How many events were taken and not applied yet; *BYTES: of the blocks that they say were given. */
size_t stream_held(const struct stream *s, uint64_t *bytes);
/* Sum of the target's counters minus events applied: 0 when nothing was lost or is pending. */
int64_t stream_missing(const struct stream *s);

#endif
