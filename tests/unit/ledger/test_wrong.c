// SPDX-License-Identifier: GPL-3.0-or-later
#include "inject/wire_event.h"
#include "ledger/ledger.h"

#include "test.h"

static struct {
	unsigned count;
	struct ledger_wrong last;
} heard;

static void hear(void *ctx, const struct ledger_wrong *w)
{
	CHECK(ctx == &heard);
	heard.count++;
	heard.last = *w;
}

static struct ledger *begin(uint32_t *thread, bool compact)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP);

	CHECK_EQ(ledger_compact(l, compact), 0);
	*thread = ledger_thread(l, 77);
	ledger_on_wrong(l, hear, &heard);
	heard.count = 0;
	return l;
}

/*
 * Within one tick blocks come and go at few addresses of one page, some released with a stack: the
 * one that is freed again is the last that was there.
 */
static void check_one_tick(bool compact)
{
	enum { PLACES = 3 };
	uint32_t t, size[PLACES] = { 0 }, seed = 1;
	bool live[PLACES] = { 0 };
	struct ledger *l = begin(&t, compact);
	unsigned wrong = 0;

	for (unsigned i = 1; i < 20000; i++) {
		unsigned k = (seed = seed * 1103515245u + 12345u) >> 16 & 0x7fff, at = k % PLACES;
		raddr_t addr = 0x1000 + 48 * at;

		if (!live[at] && size[at] && k % 7 == 0) {
			ledger_release(l, t, 100, addr, false);
			wrong += heard.last.kind != WRONG_FREED ||
				 heard.last.block.block.size != size[at] ||
				 heard.last.block.block.stack != size[at];
		} else if (!live[at]) {
			size[at] = 1 + i % 40;
			ledger_alloc(l, t, 100, addr, size[at], size[at]);
			live[at] = true;
		} else {
			if (k % 2)
				ledger_release_by(l, t, 100, addr, false, 9);
			else
				ledger_release(l, t, 100, addr, false);
			live[at] = false;
		}
	}
	CHECK_EQ(wrong, 0);
	CHECK(heard.count > 500);
	ledger_free(l);
}

static void check_freed_before(bool compact)
{
	uint32_t t;
	struct ledger *l = begin(&t, compact);

	ledger_alloc(l, t, 100, 0x1000, 40, 5);
	ledger_release(l, t, 200, 0x1000, false);
	CHECK_EQ(heard.count, 0);
	ledger_release_by(l, t, 300, 0x1000, false, 9);
	CHECK_EQ(heard.count, 1);
	CHECK_EQ(heard.last.kind, WRONG_FREED);
	CHECK_EQ(heard.last.stack, 9);
	CHECK_EQ(heard.last.block.block.size, 40);
	CHECK_EQ(heard.last.block.block.stack, 5);
	CHECK_EQ(heard.last.block.ms, 200);
	ledger_release(l, t, 300, 0x1000, true); /* libc's own */
	CHECK_EQ(heard.count, 1);
	for (unsigned i = 0; i < 100000; i++) /* within one tick, and each counts */
		ledger_release_by(l, t, 300, 0x1000, false, 9);
	CHECK_EQ(heard.count, 100001);
	CHECK_EQ(heard.last.kind, WRONG_FREED);
	ledger_leave_by(l, t, 400, 0x1000, 8);
	CHECK_EQ(heard.count, 100002);
	CHECK(heard.last.resize);
	ledger_gone(l, t, 400);
	ledger_alloc(l, t, 500, 0x1000, 50, 6); /* it is used again */
	ledger_release(l, t, 500, 0x1000, false);
	CHECK_EQ(heard.count, 100002);
	ledger_free(l);
}

static void test_within(void)
{
	uint32_t t;
	struct ledger *l = begin(&t, false);

	ledger_alloc(l, t, 100, 0x10000, 5000, 5);
	ledger_release_by(l, t, 300, 0x11000, false, 9);
	CHECK_EQ(heard.last.kind, WRONG_WITHIN);
	CHECK_EQ(heard.last.block.block.address, 0x10000);
	ledger_release_by(l, t, 300, 0x10000 + 5000, false, 9);
	CHECK_EQ(heard.last.kind, WRONG_NOTHING);
	CHECK_EQ(heard.count, 2);
	CHECK(!heard.last.late);
	ledger_late(l, true);
	ledger_release_by(l, t, 300, 0x11000, false, 9);
	ledger_late(l, false);
	CHECK_EQ(heard.last.kind, WRONG_WITHIN);
	CHECK(heard.last.late);
	ledger_free(l);
}

static void test_family(void)
{
	uint32_t t;
	struct ledger *l = begin(&t, false);

	for (unsigned gave = FAMILY_HEAP; gave <= FAMILY_ANY; gave++)
		for (unsigned takes = FAMILY_HEAP; takes <= FAMILY_ANY; takes++) {
			unsigned before = heard.count;

			ledger_family(l, gave);
			ledger_alloc(l, t, 100, 0x1000, 40, 5 + gave);
			ledger_family(l, takes);
			ledger_release_by(l, t, 100, 0x1000, false, 9);
			CHECK_EQ(heard.count - before,
				 gave != takes && gave != FAMILY_ANY && takes != FAMILY_ANY);
			CHECK(heard.count == before || heard.last.gave == gave);
		}
	/* what realloc makes of an operator's block may be given back as either */
	for (unsigned gave = FAMILY_HEAP; gave <= FAMILY_NEW; gave++) {
		heard.count = 0;
		ledger_family(l, gave);
		ledger_alloc(l, t, 100, 0x1000, 40, 20 + gave);
		ledger_leave_by(l, t, 100, 0x1000, 30 + gave);
		ledger_family(l, FAMILY_HEAP);
		ledger_became(l, t, 100, 0x2000, 80, 30 + gave);
		ledger_family(l, FAMILY_NEW);
		ledger_release_by(l, t, 100, 0x2000, false, 9);
		CHECK_EQ(heard.count, gave == FAMILY_HEAP);
	}
	/* a stack that has given both: not known which this one is */
	heard.count = 0;
	ledger_family(l, FAMILY_NEW);
	ledger_alloc(l, t, 100, 0x1000, 40, 5);
	ledger_release_by(l, t, 100, 0x1000, false, 9);
	CHECK_EQ(heard.count, 0);
	ledger_free(l);
}

static void test_pages(void)
{
	check_freed_before(false);
	check_one_tick(false);
}

static void test_compact(void)
{
	check_freed_before(true);
	check_one_tick(true);
}

int main(void)
{
	RUN(test_pages);
	RUN(test_compact);
	RUN(test_within);
	RUN(test_family);
	return test_status();
}
