/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "test.h"

#include <errno.h>

#include "../../supervisor/ledger.h"
#include "../../supervisor/profile.h"

static struct ledger *filled(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP);
	uint32_t a = ledger_thread(l, 100), b = ledger_thread(l, 200);

	ledger_alloc(l, a, 10, 0x1000, 100, 7);
	ledger_alloc(l, a, 10, 0x2000, 100, 7);
	ledger_alloc(l, b, 2000, 0x3000, 50, 7);
	ledger_alloc(l, b, 2000, 0x4000, 1000, 9);
	ledger_release(l, b, 2500, 0x4000, false);
	ledger_alloc(l, a, 3000, 0x5000, 50, 11);
	return l;
}

static const struct profile_row *row(const struct profile *p, uint32_t stack, uint32_t thread, uint64_t block)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->row[i].stack == stack && p->row[i].thread == thread && p->row[i].block == block)
			return &p->row[i];
	static const struct profile_row none;
	return &none;
}

static void by_stack(void)
{
	struct ledger *l = filled();
	struct profile_ask ask = { .counted = 3, .now_ms = 4000 };
	struct profile p;

	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(p.count, 2);
	CHECK_EQ(p.ms, 4000);
	CHECK(p.has_totals);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 250);
	CHECK_EQ(row(&p, 7, 0, 0)->count, 3);
	CHECK_EQ(row(&p, 11, 0, 0)->size, 50);
	profile_release(&p);
	ask.detail = PROFILE_DEAD;
	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(p.count, 3);
	CHECK_EQ(row(&p, 9, 0, 0)->size, 0);
	CHECK_EQ(row(&p, 9, 0, 0)->total_size, 1000);
	CHECK_EQ(row(&p, 9, 0, 0)->temporary, 1);
	profile_release(&p);
	ask.detail = PROFILE_PEAK;
	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(p.count, 2);
	CHECK_EQ(p.ms, 2000);
	CHECK_EQ(row(&p, 9, 0, 0)->size, 1000);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 250);
	profile_release(&p);
	ledger_free(l);
}

static void by_block(void)
{
	struct ledger *l = filled();
	struct profile_ask ask = { .counted = 3, .now_ms = 4000, .detail = PROFILE_THREADS };
	struct profile p;

	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(p.count, 3);
	CHECK(!p.has_totals);
	CHECK_EQ(row(&p, 7, 100, 0)->size, 200);
	CHECK_EQ(row(&p, 7, 200, 0)->size, 50);
	CHECK_EQ(row(&p, 11, 100, 0)->count, 1);
	profile_release(&p);
	ask.detail = PROFILE_SIZES | PROFILE_NO_STACKS;
	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(p.count, 2);
	CHECK_EQ(row(&p, 0, 0, 100)->size, 200);
	CHECK_EQ(row(&p, 0, 0, 50)->count, 2);
	profile_release(&p);
	ask.detail = 0;
	ask.min_age_ms = 1500;
	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(p.count, 1);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 250);
	profile_release(&p);
	ask.min_age_ms = 2500;
	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 200);
	profile_release(&p);
	ask.detail = PROFILE_PEAK;
	CHECK_EQ(profile_from_ledger(&p, l, &ask), -EINVAL);
	ask = (struct profile_ask){ .counted = LEDGER_COUNT_MMAP, .detail = PROFILE_THREADS, .now_ms = 4000 };
	CHECK_EQ(profile_from_ledger(&p, l, &ask), 0);
	CHECK_EQ(p.count, 0);
	profile_release(&p);
	ledger_free(l);
}

int main(void)
{
	RUN(by_stack);
	RUN(by_block);
	return test_status();
}
