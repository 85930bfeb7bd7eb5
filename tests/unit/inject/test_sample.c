// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Sampling in numbers: the hooks' logarithm against libm's, their distances against the
 * distribution that they are to have, what blocks stand for against the sums that it is to be right
 * for; and the ledger with sampled blocks.
 */
#include "inject/sample.h"
#include "inject/wire_event.h"
#include "ledger/block_list.h"
#include "ledger/weights.h"
#include "test.h"

#include <math.h>
#include <sys/mman.h>

static void test_logarithm(void)
{
	uint64_t seed = 1, edge[] = { 1,
				      2,
				      3,
				      1ull << 63,
				      (1ull << 63) - 1,
				      (1ull << 63) + 1,
				      UINT64_MAX,
				      UINT64_MAX - 1,
				      1ull << 62,
				      0x123456789abcdefull };
	double worst = 0;

	for (int i = 0; i < 1000000; i++) {
		uint64_t x = i < 10 ? edge[i] : (sample_random(&seed) | 1) >> (i % 64);
		double is = (double)sample_minus_log(x ? x : 1) / 4294967296.0,
		       right = -(double)logl((long double)(x ? x : 1) / 18446744073709551616.0L);

		worst = fabs(is - right) > worst ? fabs(is - right) : worst;
	}
	printf("# largest error %.3g\n", worst);
	CHECK(worst < 1e-8);
}

/* Mean, second moment and the probability of each tenth. */
static void test_distances(void)
{
	static const uint64_t periods[] = { 1, 10, 1024, 524288, SAMPLE_MAX };
	enum { N = 2000000 };

	for (size_t k = 0; k < sizeof(periods) / sizeof(*periods); k++) {
		double p = (double)periods[k], q = exp(-1 / p), mean = 1 / -expm1(-1 / p), sum = 0,
		       above[3] = { 0 };
		uint64_t state = k + 1;

		for (int i = 0; i < N; i++) {
			uint64_t x = sample_distance(&state, periods[k]);

			CHECK(x >= 1);
			sum += (double)x;
			above[0] += x > periods[k] / 2;
			above[1] += x > periods[k];
			above[2] += x > periods[k] * 3;
		}
		CHECK(fabs(sum / N / mean - 1) < 5 * sqrt(q) / sqrt(N) + 1e-9);
		for (int i = 0; i < 3; i++) {
			double s = i == 0   ? (double)(periods[k] / 2)
				   : i == 1 ? p
					    : 3 * p,
			       right = exp(-s / p);

			CHECK(fabs(above[i] / N - right) <
			      5 * sqrt(right * (1 - right) / N) + 1e-9);
		}
	}
}

/*
 * Blocks are drawn as the hooks do; what they stand for is on average what there was, and spread as
 * sampling is.
 */
static void test_weights(void)
{
	static const uint64_t sizes[] = { 0, 1, 16, 100, 5000, 70000 };
	enum { BLOCKS = 20000, RUNS = 200 };
	uint64_t state = 7, period = 4096;

	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		double size = sizes[k] ? (double)sizes[k] : 1,
		       chance = -expm1(-size / (double)period),
		       variance = BLOCKS * (1 - chance) / chance;
		double bytes = 0, count = 0, squares = 0;

		for (int r = 0; r < RUNS; r++) {
			uint64_t left = sample_distance(&state, period);
			struct weights w = { 0 };
			double n = 0;

			for (int i = 0; i < BLOCKS; i++) {
				struct weight weight;

				if (left > (uint64_t)size) {
					left -= (uint64_t)size;
					continue;
				}
				left = sample_distance(&state, period);
				weight = weights_of(&w, sizes[k], period);
				bytes += (double)weight.bytes;
				n += (double)weight.count;
			}
			count += n;
			squares += (n - BLOCKS) * (n - BLOCKS);
		}
		CHECK(fabs(count / RUNS - BLOCKS) < 5 * sqrt(variance / RUNS) + 1);
		CHECK(fabs(bytes / RUNS - (double)sizes[k] * BLOCKS) <=
		      (double)sizes[k] * (5 * sqrt(variance / RUNS) + 1));
		if (variance > 10)
			CHECK(fabs(squares / RUNS / variance - 1) < 5 * sqrt(2.0 / RUNS));
	}
}

static void test_table(void)
{
	struct weights w = { 0 }, copy;
	static uint64_t right[4096];
	uint64_t seed = 88172645463325252ull, bad = 0;

	for (int i = 0; i < 400000; i++) {
		uint64_t at = test_random(&seed) % 4096, address = 0x7f0000000000 + at * 16;
		struct weight v = { i, 1 };

		if (test_random(&seed) % 2) {
			CHECK_EQ(weights_put(&w, address, &v), 0);
			right[at] = (uint64_t)i + 1;
		} else {
			weights_take(&w, address);
			right[at] = 0;
		}
	}
	CHECK_EQ(weights_copy(&copy, &w), 0);
	weights_release(&w);
	for (uint64_t at = 0; at < 4096; at++) {
		struct weight v = { 0 };
		bool there = weights_get(&copy, 0x7f0000000000 + at * 16, &v);

		bad += there != (right[at] != 0) || (there && v.bytes + 1 != right[at]);
	}
	CHECK_EQ(bad, 0);
	CHECK(weights_memory(&copy) > 0);
	weights_release(&copy);
}

/* ---- the ledger ---------------------------------------------------------- */

static struct ledger_totals totals(struct ledger *l)
{
	struct ledger_totals t;

	ledger_totals(l, &t);
	return t;
}

/* All sums say the same. */
static void agree(struct ledger *l)
{
	struct weight blocks = { 0 }, stacks = { 0 };
	struct ledger_interval now;
	struct block_list list;

	CHECK_EQ(block_list_now(l, &list), 0);
	for (size_t i = 0; i < list.count; i++) {
		blocks.bytes += block_list_get(&list, i).bytes;
		blocks.count += block_list_get(&list, i).count;
	}
	block_list_release(&list);
	for (uint32_t i = 0; i < ledger_stacks(l); i++) {
		stacks.bytes += (uint64_t)ledger_stack(l, i)->live_bytes;
		stacks.count += (uint64_t)ledger_stack(l, i)->live_count;
	}
	ledger_interval(l, UINT32_MAX, &now);
	CHECK_EQ(blocks.bytes, totals(l).heap);
	CHECK_EQ(blocks.count, totals(l).live_blocks);
	CHECK_EQ(stacks.bytes, totals(l).heap);
	CHECK_EQ(stacks.count, totals(l).live_blocks);
	CHECK_EQ(now.bytes, totals(l).heap);
}

static uint8_t *table_new(void) { return calloc(WIRE_KNOWN, 1); }

static uint32_t table_sum(const uint8_t *known)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < WIRE_KNOWN; i++)
		n += known[i];
	return n;
}

static void sampled(struct ledger *l, uint8_t *known, uint32_t t, uint64_t ms, raddr_t at,
		    uint64_t size, uint32_t stack, uint64_t period)
{
	wire_known_add(known, at);
	ledger_alloc_counted(l, t, ms, at, size, stack, period);
}

static void test_ledger(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP);
	uint8_t *known = table_new();
	uint32_t t = ledger_thread(l, 1);
	struct ledger_block b;

	ledger_known(l, known);
	ledger_alloc(l, t, 0, 0x1000, 100, 5); /* exact, from before */
	ledger_sampled(l, 1024);
	sampled(l, known, t, 1, 0x2000, 16, 5, 1024);
	sampled(l, known, t, 2, 0x3000, 100000, 6, 1024);
	sampled(l, known, t, 3, 0x4000, 50, 6, 0);
	agree(l);
	CHECK(totals(l).estimated);
	CHECK(ledger_find(l, 0x2008, &b) && b.size == 16 && b.bytes >= 1031 && b.bytes <= 1033 &&
	      b.count >= 64 && b.count <= 65);
	CHECK(ledger_find(l, 0x3000, &b) && b.size == 100000 && b.bytes == 100000 && b.count == 1);
	CHECK_EQ(table_sum(known), 3);
	ledger_know_all(l, true);
	CHECK_EQ(table_sum(known), 4);
	CHECK(known[wire_known(0x1000)]);
	ledger_alloc(l, t, 4, 0x5000, 10, 7); /* on its way when that was said */
	CHECK_EQ(table_sum(known), 5);
	ledger_release(l, t, 5, 0x9000, false);
	CHECK_EQ(totals(l).unknown_frees, 0);
	ledger_leave(l, t, 6, 0x2000);
	CHECK_EQ(table_sum(known), 5); /* it may stay */
	agree(l);
	ledger_stayed(l, t, 7);
	CHECK_EQ(table_sum(known), 5);
	agree(l);
	ledger_leave(l, t, 8, 0x2000);
	wire_known_add(known, 0x6000);
	ledger_became_counted(l, t, 9, 0x6000, 32, 8, 1024);
	CHECK_EQ(table_sum(known), 5);
	agree(l);
	ledger_release(l, t, 10, 0x1000, false);
	ledger_release(l, t, 10, 0x3000, false);
	ledger_release(l, t, 10, 0x4000, false);
	ledger_release(l, t, 10, 0x5000, false);
	CHECK_EQ(totals(l).temporary, 0);
	ledger_release(l, t, 10, 0x6000, false);
	CHECK_EQ(table_sum(known), 0);
	CHECK_EQ(totals(l).heap, 0);
	CHECK_EQ(totals(l).live_blocks, 0);
	agree(l);
	ledger_free(l);
	free(known);
}

static void test_temporary(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP);
	uint8_t *known = table_new();
	uint32_t t = ledger_thread(l, 1);
	uint64_t n;

	ledger_known(l, known);
	sampled(l, known, t, 1, 0x2000, 16, 5, 1024);
	n = totals(l).live_blocks;
	ledger_release(l, t, 1, 0x2000, false);
	CHECK_EQ(totals(l).temporary, n);
	sampled(l, known, t, 1, 0x2000, 16, 5, 1024);
	ledger_went_on(l, t);
	ledger_release(l, t, 1, 0x2000, false);
	CHECK_EQ(totals(l).temporary, n);
	ledger_free(l);
	free(known);
}

/*
 * A child has its parent's blocks with what they stand for, and a table of its own, also of what
 * the parent has released since.
 */
static void test_fork(void)
{
	struct ledger *l = ledger_new(LEDGER_COUNT_HEAP), *child;
	uint8_t *known = table_new(), *own = table_new();
	uint32_t t = ledger_thread(l, 1);
	uint64_t heap;

	ledger_known(l, known);
	ledger_alloc(l, t, 0, 0x1000, 100, 5);
	ledger_sampled(l, 1024);
	sampled(l, known, t, 1, 0x2000, 16, 5, 1024);
	sampled(l, known, t, 1, 0x3000, 17, 6, 1024);
	sampled(l, known, t, 1, 0x4000, 18, 6, 1024);
	ledger_know_all(l, true);
	ledger_leave(l, t, 2, 0x4000);
	heap = totals(l).heap;
	child = ledger_fork(l);
	ledger_known(child, own);
	ledger_release(l, t, 3, 0x2000, false);
	sampled(l, known, t, 3, 0x2000, 99, 6, 2048);
	ledger_release(l, t, 3, 0x3000, false);
	sampled(l, known, t, 3, 0x7000, 10, 6, 2048);
	ledger_gone(l, t, 3);
	agree(l);
	ledger_know_all(child, true);
	agree(child);
	CHECK_EQ(totals(child).heap, heap);
	CHECK(totals(child).estimated);
	CHECK_EQ(table_sum(own), 4);
	CHECK(own[wire_known(0x1000)] && own[wire_known(0x2000)] && own[wire_known(0x3000)] &&
	      own[wire_known(0x4000)]);
	for (raddr_t at = 0x1000; at <= 0x4000; at += 0x1000)
		ledger_release(child, t, 4, at, false);
	CHECK_EQ(totals(child).heap, 0);
	CHECK_EQ(totals(child).live_blocks, 0);
	CHECK_EQ(table_sum(own), 0);
	ledger_free(child);
	ledger_free(l);
	free(known);
	free(own);
}

int main(void)
{
	RUN(test_logarithm);
	RUN(test_distances);
	RUN(test_weights);
	RUN(test_table);
	RUN(test_ledger);
	RUN(test_temporary);
	RUN(test_fork);
	return test_status();
}
