// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <errno.h>

#include "inject/wire_event.h"
#include "ledger/block_list.h"
#include "process/profile.h"
#include "process/profile_make.h"
#include "process/snapshots.h"

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

static const struct profile_row *row(const struct profile *p, uint32_t stack, uint32_t thread,
				     uint64_t block)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->row[i].stack == stack && p->row[i].thread == thread &&
		    p->row[i].block == block)
			return &p->row[i];
	static const struct profile_row none;
	return &none;
}

static int sums(struct profile *p, struct ledger *l, const struct profile_ask *ask)
{
	int err;

	CHECK_EQ(profile_reserve(p, 1), 0);
	err = profile_from_ledger(p, l, ask);
	if (!err)
		profile_settle(p);
	for (size_t i = 1; !err && i < p->count; i++)
		CHECK(p->row[i - 1].stack <= p->row[i].stack);
	return err;
}

static void by_stack(void)
{
	struct ledger *l = filled();
	struct profile_ask ask = { .counted = 3, .now_ms = 4000 };
	struct profile p;

	CHECK_EQ(sums(&p, l, &ask), 0);
	CHECK_EQ(p.count, 2);
	CHECK_EQ(p.ms, 4000);
	CHECK(p.has_totals);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 250);
	CHECK_EQ(row(&p, 7, 0, 0)->count, 3);
	CHECK_EQ(row(&p, 11, 0, 0)->size, 50);
	profile_release(&p);
	ask.detail = PROFILE_DEAD;
	CHECK_EQ(sums(&p, l, &ask), 0);
	CHECK_EQ(p.count, 3);
	CHECK_EQ(row(&p, 9, 0, 0)->size, 0);
	CHECK_EQ(row(&p, 9, 0, 0)->total_size, 1000);
	CHECK_EQ(row(&p, 9, 0, 0)->temporary, 1);
	profile_release(&p);
	ask.detail = PROFILE_PEAK;
	CHECK_EQ(sums(&p, l, &ask), 0);
	CHECK_EQ(p.count, 2);
	CHECK_EQ(p.ms, 2000);
	CHECK_EQ(row(&p, 9, 0, 0)->size, 1000);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 250);
	profile_release(&p);
	ledger_free(l);
}

/* With what its blocks can tell. */
static int whole(struct profile *p, struct ledger *l, const struct profile_ask *ask)
{
	struct block_list blocks;
	int err = sums(p, l, ask);

	CHECK(profile_needs_blocks(ask));
	if (err)
		return err;
	CHECK_EQ(block_list_now(l, &blocks), 0);
	err = profile_add_blocks(p, &blocks, ask);
	if (!err)
		profile_settle(p);
	block_list_release(&blocks);
	return err;
}

static void by_block(void)
{
	struct ledger *l = filled();
	struct profile_ask ask = { .counted = 3, .now_ms = 4000, .detail = PROFILE_THREADS };
	struct profile p;

	CHECK_EQ(whole(&p, l, &ask), 0);
	CHECK_EQ(p.count, 3);
	CHECK(!p.has_totals);
	CHECK_EQ(row(&p, 7, 100, 0)->size, 200);
	CHECK_EQ(row(&p, 7, 200, 0)->size, 50);
	CHECK_EQ(row(&p, 11, 100, 0)->count, 1);
	profile_release(&p);
	ask.detail = PROFILE_SIZES | PROFILE_NO_STACKS;
	CHECK_EQ(whole(&p, l, &ask), 0);
	CHECK_EQ(p.count, 2);
	CHECK_EQ(row(&p, 0, 0, 100)->size, 200);
	CHECK_EQ(row(&p, 0, 0, 50)->count, 2);
	profile_release(&p);
	ask.detail = 0;
	ask.min_age_ms = 1500;
	CHECK_EQ(whole(&p, l, &ask), 0);
	CHECK_EQ(p.count, 1);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 250);
	profile_release(&p);
	ask.min_age_ms = 2500;
	CHECK_EQ(whole(&p, l, &ask), 0);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 200);
	profile_release(&p);
	ask.detail = PROFILE_PEAK;
	CHECK_EQ(sums(&p, l, &ask), -EINVAL);
	ask = (struct profile_ask){ .counted = LEDGER_COUNT_MMAP,
				    .detail = PROFILE_THREADS,
				    .now_ms = 4000 };
	CHECK_EQ(whole(&p, l, &ask), 0);
	CHECK_EQ(p.count, 0);
	profile_release(&p);
	ledger_free(l);
}

static void difference(void)
{
	struct ledger *l = filled();
	struct profile_ask ask = { .counted = 3, .now_ms = 4000, .detail = PROFILE_DEAD };
	struct snapshots s = { 0 };
	struct profile p, before = { 0 };

	CHECK_EQ(sums(&p, l, &ask), 0);
	CHECK_EQ(snapshots_add(&s, "one", &p), 0);
	CHECK(snapshots_find(&s, "one") && !snapshots_find(&s, "two"));
	ledger_release(l, 0, 5000, 0x5000, false);
	ledger_alloc(l, 0, 5000, 0x6000, 30, 9);
	ledger_alloc(l, 0, 5000, 0x7000, 8, 3);
	CHECK_EQ(sums(&p, l, &ask), 0);
	CHECK_EQ(profile_copy(&before, &snapshots_find(&s, "one")->profile), 0);
	CHECK_EQ(profile_subtract(&p, &before), 0);
	CHECK(p.is_difference && p.has_totals);
	CHECK_EQ(p.count, 3);
	CHECK_EQ(row(&p, 11, 0, 0)->size, -50);
	CHECK_EQ(row(&p, 11, 0, 0)->before, 50);
	CHECK_EQ(row(&p, 11, 0, 0)->count_before, 1);
	CHECK_EQ(row(&p, 11, 0, 0)->total_size, 0);
	CHECK_EQ(row(&p, 9, 0, 0)->size, 30);
	CHECK_EQ(row(&p, 9, 0, 0)->total_size, 30);
	CHECK_EQ(row(&p, 9, 0, 0)->before, 0);
	CHECK_EQ(row(&p, 3, 0, 0)->count, 1);
	CHECK_EQ(row(&p, 7, 0, 0)->size, 0); /* unchanged: not there */
	profile_release(&p);
	ask = (struct profile_ask){
		.counted = 3, .now_ms = 5000, .at_ms = 2050, .detail = PROFILE_PAST
	};
	CHECK_EQ(sums(&p, l, &ask), 0);
	CHECK(!p.has_totals);
	CHECK_EQ(row(&p, 9, 0, 0)->size, 1000);
	CHECK_EQ(profile_subtract(&p, &before), 0);
	CHECK_EQ(row(&p, 9, 0, 0)->size, 1000);
	CHECK_EQ(row(&p, 11, 0, 0)->size, -50);
	CHECK_EQ(p.count, 2);
	CHECK_EQ(p.since_ms, 4000);
	profile_release(&p);
	profile_release(&before);
	snapshots_release(&s);
	ledger_free(l);
}

static void snapshots(void)
{
	struct snapshots s = { 0 };
	struct profile p = { .ms = 1 };
	char name[100];

	for (unsigned i = 0; i < SNAPSHOTS_MOST; i++) {
		snprintf(name, sizeof(name), "%u", i);
		CHECK_EQ(snapshots_add(&s, name, &p), 0);
	}
	CHECK_EQ(snapshots_add(&s, "more", &p), -ENOSPC);
	p.ms = 2;
	CHECK_EQ(snapshots_add(&s, "5", &p), 0); /* in the place of the other */
	CHECK_EQ(s.count, SNAPSHOTS_MOST);
	CHECK_EQ(snapshots_find(&s, "5")->profile.ms, 2);
	CHECK_EQ(snapshots_add(&s, "", &p), -EINVAL);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK_EQ(snapshots_add(&s, name, &p), -EINVAL);
	snapshots_release(&s);
}

/* Sums of what it hands out never overflow, whatever the process has said. */
static void forged(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP);
	const unsigned details[] = { 0,
				     PROFILE_DEAD,
				     PROFILE_PEAK,
				     PROFILE_THREADS,
				     PROFILE_SIZES,
				     PROFILE_THREADS | PROFILE_NO_STACKS };
	uint32_t a = ledger_thread(l, 100);
	struct profile p, q;

	for (uint32_t i = 1; i < 2000; i++) {
		ledger_alloc(l, a, 10, i * 0x1000ull, UINT64_MAX, i % 10 + 1);
		ledger_alloc_counted(l, a, 10, 0x10000000 + i * 0x1000ull, UINT64_MAX, i % 10 + 1,
				     UINT64_MAX);
		ledger_map(l, a, 10, (uint64_t)i << 50, (uint64_t)1 << 50, WIRE_MAP_ANON | 3,
			   i % 10 + 1, true);
	}
	for (size_t d = 0; d < sizeof(details) / sizeof(*details); d++) {
		struct profile_ask ask = { .counted = 3, .now_ms = 4000, .detail = details[d] };
		int64_t size = 0, count = 0;

		CHECK_EQ((profile_needs_blocks(&ask) ? whole : sums)(&p, l, &ask), 0);
		for (size_t i = 0; i < p.count; i++) {
			CHECK(!__builtin_add_overflow(size, p.row[i].size, &size) &&
			      !__builtin_add_overflow(size, p.row[i].size, &size));
			CHECK(!__builtin_add_overflow(count, p.row[i].count, &count) &&
			      !__builtin_add_overflow(count, p.row[i].count, &count));
		}
		if (!details[d]) {
			CHECK_EQ(sums(&q, l, &ask), 0);
			CHECK_EQ(profile_subtract(&q, &p), 0);
			profile_release(&q);
		}
		profile_release(&p);
	}
	ledger_free(l);
}

int main(void)
{
	RUN(by_stack);
	RUN(by_block);
	RUN(difference);
	RUN(snapshots);
	RUN(forged);
	return test_status();
}
