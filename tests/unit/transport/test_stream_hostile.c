// SPDX-License-Identifier: GPL-3.0-or-later
/* The stream against a pretended target that stores whatever it likes. */
#include "stream_rig.h"

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

int main(void)
{
	RUN(test_garbage);
	RUN(test_garbage_meanwhile);
	RUN(test_backwards);
	return test_status();
}
