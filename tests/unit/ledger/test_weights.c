// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_weights.c - what sampled blocks stand for: the table against an array, and sums of what is
 * given against the sums that they are to be.
 */
#include "ledger/weights.h"

#include <math.h>

#include "test.h"

static uint64_t seed = 88172645463325252ull;
static uint64_t any(uint64_t n) { return test_random(&seed) % n; }

/* ---- the table ----------------------------------------------------------- */

enum { ADDRESSES = 5000 };

struct model {
	struct weight at[ADDRESSES]; /* count 0: it is not there */
	size_t used;
};

static raddr_t address(uint32_t k) { return 0x10000 + (raddr_t)k * (k % 2 ? 16 : 4096); }

static bool is_model(const struct weights *w, const struct model *m)
{
	size_t wrong = w->used != m->used;

	for (uint32_t k = 0; k < ADDRESSES; k++) {
		struct weight got = { 1, 2 };
		bool there = weights_get(w, address(k), &got);

		wrong += there != (m->at[k].count != 0) ||
			 got.bytes != (there ? m->at[k].bytes : 1) ||
			 got.count != (there ? m->at[k].count : 2);
	}
	return !wrong;
}

static void test_model(void)
{
	static struct model m, was;
	struct weights w = { 0 }, copy = { 0 };
	struct weight none = { 3, 4 };

	CHECK(!weights_get(&w, 0x1000, &none) && none.bytes == 3);
	weights_take(&w, 0x1000);
	CHECK_EQ(weights_memory(&w), 0);
	CHECK_EQ(weights_copy(&copy, &w), 0);
	CHECK(!copy.entry);
	for (uint32_t i = 0; i < 60000; i++) {
		/* it fills, and is emptied again */
		uint32_t k = (uint32_t)any(ADDRESSES), puts = i / 15000 % 2 ? 3 : 7;

		if (any(10) < puts) {
			struct weight v = { any(1ull << 40), 1 + any(1000) };

			CHECK_EQ(weights_put(&w, address(k), &v), 0);
			m.used += !m.at[k].count;
			m.at[k] = v;
		} else {
			weights_take(&w, address(k));
			m.used -= m.at[k].count != 0;
			m.at[k].count = 0;
		}
		if (i % 997)
			continue;
		CHECK(is_model(&w, &m));
		CHECK(weights_memory(&w) >= 2 * m.used * sizeof(*w.entry));
		CHECK(weights_memory(&w) <= 4 * ADDRESSES * sizeof(*w.entry));
		if (copy.entry)
			CHECK(is_model(&copy, &was)); /* whatever became of the other */
		weights_release(&copy);
		CHECK_EQ(weights_copy(&copy, &w), 0);
		was = m;
	}
	weights_take(&w, 0);
	CHECK(is_model(&w, &m));
	weights_release(&w);
	CHECK(!w.entry && !w.used && weights_memory(&w) == 0);
	CHECK(is_model(&copy, &was));
	weights_release(&copy);
}

/* ---- what a block stands for --------------------------------------------- */

/* The probability of being sampled is 1 - exp(-size / period). */
static void test_sums(void)
{
	static const uint64_t period[] = { 1, 100, 4096, 1u << 20, 1ull << 30 };

	for (int p = 0; p < 5; p++) {
		struct weights w = { 0 };
		long double bytes = 0, count = 0;
		uint64_t got_bytes = 0, got_count = 0;

		for (int i = 0; i < 20000; i++) {
			uint64_t size = any(3) ? any(200) : any(1 << 16);
			long double share =
				-expm1l(-(long double)(size ? size : 1) / (long double)period[p]);
			struct weight v = weights_of(&w, size, period[p]);

			bytes += (long double)size / share;
			count += 1 / share;
			got_bytes += v.bytes;
			got_count += v.count;
			/* each is what it is to be, but for what the others left over */
			CHECK(fabsl((long double)v.bytes - (long double)size / share) <
			      2 + bytes / 1e12L);
			CHECK(v.count >= 1 && v.bytes >= size);
		}
		CHECK(fabsl((long double)got_bytes - bytes) <= 1 + bytes / 1e12L);
		CHECK(fabsl((long double)got_count - count) <= 1 + count / 1e12L);
	}
}

static void test_odd(void)
{
	struct weights w = { 0 };
	struct weight v = weights_of(&w, 77, 0);

	CHECK(v.bytes == 77 && v.count == 1); /* itself alone */
	v = weights_of(&w, 0, 1000);
	CHECK(v.bytes == 0 && v.count == 1000); /* as one byte does: 1000.5 */
	v = weights_of(&w, 0, 1000);
	CHECK_EQ(v.count, 1001);
	v = weights_of(&w, 1, UINT64_MAX); /* the target's word */
	CHECK_EQ(v.bytes, 1ull << 46);
	CHECK(v.count - v.bytes <= 1);
}

int main(void)
{
	RUN(test_model);
	RUN(test_sums);
	RUN(test_odd);
	return test_status();
}
