// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_counted.c - sampling in the ledger: blocks that stand for others, the table `known` of the
 * process, in which each block is counted that a hook has counted, and both in forked children.
 */
#include "inject/wire_event.h"
#include "ledger/ledger.h"
#include "test.h"

static uint64_t seed = 88172645463325252ull;
static uint64_t any(uint64_t n) { return test_random(&seed) % n; }

static struct ledger_totals totals(const struct ledger *l)
{
	struct ledger_totals t;

	ledger_totals(l, &t);
	return t;
}

/* ---- a hook's side, and what is to be in the ledger ---------------------- */

enum { BLOCKS = 400, STACKS = 5 };

struct held {
	bool live, counted;
	uint64_t size, bytes, count; /* bytes, count: what it stands for */
	uint32_t stack;
};
struct side {
	struct ledger *l;
	uint8_t known[WIRE_KNOWN];
	bool all; /* plain blocks are counted, too */
	struct held block[BLOCKS];
};

static raddr_t address(uint32_t k) { return 0x10000 + (raddr_t)k * 48; }

static uint64_t heap_of(const struct side *s, uint32_t stack, uint64_t *blocks)
{
	uint64_t sum = 0;

	*blocks = 0;
	for (uint32_t k = 0; k < BLOCKS; k++)
		if (s->block[k].live && (stack == STACKS || s->block[k].stack == stack)) {
			sum += s->block[k].bytes;
			*blocks += s->block[k].count;
		}
	return sum;
}

/* Of what STACK holds, by the theory; whole numbers as long as they are summed up. */
static double variance_of(const struct side *s, uint32_t stack)
{
	unsigned __int128 sum = 0;

	for (uint32_t k = 0; k < BLOCKS; k++) {
		const struct held *h = &s->block[k];

		if (h->live && h->stack == stack)
			sum += (unsigned __int128)h->bytes * (h->bytes - h->size);
	}
	return (double)sum;
}

/* What the ledger says that block K stands for is taken as it is, and must stay so. */
static void note(struct side *s, uint32_t k, struct held h)
{
	struct ledger_block b;

	CHECK(ledger_find(s->l, address(k), &b) && b.address == address(k) && b.size == h.size);
	h.live = true;
	h.bytes = b.bytes;
	h.count = b.count;
	s->block[k] = h;
}

static void give(struct side *s, uint32_t k, uint64_t size, uint32_t stack, bool counted,
		 uint64_t period)
{
	if (counted) {
		wire_known_add(s->known, address(k));
		ledger_alloc_counted(s->l, 0, 1, address(k), size, stack, period);
	} else {
		ledger_alloc(s->l, 0, 1, address(k), size, stack);
	}
	note(s, k, (struct held){ .counted = counted || s->all, .size = size, .stack = stack });
}

static size_t compare(const struct side *s)
{
	uint8_t known[WIRE_KNOWN] = { 0 };
	uint64_t blocks, heap;
	size_t wrong = 0;
	struct ledger_block b;

	for (uint32_t k = 0; k < BLOCKS; k++) {
		const struct held *h = &s->block[k];
		bool there = ledger_find(s->l, address(k), &b) && b.address == address(k);

		wrong += there != h->live;
		wrong += h->live && (b.size != h->size || b.bytes != h->bytes ||
				     b.count != h->count || b.stack != h->stack);
		if (h->live && h->counted)
			wire_known_add(known, address(k));
	}
	for (uint32_t stack = 0; stack <= STACKS; stack++) {
		heap = heap_of(s, stack, &blocks);
		if (stack == STACKS)
			wrong += totals(s->l).heap != heap || totals(s->l).live_blocks != blocks;
		else
			wrong += ledger_stack(s->l, stack)->live_bytes != (int64_t)heap ||
				 ledger_stack(s->l, stack)->live_count != (int64_t)blocks ||
				 ledger_variance(s->l, stack) != variance_of(s, stack);
	}
	return wrong + (memcmp(known, s->known, sizeof(known)) != 0);
}

static void event(struct side *s)
{
	uint32_t k = (uint32_t)any(BLOCKS), to = (uint32_t)any(BLOCKS);
	struct held was = s->block[k];
	bool counted = any(3);
	uint64_t size = any(5000), period = any(2) ? 1 + any(10000) : 0;

	if (!was.live) {
		give(s, k, size, (uint32_t)any(STACKS), counted, period);
		return;
	}
	switch (any(8)) {
	case 0: /* its free was never seen */
		give(s, k, size, (uint32_t)any(STACKS), counted, period);
		break;
	case 1: /* grows elsewhere, or where it is */
		if (s->block[to].live)
			to = k;
		ledger_leave(s->l, 0, 1, address(k));
		s->block[k].live = false;
		if (counted) {
			wire_known_add(s->known, address(to));
			ledger_became_counted(s->l, 0, 1, address(to), size, was.stack, period);
		} else {
			ledger_became(s->l, 0, 1, address(to), size, was.stack);
		}
		note(s, to,
		     (struct held){
			     .counted = counted || s->all, .size = size, .stack = was.stack });
		break;
	case 2:
		ledger_leave(s->l, 0, 1, address(k));
		ledger_stayed(s->l, 0, 1);
		break;
	case 3: /* stays, but its address has been given to somebody else */
		ledger_leave(s->l, 0, 1, address(k));
		s->block[k].live = false;
		give(s, k, size, was.stack, counted, period);
		ledger_stayed(s->l, 0, 1);
		break;
	case 4:
		ledger_leave(s->l, 0, 1, address(k));
		ledger_gone(s->l, 0, 1);
		s->block[k].live = false;
		break;
	default: ledger_release(s->l, 0, 1, address(k), false); s->block[k].live = false;
	}
}

static void begin(struct side *s)
{
	*s = (struct side){ .l = ledger_new(LEDGER_COUNT_HEAP) };
	ledger_thread(s->l, 7);
	ledger_known(s->l, s->known);
}

static void know_all(struct side *s, bool on)
{
	ledger_know_all(s->l, on);
	s->all = on;
	for (uint32_t k = 0; on && k < BLOCKS; k++)
		s->block[k].counted |= s->block[k].live;
}

/* ---- tests --------------------------------------------------------------- */

static void test_model(void)
{
	static struct side s;
	size_t wrong = 0;

	begin(&s);
	for (int i = 0; i < 60000 && !wrong; i++) {
		event(&s);
		if (!any(2000))
			know_all(&s, any(2));
		if (!any(3000))
			CHECK_EQ(ledger_compact(s.l, any(2)), 0);
		if (!any(20))
			ledger_move(s.l);
		if (!any(100))
			wrong += compare(&s);
	}
	CHECK_EQ(wrong, 0);
	ledger_free(s.l);
}

/* A realloc is under way when all blocks are to be counted: it is counted, too, whatever comes. */
static void test_leaving(void)
{
	for (int end = 0; end < 3; end++) {
		static struct side s;

		begin(&s);
		give(&s, 1, 100, 1, false, 0);
		give(&s, 2, 100, 1, true, 0);
		ledger_leave(s.l, 0, 1, address(1));
		CHECK(ledger_resizing(s.l));
		know_all(&s, true);
		CHECK_EQ(s.known[wire_known(address(1))], 1);
		CHECK_EQ(s.known[wire_known(address(2))], 1);
		know_all(&s, true); /* once */
		CHECK_EQ(s.known[wire_known(address(1))], 1);
		switch (end) {
		case 0: ledger_stayed(s.l, 0, 1); break;
		case 1:
			ledger_gone(s.l, 0, 1);
			s.block[1].live = false;
			break;
		default:
			ledger_became(s.l, 0, 1, address(3), 70, 2);
			s.block[1].live = false;
			note(&s, 3, (struct held){ .counted = true, .size = 70, .stack = 2 });
		}
		CHECK(!ledger_resizing(s.l));
		CHECK_EQ(compare(&s), 0);
		ledger_free(s.l);
	}
}

/* Where not all blocks are told of, a release of what is not known is nothing special. */
static void test_unknown(void)
{
	static struct side s;

	begin(&s);
	ledger_release(s.l, 0, 1, 0x7770, false);
	ledger_release(s.l, 0, 1, 0x7770, true);
	ledger_leave(s.l, 0, 1, 0x7770);
	ledger_gone(s.l, 0, 1);
	CHECK_EQ(totals(s.l).unknown_frees, 2);
	CHECK(!totals(s.l).estimated);
	ledger_sampled(s.l, 1024);
	ledger_release(s.l, 0, 1, 0x7770, false);
	ledger_leave(s.l, 0, 1, 0x7770);
	ledger_became(s.l, 0, 1, 0x8880, 5, 1);
	CHECK_EQ(totals(s.l).unknown_frees, 2);
	CHECK_EQ(totals(s.l).heap, 5);
	CHECK(totals(s.l).estimated);
	ledger_free(s.l);
}

/*
 * What was recorded before sampling began is exact; of the past, by sums alone: what held nothing
 * that was sampled, and all moments before.
 */
static void test_exact(void)
{
	static struct side s;
	double one;

	begin(&s);
	for (uint32_t k = 0; k < 20; k++)
		give(&s, k, 100, 1 + k % 2, false, 0);
	ledger_alloc(s.l, 0, 500, 0x999990, 1, 4);
	ledger_sampled(s.l, 1024);
	CHECK(ledger_variance(s.l, 1) == 0 && ledger_past_variance(s.l, 1, 600, 1000, 10) == 0);
	give(&s, 30, 100, 1, true, 1024);
	one = ledger_variance(s.l, 1);
	CHECK(one > 1e6 && one < 1.1e6); /* 1075 * 975 */
	CHECK(ledger_variance(s.l, 2) == 0 && ledger_variance(s.l, 3) == 0);
	CHECK(ledger_past_variance(s.l, 1, 499, 1000, 10) == 0);
	CHECK(ledger_past_variance(s.l, 2, 600, 1000, 10) == 0);
	CHECK(ledger_past_variance(s.l, 1, 600, 1000, 10) > 0.9e6);
	ledger_release(s.l, 0, 1, address(30), false);
	s.block[30].live = false;
	CHECK(ledger_variance(s.l, 1) == 0);
	ledger_free(s.l);
}

/* A block is temporary if nothing was allocated since, told of or not. */
static void test_temporary(void)
{
	static struct side s;

	begin(&s);
	give(&s, 1, 10, 1, true, 1000);
	ledger_release(s.l, 0, 1, address(1), false);
	CHECK(totals(s.l).temporary > 50); /* all for which it stands */
	uint64_t was = totals(s.l).temporary;
	give(&s, 1, 10, 1, true, 0);
	ledger_went_on(s.l, 0);
	ledger_release(s.l, 0, 1, address(1), false);
	CHECK_EQ(totals(s.l).temporary, was);
	give(&s, 1, 10, 1, true, 0);
	ledger_leave(s.l, 0, 1, address(1));
	ledger_stayed(s.l, 0, 1);
	ledger_release(s.l, 0, 1, address(1), false); /* the last one still */
	CHECK_EQ(totals(s.l).temporary, was + 1);
	ledger_free(s.l);
}

/*
 * Children have what there was, with a table of their own, whatever parent, child and others do
 * before they are asked.
 */
static void test_fork(void)
{
	enum { CHILDREN = 4 };
	static struct side s, child[CHILDREN];
	size_t wrong = 0, asked = 0;

	begin(&s);
	for (int i = 0; i < 40000 && !wrong; i++) {
		uint32_t c = (uint32_t)any(CHILDREN);

		event(&s);
		if (any(60))
			continue;
		if (!child[c].l) {
			child[c] = s;
			memset(child[c].known, 0, sizeof(child[c].known));
			child[c].all = false;
			child[c].l = ledger_fork(s.l);
			ledger_known(child[c].l, child[c].known);
			wrong += totals(child[c].l).heap != totals(s.l).heap;
			continue;
		}
		asked++;
		for (uint64_t n = any(30); n; n--) /* or it acts itself before it is asked */
			event(&child[c]);
		wrong += compare(&child[c]) + compare(&s);
		ledger_free(child[c].l);
		child[c].l = NULL;
	}
	CHECK_EQ(wrong, 0);
	CHECK(asked > 200);
	wrong = compare(&s);
	ledger_free(s.l); /* before its children */
	for (uint32_t c = 0; c < CHILDREN; c++)
		if (child[c].l) {
			wrong += compare(&child[c]);
			ledger_free(child[c].l);
		}
	CHECK_EQ(wrong, 0);
}

int main(void)
{
	RUN(test_model);
	RUN(test_leaving);
	RUN(test_unknown);
	RUN(test_exact);
	RUN(test_temporary);
	RUN(test_fork);
	return test_status();
}
