/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stream_rig.h - a stream that reads a pretended target (pretended.h), and what it does meanwhile. */
#include "ledger/ledger_state.h"
#include "pretended.h"
#include "test.h"
#include "transport/shared.h"
#include "transport/stream.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static uint64_t seed = 88172645463325252ull;
static inline uint64_t rnd(void) { return test_random(&seed); }

static inline bool odd_stack(void *ctx, uint32_t stack)
{
	(void)ctx;
	return stack & 1;
}

static inline struct ledger_totals totals(struct ledger *l)
{
	struct ledger_totals t;
	ledger_totals(l, &t);
	return t;
}

static inline struct stream_stats stats(struct stream *s)
{
	struct stream_stats t;
	stream_stats(s, &t);
	return t;
}

#define BOTH (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP)

struct rig {
	struct wire_process *w;
	struct shared *shared;
	struct ledger *l;
	struct stream *s;
};

static inline struct rig rig_new(unsigned threads)
{
	struct rig r = { .w = target_new(), .l = ledger_new(BOTH) };
	r.shared = malloc(sizeof(*r.shared));
	*r.shared = target_shared(r.w);
	r.s = stream_new(r.shared, r.l, odd_stack, NULL);
	r.w->threads_high = threads;
	for (unsigned i = 0; i < threads; i++) {
		r.w->thread[i].fs = 0x1000 * (i + 1);
		target_big(r.w, i);
	}
	return r;
}

static inline void rig_free(struct rig *r)
{
	stream_free(r->s);
	ledger_free(r->l);
	free(r->shared);
	target_free(r->w);
}

/* What the target does while an answer waits for what is on its way. */
static void (*meanwhile)(struct rig *r);
static struct rig *waiting;
static unsigned naps;

int nanosleep(const struct timespec *t, struct timespec *left)
{
	naps++;
	if (!meanwhile)
		return clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
	meanwhile(waiting);
	return 0;
}

static inline void settle(struct rig *r, uint64_t ms, bool ended, void (*fn)(struct rig *r))
{
	meanwhile = fn;
	waiting = r;
	naps = 0;
	stream_settle(r->s, ms, ended);
	meanwhile = NULL;
}

static inline void leave(struct wire_process *w, unsigned t, uint64_t a)
{
	store(w, t, wire_pack(WIRE_LEAVE, a, number(w, a), 0, 0));
}

static inline void became(struct wire_process *w, unsigned t, uint64_t a, uint32_t size,
			  uint32_t stack)
{
	store(w, t, wire_pack(WIRE_BECAME, a, number(w, a), size, stack));
}

static inline void map(struct wire_process *w, unsigned t, uint64_t a, uint64_t len, uint32_t stack,
		       uint64_t tick)
{
	store2(w, t, wire_pack(WIRE_MAP, a, 0, 3 | WIRE_MAP_ANON, stack), len, tick);
}

/* All that was stored has been applied, in order. */
static inline void check_whole(const struct rig *r)
{
	CHECK_EQ(totals(r->l).unknown_frees, 0);
	CHECK_EQ(stream_missing(r->s), 0);
	CHECK_EQ(stats(r->s).held_now, 0);
	CHECK_EQ(stats(r->s).gaps, 0);
	CHECK_EQ(stats(r->s).bad, 0);
}
