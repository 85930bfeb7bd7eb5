// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_big - the trampoline's ring.c and big.c against the supervisor's stream.c: what a thread
 * writes while it comes from its small ring to a big one is read once, in its order, whenever the
 * reader looks, also if the move was left in the middle or cannot be made.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>

#include "pretended.h"
#include "test.h"
#include "transport/shared.h"
#include "transport/stream.h"

#define own_call own_call_in_agent
#include "inject/blob.h"
#undef store
#undef own_call
#undef PROC
#undef BIGS
#undef BEACON
#undef GUARD
#define PROC   process
#define BIGS   target_bigs(process)
#define BEACON (&beacon)
#define GUARD  (&guard)
static struct wire_process *process;
static struct wire_beacon beacon;
static struct wire_guard guard;
const char blob_start[1];

/* What comes in between a store of the hooks and the next one, and after how many. */
static __thread void (*between)(void);
static __thread int later;

#define store(p, v)                                       \
	do {                                              \
		if (between && !later--)                  \
			between();                        \
		__atomic_store_n(p, v, __ATOMIC_RELEASE); \
	} while (0)

static long own_call(long nr, long a, long b, long c, long d)
{
	(void)a, (void)b, (void)c, (void)d;
	if (nr == __NR_gettid)
		return 77;
	sched_yield(); /* instead of a sleep */
	return 0;
}

static uint32_t mappable; /* how many big ones there can be */

bool slots_reach(uint32_t slot)
{
	(void)slot;
	return false;
}

bool bigs_reach(uint32_t big)
{
	if (big >= mappable)
		return false;
	__atomic_store_n(&process->bigs, big + 1, __ATOMIC_RELEASE);
	return true;
}

#include "inject/big.c"
#include "inject/patience.c"
#include "inject/ring.c"

static bool not_own(void *ctx, uint32_t stack)
{
	(void)ctx, (void)stack;
	return false;
}

struct rig {
	struct shared shared;
	struct ledger *l;
	struct stream *s;
};

static struct rig rig_new(void)
{
	struct rig r;

	process = target_new();
	process->slots = WIRE_THREADS;
	process->tls_ready = 1;
	mappable = WIRE_BIGS;
	beacon.alive = 1;
	r.shared = target_shared(process);
	r.l = ledger_new(LEDGER_COUNT_HEAP);
	return r;
}

static void rig_begin(struct rig *r) { r->s = stream_new(&r->shared, r->l, not_own, NULL); }

static void rig_end(struct rig *r)
{
	stream_free(r->s);
	ledger_free(r->l);
	target_free(process);
}

/* ROOM: for how many events it is asked. */
static void write_within(struct wire_thread *t, uint64_t i, unsigned room)
{
	uint64_t a = 0x100000 + i * 16;

	if (ring_room(t, room))
		ring_put(t, wire_pack(WIRE_ALLOC, a, number(process, a), (uint32_t)(i % 4000), 1));
}

static void write_alloc(struct wire_thread *t, uint64_t i) { write_within(t, i, 3); }

/* In two halves, which are not to come apart. */
static void write_wide(struct wire_thread *t, uint64_t i, uint64_t size)
{
	uint64_t a = 0x100000 + i * 16;

	if (ring_room(t, 3))
		ring_put2(t, wire_pack(WIRE_ALLOC_WIDE, a, number(process, a), 0, 1),
			  (struct wire_event){ size, ticket(process) });
}

static void check_read(struct rig *r, uint64_t blocks, uint64_t bytes)
{
	struct ledger_totals l;
	struct stream_stats s;

	stream_settle(r->s, 1, false);
	ledger_totals(r->l, &l);
	stream_stats(r->s, &s);
	CHECK_EQ(l.live_blocks, blocks);
	CHECK_EQ(l.heap, bytes);
	CHECK_EQ(s.bad, 0);
	CHECK_EQ(s.gaps, 0);
	CHECK_EQ(s.dropped, 0);
	CHECK_EQ(stream_missing(r->s), 0);
}

/* The whole ring of a big one, or with others before it a part of one. */
static void check_moves(uint32_t others, uint32_t every, uint64_t first)
{
	struct rig r = rig_new();
	uint64_t bytes = 0, n = 2000, held = 0;
	struct wire_thread *t = slot_of(0x5000);

	process->bigs = others;
	for (uint32_t i = 0; i < others; i++)
		process->big_owner[i] = WIRE_THREADS;
	rig_begin(&r);
	for (uint64_t i = 0; i < n; i++) {
		if (i % 3 == first) {
			write_wide(t, i, 5000 + i);
			bytes += 5000 + i;
		} else {
			write_alloc(t, i);
			bytes += i % 4000;
		}
		held = t->head - t->tail > held ? t->head - t->tail : held;
		if (every ? i % every == 0 : t->head - t->tail + 3 > wire_ring_size(others + 1))
			stream_take(r.s, 1, 1000);
	}
	CHECK_EQ(t->big, others + 1);
	CHECK(t->moved > WIRE_SMALL - 3 && t->moved <= WIRE_SMALL);
	CHECK(held <= wire_ring_size(others + 1));
	check_read(&r, n, bytes);
	rig_end(&r);
}

/* Read when it is full, after each event, or now and then; the first event is one or two long. */
static void test_moves(void)
{
	for (uint32_t every = 0; every < 300; every = every * 2 + 1)
		for (uint64_t first = 0; first < 2; first++)
			for (uint32_t others = 0; others <= WIRE_WHOLE_RINGS;
			     others += WIRE_WHOLE_RINGS / 2)
				check_moves(others, every, first);
}

/* A thread that has written less keeps its small ring; one that cannot move goes round in it. */
static void test_stays_small(void)
{
	struct rig r = rig_new();
	struct wire_thread *t = slot_of(0x5000);
	uint64_t n = WIRE_SMALL - 10, bytes = 0;

	rig_begin(&r);
	for (uint64_t i = 0; i < n; i++, bytes += i - 1)
		write_alloc(t, i);
	CHECK_EQ(t->big, 0);
	check_read(&r, n, bytes);
	mappable = 0;
	for (uint64_t i = n; i < 5000; i++, bytes += (i - 1) % 4000) {
		write_alloc(t, i);
		if (i % 100 == 0)
			stream_take(r.s, 1, 1000);
	}
	CHECK_EQ(t->big, 0);
	check_read(&r, 5000, bytes);
	mappable = 1; /* there is room after all */
	for (uint64_t i = 5000; i < 10000; i++, bytes += (i - 1) % 4000)
		write_alloc(t, i);
	CHECK_EQ(t->big, 1);
	check_read(&r, 10000, bytes);
	rig_end(&r);
}

static sigjmp_buf left;

static void leave(void) { siglongjmp(left, 1); }

/* A handler that comes between any two stores of the move, and does not return. */
static void test_left(void)
{
	for (volatile int when = 0; when < 8; when++) {
		struct rig r = rig_new();
		struct wire_thread *t = slot_of(0x5000);
		volatile uint64_t bytes = 0, blocks = 0;
		volatile bool was_left = false;

		rig_begin(&r);
		for (volatile uint64_t i = 0; i < 1000; i++) {
			if (i == WIRE_SMALL - 3) {
				between = leave;
				later = when;
			}
			if (sigsetjmp(left, 0)) {
				between = NULL;
				was_left = true;
				stream_take(r.s, 1, 1000);
				continue;
			}
			write_within(t, i, was_left ? 1 : 3);
			bytes += i % 4000;
			blocks++;
		}
		between = NULL;
		CHECK(was_left);
		CHECK_EQ(t->big, 1);
		for (uint32_t i = 1; i < process->bigs; i++)
			CHECK_EQ(process->big_owner[i], 0);
		stream_settle(r.s, 1, true); /* a number may have been taken, and not written */
		struct ledger_totals l;
		ledger_totals(r.l, &l);
		CHECK_EQ(l.live_blocks, blocks);
		CHECK_EQ(l.heap, bytes);
		rig_end(&r);
	}
}

/* What was a thread's is the next one's; no more is ever mapped than threads have at once. */
static void test_used_again(void)
{
	struct rig r = rig_new();
	uint64_t blocks = 0, bytes = 0;

	rig_begin(&r);
	for (uint64_t round = 0; round < 50; round++) {
		struct wire_thread *t[3];

		for (uint64_t k = 0; k < 3; k++) {
			t[k] = slot_of(0x5000 + round * 0x100 + k * 0x10);
			CHECK_EQ(t[k]->big, 0);
			for (uint64_t i = 0; i < 100 + 300 * k; i++, blocks++) {
				write_alloc(t[k], blocks);
				bytes += blocks % 4000;
			}
			CHECK_EQ(t[k]->big != 0, k > 0);
		}
		for (uint64_t k = 0; k < 3; k++)
			stream_thread_gone(r.s, 1, 0x5000 + round * 0x100 + k * 0x10);
		check_read(&r, blocks, bytes);
	}
	CHECK_EQ(process->bigs, 2);
	CHECK_EQ(process->threads_high, 3);
	CHECK_EQ(process->big_owner[0], 0);
	CHECK_EQ(process->big_owner[1], 0);
	rig_end(&r);
}

enum { WRITERS = 4, EACH = 300000 };

static void *writer(void *arg)
{
	uint64_t k = (uintptr_t)arg, x = k + 1;

	/* thread after thread, some of which write little */
	for (uint64_t i = 0, n; i < EACH; i += n) {
		struct wire_thread *t = slot_of(0x5000 + k * 0x1000000 + i * 0x10);

		n = test_random(&x) % (test_random(&x) % 2 ? 20000 : 400);
		n = n < EACH - i ? n : EACH - i;
		for (uint64_t j = i; j < i + n; j++) {
			if (j % 1000 == 5)
				write_wide(t, k * EACH + j, 5000);
			else
				write_alloc(t, k * EACH + j);
		}
		/* its end: the reader sees that */
		__atomic_store_n(&t->mark, 8, __ATOMIC_RELEASE);
		while (load(&t->mark))
			sched_yield();
	}
	return NULL;
}

static void test_threads(void)
{
	struct rig r = rig_new();
	pthread_t id[WRITERS];
	uint64_t bytes = 0;

	mappable = 2; /* not for all */
	rig_begin(&r);
	for (uint64_t i = 0; i < (uint64_t)WRITERS * EACH; i++)
		bytes += i % EACH % 1000 == 5 ? 5000 : i % 4000;
	for (uintptr_t k = 0; k < WRITERS; k++)
		pthread_create(&id[k], NULL, writer, (void *)k);
	for (uint64_t taken = 0, ms = 0; taken < (uint64_t)WRITERS * EACH; ms++) {
		taken += stream_take(r.s, ms, 1 + taken % 5000);
		for (uint32_t i = 0; i < load(&process->threads_high); i++) {
			struct wire_thread *t = &process->thread[i];

			if (load(&t->mark) != 8)
				continue;
			stream_thread_gone(r.s, ms, load(&t->fs));
			__atomic_store_n(&t->mark, 0, __ATOMIC_RELEASE);
		}
		struct stream_stats s;
		stream_stats(r.s, &s);
		taken = s.events;
	}
	for (uint32_t done = 0; done < WRITERS;) {
		for (uint32_t i = 0; i < load(&process->threads_high); i++)
			if (load(&process->thread[i].mark) == 8) {
				stream_thread_gone(r.s, 1, load(&process->thread[i].fs));
				__atomic_store_n(&process->thread[i].mark, 0, __ATOMIC_RELEASE);
			}
		if (pthread_tryjoin_np(id[done], NULL) == 0)
			done++;
	}
	check_read(&r, (uint64_t)WRITERS * EACH, bytes);
	CHECK(process->bigs <= 2);
	rig_end(&r);
}

int main(void)
{
	RUN(test_moves);
	RUN(test_stays_small);
	RUN(test_left);
	RUN(test_used_again);
	RUN(test_threads);
	return test_status();
}
