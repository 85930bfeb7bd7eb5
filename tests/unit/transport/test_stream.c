// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stream in small cases: a pretended target stores what it is told to, in the order that it is
 * told to.
 */
#include "stream_rig.h"

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

static struct ledger_wrong wrong;

static void on_wrong(void *ctx, const struct ledger_wrong *w)
{
	(void)ctx;
	wrong = *w;
}

/*
 * A block that nobody knows is released, and what has its memory then is seen first, as the release
 * waits for another one of its counter.
 */
static void test_late(void)
{
	struct rig r = rig_new(2);
	uint64_t other = 0x70000;
	begin(r.w, 0, 77);
	ledger_on_wrong(r.l, on_wrong, NULL);
	while (wire_counter(other) != wire_counter(0x5000))
		other += 16;
	uint32_t early = number(r.w, other);
	store(r.w, 0, wire_pack(WIRE_FREE, 0x5000, number(r.w, 0x5000), 0, 9));
	alloc(r.w, 0, 0x4000, 8000, 1);
	stream_take(r.s, 1, 1000);
	CHECK_EQ(stats(r.s).held_now, 1);
	store(r.w, 1, wire_pack(WIRE_ALLOC, other, early, 10, 1));
	stream_take(r.s, 2, 1000);
	CHECK_EQ(wrong.kind, WRONG_WITHIN);
	CHECK_EQ(wrong.address, 0x5000);
	CHECK(wrong.late);
	store(r.w, 0, wire_pack(WIRE_FREE, 0x5010, number(r.w, 0x5010), 0, 9));
	stream_take(r.s, 3, 1000);
	CHECK_EQ(wrong.address, 0x5010);
	CHECK(!wrong.late);
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

/* Passes every 10 ms, up to TO, since FROM, when there was one. */
static void passes(struct rig *r, uint64_t from, uint64_t to)
{
	for (uint64_t ms = from + 10; ms <= to; ms += 10)
		stream_take(r->s, ms, 1000);
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
	passes(&r, 1, 91);
	CHECK_EQ(totals(r.l).mmap, 4096);
	stream_take(r.s, 101, 1000); /* no longer */
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
			passes(&r, 2000, 2090);
			CHECK_EQ(totals(r.l).mmap, 8192);
			stream_take(r.s, 2100, 1000);
			CHECK_EQ(totals(r.l).mmap, 0);
			passes(&r, 2100, 2190); /* 4 is another one, and may still come */
			CHECK_EQ(totals(r.l).mmap, 0);
			stream_take(r.s, 2200, 1000);
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
	passes(&r, 1000, 1100);
	CHECK_EQ(totals(r.l).mmap, 4096);
	CHECK_EQ(totals(r.l).heap, 300);
	rig_free(&r);
}

/* A pause of the machine, or of mtrun, is not waiting: whoever has the ticket stood still, too. */
static void test_ticket_paused(void)
{
	struct rig r = rig_new(2);
	map(r.w, 1, SOME, 4096, 3, 1);
	for (uint64_t ms = 1000; ms < 5 * 3000; ms += 3000)
		stream_take(r.s, ms, 1000);
	CHECK_EQ(totals(r.l).mmap, 0);
	map(r.w, 0, SOME, 8192, 3, 0);
	stream_take(r.s, 30000, 1000);
	CHECK_EQ(totals(r.l).mmap, 8192);
	rig_free(&r);
}

/* Of a ring that goes on without a ticket what comes next waits for its turn, as before. */
static void test_ticket_missed(void)
{
	for (int how = 0; how < 3; how++) {
		struct rig r = rig_new(3);
		map(r.w, 1, SOME, 4096, 3, 1);
		unmap(r.w, 1, SOME + 0x10000, 4096, 4);
		map(r.w, 2, SOME + 0x20000, 4096, 3, 2);
		map(r.w, 2, SOME + 0x10000, 4096, 3, 3);
		stream_take(r.s, 1000, 1000);
		CHECK_EQ(totals(r.l).mmap, 0);
		if (how < 2)
			stream_settle(r.s, 1000, how);
		else
			passes(&r, 1000, 1100);
		CHECK_EQ(totals(r.l).maps, 3);
		CHECK_EQ(totals(r.l).unmaps, 1);
		CHECK_EQ(totals(r.l).mmap, 2 * 4096);
		rig_free(&r);
	}
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
	RUN(test_late);
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
	RUN(test_ticket_paused);
	RUN(test_ticket_missed);
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
	RUN(test_switch);
	return test_status();
}
