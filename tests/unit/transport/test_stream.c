// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stream against a pretended target. One that plays all its threads by turns, so that the true
 * order is known and any delay between taking a number and storing the event can be played; one of
 * real threads that share a small heap; and one that stores whatever it likes.
 */
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
static uint64_t rnd(void) { return test_random(&seed); }

static bool odd_stack(void *ctx, uint32_t stack)
{
	(void)ctx;
	return stack & 1;
}

static struct ledger_totals totals(struct ledger *l)
{
	struct ledger_totals t;
	ledger_totals(l, &t);
	return t;
}

static struct stream_stats stats(struct stream *s)
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

static struct rig rig_new(unsigned threads)
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

static void rig_free(struct rig *r)
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

static void settle(struct rig *r, uint64_t ms, bool ended, void (*fn)(struct rig *r))
{
	meanwhile = fn;
	waiting = r;
	naps = 0;
	stream_settle(r->s, ms, ended);
	meanwhile = NULL;
}

static void leave(struct wire_process *w, unsigned t, uint64_t a)
{
	store(w, t, wire_pack(WIRE_LEAVE, a, number(w, a), 0, 0));
}

static void became(struct wire_process *w, unsigned t, uint64_t a, uint32_t size, uint32_t stack)
{
	store(w, t, wire_pack(WIRE_BECAME, a, number(w, a), size, stack));
}

static void map(struct wire_process *w, unsigned t, uint64_t a, uint64_t len, uint32_t stack,
		uint64_t tick)
{
	store2(w, t, wire_pack(WIRE_MAP, a, 0, 3 | WIRE_MAP_ANON, stack), len, tick);
}

/* All that was stored has been applied, in order. */
static void check_whole(const struct rig *r)
{
	CHECK_EQ(totals(r->l).unknown_frees, 0);
	CHECK_EQ(stream_missing(r->s), 0);
	CHECK_EQ(stats(r->s).held_now, 0);
	CHECK_EQ(stats(r->s).gaps, 0);
	CHECK_EQ(stats(r->s).bad, 0);
}

/* ---- small cases --------------------------------------------------------- */

static void test_one_thread(void)
{
	struct rig r = rig_new(1);
	begin(r.w, 0, 77);
	at_ms(r.w, 0, 20);
	alloc(r.w, 0, 0x1000, 100, 3);
	alloc(r.w, 0, 0x2000, 100000, 5);
	at_ms(r.w, 0, 41);
	leave(r.w, 0, 0x1000);
	became(r.w, 0, 0x3000, 200, 7);
	release(r.w, 0, 0x2000);
	map(r.w, 0, 0x7f0000000000, 8192, 9, ticket(r.w));
	map(r.w, 0, 0x7f0000100000, 8192, 8, ticket(r.w)); /* not its own */
	store2(r.w, 0, wire_pack(WIRE_UNMAP, 0x7f0000001000, 0, 0, 0), 4096, ticket(r.w));
	store2(r.w, 0, wire_pack(WIRE_BREAK, 0x601000, 0, 0, 11), 0x600000, ticket(r.w));
	store2(r.w, 0, wire_pack(WIRE_PROTECT, 0x7f0000000000, 0, 0, 11), 4096, ticket(r.w));
	CHECK(stream_take(r.s, 45, 10000) < 10000);
	struct ledger_totals t = totals(r.l);
	CHECK_EQ(t.heap, 200);
	CHECK_EQ(t.mmap, 4096);
	CHECK_EQ(t.peak, 100200);
	CHECK_EQ(t.peak_ms, 41);
	CHECK_EQ(t.allocs, 3);
	CHECK_EQ(t.maps, 2);
	CHECK_EQ(r.w->thread[0].tail, r.w->thread[0].head);
	CHECK_EQ(stream_missing(r.s), 0);
	CHECK_EQ(stats(r.s).events, 10);
	struct ledger_block b;
	CHECK(ledger_find(r.l, 0x3000, &b) && b.ms == 40 &&
	      ledger_thread_tid(r.l, b.thread) == 77 && b.stack == 7);
	stream_thread_gone(r.s, 50, 0x1000);
	CHECK_EQ(r.w->thread[0].fs, 1);
	begin(r.w, 0, 77);  /* the same number, another thread */
	at_ms(r.w, 0, 500); /* a time to come is now */
	alloc(r.w, 0, 0x1000, 1, 1);
	stream_settle(r.s, 60, false);
	CHECK(ledger_find(r.l, 0x1000, &b) && b.ms == 60 && b.thread == 1);
	rig_free(&r);
}

static void test_held(void)
{
	struct rig r = rig_new(2);
	alloc(r.w, 0, 0x1000, 10, 1);
	stream_take(r.s, 1, 1000);
	/* thread 1's free took its number and is not stored yet */
	uint32_t early = number(r.w, 0x1000);
	alloc(r.w, 0, 0x1000, 20, 1);
	release(r.w, 0, 0x1000);
	alloc(r.w, 0, 0x1000, 30, 1);
	stream_take(r.s, 2, 1000);
	CHECK_EQ(totals(r.l).heap, 10);
	CHECK_EQ(stats(r.s).held_now, 3);
	CHECK_EQ(stream_missing(r.s), 4);
	store(r.w, 1, wire_pack(WIRE_FREE, 0x1000, early, 0, 0));
	stream_take(r.s, 3, 1000);
	CHECK_EQ(totals(r.l).heap, 30);
	CHECK_EQ(totals(r.l).allocs, 3);
	check_whole(&r);

	/* one that never comes, and one that comes late */
	number(r.w, 0x5000);
	early = number(r.w, 0x5000);
	alloc(r.w, 0, 0x5000, 7, 1);
	stream_take(r.s, 4, 1000);
	CHECK_EQ(totals(r.l).heap, 30);
	/* an answer has it: nothing else lives there */
	stream_settle(r.s, 5, false);
	CHECK_EQ(totals(r.l).heap, 37);
	CHECK_EQ(stats(r.s).gaps, 0);
	CHECK_EQ(stream_missing(r.s), 2);
	stream_settle(r.s, 900, false);
	CHECK_EQ(stats(r.s).gaps, 0);
	/* nothing ran: it may have been stopped */
	stream_settle(r.s, 5000, false);
	CHECK_EQ(stats(r.s).gaps, 0);
	for (uint64_t ms = 5010; ms < 6200; ms += 10) {
		alloc(r.w, 0, 0x70000, 1, 1);
		release(r.w, 0, 0x70000);
		stream_take(r.s, ms, 1000);
	}
	CHECK_EQ(stats(r.s).gaps, 2);
	CHECK_EQ(totals(r.l).heap, 37);
	CHECK_EQ(stream_missing(r.s), 2);
	store(r.w, 1, wire_pack(WIRE_FREE, 0x5000, early, 0, 0));
	stream_take(r.s, 6300, 1000);
	CHECK_EQ(stats(r.s).gaps, 1);
	CHECK_EQ(stream_missing(r.s), 1);
	rig_free(&r);
}

/* An answer must not apply a free whose allocation is still held, though something lives there. */
static void test_hurry(void)
{
	struct rig r = rig_new(2);
	alloc(r.w, 0, 0x1000, 10, 1);
	/* thread 1's free, taken, stored late */
	uint32_t early = number(r.w, 0x1000);
	alloc(r.w, 0, 0x1000, 20, 1);
	release(r.w, 0, 0x1000);
	stream_settle(r.s, 1, false);
	CHECK_EQ(totals(r.l).heap, 10);
	store(r.w, 1, wire_pack(WIRE_FREE, 0x1000, early, 0, 0));
	stream_settle(r.s, 2, false);
	CHECK_EQ(totals(r.l).heap, 0);
	CHECK_EQ(totals(r.l).allocs, 2);
	CHECK_EQ(totals(r.l).frees, 2);
	check_whole(&r);
	rig_free(&r);
}

/*
 * While a realloc waits, the rest of its ring goes on; a thread's next realloc comes after it, in
 * whatever order their numbers are due.
 */
static void test_realloc_order(void)
{
	struct rig r = rig_new(2);
	/* thread 1's alloc, not stored yet */
	uint32_t n = number(r.w, 0x1000);
	alloc(r.w, 0, 0x2000, 7, 1);
	leave(r.w, 0, 0x1000);
	became(r.w, 0, 0x20000, 50, 1);
	leave(r.w, 0, 0x2000);
	became(r.w, 0, 0x2000, 8, 1);
	release(r.w, 0, 0x20000);
	for (int i = 0; i < 100; i++) {
		alloc(r.w, 0, 0x30000, 3, 1);
		release(r.w, 0, 0x30000);
	}
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).allocs, 101);
	CHECK_EQ(totals(r.l).heap, 7);
	store(r.w, 1, wire_pack(WIRE_ALLOC, 0x1000, n, 40, 2));
	stream_take(r.s, 2, 1000);
	CHECK_EQ(totals(r.l).heap, 8);
	CHECK_EQ(totals(r.l).allocs, 104);
	CHECK_EQ(totals(r.l).frees, 103);
	check_whole(&r);
	rig_free(&r);
}

/* LEAVE is held, so its outcome has to wait too, though its own number is the next. */
static void test_realloc_waits(void)
{
	struct rig r = rig_new(2);
	/* thread 1's alloc, not stored yet */
	uint32_t n = number(r.w, 0x1000);
	leave(r.w, 0, 0x1000);
	became(r.w, 0, 0x20000, 50, 1);
	alloc(r.w, 0, 0x30000, 3, 1);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).allocs, 1); /* the one that comes after */
	store(r.w, 1, wire_pack(WIRE_ALLOC, 0x1000, n, 40, 2));
	stream_take(r.s, 1, 1000);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).heap, 53);
	CHECK_EQ(totals(r.l).peak, 53);
	CHECK_EQ(totals(r.l).frees, 1);
	check_whole(&r);
	rig_free(&r);
}

static void test_tickets(void)
{
	struct rig r = rig_new(3);
	const uint64_t p = 0x7f0000000000;
	map(r.w, 2, p, 8192, 1, 0);
	map(r.w, 0, p, 4096, 3, 2); /* after the unmap of thread 1, read before it */
	store2(r.w, 1, wire_pack(WIRE_UNMAP, p, 0, 0, 0), 8192, 1);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).mmap, 4096);
	map(r.w, 0, p + 0x10000, 4096, 3, 4); /* 3 is on its way */
	alloc(r.w, 0, 0x1000, 5, 1);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).mmap, 4096);
	/* still waited for: its thread may have been preempted */
	stream_take(r.s, 90, 1000);
	CHECK_EQ(totals(r.l).mmap, 4096);
	stream_take(r.s, 110, 1000); /* no longer */
	CHECK_EQ(totals(r.l).mmap, 8192);
	CHECK_EQ(totals(r.l).heap, 5);
	map(r.w, 1, p + 0x20000, 4096, 3, 3);
	map(r.w, 1, p + 0x30000, 4096, 3, 9);
	map(r.w, 0, p + 0x40000, 4096, 3, 10);
	stream_settle(r.s, 110, false); /* an answer does not wait long */
	CHECK_EQ(totals(r.l).mmap, 5 * 4096);
	rig_free(&r);
}

/*
 * Two threads that take turns every millisecond: one thread's future with the other's past would be
 * a peak of 2000.
 */
static void test_time_merge(void)
{
	struct rig r = rig_new(2);
	for (uint32_t ms = 1; ms <= 100; ms++) {
		unsigned t = ms % 2;
		at_ms(r.w, t, ms);
		if (ms > 1)
			release(r.w, t, 0x1000 + (ms - 1) * 0x100000);
		alloc(r.w, t, 0x1000 + ms * 0x100000, 1000, 1);
	}
	stream_take(r.s, 200, 100000);
	CHECK_EQ(totals(r.l).heap, 1000);
	CHECK_EQ(totals(r.l).peak, 1000);
	CHECK_EQ(stream_missing(r.s), 0);
	rig_free(&r);
}

static struct wire_signal_event *signal_begin(struct wire_process *w, uint32_t slot)
{
	struct wire_signal_event *s = w->signal;
	while (s->state)
		s++;
	s->state = slot << 2 | PLACE_TAKEN;
	return s;
}

static void signal_end(struct wire_process *w, struct wire_signal_event *s, uint32_t ms,
		       struct wire_event e, struct wire_event more)
{
	s->tid = w->thread[s->state >> 2].tid;
	s->ms = ms;
	s->event[0] = e;
	s->event[1] = more;
	s->order = __atomic_fetch_add(&w->signal_head, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&s->state, (s->state & ~3u) | PLACE_READY, __ATOMIC_RELEASE);
}

static void signal_store(struct wire_process *w, uint32_t ms, struct wire_event e,
			 struct wire_event more)
{
	signal_end(w, signal_begin(w, 0), ms, e, more);
}

static const struct wire_event nothing;

static size_t places_used(const struct wire_process *w)
{
	size_t n = 0;
	for (uint32_t i = 0; i < WIRE_SIGNAL_PLACES; i++)
		n += w->signal[i].state != PLACE_FREE;
	return n;
}

static void test_signals(void)
{
	struct rig r = rig_new(1);
	r.w->thread[0].tid = 9;
	begin(r.w, 0, 9);
	alloc(r.w, 0, 0x1000, 10, 1);
	uint32_t n = number(r.w, 0x1000);
	alloc(r.w, 0, 0x1000, 20, 1);
	signal_store(r.w, 3, wire_pack(WIRE_FREE, 0x1000, n, 0, 0), nothing);
	signal_store(r.w, 3, wire_pack(WIRE_ALLOC_WIDE, 0x9000, number(r.w, 0x9000), 0, 2),
		     (struct wire_event){ 5000, ticket(r.w) });
	stream_take(r.s, 5, 1000);
	stream_take(r.s, 5, 1000);
	CHECK_EQ(totals(r.l).heap, 5020);
	CHECK_EQ(stream_missing(r.s), 0);
	struct ledger_block b;
	CHECK(ledger_find(r.l, 0x9000, &b) && ledger_thread_tid(r.l, b.thread) == 9);

	/* one that is half written holds nobody up, however long it takes, and whoever asks */
	struct wire_signal_event *half = signal_begin(r.w, 0);
	uint32_t late = number(r.w, 0x9000);
	for (int i = 0; i < 1000; i++)
		signal_store(r.w, 3, wire_pack(WIRE_ALLOC, 0x20000, number(r.w, 0x20000), 7, 2),
			     nothing),
			stream_take(r.s, 6, 1000);
	stream_settle(r.s, 7, false);
	stream_take(r.s, 5000, 1000);
	CHECK_EQ(totals(r.l).heap, 5027);
	CHECK_EQ(places_used(r.w), 1);
	signal_end(r.w, half, 8, wire_pack(WIRE_FREE, 0x9000, late, 0, 0), nothing);
	stream_take(r.s, 5001, 1000);
	CHECK_EQ(totals(r.l).heap, 27);
	CHECK_EQ(places_used(r.w), 0);

	/* its thread is gone: the place is free again */
	r.w->thread[0].fs = 0x7000;
	signal_begin(r.w, 0);
	CHECK_EQ(places_used(r.w), 1);
	stream_thread_gone(r.s, 5002, 0x7000);
	CHECK_EQ(places_used(r.w), 0);
	struct stream_stats stats;
	stream_stats(r.s, &stats);
	CHECK_EQ(stats.bad, 0);
	CHECK_EQ(stream_missing(r.s), 0);
	rig_free(&r);
}

/*
 * Two handlers, one in the other, resize blocks of one counter: the outer one has the lower number,
 * and comes later.
 */
static void test_signals_circle(void)
{
	struct rig r = rig_new(2);
	struct stream_stats stats;
	begin(r.w, 0, 9);
	begin(r.w, 1, 10);
	alloc(r.w, 0, 0x1000, 10, 1);
	stream_take(r.s, 1, 1000);
	struct wire_signal_event *outer = signal_begin(r.w, 0);
	uint32_t n = number(r.w, 0x1000);
	signal_store(r.w, 2, wire_pack(WIRE_LEAVE, 0x1000, number(r.w, 0x1000), 0, 0), nothing);
	stream_take(r.s, 2, 1000);
	signal_end(r.w, outer, 2, wire_pack(WIRE_LEAVE, 0x1000, n, 0, 0), nothing);
	for (uint64_t ms = 10; ms < 4000; ms += 10) { /* time goes on, as others write */
		alloc(r.w, 1, 0x40000 + ms * 16, 1, 1);
		stream_take(r.s, ms, 1000);
	}
	stream_stats(r.s, &stats);
	CHECK_EQ(stats.held_now, 0);
	CHECK_EQ(stats.bad, 0);
	CHECK_EQ(stream_missing(r.s), 0);
	rig_free(&r);
}

/* ---- times, and what is waited for for how long -------------------------- */

#define SOME 0x7f0000000000ull

static void unmap(struct wire_process *w, unsigned t, uint64_t a, uint64_t len, uint64_t tick)
{
	store2(w, t, wire_pack(WIRE_UNMAP, a, 0, 0, 0), len, tick);
}

static void unmap_comes(struct rig *r)
{
	if (naps == 3)
		unmap(r->w, 1, SOME, 8192, 1);
}

static void free_comes(struct rig *r)
{
	if (naps == 2)
		store(r->w, 1, wire_pack(WIRE_FREE, 0x1000, 1, 0, 0));
}

static void nothing_comes(struct rig *r) { (void)r; }

/* An answer waits for what comes soon, and only as long as that takes. */
static void test_settle_waits(void)
{
	struct rig r = rig_new(2);
	map(r.w, 0, SOME, 8192, 1, 0);
	map(r.w, 0, SOME, 4096, 3, 2);
	settle(&r, 1, false, unmap_comes);
	CHECK_EQ(totals(r.l).mmap, 4096);
	CHECK_EQ(naps, 3);
	alloc(r.w, 0, 0x1000, 10, 1);
	number(r.w, 0x1000);
	alloc(r.w, 0, 0x1000, 20, 1);
	settle(&r, 2, false, free_comes);
	CHECK_EQ(totals(r.l).heap, 20);
	CHECK_EQ(naps, 2);
	settle(&r, 3, false, nothing_comes);
	CHECK_EQ(naps, 0);
	/* what does not come: its ring and its address are waited for as long as each other */
	map(r.w, 0, SOME + 0x10000, 4096, 3, 4);
	number(r.w, 0x1000);
	alloc(r.w, 0, 0x1000, 30, 1);
	settle(&r, 4, false, nothing_comes);
	CHECK_EQ(totals(r.l).mmap, 8192);
	CHECK_EQ(totals(r.l).heap, 20);
	CHECK_EQ(naps, 40);
	/* nobody is left who could write it */
	map(r.w, 0, SOME + 0x20000, 4096, 3, 7);
	settle(&r, 5, true, nothing_comes);
	CHECK_EQ(naps, 0);
	CHECK_EQ(totals(r.l).mmap, 3 * 4096);
	CHECK_EQ(stats(r.s).held_now, 0);
	CHECK_EQ(stats(r.s).gaps, 1);
	rig_free(&r);
}

/*
 * The lowest ticket goes first when all wait for one that does not come, in whichever ring it is.
 */
static void test_lowest_ticket(void)
{
	for (unsigned last = 0; last < 6; last++) {
		struct rig r = rig_new(2);
		map(r.w, 0, SOME, 8192, 1, 0);
		stream_take(r.s, 1000, 1000);
		map(r.w, last % 2, SOME, 4096, 3, 5);
		unmap(r.w, !(last % 2), SOME, 8192, 3);
		switch (last / 2) {
		case 0: stream_settle(r.s, 1000, false); break;
		case 1: stream_settle(r.s, 1000, true); break;
		default:
			/* it was quiet before: the wait begins now */
			CHECK_EQ(stream_take(r.s, 2000, 1000), 0);
			CHECK_EQ(stream_take(r.s, 2099, 1000), 0);
			CHECK_EQ(totals(r.l).mmap, 8192);
			stream_take(r.s, 2100, 1000);
			CHECK_EQ(totals(r.l).mmap, 0);
			stream_take(r.s, 2110, 1000); /* 4 is another one, and may still come */
			CHECK_EQ(totals(r.l).mmap, 0);
			stream_take(r.s, 2110 + 100, 1000);
		}
		CHECK_EQ(totals(r.l).mmap, 4096);
		rig_free(&r);
	}
}

/* A ring stands still from when it is come to, also while others go on. */
static void test_ticket_beside(void)
{
	struct rig r = rig_new(2);
	map(r.w, 1, SOME, 4096, 3, 1);
	for (int i = 0; i < 300; i++)
		alloc(r.w, 0, 0x1000 + (uint64_t)i * 64, 1, 1);
	CHECK_EQ(stream_take(r.s, 1000, 65), 128);
	stream_take(r.s, 1100, 1000);
	CHECK_EQ(totals(r.l).mmap, 4096);
	CHECK_EQ(totals(r.l).heap, 300);
	rig_free(&r);
}

/* Tickets of handlers come before their turn, and nobody waits for them then. */
static void test_early_tickets(void)
{
	struct rig r = rig_new(2);
	for (uint64_t t = 4; t > 0; t--)
		if (t != 3)
			signal_store(r.w, 3,
				     wire_pack(WIRE_ALLOC_WIDE, t << 20, number(r.w, t << 20), 0,
					       2),
				     (struct wire_event){ 5000, t });
	map(r.w, 1, SOME, 4096, 3, 5);
	stream_take(r.s, 5, 1000);
	CHECK_EQ(totals(r.l).heap, 15000);
	CHECK_EQ(totals(r.l).mmap, 0);
	map(r.w, 0, SOME + 0x10000, 4096, 3, 0);
	stream_take(r.s, 5, 1000);
	CHECK_EQ(totals(r.l).mmap, 4096); /* 3 is to come */
	map(r.w, 0, SOME + 0x20000, 4096, 3, 3);
	stream_take(r.s, 5, 1000);
	CHECK_EQ(totals(r.l).mmap, 3 * 4096);
	for (uint64_t t = 0; t < 200; t++) { /* more than can be kept: the last is the turn */
		uint64_t a = (16 + t) << 20;
		signal_store(r.w, 3, wire_pack(WIRE_ALLOC_WIDE, a, number(r.w, a), 0, 2),
			     (struct wire_event){ 5000, 1000 + t });
	}
	map(r.w, 1, SOME, 4096, 3, 1100);
	stream_take(r.s, 6, 1000);
	CHECK_EQ(totals(r.l).mmap, 3 * 4096); /* in the place of the one that was there */
	CHECK_EQ(totals(r.l).heap, 15000 + 200 * 5000);
	CHECK_EQ(r.w->thread[1].tail, r.w->thread[1].head);
	rig_free(&r);
}

/* Of rings that are equally far the one is served that has waited longest; each until its time. */
static void test_turns(void)
{
	struct rig r = rig_new(2);
	for (unsigned t = 0; t < 2; t++) {
		uint64_t a = 0x100000 * (t + 1);
		for (uint64_t i = 0; i < 64; i++)
			alloc(r.w, t, a + i * 16, 100, 1);
		for (uint64_t i = 0; i < 64; i++)
			release(r.w, t, a + i * 16);
	}
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).peak, 2 * 6400); /* 64 by turns */
	for (unsigned t = 0; t < 2; t++) {
		uint64_t a = 0x100000 * (t + 1);
		at_ms(r.w, t, 5);
		for (uint64_t i = 0; i < 10; i++)
			alloc(r.w, t, a + i * 16, 2000, 1);
		at_ms(r.w, t, 5); /* no later than it was */
		for (uint64_t i = 0; i < 10; i++)
			release(r.w, t, a + i * 16);
	}
	stream_take(r.s, 6, 1000);
	CHECK_EQ(totals(r.l).peak, 20000);
	CHECK_EQ(totals(r.l).peak_ms, 5);
	check_whole(&r);
	rig_free(&r);
}

/* The beacon has 32 bits of milliseconds. */
static void test_long_time(void)
{
	static const uint64_t age[] = { 0, 1, 20, 100000, INT32_MAX };
	const uint64_t now = (5ull << 32) + 7;
	for (unsigned i = 0; i < 5; i++) {
		struct rig r = rig_new(1);
		at_ms(r.w, 0, (uint32_t)(now - age[i]));
		alloc(r.w, 0, 0x1000, 1, 1);
		stream_take(r.s, now, 1000);
		CHECK_EQ(totals(r.l).peak_ms, now - age[i]);
		rig_free(&r);
		r = rig_new(1);
		signal_store(r.w, (uint32_t)(now - age[i]),
			     wire_pack(WIRE_ALLOC, 0x1000, number(r.w, 0x1000), 1, 1), nothing);
		stream_take(r.s, now, 1000);
		CHECK_EQ(totals(r.l).peak_ms, now - age[i]);
		rig_free(&r);
	}
	for (uint32_t ms = 20; ms < 23; ms++) { /* what is to come, or was before the beginning */
		struct rig r = rig_new(1);
		at_ms(r.w, 0, ms == 22 ? UINT32_MAX : ms);
		alloc(r.w, 0, 0x1000, 1, 1);
		stream_take(r.s, 20, 1000);
		CHECK_EQ(totals(r.l).peak_ms, 20);
		rig_free(&r);
	}
}

/* What is written while an answer takes out what was there has its order, too. */
static void test_time_to_come(void)
{
	struct rig r = rig_new(2);
	at_ms(r.w, 0, 40);
	at_ms(r.w, 1, 30);
	for (uint64_t i = 0; i < 1000; i++)
		alloc(r.w, 1, 0x10000 + i * 16, 7, 1);
	for (uint64_t i = 0; i < 1000; i++)
		release(r.w, 0, 0x10000 + i * 16);
	stream_settle(r.s, 20, false);
	check_whole(&r);
	CHECK_EQ(stats(r.s).held_most, 0);
	CHECK_EQ(totals(r.l).frees, 1000);
	CHECK_EQ(totals(r.l).peak_ms, 20);
	rig_free(&r);
}

/* A number that never came is given up after a second in which events came, not before. */
static void test_patience(void)
{
	struct rig r = rig_new(2);
	number(r.w, 0x5000);
	alloc(r.w, 0, 0x5000, 7, 1);
	for (uint64_t ms = 20; ms <= 2000; ms += 20) {
		if (ms <= 400 || ms > 800)
			alloc(r.w, 1, 0x100000 + ms * 64, 0, 1);
		stream_take(r.s, ms, 1000); /* between 400 and 800 nobody runs */
		CHECK_EQ(stats(r.s).gaps, ms >= 1400);
		CHECK_EQ(totals(r.l).heap, ms >= 1400 ? 7 : 0);
	}
	/* a pause counts for no more than a moment */
	number(r.w, 0x5000);
	alloc(r.w, 0, 0x5000, 8, 1);
	for (uint64_t i = 1; i <= 50; i++) {
		alloc(r.w, 1, 0x200000 + i * 64, 0, 1);
		stream_take(r.s, 2000 + i * 3000, 1000);
		CHECK_EQ(stats(r.s).gaps, i >= 50 ? 2 : 1);
	}
	rig_free(&r);
}

/* It is not given up while a thread may still come with it, except after a minute. */
static void test_owed(void)
{
	for (int how = 0; how < 4; how++) {
		struct rig r = rig_new(3);
		uint64_t given_up[] = { 1000, 9000, 60000, 1000 };
		number(r.w, 0x5000);
		alloc(r.w, 0, 0x5000, 7, 1);
		r.w->thread[2].mark = how ? 0x7000 | WIRE_BUSY : 0x7000;
		for (uint64_t ms = 20; ms <= 70000; ms += 20) {
			alloc(r.w, 1, 0x100000 + ms * 64, 0, 1);
			if (how == 1 && ms == 9000) /* it is killed */
				r.w->thread[2].fs = 1;
			if (how == 3) /* it does something else */
				alloc(r.w, 2, 0x10000000 + ms * 64, 0, 1);
			stream_take(r.s, ms, 1000);
			if (ms < given_up[how])
				CHECK_EQ(stats(r.s).gaps, 0);
			if (ms > given_up[how] + 200)
				CHECK_EQ(stats(r.s).gaps, 1);
		}
		rig_free(&r);
	}
}

/* ---- circles ------------------------------------------------------------- */

/*
 * A thread's realloc events whose numbers say another order than its ring: no hook writes that; it
 * is given up with the target.
 */
static void test_circle_of_a_ring(void)
{
	struct rig r = rig_new(2);
	alloc(r.w, 0, 0x1000, 10, 1);
	store(r.w, 0, wire_pack(WIRE_LEAVE, 0x1000, 2, 0, 0));
	store(r.w, 0, wire_pack(WIRE_STAYED, 0x1000, 1, 0, 0));
	r.w->counter[wire_counter(0x1000)] = 3;
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).events, 1);
	CHECK_EQ(stats(r.s).held_now, 2);
	stream_settle(r.s, 2, true);
	CHECK_EQ(stats(r.s).held_now, 0);
	CHECK_EQ(stats(r.s).events, 3);
	CHECK_EQ(stats(r.s).bad, 2);
	CHECK_EQ(stream_missing(r.s), 0);
	leave(r.w, 0, 0x1000); /* its ring is as good as new */
	became(r.w, 0, 0x2000, 20, 1);
	stream_take(r.s, 3, 1000);
	CHECK_EQ(stats(r.s).events, 5);
	CHECK_EQ(stats(r.s).held_now, 0);
	rig_free(&r);
}

/*
 * What goes before the others of its ring after two seconds: these are still in their order, and
 * what comes then is behind them.
 */
static void test_circle_with_more(void)
{
	const uint64_t d = 0x2000, c = 0x1000;
	struct rig r = rig_new(3);
	alloc(r.w, 1, c, 10, 1);
	/* numbers 0, 2, 4 and 6 of D are on their way, and come one by one */
	for (uint32_t n = 1; n < 6; n += 2)
		store(r.w, 1, wire_pack(WIRE_ALLOC, d, n, 5, 1));
	store(r.w, 0, wire_pack(WIRE_LEAVE, d, 7, 0, 0));
	number(r.w, c);
	store(r.w, 0, wire_pack(WIRE_LEAVE, c, 1, 0, 0));
	for (uint64_t ms = 20; ms <= 5000; ms += 20) {
		alloc(r.w, 2, 0x100000 + ms * 64, 0, 1);
		if (ms == 900 || ms == 1800 || ms == 2700)
			store(r.w, 1, wire_pack(WIRE_FREE, d, (uint32_t)(ms / 900 - 1) * 2, 0, 0));
		if (ms == 2200) {
			store(r.w, 0, wire_pack(WIRE_STAYED, c, 2, 0, 0));
			number(r.w, c);
		}
		stream_take(r.s, ms, 1000);
		if (ms == 1980) /* two of D's, and C's, whose turn it is */
			CHECK_EQ(stats(r.s).held_now, 3);
		if (ms == 2100)
			CHECK_EQ(stats(r.s).held_now, 2);
	}
	CHECK_EQ(stats(r.s).held_now, 0);
	CHECK_EQ(stats(r.s).gaps, 1);
	CHECK_EQ(stats(r.s).bad, 0);
	rig_free(&r);
}

/* ---- what is malformed, exactly ------------------------------------------ */

static void test_malformed(void)
{
	struct rig r = rig_new(3);
	uint64_t bad = 0;
	/* kinds that are none; a wide one whose second slot is not there */
	store(r.w, 0, wire_pack(WIRE_NONE, 0x1000, 0, 1, 1));
	store(r.w, 0, wire_pack(WIRE_KINDS, 0x1000, 0, 1, 1));
	store(r.w, 0, wire_pack((enum wire_kind)31, 0x1000, 0, 1, 1));
	alloc(r.w, 0, 0x1000, 10, 1);
	store(r.w, 1, wire_pack(WIRE_MAP, SOME, 0, 3 | WIRE_MAP_ANON, 1));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).bad, bad += 4);
	CHECK_EQ(totals(r.l).heap, 10);
	CHECK_EQ(r.w->thread[1].tail, 1);
	/* one that is whole at the end of a batch */
	for (int i = 0; i < 63; i++)
		alloc(r.w, 0, 0x2000 + (uint64_t)i * 16, 1, 1);
	map(r.w, 0, SOME, 4096, 1, ticket(r.w));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).bad, bad);
	CHECK_EQ(totals(r.l).mmap, 4096);
	/* the same number twice: that is not waited for */
	store(r.w, 0, wire_pack(WIRE_ALLOC, 0x1000, 9, 20, 1));
	store(r.w, 0, wire_pack(WIRE_ALLOC, 0x1000, 9, 30, 1));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).bad, ++bad);
	CHECK_EQ(stats(r.s).held_now, 1);
	/* a number that was had before */
	store(r.w, 0, wire_pack(WIRE_FREE, 0x1000, 0, 0, 0));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).bad, ++bad);
	/* more than a ring holds, then what it holds */
	r.w->thread[2].head = WIRE_RING + 1;
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).bad, ++bad);
	CHECK_EQ(r.w->thread[2].tail, WIRE_RING + 1);
	for (uint64_t i = 0; i < WIRE_RING; i++)
		alloc(r.w, 2, 0x100000 + i * 16, 0, 1);
	CHECK_EQ(stream_take(r.s, 1, 100000), WIRE_RING);
	CHECK_EQ(stats(r.s).bad, bad);
	rig_free(&r);
}

static void test_malformed_places(void)
{
	struct rig r = rig_new(1);
	struct wire_signal_event *s = r.w->signal;
	uint64_t bad = 0;
	/* who looks at the places when nothing was made ready? */
	stream_take(r.s, 1, 1000);
	s[3].state = 3;
	stream_take(r.s, 1, 1000);
	CHECK_EQ(places_used(r.w), 1);
	/* no state, no thread, an order that is not to come for long */
	s[4].state = WIRE_THREADS << 2 | PLACE_TAKEN;
	s[5].state = WIRE_THREADS << 2 | PLACE_READY;
	s[6] = (struct wire_signal_event){ .state = PLACE_READY, .order = 1 + WIRE_SIGNAL_PLACES };
	/* one that is to come soon: the count of those that are ready comes before the state */
	s[7] = (struct wire_signal_event){ .state = PLACE_READY,
					   .order = WIRE_SIGNAL_PLACES,
					   .event = { wire_pack(WIRE_ALLOC, 0x1000,
								number(r.w, 0x1000), 7, 1) } };
	r.w->signal_head = 1;
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).bad, bad += 4);
	CHECK_EQ(places_used(r.w), 1);
	CHECK_EQ(totals(r.l).heap, 0);
	r.w->signal_head = WIRE_SIGNAL_PLACES + 1;
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).heap, 7);
	CHECK_EQ(places_used(r.w), 0);
	CHECK_EQ(stream_taken(r.s, WIRE_THREADS), WIRE_SIGNAL_PLACES + 1);
	/* kinds that handlers do not write */
	static const enum wire_kind none[] = { WIRE_NONE, WIRE_TIME, WIRE_THREAD, WIRE_PERIOD,
					       WIRE_KINDS };
	for (int i = 0; i < 5; i++) {
		signal_store(r.w, 1, wire_pack(none[i], 0x1000, 0, 9, 1), nothing);
		stream_take(r.s, 1, 1000);
		CHECK_EQ(stats(r.s).bad, ++bad);
	}
	signal_store(r.w, 1, wire_pack(WIRE_BREAK, 0x601000, 0, 0, 11),
		     (struct wire_event){ 0x600000, 0 });
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).bad, bad);
	CHECK_EQ(totals(r.l).mmap, 4096);
	CHECK_EQ(places_used(r.w), 0);
	/* nor does anybody when all have been taken */
	stream_take(r.s, 1, 1000);
	s[3].state = 3;
	stream_take(r.s, 1, 1000);
	CHECK_EQ(places_used(r.w), 1);
	CHECK_EQ(stats(r.s).bad, bad);
	rig_free(&r);
}

/* ---- threads that end ---------------------------------------------------- */

static void test_thread_ends(void)
{
	struct rig r = rig_new(2);
	struct ledger_block b;
	begin(r.w, 0, 70);
	begin(r.w, 1, 71);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(ledger_threads(r.l), 2);
	begin(r.w, 0, 70); /* the same */
	stream_take(r.s, 1, 1000);
	CHECK_EQ(ledger_threads(r.l), 2);
	alloc(r.w, 0, 0x1000, 10, 1);
	for (uint64_t fs = 0; fs < 2; fs++) /* no thread's */
		stream_thread_gone(r.s, 1, fs);
	stream_thread_gone(r.s, 1, 0x7777);
	CHECK_EQ(r.w->thread[0].tail, 2);
	/* what it has written last, though it stands still for a ticket */
	map(r.w, 0, SOME, 4096, 1, 3);
	stream_thread_gone(r.s, 1, 0x1000);
	CHECK_EQ(totals(r.l).mmap, 4096);
	CHECK_EQ(r.w->thread[0].fs, 1);
	CHECK_EQ(r.w->thread[1].fs, 0x2000);
	/* another one in its place, without an end that was seen */
	begin(r.w, 1, 72);
	alloc(r.w, 1, 0x2000, 10, 1);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(ledger_threads(r.l), 3);
	CHECK(ledger_find(r.l, 0x2000, &b) && ledger_thread_tid(r.l, b.thread) == 72);
	rig_free(&r);
}

/* What threads leave unfinished is not kept for ever, nor what their handlers do. */
static void test_many_threads_end(void)
{
	struct rig r = rig_new(2);
	for (uint32_t i = 0; i < 100; i++) {
		r.w->thread[0].fs = 0x1000;
		r.w->thread[0].tid = 100 + i;
		begin(r.w, 0, 100 + i);
		map(r.w, 0, SOME, 2 * 4096, 1, ticket(r.w));
		unmap(r.w, 0, SOME, 4096, ticket(r.w));
		signal_store(r.w, 1, wire_pack(WIRE_UNMAP, SOME + 4096, 0, 0, 0),
			     (struct wire_event){ 4096, ticket(r.w) });
		if (i % 2)
			stream_thread_gone(r.s, 1, 0x1000);
		else
			stream_take(r.s, 1, 1000);
	}
	CHECK_EQ(ledger_threads(r.l), 200);
	CHECK(r.l->pendings <= 4);
	rig_free(&r);
}

/* ---- sampling ------------------------------------------------------------ */

static void test_sampled(void)
{
	struct rig r = rig_new(1);
	uint64_t period = 1000;
	begin(r.w, 0, 9);
	store(r.w, 0, (struct wire_event){ (uint64_t)WIRE_PERIOD << WIRE_ADDRESS_BITS, period });
	/* stands for some 1000 bytes; for itself; and without a flag */
	store(r.w, 0,
	      wire_pack(WIRE_ALLOC, 0x1000, number(r.w, 0x1000), 10 | WIRE_SAMPLED | WIRE_COUNTED,
			1));
	store(r.w, 0, wire_pack(WIRE_ALLOC, 0x2000, number(r.w, 0x2000), 20 | WIRE_COUNTED, 2));
	store2(r.w, 0, wire_pack(WIRE_ALLOC_WIDE, 0x3000, number(r.w, 0x3000), WIRE_COUNTED, 3),
	       5000, ticket(r.w));
	alloc(r.w, 0, 0x4000, 40, 4);
	stream_take(r.s, 1, 1000);
	CHECK(ledger_stack(r.l, 1)->live_bytes > 900 && ledger_stack(r.l, 1)->live_bytes < 1100);
	CHECK(ledger_stack(r.l, 1)->live_count > 90);
	CHECK_EQ(ledger_stack(r.l, 2)->live_bytes, 20);
	CHECK_EQ(ledger_stack(r.l, 3)->live_bytes, 5000);
	CHECK_EQ(ledger_stack(r.l, 4)->live_bytes, 40);
	/* reallocs of such */
	leave(r.w, 0, 0x2000);
	store(r.w, 0, wire_pack(WIRE_BECAME, 0x2000, number(r.w, 0x2000), 21 | WIRE_COUNTED, 2));
	leave(r.w, 0, 0x3000);
	store2(r.w, 0, wire_pack(WIRE_BECAME_WIDE, 0x3000, number(r.w, 0x3000), WIRE_COUNTED, 3),
	       6000, ticket(r.w));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(ledger_stack(r.l, 2)->live_bytes, 21);
	CHECK_EQ(ledger_stack(r.l, 3)->live_bytes, 6000);
	/* freed at once, and after others that nobody was told of */
	CHECK_EQ(totals(r.l).temporary, 0);
	alloc(r.w, 0, 0x5000, 50, 5);
	release(r.w, 0, 0x5000);
	alloc(r.w, 0, 0x5000, 50, 5);
	store(r.w, 0, wire_pack(WIRE_FREE, 0x5000, number(r.w, 0x5000), WIRE_LATER, 0));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).temporary, 1);
	CHECK_EQ(ledger_stack(r.l, 5)->live_bytes, 0);
	alloc(r.w, 0, 0x6000, 60, 6);
	store(r.w, 0, wire_pack(WIRE_LEAVE, 0x6000, number(r.w, 0x6000), WIRE_LATER, 0));
	store(r.w, 0, wire_pack(WIRE_GONE, 0x6000, number(r.w, 0x6000), 0, 0));
	alloc(r.w, 0, 0x6000, 5000, 6);
	store2(r.w, 0, wire_pack(WIRE_FREE_WIDE, 0x6000, number(r.w, 0x6000), WIRE_LATER, 0), 0,
	       ticket(r.w));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(totals(r.l).temporary, 1);
	CHECK_EQ(ledger_stack(r.l, 6)->live_bytes, 0);
	check_whole(&r);
	rig_free(&r);
}

/* ---- questions ----------------------------------------------------------- */

static void test_questions(void)
{
	struct rig r = rig_new(3);
	uint64_t bytes = 1;
	CHECK_EQ(stream_held(r.s, &bytes), 0);
	CHECK_EQ(bytes, 0);
	/* held: blocks of 7 and 5000, one that becomes 30 and one that becomes 6000, a free */
	number(r.w, 0x1000);
	alloc(r.w, 0, 0x1000, 7, 1);
	alloc(r.w, 0, 0x1000, 5000, 1);
	release(r.w, 0, 0x1000);
	number(r.w, 0x5000);
	leave(r.w, 1, 0x5000);
	became(r.w, 1, 0x6000, 30, 1);
	leave(r.w, 1, 0x7000);
	store2(r.w, 1, wire_pack(WIRE_BECAME_WIDE, 0x6000, number(r.w, 0x6000), 0, 1), 6000,
	       ticket(r.w));
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stream_held(r.s, &bytes), 7);
	CHECK_EQ(bytes, 7 + 5000 + 30 + 6000);
	CHECK_EQ(stats(r.s).held_most, 7);
	/*
	 * the first of these is certain for an answer, and counts no more; it is not gone, either
	 */
	settle(&r, 1, false, nothing_comes);
	CHECK_EQ(stream_held(r.s, &bytes), 6);
	CHECK_EQ(bytes, 5000 + 30 + 6000);
	CHECK_EQ(stats(r.s).held_now, 6);
	CHECK_EQ(totals(r.l).heap, 7);
	CHECK_EQ(stream_missing(r.s), 2 + 6);
	stream_settle(r.s, 2, true);
	CHECK_EQ(stream_held(r.s, &bytes), 0);
	CHECK_EQ(bytes, 0);
	CHECK_EQ(stats(r.s).gaps, 2);
	CHECK_EQ(stats(r.s).held_most, 7);
	/* what the hooks count themselves; of slots that are in use */
	r.w->no_slot = 1;
	for (uint32_t i = 0; i < 4; i++) {
		r.w->thread[i].lost = 10u << i;
		r.w->thread[i].truncated = 100u << i;
		r.w->thread[i].waited = 600u << i;
	}
	CHECK_EQ(stats(r.s).dropped, 1 + 10 + 20 + 40);
	CHECK_EQ(stats(r.s).truncated, 100 + 200 + 400);
	CHECK_EQ(stats(r.s).waited_ms, 4);
	CHECK_EQ(stream_taken(r.s, 0), 4);
	CHECK_EQ(stream_taken(r.s, 1), 5);
	CHECK_EQ(stream_taken(r.s, 2), 0);
	rig_free(&r);
}

/* Who waits for room is woken when there is some. */
static void test_woken(void)
{
	struct rig r = rig_new(2);
	for (unsigned t = 0; t < 2; t++)
		r.w->thread[t].waiting = 1;
	alloc(r.w, 0, 0x1000, 7, 1);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(r.w->thread[0].waiting, 0);
	CHECK_EQ(r.w->thread[1].waiting, 1);
	/* often enough, however much there is */
	for (uint64_t i = 0; i < WIRE_RING; i++)
		alloc(r.w, 0, 0x10000 + i * 16, 0, 1);
	stream_take(r.s, 1, 600);
	CHECK(r.w->thread[0].tail >= 600 && r.w->thread[0].tail < 800);
	/* but not before half of its ring is free, also if that comes between two looks */
	r.w->thread[0].waiting = 1;
	stream_take(r.s, 1, WIRE_RING / 4);
	CHECK_EQ(r.w->thread[0].waiting, 1);
	stream_take(r.s, 1, WIRE_RING / 4);
	CHECK_EQ(r.w->thread[0].waiting, 0);
	r.w->thread[0].waiting = 1;
	stream_take(r.s, 1, WIRE_RING);
	CHECK_EQ(r.w->thread[0].waiting, 0);
	rig_free(&r);
}

/* After each event, in the order applied. */
struct watched {
	struct ledger *l;
	uint32_t n;
	enum wire_kind kind[16];
	uint64_t heap[16];
};

static void watcher(void *ctx, uint32_t thread, struct wire_event e)
{
	struct watched *v = ctx;
	(void)thread;
	v->kind[v->n % 16] = wire_kind(e);
	v->heap[v->n++ % 16] = totals(v->l).heap;
}

static void test_watched(void)
{
	static const enum wire_kind kind[] = { WIRE_ALLOC, WIRE_ALLOC, WIRE_ALLOC_WIDE, WIRE_FREE };
	static const uint64_t heap[] = { 10, 30, 5030, 5020 };
	struct rig r = rig_new(1);
	struct watched v = { .l = r.l };
	stream_watch(r.s, watcher, &v);
	alloc(r.w, 0, 0x1000, 10, 1);
	alloc(r.w, 0, 0x2000, 20, 1);
	alloc(r.w, 0, 0x3000, 5000, 1);
	release(r.w, 0, 0x1000);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(v.n, 4);
	for (uint32_t i = 0; i < 4; i++)
		CHECK(v.kind[i] == kind[i] && v.heap[i] == heap[i]);
	signal_store(r.w, 3, wire_pack(WIRE_ALLOC, 0x4000, number(r.w, 0x4000), 7, 2), nothing);
	stream_take(r.s, 1, 1000);
	CHECK(v.n == 5 && v.kind[4] == WIRE_ALLOC && v.heap[4] == 5027);
	stream_watch(r.s, NULL, NULL);
	release(r.w, 0, 0x4000);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(v.n, 5);
	rig_free(&r);
}

/* ---- a played target: the true order is known ---------------------------- */

enum { PLAYERS = 6, CELLS = 400, STACKS = 50 };

struct player {
	struct wire_event queue[4]; /* what has its number and is not stored yet */
	int queued;
	bool wide;
	int leaving; /* cell + 1 */
	/* its block is free already: others may have it, while it is still counted here */
	bool moved;
	uint64_t old; /* bytes of the block that is leaving */
};

struct play {
	struct rig r;
	struct player player[PLAYERS];
	/* 0 free, 1 live, 2 somebody is at it */
	struct {
		int state;
		uint64_t size;
	} cell[CELLS];
	uint64_t address[CELLS];
	/* as the program sees it: what has returned, what was stored */
	uint64_t heap, stored;
	uint64_t allocs, frees;
	uint32_t ms;
};

static void say(struct play *p, int t, enum wire_kind k, uint64_t addr, uint64_t size,
		uint32_t stack)
{
	struct player *q = &p->player[t];
	q->wide = wire_is_wide(k);
	q->queue[0] = wire_pack(k, addr, number(p->r.w, addr), q->wide ? 0 : (uint32_t)size, stack);
	if (q->wide)
		q->queue[1] = (struct wire_event){ size, ticket(p->r.w) };
	q->queued = 1;
}

/*
 * A thread makes one step: either stores what it has numbered (and does the rest), or begins
 * something.
 */
static void step(struct play *p, int t)
{
	struct player *q = &p->player[t];
	struct wire_process *w = p->r.w;
	if (q->queued) {
		if (q->wide)
			store2(w, (unsigned)t, q->queue[0], q->queue[1].a, q->queue[1].b);
		else
			store(w, (unsigned)t, q->queue[0]);
		uint64_t addr = wire_address(q->queue[0]),
			 size = q->wide ? q->queue[1].a : wire_size(q->queue[0]);
		int c = 0;
		while (p->address[c] != addr)
			c++;
		q->queued = 0;
		switch (wire_kind(q->queue[0])) {
		case WIRE_ALLOC:
		case WIRE_ALLOC_WIDE:
			p->cell[c].state = 1;
			p->cell[c].size = size;
			p->heap += size;
			p->allocs++;
			break;
		case WIRE_FREE:
		case WIRE_FREE_WIDE:
			/* the real free is called only now */
			p->cell[c].state = 0;
			p->heap -= p->cell[c].size;
			p->frees++;
			break;
		case WIRE_LEAVE:
			q->leaving = c + 1;
			q->old = p->cell[c].size;
			q->moved = rnd() % 2;
			if (q->moved)
				p->cell[c].state = 0;
			break;
		default:
			q->leaving = 0;
			p->heap += size - q->old;
			p->cell[c].state = 1;
			p->cell[c].size = size;
			p->allocs++;
			p->frees++;
		}
		return;
	}
	if (rnd() % 20 == 0)
		at_ms(w, (unsigned)t, p->ms += rnd() % 2);
	int c = (int)(rnd() % CELLS);
	uint32_t stack = (uint32_t)(rnd() % STACKS);
	uint64_t size = rnd() % 6 ? rnd() % 4096 : rnd() % 100000;
	if (q->leaving) {
		int where = q->moved ? c : q->leaving - 1;
		if (q->moved && p->cell[where].state != 0)
			return;
		p->cell[where].state = 2;
		say(p, t, size < WIRE_WIDE ? WIRE_BECAME : WIRE_BECAME_WIDE, p->address[where],
		    size, stack);
		return;
	}
	if (p->cell[c].state == 0) {
		p->cell[c].state = 2;
		say(p, t, size < WIRE_WIDE ? WIRE_ALLOC : WIRE_ALLOC_WIDE, p->address[c], size,
		    stack);
	} else if (p->cell[c].state == 1) {
		p->cell[c].state = 2;
		bool wide = p->cell[c].size >= WIRE_WIDE;
		say(p, t,
		    rnd() % 3 == 0 ? WIRE_LEAVE
		    : wide	   ? WIRE_FREE_WIDE
				   : WIRE_FREE,
		    p->address[c], 0, 0);
		if (!wide)
			p->player[t].wide = false;
	}
}

static void test_played(void)
{
	for (int round = 0; round < 20; round++) {
		static struct play p;
		unsigned wrong = 0, answers = 0;
		memset(&p, 0, sizeof(p));
		p.r = rig_new(PLAYERS);
		p.ms = 1;
		for (int c = 0; c < CELLS; c++)
			p.address[c] = 0x600010 + (uint64_t)c * (round % 2 ? 48 : 16 * 4096);
		for (unsigned t = 0; t < PLAYERS; t++)
			begin(p.r.w, t, 100 + t);
		for (int i = 0; i < 100000; i++) {
			int t = (int)(rnd() % PLAYERS);
			/* one that is stopped again and again, with a number in its hand */
			if (t == round % PLAYERS && i % 1000 < 900)
				continue;
			if (p.r.w->thread[t].head - p.r.w->thread[t].tail < WIRE_RING - 8)
				step(&p, t);
			if (rnd() % 700 == 0)
				stream_take(p.r.s, p.ms, 1 + rnd() % 3000);
			if (rnd() % 3000 == 0) {
				stream_settle(p.r.s, p.ms, false);
				answers++;
				if (totals(p.r.l).heap != p.heap && wrong++ < 3)
					printf("# round %d, %d: heap is %llu, not %llu; %llu %llu\n",
					       round, i, (long long)totals(p.r.l).heap,
					       (long long)p.heap, (long long)stats(p.r.s).held_now,
					       (long long)stats(p.r.s).gaps);
			}
		}
		for (int t = 0; t < PLAYERS; t++)
			if (p.player[t].queued)
				step(&p, t);
		stream_settle(p.r.s, p.ms, true);
		struct ledger_totals l = totals(p.r.l);
		CHECK_EQ(wrong, 0);
		CHECK(answers > 5);
		CHECK_EQ(l.heap, p.heap);
		CHECK_EQ(l.allocs, p.allocs);
		CHECK_EQ(l.frees, p.frees);
		check_whole(&p.r);
		rig_free(&p.r);
	}
}

/* ---- real threads -------------------------------------------------------- */

enum { WRITERS = 3, SHARED = 64 };

struct writers {
	struct wire_process *w;
	unsigned events;
	pthread_mutex_t lock[SHARED];
	/* address of a live block, or 0: given by one thread to another */
	uint64_t cell[SHARED];
	uint64_t live; /* bytes at the end */
};

struct writer {
	struct writers *all;
	unsigned t;
};

static void room(struct wire_process *w, unsigned t)
{
	struct wire_thread *th = &w->thread[t];
	while (th->head + 4 - __atomic_load_n(&th->tail, __ATOMIC_ACQUIRE) > WIRE_RING)
		sched_yield();
}

static void *writer(void *arg)
{
	struct writer *me = arg;
	struct writers *a = me->all;
	uint64_t x = 0x9e3779b97f4a7c15ull * (me->t + 1), live = 0;
	room(a->w, me->t);
	begin(a->w, me->t, 200 + me->t);
	for (unsigned i = 0; i < a->events; i++) {
		test_random(&x);
		unsigned c = (unsigned)(x % SHARED);
		uint64_t addr = 0x1000000 + (uint64_t)c * 64, size = c * 10;
		room(a->w, me->t);
		/* the allocator's order: number and grant belong together */
		pthread_mutex_lock(&a->lock[c]);
		if (a->cell[c]) {
			release(a->w, me->t, addr);
			a->cell[c] = 0;
			live -= size;
		} else {
			a->cell[c] = addr;
			alloc(a->w, me->t, addr, size, (uint32_t)(x >> 50));
			live += size;
		}
		pthread_mutex_unlock(&a->lock[c]);
	}
	__atomic_fetch_add(&a->live, live, __ATOMIC_RELAXED);
	return NULL;
}

static void test_threads(void)
{
	struct rig r = rig_new(WRITERS);
	static struct writers a;
	struct writer me[WRITERS];
	pthread_t id[WRITERS];
	memset(&a, 0, sizeof(a));
	a.w = r.w;
	a.events = 300000;
	for (int i = 0; i < SHARED; i++)
		pthread_mutex_init(&a.lock[i], NULL);
	for (unsigned t = 0; t < WRITERS; t++) {
		me[t] = (struct writer){ &a, t };
		pthread_create(&id[t], NULL, writer, &me[t]);
	}
	uint64_t now = 0;
	while (stats(r.s).events < WRITERS * a.events && now < 10000000)
		if (!stream_take(r.s, now++ / 1000, 5000))
			sched_yield();
	for (unsigned t = 0; t < WRITERS; t++)
		pthread_join(id[t], NULL);
	stream_settle(r.s, now / 1000, true);
	CHECK_EQ(stats(r.s).events, WRITERS * a.events);
	CHECK_EQ(totals(r.l).heap, a.live);
	CHECK_EQ(totals(r.l).unknown_frees, 0);
	CHECK_EQ(totals(r.l).allocs + totals(r.l).frees, WRITERS * a.events);
	check_whole(&r);
	rig_free(&r);
}

/* ---- real threads that are asked all the time ---------------------------- */

/*
 * An allocator of CELLS_ASKED addresses that share a few counters: a number is taken after the
 * grant and before the release, as the hooks do, with nothing else to order the threads, and a
 * thread may be kept from running between its number and the store.
 */
enum { ASKED = 4, CELLS_ASKED = 96, COUNTERS_ASKED = 6 };

struct asked {
	struct wire_process *w;
	unsigned events;
	uint64_t address[CELLS_ASKED];
	int taken[CELLS_ASKED];	     /* by the pretended allocator */
	uint64_t given[CELLS_ASKED]; /* cell + 1 of a live block that anybody may have */
	uint64_t heap, blocks;	     /* at the end */
	unsigned running;
};

struct asked_thread {
	struct asked *all;
	unsigned t;
	uint64_t x;
};

static void dawdle(uint64_t *x)
{
	uint64_t n = test_random(x) % 3000;
	if (n == 0)
		usleep(2000);
	else if (n < 20)
		sched_yield();
}

static unsigned cell_take(struct asked *a, uint64_t *x)
{
	for (;;) {
		unsigned c = (unsigned)(test_random(x) % CELLS_ASKED);
		if (!__atomic_exchange_n(&a->taken[c], 1, __ATOMIC_ACQ_REL))
			return c;
	}
}

static void numbered(struct asked_thread *me, enum wire_kind k, unsigned cell, uint32_t size)
{
	struct asked *a = me->all;
	room(a->w, me->t);
	uint32_t n = __atomic_fetch_add(&a->w->counter[wire_counter(a->address[cell])], 1,
					__ATOMIC_ACQ_REL);
	dawdle(&me->x);
	store(a->w, me->t, wire_pack(k, a->address[cell], n, size, 1 + cell));
}

static void *asked_thread(void *arg)
{
	struct asked_thread *me = arg;
	struct asked *a = me->all;
	room(a->w, me->t);
	begin(a->w, me->t, 300 + me->t);
	for (unsigned i = 0; i < a->events; i++) {
		unsigned c = cell_take(a, &me->x);
		numbered(me, WIRE_ALLOC, c, 16 + c);
		uint64_t old =
			__atomic_exchange_n(&a->given[test_random(&me->x) % (CELLS_ASKED / 3)],
					    c + 1, __ATOMIC_ACQ_REL);
		if (!old)
			continue;
		c = (unsigned)old - 1;
		if (test_random(&me->x) % 4 == 0) {
			numbered(me, WIRE_LEAVE, c, 0);
			bool moves = test_random(&me->x) % 2;
			if (moves) {
				__atomic_store_n(&a->taken[c], 0, __ATOMIC_RELEASE);
				c = cell_take(a, &me->x);
			}
			numbered(me, WIRE_BECAME, c, 16 + c);
		}
		numbered(me, WIRE_FREE, c, 0);
		__atomic_store_n(&a->taken[c], 0, __ATOMIC_RELEASE);
	}
	__atomic_fetch_sub(&a->running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static uint64_t real_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void test_asked(void)
{
	struct rig r = rig_new(ASKED);
	static struct asked a;
	struct asked_thread me[ASKED];
	pthread_t id[ASKED];
	uint64_t began = real_ms(), seed_here = 88172645463325252ull, address = 0x2000000;
	memset(&a, 0, sizeof(a));
	a.w = r.w;
	a.events = 60000;
	a.running = ASKED;
	for (unsigned c = 0; c < CELLS_ASKED; address += 16)
		if (wire_counter(address) < COUNTERS_ASKED)
			a.address[c++] = address;
	for (unsigned t = 0; t < ASKED; t++) {
		me[t] = (struct asked_thread){ &a, t, test_random(&seed_here) };
		pthread_create(&id[t], NULL, asked_thread, &me[t]);
	}
	while (__atomic_load_n(&a.running, __ATOMIC_ACQUIRE)) {
		stream_settle(r.s, real_ms() - began, false);
		for (int i = 0; i < 3; i++)
			stream_take(r.s, real_ms() - began, 5000);
	}
	for (unsigned t = 0; t < ASKED; t++)
		pthread_join(id[t], NULL);
	stream_settle(r.s, real_ms() - began, true);
	uint64_t heap = 0, blocks = 0;
	for (unsigned c = 0; c < CELLS_ASKED; c++)
		if (a.given[c]) {
			heap += 16 + a.given[c] - 1;
			blocks++;
		}
	CHECK_EQ(totals(r.l).unknown_frees, 0);
	CHECK_EQ(totals(r.l).heap, heap);
	CHECK_EQ(totals(r.l).live_blocks, blocks);
	CHECK_EQ(totals(r.l).allocs - totals(r.l).frees, blocks);
	check_whole(&r);
	rig_free(&r);
}

/* ---- a hostile target ---------------------------------------------------- */

/* Where thread T's event of number N may be looked for, or another one's. */
static struct wire_event *anywhere(struct wire_process *w, unsigned t, uint64_t n)
{
	uint32_t big = __atomic_load_n(&w->thread[t].big, __ATOMIC_RELAXED);
	if (big - 1 >= WIRE_BIGS)
		return &w->thread[t].small[n % WIRE_SMALL];
	return &target_bigs(w)[big - 1].ring[n % WIRE_RING];
}

static void garbage(struct wire_process *w, uint64_t *x, unsigned threads)
{
	unsigned t = (unsigned)(test_random(x) % threads);
	struct wire_thread *th = &w->thread[t];
	uint64_t a = test_random(x), b = test_random(x);
	switch (test_random(x) % 64) {
	case 0: __atomic_store_n(&th->head, a, __ATOMIC_RELEASE); break;
	case 1: __atomic_store_n(&th->head, th->head - a % 100, __ATOMIC_RELEASE); break;
	case 2: __atomic_store_n(&th->tail, a, __ATOMIC_RELEASE); break;
	case 3:
		__atomic_store_n(&w->threads_high, (uint32_t)(a >> (a % 64)), __ATOMIC_RELEASE);
		break;
	case 4: __atomic_store_n(&w->threads_high, threads, __ATOMIC_RELEASE); break;
	case 5: __atomic_store_n(&w->signal_head, w->signal_head + a % 5, __ATOMIC_RELEASE); break;
	case 6: __atomic_store_n(&w->signal_head, a, __ATOMIC_RELEASE); break;
	case 7:
		__atomic_store_n(&w->signal[a % WIRE_SIGNAL_PLACES].state,
				 (uint32_t)(b % 5 ? b % 64 : b), __ATOMIC_RELEASE);
		break;
	case 8:
		__atomic_store_n(&w->counter[a % WIRE_COUNTERS], (uint32_t)b, __ATOMIC_RELEASE);
		break;
	case 9: __atomic_store_n(&w->ticket, a, __ATOMIC_RELEASE); break;
	case 10: __atomic_store_n(&th->waiting, 1, __ATOMIC_RELEASE); break;
	case 11: {
		struct wire_signal_event *s = &w->signal[a % WIRE_SIGNAL_PLACES];
		__atomic_store_n(&s->order,
				 __atomic_load_n(&w->signal_head, __ATOMIC_RELAXED) - b % 300 + 20,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&s->event[0].a, test_random(x), __ATOMIC_RELAXED);
		__atomic_store_n(&s->event[0].b, test_random(x), __ATOMIC_RELAXED);
		__atomic_store_n(&s->tid, (uint32_t)test_random(x), __ATOMIC_RELAXED);
		break;
	}
	case 12: __atomic_store_n(&th->fs, a % 3, __ATOMIC_RELEASE); break;
	case 13:
		__atomic_store_n(&th->big, a % 4 ? (uint32_t)(a % 8) : (uint32_t)b,
				 __ATOMIC_RELEASE);
		break;
	case 14: __atomic_store_n(&th->moved, th->head + a % 600 - 300, __ATOMIC_RELEASE); break;
	case 15: __atomic_store_n(&th->moved, b, __ATOMIC_RELEASE); break;
	case 16: __atomic_store_n(&w->bigs, (uint32_t)b, __ATOMIC_RELEASE); break;
	default: {
		uint64_t n = 1 + test_random(x) % 64;
		for (uint64_t i = 0; i < n; i++) {
			uint64_t addr = test_random(x) >> (test_random(x) % 3 ? 17 : 40),
				 kind = test_random(x) %
					(WIRE_KINDS + (test_random(x) % 10 == 0 ? 12 : 0));
			struct wire_event e =
				wire_pack((enum wire_kind)(kind & 31), addr,
					  (uint32_t)(test_random(x) % 4 ? test_random(x) % 8
									: test_random(x)),
					  (uint32_t)test_random(x),
					  (uint32_t)(test_random(x) >> (40 + test_random(x) % 20)));
			struct wire_event *at = anywhere(w, t, th->head + i);
			__atomic_store_n(&at->a, test_random(x) % 8 ? e.a : test_random(x),
					 __ATOMIC_RELAXED);
			__atomic_store_n(&at->b, test_random(x) % 8 ? e.b : test_random(x),
					 __ATOMIC_RELAXED);
		}
		__atomic_store_n(&th->head, th->head + n, __ATOMIC_RELEASE);
	}
	}
}

static void test_garbage(void)
{
	struct rig r = rig_new(4);
	uint64_t x = 99;
	for (int i = 0; i < 40000; i++) {
		garbage(r.w, &x, 4);
		if (i % 37 == 0)
			stream_take(r.s, (uint64_t)i / 100, 1 + x % 5000);
		if (i % 5003 == 0)
			stream_settle(r.s, (uint64_t)i / 100, x % 16 == 0);
		if (i % 997 == 0)
			stream_thread_gone(r.s, (uint64_t)i / 100, 1 + x % 3);
		if (i % 1000 == 0)
			stream_missing(r.s);
	}
	stream_settle(r.s, 1u << 30, true);
	CHECK_EQ(stats(r.s).held_now, 0);
	CHECK(stats(r.s).bad > 0);
	CHECK(ledger_memory(r.l) < 1u << 30);
	rig_free(&r);
}

static int stop;

static void *vandal(void *arg)
{
	uint64_t x = 7;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		garbage(arg, &x, 4);
	return NULL;
}

static void test_garbage_meanwhile(void)
{
	struct rig r = rig_new(4);
	pthread_t id;
	stop = 0;
	pthread_create(&id, NULL, vandal, r.w);
	for (int i = 0; i < 3000; i++) {
		stream_take(r.s, (uint64_t)i, 2000);
		if (i % 100 == 0)
			stream_settle(r.s, (uint64_t)i, i % 200 == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(id, NULL);
	stream_settle(r.s, 1u << 30, true);
	CHECK_EQ(stats(r.s).held_now, 0);
	rig_free(&r);
}

/*
 * All numbers of one counter, the last first: the chain is built from behind, and a search in it
 * must end.
 */
static void test_backwards(void)
{
	struct rig r = rig_new(1);
	for (uint32_t round = 0; round < 200; round++) {
		for (uint32_t i = 0; i < 5000; i++)
			store(r.w, 0,
			      wire_pack(WIRE_ALLOC, 0x1000,
					round % 2 ? 1000000 - round * 5000 - i
						  : (uint32_t)(rnd() % 10000000),
					1, 1));
		stream_take(r.s, 1, 1000000);
	}
	CHECK(stats(r.s).held_now > 0);
	stream_settle(r.s, 2, true);
	CHECK_EQ(stats(r.s).held_now, 0);
	rig_free(&r);
}

/*
 * Another ledger, with everything in flight: a number drawn, an event held behind it, a realloc
 * half told of.
 */
static void test_switch(void)
{
	struct rig r = rig_new(2);
	struct ledger *before = r.l;
	begin(r.w, 0, 100);
	begin(r.w, 1, 101);
	alloc(r.w, 0, 0x1000, 10, 1);
	alloc(r.w, 0, 0x2000, 20, 1);
	leave(r.w, 1, 0x2000);
	/* thread 1's free, not stored yet */
	uint32_t early = number(r.w, 0x1000);
	alloc(r.w, 0, 0x1000, 40, 1);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).held_now, 1);
	CHECK_EQ(totals(before).heap, 30);
	r.l = ledger_new(BOTH);
	stream_switch(r.s, r.l);
	store(r.w, 1, wire_pack(WIRE_FREE, 0x1000, early, 0, 0));
	became(r.w, 1, 0x3000, 80, 1);
	alloc(r.w, 1, 0x4000, 160, 1);
	stream_take(r.s, 2, 1000);
	CHECK_EQ(totals(before).heap, 30); /* nothing is told to it any more */
	CHECK_EQ(totals(before).allocs, 2);
	CHECK_EQ(totals(r.l).heap, 40 + 80 + 160);
	CHECK_EQ(totals(r.l).unknown_frees, 1);
	CHECK_EQ(stats(r.s).bad, 0);
	CHECK_EQ(stats(r.s).held_now, 0);
	CHECK_EQ(stream_missing(r.s), 0);
	struct ledger_block b;
	CHECK(ledger_find(r.l, 0x1000, &b) && ledger_thread_tid(r.l, b.thread) == 100);
	CHECK(ledger_find(r.l, 0x3000, &b) && ledger_thread_tid(r.l, b.thread) == 101);
	ledger_free(before);
	rig_free(&r);
}

int main(void)
{
	RUN(test_one_thread);
	RUN(test_held);
	RUN(test_hurry);
	RUN(test_realloc_order);
	RUN(test_realloc_waits);
	RUN(test_tickets);
	RUN(test_time_merge);
	RUN(test_signals);
	RUN(test_signals_circle);
	RUN(test_settle_waits);
	RUN(test_lowest_ticket);
	RUN(test_ticket_beside);
	RUN(test_early_tickets);
	RUN(test_turns);
	RUN(test_long_time);
	RUN(test_time_to_come);
	RUN(test_patience);
	RUN(test_owed);
	RUN(test_circle_of_a_ring);
	RUN(test_circle_with_more);
	RUN(test_malformed);
	RUN(test_malformed_places);
	RUN(test_thread_ends);
	RUN(test_many_threads_end);
	RUN(test_sampled);
	RUN(test_questions);
	RUN(test_woken);
	RUN(test_watched);
	RUN(test_played);
	RUN(test_threads);
	RUN(test_asked);
	RUN(test_garbage);
	RUN(test_garbage_meanwhile);
	RUN(test_backwards);
	RUN(test_switch);
	return test_status();
}
