// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_limit.c - whether a request fits, against a pretended target: what was given in advance,
 * what is in flight, what must be waited for, and a target that writes what it likes.
 */
#include "process/limit.h"

#include "inject/wire.h"
#include "pretended.h"
#include "process/process.h"
#include "test.h"

#define BOTH (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP)

/* Every stack's innermost frame is in the one module that there is; stack 0 is in none. */
static uint32_t parent_of(const struct process *p, uint32_t stack, uint64_t *pc)
{
	(void)p;
	*pc = stack ? 0x5000 : 0;
	return 0;
}

static const struct process_source source = { .parent = parent_of };
static struct modules modules;

static void limited(struct process *p, unsigned threads)
{
	process_begin(p, threads, process_own_mapping);
	p->source = &source;
	if (!modules.count) {
		CHECK_EQ(modules_add(&modules, &(struct module){ .path = (char *)"/no/such.so",
								 .start = 0x4000,
								 .end = 0x6000,
								 .dead = UINT32_MAX }),
			 0);
		modules_sort(&modules);
	}
	p->modules = modules;
	modules.module[0]->roles = 0;
	CHECK_EQ(limit_switch(p, BOTH), 0);
}

static void done(struct process *p)
{
	free(p->limit.lease);
	free(p->limit.refusal);
	process_end(p);
}

static struct room_question asks_for(uint32_t slot, enum wire_room kind, uint64_t n)
{
	return (struct room_question){ .slot = slot, .kind = kind, .arg = { n } };
}

static struct room_rules up_to(uint64_t limit, uint64_t ms)
{
	return (struct room_rules){ .limit = limit, .count = BOTH, .ms = ms };
}

static enum room_verdict judge(struct process *p, struct room_question q, uint64_t limit,
			       uint64_t ms, struct room_case *c)
{
	struct room_rules r = up_to(limit, ms);

	*c = (struct room_case){ 0 };
	return limit_judge(p, &q, &r, c);
}

/* The verdict about a block of N bytes, with the barrier that it may ask for passed at once. */
static enum room_verdict wants(struct process *p, uint32_t slot, uint64_t n, uint64_t limit,
			       uint64_t ms, struct room_case *c)
{
	enum room_verdict v = judge(p, asks_for(slot, ROOM_BLOCK, n), limit, ms, c);

	if (v != ROOM_FENCE)
		return v;
	limit_fenced(p);
	return judge(p, asks_for(slot, ROOM_BLOCK, n), limit, ms, c);
}

/* The verdict is put off at each look, every 10 ms of FROM to TO. */
static void put_off(struct process *p, uint32_t slot, uint64_t n, uint64_t limit, uint64_t from,
		    uint64_t to)
{
	struct room_case c;

	for (uint64_t ms = from; ms < to; ms += 10)
		CHECK_EQ(wants(p, slot, n, limit, ms, &c), ROOM_LATER);
}

/* ---- a hook's side ------------------------------------------------------- */

static struct wire_thread *thread(struct process *p, uint32_t slot)
{
	return &p->wire->thread[slot];
}

/* A block of N bytes that was charged: its event, then it is settled. */
static void settle(struct process *p, uint32_t slot, raddr_t at, uint64_t n)
{
	alloc(p->wire, slot, at, n, 1);
	thread(p, slot)->settled += n;
}

/* From what its thread was given in advance. */
static void takes(struct process *p, uint32_t slot, raddr_t at, uint64_t n)
{
	CHECK(thread(p, slot)->charged + n <= thread(p, slot)->given + thread(p, slot)->credited);
	thread(p, slot)->charged += n;
	settle(p, slot, at, n);
}

/* Asks for N bytes, is given them, and has its block AT. */
static void given(struct process *p, uint32_t slot, raddr_t at, uint64_t n, uint64_t limit,
		  struct room_case *c)
{
	struct room_question q = asks_for(slot, ROOM_BLOCK, n);

	CHECK_EQ(wants(p, slot, n, limit, 1, c), ROOM_FITS);
	CHECK_EQ(limit_grant(p, &q, c), n);
	thread(p, slot)->charged += n;
	settle(p, slot, at, n);
}

/* It asks, and waits for the answer. */
static void waits(struct process *p, uint32_t slot, uint64_t first)
{
	thread(p, slot)->mail = (struct wire_mail){ .state = MAIL_ASKED | 5 * MAIL_TURN,
						    .what = ASK_ROOM,
						    .arg = { first } };
}

/* ---- refusals ------------------------------------------------------------ */

static void test_refusals(void)
{
	static const uint32_t stack[] = { 50, 7, 90, 50, 1, 60, 7, 50 };
	struct limit l = { 0 };

	for (uint64_t i = 0; i < sizeof(stack) / sizeof(*stack); i++)
		CHECK_EQ(limit_refused(&l, stack[i], 1ull << i), 0);
	CHECK_EQ(l.refusals, 5);
	CHECK(l.refusal[0].stack == 1 && l.refusal[0].count == 1 && l.refusal[0].bytes == 16);
	CHECK(l.refusal[1].stack == 7 && l.refusal[1].count == 2 && l.refusal[1].bytes == 66);
	CHECK(l.refusal[2].stack == 50 && l.refusal[2].count == 3 && l.refusal[2].bytes == 137);
	CHECK(l.refusal[3].stack == 60 && l.refusal[3].count == 1 && l.refusal[3].bytes == 32);
	CHECK(l.refusal[4].stack == 90 && l.refusal[4].count == 1 && l.refusal[4].bytes == 4);
	free(l.refusal);
}

/* ---- switching ----------------------------------------------------------- */

static void test_switch(void)
{
	struct process p, none = { .pid = 1 };

	CHECK_EQ(limit_switch(&none, BOTH), 0);
	CHECK(!none.limit.lease);
	process_begin(&p, 1, process_own_mapping);
	CHECK_EQ(limit_switch(&p, 0), 0);
	CHECK(!p.limit.lease);
	CHECK_EQ(p.wire->limited, 0);
	limit_thread_gone(&p, 0x1000); /* it has no books */
	CHECK_EQ(limit_switch(&p, LEDGER_COUNT_HEAP | COUNT_IMAGE), 0);
	CHECK(p.limit.lease != NULL);
	CHECK_EQ(p.wire->limited, LIMIT_BLOCKS);
	CHECK_EQ(limit_switch(&p, LEDGER_COUNT_MMAP), 0);
	CHECK_EQ(p.wire->limited, LIMIT_MAPS);
	CHECK_EQ(limit_switch(&p, BOTH), 0);
	CHECK_EQ(p.wire->limited, LIMIT_BLOCKS | LIMIT_MAPS);
	p.limit.above = true;
	CHECK_EQ(limit_switch(&p, 0), 0);
	CHECK(!p.limit.above);
	CHECK_EQ(p.wire->limited, 0);
	CHECK(p.limit.lease != NULL); /* what is in flight is counted still */
	done(&p);
}

static void test_question(void)
{
	struct shared_question asked = {
		.slot = 3, .arg = { ROOM_REMAP | ROOM_HANDLER | 77ull << 32, 1, 2, 3, 4 }
	};
	struct room_question q;

	room_question(&q, &asked);
	CHECK(q.slot == 3 && q.stack == 77 && q.kind == ROOM_REMAP && q.handler);
	CHECK(q.arg[0] == 1 && q.arg[1] == 2 && q.arg[2] == 3 && q.arg[3] == 4);
	asked.arg[0] = ROOM_BLOCK;
	room_question(&q, &asked);
	CHECK(q.stack == 0 && q.kind == ROOM_BLOCK && !q.handler);
}

/* ---- one thread ---------------------------------------------------------- */

/* It is given all that is left in advance; the verdict is exact to the byte. */
static void test_one_thread(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_BLOCK, 100);

	limited(&p, 1);
	CHECK_EQ(wants(&p, 0, 100, 1000, 1, &c), ROOM_FITS);
	CHECK(c.allocated == 0 && c.growth == 100 && c.charge == 100 && c.ahead == 900);
	CHECK_EQ(limit_grant(&p, &q, &c), 100);
	CHECK_EQ(thread(&p, 0)->given, 1000);
	thread(&p, 0)->charged += 100;
	settle(&p, 0, 0x10000, 100);
	takes(&p, 0, 0x20000, 500);
	CHECK_EQ(wants(&p, 0, 401, 1000, 1, &c), ROOM_CROSSES);
	CHECK(c.allocated == 600 && c.growth == 401);
	CHECK_EQ(limit_refuse(&p, &(struct room_question){ .slot = 0 }), ROOM_NONE);
	CHECK_EQ(wants(&p, 0, 400, 1000, 1, &c), ROOM_FITS);
	CHECK(c.allocated == 600 && c.charge == 400 && c.ahead == 0);
	CHECK_EQ(wants(&p, 0, 399, 1000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.ahead, 1);
	CHECK_EQ(wants(&p, 0, UINT64_MAX, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(wants(&p, 0, 0, 600, 1, &c), ROOM_FITS);
	CHECK_EQ(wants(&p, 0, 0, 10, 1, &c), ROOM_FITS); /* lowered: what takes nothing fits */
	CHECK_EQ(c.ahead, 0);
	release(p.wire, 0, 0x20000);
	CHECK_EQ(wants(&p, 0, 401, 1000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 100);
	done(&p);
}

/*
 * A refusal leaves the thread what it had, an answer that came too late leaves it as it was before
 * the question.
 */
static void test_answers(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_BLOCK, 300);

	limited(&p, 1);
	given(&p, 0, 0x10000, 100, 1000, &c); /* and 900 in advance */
	CHECK_EQ(thread(&p, 0)->given, 1000);
	CHECK_EQ(wants(&p, 0, 1000, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(thread(&p, 0)->given, 0); /* until there is an answer */
	CHECK_EQ(limit_refuse(&p, &q), ROOM_NONE);
	CHECK_EQ(thread(&p, 0)->given, 100); /* what it had in advance was taken back */
	CHECK_EQ(wants(&p, 0, 300, 1000, 1, &c), ROOM_FITS);
	CHECK_EQ(limit_grant(&p, &q, &c), 300);
	CHECK_EQ(thread(&p, 0)->given, 1000);
	limit_unanswered(&p, 0);
	CHECK_EQ(thread(&p, 0)->given, 100);
	limit_unanswered(&p, 0); /* once */
	CHECK_EQ(thread(&p, 0)->given, 100);
	CHECK_EQ(wants(&p, 0, 900, 1000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 100);
	/* what is said to a handler is nothing of its thread's */
	q.handler = true;
	thread(&p, 0)->given = 77;
	CHECK_EQ(limit_refuse(&p, &q), ROOM_NONE);
	CHECK_EQ(thread(&p, 0)->given, 77);
	free(p.limit.lease);
	p.limit.lease = NULL;
	limit_unanswered(&p, 0); /* it has no books */
	done(&p);
}

/* A free by the thread that allocated last credits it: it may charge as much again. */
static void test_credit(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 1);
	given(&p, 0, 0x10000, 100, 1000, &c);
	for (int i = 0; i < 50; i++) {
		takes(&p, 0, 0x20000, 900);
		thread(&p, 0)->credited += 900;
		release(p.wire, 0, 0x20000);
	}
	CHECK_EQ(wants(&p, 0, 900, 1000, 1, &c), ROOM_FITS);
	CHECK(c.allocated == 100 && c.ahead == 0);
	CHECK_EQ(wants(&p, 0, 901, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 100);
	done(&p);
}

/* ---- several threads ----------------------------------------------------- */

/* In advance a thread has half of its share, and nothing if that is little. */
static void test_shares(void)
{
	struct process p;
	struct room_case c;
	struct room_question handler = asks_for(0, ROOM_BLOCK, 1000);

	limited(&p, 4);
	CHECK_EQ(wants(&p, 0, 1000, 9000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.ahead, 1000);
	CHECK_EQ(wants(&p, 0, 1000, 1000 + 8 * 512, 1, &c), ROOM_FITS);
	CHECK_EQ(c.ahead, 512);
	CHECK_EQ(wants(&p, 0, 1000, 1000 + 8 * 512 - 1, 1, &c), ROOM_FITS);
	CHECK_EQ(c.ahead, 0);
	handler.handler = true;
	CHECK_EQ(judge(&p, handler, 9000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.ahead, 0);
	done(&p);
}

/* What another thread has in advance is taken back before a request is said to cross the limit. */
static void test_leases(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 1000, 10000, &c); /* and a quarter of 9000 */
	CHECK_EQ(thread(&p, 1)->given, 3250);
	takes(&p, 1, 0x20000, 250);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 6750), 10000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 3250);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 6751), 10000, 1, &c), ROOM_FENCE);
	CHECK_EQ(thread(&p, 1)->given, 0);
	CHECK_EQ(thread(&p, 0)->given, 0);
	/* not yet: it may have read what it was given before */
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 8751), 10000, 1, &c), ROOM_FENCE);
	limit_fenced(&p);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 8751), 10000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 1250);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 8750), 10000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 1250);
	/* nothing is left of it, so nobody need be asked */
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 8751), 10000, 1, &c), ROOM_CROSSES);
	done(&p);
}

/* What was charged and has no event yet counts, wherever its thread is between the two. */
static void test_in_flight(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 1000, 10000, &c);
	thread(&p, 1)->charged += 2000; /* its event is to come */
	CHECK_EQ(wants(&p, 0, 7000, 10000, 1, &c), ROOM_FITS);
	CHECK_EQ(wants(&p, 0, 7001, 10000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 3000);
	alloc(p.wire, 1, 0x20000, 2000, 1); /* stored, and not settled: it is counted twice */
	CHECK_EQ(wants(&p, 0, 5000, 10000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 5000);
	thread(&p, 1)->settled += 2000;
	CHECK_EQ(wants(&p, 0, 7000, 10000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 3000);
	done(&p);
}

/* The event is applied that test_settled() waits for. */
static void settles_meanwhile(void *ctx, uint32_t id, struct wire_event e)
{
	struct process *p = ctx;

	(void)id;
	(void)e;
	thread(p, 1)->settled = thread(p, 1)->charged;
}

/* What is settled while the rings are read is not counted twice. */
static void test_settled(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 1000, 10000, &c);
	thread(&p, 1)->charged += 2000;
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 7001), 10000, 1, &c), ROOM_FENCE);
	limit_fenced(&p);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 7001), 10000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 3000);
	alloc(p.wire, 1, 0x20000, 2000, 1);
	stream_watch(p.stream, settles_meanwhile, &p);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 7000), 10000, 2, &c), ROOM_LATER);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 7001), 10000, 2, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 3000);
	stream_watch(p.stream, NULL, NULL);
	done(&p);
}

/*
 * A thread may charge again what it frees as long as its lease is open: so it is closed for a
 * verdict, also if nothing of it is left.
 */
static void test_open(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 6000, 7000, &c);
	CHECK_EQ(thread(&p, 1)->given, 6000);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 1001), 7000, 1, &c), ROOM_FENCE);
	CHECK_EQ(thread(&p, 1)->given, 0);
	limit_fenced(&p);
	CHECK_EQ(judge(&p, asks_for(0, ROOM_BLOCK, 1001), 7000, 1, &c), ROOM_CROSSES);
	/* a refused one may go on without asking, too */
	CHECK_EQ(limit_refuse(&p, &(struct room_question){ .slot = 0 }), ROOM_NONE);
	CHECK_EQ(judge(&p, asks_for(1, ROOM_BLOCK, 1001), 7000, 1, &c), ROOM_FENCE);
	limit_fenced(&p);
	CHECK_EQ(judge(&p, asks_for(1, ROOM_BLOCK, 1001), 7000, 1, &c), ROOM_CROSSES);
	done(&p);
}

/* A thread that keeps books is waited for, for a second; one that waits for us is not. */
static void test_busy(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 1000, 10000, &c);
	thread(&p, 1)->mark = 0x7ffe0000 | 1;
	put_off(&p, 0, 8000, 10000, 50, 1050);
	CHECK_EQ(wants(&p, 0, 8000, 10000, 1049, &c), ROOM_LATER);
	CHECK_EQ(wants(&p, 0, 8000, 10000, 1050, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 3250); /* all that it may have taken */
	limit_refuse(&p, &(struct room_question){ .slot = 0 });
	/* another question, another second */
	CHECK_EQ(wants(&p, 0, 8000, 10000, 3000, &c), ROOM_LATER);
	waits(&p, 1, ROOM_BLOCK | ROOM_HANDLER); /* a handler's: its thread keeps books still */
	CHECK_EQ(wants(&p, 0, 8000, 10000, 3001, &c), ROOM_LATER);
	waits(&p, 1, ROOM_BLOCK);
	thread(&p, 1)->mail.what = ASK_API; /* something else */
	CHECK_EQ(wants(&p, 0, 8000, 10000, 3001, &c), ROOM_LATER);
	thread(&p, 1)->mail.what = ASK_ROOM;
	thread(&p, 1)->mail.state = MAIL_WORK | 5 * MAIL_TURN;
	CHECK_EQ(wants(&p, 0, 8000, 10000, 3001, &c), ROOM_LATER);
	waits(&p, 1, ROOM_BLOCK);
	CHECK_EQ(wants(&p, 0, 8000, 10000, 3001, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 1000);
	done(&p);
}

/* A slot that has no thread keeps no books, whatever its mark says. */
static void test_nobody(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 3);
	for (uint32_t i = 0; i < 2; i++) {
		thread(&p, 1)->fs = i;
		thread(&p, 1)->mark = ~0ull;
		CHECK_EQ(wants(&p, 0, 10001, 10000, 1, &c), ROOM_CROSSES);
	}
	thread(&p, 1)->fs = 2;
	CHECK_EQ(wants(&p, 0, 10001, 10000, 2, &c), ROOM_LATER);
	done(&p);
}

/*
 * A handler that has interrupted its own thread's books does not wait for them: they are exact,
 * wherever that was.
 */
static void test_handler(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_BLOCK, 600);

	limited(&p, 1);
	given(&p, 0, 0x10000, 100, 1000, &c);
	thread(&p, 0)->mark = 0x7ffe0000 | 1;
	q.handler = true;
	/* what its thread has in advance is taken back */
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	CHECK(c.allocated == 100 && c.ahead == 0);
	CHECK_EQ(limit_grant(&p, &q, &c), 600);
	CHECK_EQ(thread(&p, 0)->given, 0); /* nothing of its thread's */
	CHECK_EQ(wants(&p, 0, 301, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 700);
	limit_unanswered(&p, 0);
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 100);
	CHECK_EQ(limit_grant(&p, &q, &c), 600);
	/* its event, as a handler writes it */
	p.wire->signal[0] = (struct wire_signal_event){
		.tid = 9,
		.event = { wire_pack(WIRE_ALLOC, 0x30000, number(p.wire, 0x30000), 600, 1) },
		.state = PLACE_READY
	};
	p.wire->signal_head = 1;
	put_off(&p, 0, 301, 1000, 1, 101); /* not settled yet: counted twice */
	CHECK_EQ(wants(&p, 0, 301, 1000, 101, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 1300);
	CHECK_EQ(limit_refuse(&p, &(struct room_question){ .slot = 0 }), ROOM_NONE);
	p.wire->signal_settled = 600;
	CHECK_EQ(wants(&p, 0, 301, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 700);
	CHECK_EQ(wants(&p, 0, 300, 1000, 1, &c), ROOM_FITS);
	done(&p);
}

/* Its thread was about to charge, or its event is in the ring and not settled. */
static void test_handler_within(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_MAP, 400);

	limited(&p, 1);
	given(&p, 0, 0x10000, 100, 1000, &c);
	thread(&p, 0)->mark = 0x7ffe0000 | 1;
	q.handler = true;
	q.stack = 1;
	/* it has seen 900 given, and may take 500 of them */
	thread(&p, 0)->settles = UINT64_MAX;
	thread(&p, 0)->charging = 600;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 600);
	q.arg[0] = 401;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 600);
	/* it has taken them */
	thread(&p, 0)->charged = 600;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 600);
	/* there is their event */
	thread(&p, 0)->settles = thread(&p, 0)->head;
	alloc(p.wire, 0, 0x20000, 500, 1);
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 600);
	q.arg[0] = 400;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	/* what was never given is not taken either: it will ask */
	thread(&p, 0)->settled = 600;
	thread(&p, 0)->settles = UINT64_MAX;
	thread(&p, 0)->charging = 1400;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 600);
	done(&p);
}

/*
 * Two threads, each interrupted in its books by a handler that asks: neither waits for the other.
 */
static void test_two_handlers(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_BLOCK, 9800);

	limited(&p, 2);
	given(&p, 0, 0x10000, 100, 10000, &c);
	given(&p, 1, 0x20000, 100, 10000, &c);
	CHECK(thread(&p, 0)->given + thread(&p, 1)->given > 4000);
	for (uint32_t i = 0; i < 2; i++) {
		thread(&p, i)->fs = 2 + i;
		thread(&p, i)->mark = 0x7ffe0000 | 1;
		waits(&p, i, ROOM_BLOCK | ROOM_HANDLER);
	}
	q.handler = true;
	CHECK_EQ(judge(&p, q, 10000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 200);
	done(&p);
}

/* P, of one thread, with an event that is held for one that is missing: 600 bytes. */
static void limited_held(struct process *p)
{
	limited(p, 1);
	number(p->wire, 0x10000);
	alloc(p->wire, 0, 0x10000, 600, 1);
}

/*
 * An event that is held for one that is missing: its block counts, and is waited for, for a second;
 * then what is certain is applied.
 */
static void test_held(void)
{
	struct process p;
	struct room_case c;

	limited_held(&p);
	CHECK_EQ(wants(&p, 0, 400, 1000, 10, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 600);
	put_off(&p, 0, 401, 1000, 10, 1010);
	CHECK_EQ(wants(&p, 0, 401, 1000, 1009, &c), ROOM_LATER);
	CHECK_EQ(wants(&p, 0, 401, 1000, 1010, &c), ROOM_CROSSES);
	CHECK_EQ(c.allocated, 600);
	done(&p);
}

/* A pause of the machine, or of mtrun, uses up no patience: what is missing comes after it. */
static void test_paused(void)
{
	struct process p;
	struct room_case c;

	limited_held(&p);
	for (uint64_t ms = 10; ms < 49 * 3000; ms += 3000)
		CHECK_EQ(wants(&p, 0, 401, 1000, ms, &c), ROOM_LATER);
	done(&p);
}

/* A ring that stands still for a ticket: what it has settled is not known yet, so it is counted. */
static void test_ticket(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 1000, 100000, &c);
	ticket(p.wire);
	takes(&p, 1, 0x100000, 5000);
	CHECK_EQ(wants(&p, 0, 90000, 100000, 10, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 7000); /* the first block twice: it is not known to be settled */
	for (uint64_t ms = 20; ms <= 110; ms += 10)
		CHECK_EQ(wants(&p, 0, 90000, 100000, ms, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 6000); /* it is not waited for any longer */
	done(&p);
}

/* ---- what a request is about --------------------------------------------- */

/* A realloc takes what it grows by, and has both blocks charged meanwhile. */
static void test_resize(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_RESIZE, 700);

	limited(&p, 1);
	given(&p, 0, 0x10000, 600, 1000, &c);
	q.arg[1] = 0x10000;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	CHECK(c.allocated == 600 && c.growth == 100 && c.charge == 700 && c.ahead == 0);
	q.arg[0] = 1000;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	q.arg[0] = 1001;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.growth, 401);
	q.arg[0] = 500; /* what shrinks fits, wherever the limit is */
	CHECK_EQ(judge(&p, q, 10, 1, &c), ROOM_FITS);
	CHECK_EQ(c.growth, 0);
	q = asks_for(0, ROOM_RESIZE, 401); /* of no block, or of its middle */
	q.arg[1] = 0x10008;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.growth, 401);
	done(&p);
}

/* While a realloc is under way old and new are counted: a verdict waits for it, for a moment. */
static void test_resizing(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 1000, 10000, &c);
	limit_close(&p);
	limit_fenced(&p);
	thread(&p, 1)->mark = 0x7ffe0000;
	store(p.wire, 1, wire_pack(WIRE_LEAVE, 0x10000, number(p.wire, 0x10000), 0, 0));
	/* in the real function, but nothing of it is charged */
	CHECK_EQ(wants(&p, 0, 9001, 10000, 10, &c), ROOM_CROSSES);
	limit_refuse(&p, &(struct room_question){ .slot = 0 });
	thread(&p, 1)->charged += 0;
	given(&p, 1, 0x20000, 10, 10000, &c);
	thread(&p, 1)->charged += 500;
	put_off(&p, 0, 9001, 10000, 10, 110);
	CHECK_EQ(wants(&p, 0, 9001, 10000, 109, &c), ROOM_LATER);
	CHECK_EQ(wants(&p, 0, 9001, 10000, 110, &c), ROOM_CROSSES);
	limit_refuse(&p, &(struct room_question){ .slot = 0 });
	store(p.wire, 1, wire_pack(WIRE_STAYED, 0x10000, number(p.wire, 0x10000), 0, 0));
	CHECK_EQ(wants(&p, 0, 9001, 10000, 200, &c), ROOM_CROSSES);
	done(&p);
}

/* Before what ends the program others may give something back, if there are any that run. */
static void test_grace(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_BLOCK, 1001);
	struct room_rules r = up_to(1000, 50);

	limited(&p, 2);
	CHECK_EQ(limit_judge(&p, &q, &r, &c), ROOM_CROSSES);
	r.final = true;
	r.ms = 52;
	CHECK_EQ(limit_judge(&p, &q, &r, &c), ROOM_LATER);
	r.ms = 53;
	CHECK_EQ(limit_judge(&p, &q, &r, &c), ROOM_CROSSES);
	r.ms = 52;
	r.frozen = true;
	CHECK_EQ(limit_judge(&p, &q, &r, &c), ROOM_CROSSES);
	r.frozen = false;
	p.threads = 1;
	CHECK_EQ(limit_judge(&p, &q, &r, &c), ROOM_CROSSES);
	done(&p);
}

static void test_mappings(void)
{
	const uint64_t at = 0x7f0000000000;
	struct process p;
	struct room_case c;
	struct room_question q;

	limited(&p, 1);
	/* four pages of its own, of which the last is not accessible */
	store2(p.wire, 0, wire_pack(WIRE_MAP, at, 0, WIRE_PROT_READ | WIRE_MAP_ANON, 0), 3 * 4096,
	       ticket(p.wire));
	store2(p.wire, 0, wire_pack(WIRE_MAP, at + 3 * 4096, 0, WIRE_MAP_ANON, 0), 4096,
	       ticket(p.wire));
	q = asks_for(0, ROOM_MAP, 4096);
	CHECK_EQ(judge(&p, q, 4 * 4096, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 3 * 4096);
	CHECK_EQ(judge(&p, q, 4 * 4096 - 1, 1, &c), ROOM_CROSSES);
	q.arg[1] = at + 2 * 4096; /* in the place of one that counts */
	q.arg[0] = 2 * 4096;
	CHECK_EQ(judge(&p, q, 4 * 4096, 1, &c), ROOM_FITS);
	CHECK_EQ(judge(&p, q, 4 * 4096 - 1, 1, &c), ROOM_CROSSES);
	CHECK(c.growth == 4096 && c.charge == 4096);
	q.arg[0] = 4096;
	CHECK_EQ(judge(&p, q, 4096, 1, &c), ROOM_FITS); /* it takes nothing */
	CHECK(c.growth == 0 && c.charge == 0);

	q = asks_for(0, ROOM_PROTECT, 2 * 4096);
	q.arg[1] = at + 2 * 4096;
	CHECK_EQ(judge(&p, q, 4 * 4096, 1, &c), ROOM_FITS);
	CHECK_EQ(judge(&p, q, 4 * 4096 - 1, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.growth, 4096);

	q = asks_for(0, ROOM_REMAP, 5 * 4096); /* its first three pages become five */
	q.arg[1] = at;
	q.arg[2] = 3 * 4096;
	CHECK_EQ(judge(&p, q, 5 * 4096, 1, &c), ROOM_FITS);
	CHECK_EQ(judge(&p, q, 5 * 4096 - 1, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.growth, 2 * 4096);
	q.arg[0] = 3 * 4096; /* its first page becomes three, where its third one is */
	q.arg[2] = 4096;
	q.arg[3] = at + 2 * 4096;
	CHECK_EQ(judge(&p, q, 4 * 4096 - 1, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.growth, 4096);
	q.arg[1] = at + 3 * 4096; /* one that is not accessible stays so */
	q.arg[3] = 0;
	CHECK_EQ(judge(&p, q, 4096, 1, &c), ROOM_FITS);
	CHECK_EQ(c.growth, 0);

	q = asks_for(0, ROOM_BREAK, 4096);
	CHECK_EQ(judge(&p, q, 4 * 4096, 1, &c), ROOM_FITS);
	CHECK_EQ(judge(&p, q, 4 * 4096 - 1, 1, &c), ROOM_CROSSES);
	CHECK_EQ(c.growth, 4096);
	done(&p);
}

/* What a libc, a loader or an allocator maps for itself does not count. */
static void test_foreign(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_MAP, 5000);

	limited(&p, 1);
	q.stack = 1;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_CROSSES);
	modules.module[0]->roles = MODULE_LIBC;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	CHECK(c.growth == 0 && c.charge == 0);
	q.kind = ROOM_BREAK;
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_FITS);
	q.kind = ROOM_BLOCK; /* what malloc gives does, whoever calls it */
	CHECK_EQ(judge(&p, q, 1000, 1, &c), ROOM_CROSSES);
	done(&p);
}

/* ---- threads that end ---------------------------------------------------- */

static void test_thread_gone(void)
{
	struct process p;
	struct room_case c;

	limited(&p, 2);
	given(&p, 1, 0x10000, 1000, 10000, &c);
	thread(&p, 1)->charged += 2000; /* killed before it had them */
	thread(&p, 1)->mark = ~0ull;
	limit_thread_gone(&p, 0);
	limit_thread_gone(&p, 1);
	limit_thread_gone(&p, 0x7777);
	CHECK_EQ(thread(&p, 1)->given, 3250);
	limit_thread_gone(&p, 0x2000);
	CHECK_EQ(thread(&p, 1)->given, 0);
	CHECK_EQ(thread(&p, 1)->charged, 3000);
	CHECK_EQ(thread(&p, 1)->settled, 3000);
	thread(&p, 1)->fs = 1;
	CHECK_EQ(wants(&p, 0, 9000, 10000, 1, &c), ROOM_FITS);
	CHECK_EQ(c.allocated, 1000);
	/* a question that it was waiting with is not the next owner's */
	thread(&p, 1)->fs = 0x3000;
	thread(&p, 0)->mark = ~0ull;
	put_off(&p, 1, 9001, 10000, 100, 1000);
	limit_thread_gone(&p, 0x3000);
	thread(&p, 1)->fs = 0x4000;
	put_off(&p, 1, 9001, 10000, 1000, 2000);
	done(&p);
}

/* ---- above a limit that is only reported --------------------------------- */

static void test_above(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_BLOCK, 1500), other = asks_for(1, ROOM_BLOCK, 10);
	struct room_rules r = up_to(1000, 1);
	const struct limit_watch *w = &p.limit.watch;

	limited(&p, 2);
	thread(&p, 0)->tid = 70;
	begin(p.wire, 0, 70);
	begin(p.wire, 1, 71);
	CHECK_EQ(limit_judge(&p, &q, &r, &c), ROOM_CROSSES);
	limit_watch(&p, 0, &r);
	CHECK(p.limit.above);
	c.charge = c.growth;
	c.ahead = 0;
	CHECK_EQ(limit_grant(&p, &q, &c), 1500);
	thread(&p, 0)->charged += 1500;
	/* another one asks before it has its memory: above all the same */
	CHECK(limit_above(&p, &other, &r, &c));
	CHECK(c.growth == 10 && c.charge == 10);
	CHECK_EQ(c.ahead, (1u << 20) + 16 * 10);
	settle(&p, 0, 0x10000, 1500);
	q.arg[0] = 1ull << 30;
	CHECK(limit_above(&p, &q, &r, &c));
	CHECK_EQ(c.ahead, 17u << 20);
	q.handler = true;
	CHECK(limit_above(&p, &q, &r, &c));
	CHECK_EQ(c.ahead, 0);
	q.handler = false;
	CHECK_EQ(w->crossings, 0);

	/* below, and above again by an event: what was in advance is taken back, and it is told */
	limit_grant(&p, &other, &(struct room_case){ .charge = 10, .ahead = 1000 });
	release(p.wire, 0, 0x10000);
	CHECK(limit_above(&p, &other, &r, &c)); /* less is no request that fits */
	alloc(p.wire, 1, 0x20000, 400, 5);
	CHECK(!limit_above(&p, &other, &r, &c));
	CHECK_EQ(thread(&p, 1)->given, 0);
	CHECK_EQ(w->crossings, 0);
	alloc(p.wire, 1, 0x30000, 600, 6); /* up to it */
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 0);
	alloc(p.wire, 1, 0x40000, 50, 7);
	alloc(p.wire, 1, 0x50000, 60, 8);
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 1);
	CHECK(w->last.process == &p && w->last.tid == 71 && w->last.request == 50);
	CHECK(w->last.allocated == 1000 && w->last.limit == 1000 && w->last.stack == 7);
	CHECK(p.limit.above);
	release(p.wire, 1, 0x40000);
	alloc(p.wire, 1, 0x40000, 50, 9); /* it was above all the time */
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 1);
	/* from below at once; but not a block that is moved */
	for (uint32_t i = 3; i < 6; i++)
		release(p.wire, 1, i << 16);
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 1);
	alloc(p.wire, 1, 0x60000, 2000, 11);
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 2);
	CHECK(w->last.request == 2000 && w->last.allocated == 400 && w->last.stack == 11);
	store(p.wire, 1, wire_pack(WIRE_LEAVE, 0x60000, number(p.wire, 0x60000), 0, 0));
	store(p.wire, 1, wire_pack(WIRE_BECAME, 0x60000, number(p.wire, 0x60000), 2100, 12));
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 2);
	release(p.wire, 1, 0x60000);
	alloc(p.wire, 1, 0x30000, 10, 9);
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 2);
	CHECK(!p.limit.above);
	limit_unwatch(&p);
	CHECK(!p.limit.above);
	for (uint32_t i = 2; i < 4; i++)
		release(p.wire, 1, i << 16);
	alloc(p.wire, 1, 0x20000, 1, 9);
	alloc(p.wire, 1, 0x30000, 2000, 9);
	stream_take(p.stream, 1, SIZE_MAX);
	CHECK_EQ(w->crossings, 2);
	done(&p);
}

/* The request that crossed it came to nothing (its thread asks again): it is below. */
static void test_above_failed(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_BLOCK, 1500), other = asks_for(1, ROOM_BLOCK, 10);
	struct room_rules r = up_to(1000, 1);

	limited(&p, 2);
	limit_watch(&p, 0, &r);
	CHECK(limit_above(&p, &other, &r, &c));
	number(p.wire, 0x90000); /* what is held may be its memory */
	alloc(p.wire, 1, 0x90000, 10, 1);
	CHECK(limit_above(&p, &q, &r, &c));
	store(p.wire, 0, wire_pack(WIRE_FREE, 0x90000, 0, 0, 0));
	CHECK(!limit_above(&p, &q, &r, &c));
	done(&p);
	process_begin(&p, 1, process_own_mapping);
	limit_watch(&p, 0, &r); /* it has no limit */
	CHECK(!p.limit.above);
	done(&p);
}

/* Foreign mappings above the limit are granted, and charged nothing. */
static void test_above_foreign(void)
{
	struct process p;
	struct room_case c;
	struct room_question q = asks_for(0, ROOM_MAP, 5000);
	struct room_rules r = up_to(10, 1);

	limited(&p, 2);
	limit_watch(&p, 1, &r);
	q.stack = 1;
	CHECK(limit_above(&p, &q, &r, &c));
	CHECK_EQ(c.charge, 5000);
	modules.module[0]->roles = MODULE_LDSO;
	CHECK(limit_above(&p, &q, &r, &c));
	CHECK(c.charge == 0 && c.growth == 0);
	done(&p);
}

/* ---- a hostile target ---------------------------------------------------- */

/* It cheats itself out of its limit at most: sums stay sums, and what others hold stays counted. */
static void test_forged(void)
{
	static const uint64_t odd[] = { 0,    1,	  500,	      1000,	  1001,	     3250,
					3251, 1ull << 61, 1ull << 62, 1ull << 63, UINT64_MAX };
	const size_t n = sizeof(odd) / sizeof(*odd);
	struct room_case c;

	for (size_t i = 0; i < n * n * n; i++) {
		struct process p;
		struct wire_thread *t;
		uint64_t more;

		limited(&p, 3);
		given(&p, 2, 0x20000, 400, 10000, &c);
		given(&p, 1, 0x10000, 1000, 10000, &c);
		t = thread(&p, 1);
		more = t->given - 1000; /* that it has in advance, */
		t->charged = odd[i % n];
		t->settled = odd[i / n % n];
		t->credited = odd[i / n / n];
		/* and says to have charged */
		more = t->charged <= 1000 ? 0 : t->charged - 1000 < more ? t->charged - 1000 : more;
		CHECK_EQ(wants(&p, 0, 1, 1400, 1, &c), ROOM_CROSSES);
		CHECK(c.allocated >= 1400 && c.allocated < 1ull << 63);
		if (t->settled <= 1000)
			CHECK(c.allocated >= 1400 + more);
		CHECK_EQ(wants(&p, 0, UINT64_MAX, UINT64_MAX >> 2, 1, &c), ROOM_CROSSES);
		CHECK_EQ(wants(&p, 1, 1, UINT64_MAX >> 2, 1, &c),
			 c.allocated < UINT64_MAX >> 2 ? ROOM_FITS : ROOM_CROSSES);
		limit_thread_gone(&p, 0x2000);
		CHECK_EQ(t->charged, t->settled);
		t->charged = t->settled = t->credited = UINT64_MAX;
		CHECK_EQ(wants(&p, 0, 1, 1400, 1, &c), ROOM_CROSSES);
		if (test_bad) {
			printf("# charged %#llx, settled %#llx, credited %#llx\n",
			       (unsigned long long)odd[i % n], (unsigned long long)odd[i / n % n],
			       (unsigned long long)odd[i / n / n]);
			i = n * n * n;
		}
		done(&p);
	}
}

/* What it says of its books while a handler asks in their middle. */
static void test_forged_within(void)
{
	static const uint64_t odd[] = { 0,    1,    2,		999,	    1000,
					1001, 3250, 1ull << 62, 1ull << 63, UINT64_MAX };
	const size_t n = sizeof(odd) / sizeof(*odd);
	struct room_case c;

	for (size_t i = 0; i < n * n && !test_bad; i++) {
		struct room_question q = asks_for(0, ROOM_BLOCK, 1);
		enum room_verdict v = ROOM_LATER;
		struct process p;

		limited(&p, 3);
		given(&p, 2, 0x20000, 400, 10000, &c);
		given(&p, 1, 0x10000, 1000, 10000, &c);
		thread(&p, 1)->fs = 0x3000;
		thread(&p, 1)->mark = 0x7ffe0000 | 1;
		thread(&p, 1)->settles = odd[i % n];
		thread(&p, 1)->charging = odd[i / n];
		waits(&p, 1, ROOM_BLOCK | ROOM_HANDLER);
		q.handler = true; /* another one, which does not wait for that one */
		for (int k = 0; k < 3 && v != ROOM_CROSSES; k++) {
			v = judge(&p, q, 1400, 1, &c);
			if (v == ROOM_FENCE)
				limit_fenced(&p);
		}
		CHECK_EQ(v, ROOM_CROSSES);
		CHECK(c.allocated >= 1400 && c.allocated <= 10000);
		CHECK_EQ(judge(&p, q, 20000, 1, &c), ROOM_FITS);
		done(&p);
	}
}

int main(void)
{
	RUN(test_refusals);
	RUN(test_switch);
	RUN(test_question);
	RUN(test_one_thread);
	RUN(test_answers);
	RUN(test_credit);
	RUN(test_shares);
	RUN(test_leases);
	RUN(test_in_flight);
	RUN(test_settled);
	RUN(test_open);
	RUN(test_busy);
	RUN(test_nobody);
	RUN(test_handler);
	RUN(test_handler_within);
	RUN(test_two_handlers);
	RUN(test_held);
	RUN(test_paused);
	RUN(test_ticket);
	RUN(test_resize);
	RUN(test_resizing);
	RUN(test_grace);
	RUN(test_mappings);
	RUN(test_foreign);
	RUN(test_thread_gone);
	RUN(test_above);
	RUN(test_above_failed);
	RUN(test_above_foreign);
	RUN(test_forged);
	RUN(test_forged_within);
	return test_status();
}
