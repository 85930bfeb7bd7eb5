// SPDX-License-Identifier: GPL-3.0-or-later
/* A set of pages against a plain array; and that it has an end, whatever it is told. */
#include "blocks/page_set.h"
#include "test.h"

static uint64_t seed = 1;
static uint64_t rnd(void) { return test_random(&seed); }

#define START 0x7f1234000000ull
#define PAGES 20000u /* over several leaves */

static void test_random_ranges(void)
{
	static uint8_t is[PAGES + 100];
	struct page_set s = { 0 }, copy;
	unsigned wrong = 0;

	for (int i = 0; i < 500; i++) {
		uint64_t at = rnd() % (PAGES * PAGE),
			 len = rnd() % (rnd() & 1 ? 3 * PAGE : 60 * PAGE);
		page_set_add(&s, START + at, len);
		for (uint64_t k = at / PAGE; k <= (at + len - !!len) / PAGE; k++)
			is[k] = 1;
	}
	CHECK_EQ(page_set_copy(&copy, &s), 0);
	for (int i = 0; i < 2000; i++) {
		uint64_t a = rnd() % PAGES, b = a + rnd() % (PAGES - a + 1), n = 0;
		for (uint64_t k = a; k < b; k++)
			n += is[k];
		wrong += page_set_count(&s, START + a * PAGE, START + b * PAGE) != n;
		wrong += page_set_count(&copy, START + a * PAGE, START + b * PAGE) != n;
	}
	CHECK_EQ(wrong, 0);
	/* its runs have each page once, and end where it does, or at a leaf's end */
	for (uint64_t at = 0, from, to; page_set_run(&s, &at, &from, &to);) {
		wrong += from >= to || page_set_count(&s, from, to) != (to - from) / PAGE;
		wrong += page_set_count(&s, to, to + PAGE) && to % (1 << 24);
		wrong += page_set_count(&s, from - PAGE, from) && from % (1 << 24);
		for (uint64_t k = (from - START) / PAGE; k < (to - START) / PAGE; k++)
			wrong += !is[k], is[k] = 0;
	}
	for (uint64_t k = 0; k < PAGES + 100; k++)
		wrong += is[k];
	CHECK_EQ(wrong, 0);
	CHECK_EQ(page_set_count(&s, 0, START), 0);
	CHECK_EQ(page_set_count(&s, START + (PAGES + 100) * PAGE, START * 2), 0);
	CHECK(page_set_memory(&s) < 16384);
	page_set_release(&s);
	CHECK_EQ(page_set_count(&s, START, START + PAGES * PAGE), 0);
	page_set_release(&copy);
}

/* A copy grows as the set does that it was made of, however many leaves that one had. */
static void test_copy_grows(void)
{
	for (uint64_t n = 1; n <= 40; n++) {
		struct page_set s = { 0 }, copy;

		for (uint64_t i = 0; i < n; i++)
			page_set_add(&s, i << 24, 1);
		CHECK_EQ(page_set_copy(&copy, &s), 0);
		CHECK_EQ(page_set_memory(&copy), page_set_memory(&s));
		for (uint64_t i = n; i < 3 * n; i++)
			page_set_add(&copy, i << 24, 1);
		CHECK_EQ(page_set_count(&copy, 0, 1ull << 40), 3 * n);
		CHECK_EQ(page_set_count(&s, 0, 1ull << 40), n);
		page_set_release(&copy);
		page_set_release(&s);
	}
}

static void test_empty(void)
{
	struct page_set s = { 0 }, copy;

	CHECK_EQ(page_set_count(&s, 0, 1ull << 46), 0);
	CHECK(!page_set_run(&s, &(uint64_t){ 0 }, &(raddr_t){ 0 }, &(raddr_t){ 0 }));
	CHECK_EQ(page_set_copy(&copy, &s), 0);
	page_set_add(&copy, 0, 0);
	CHECK_EQ(page_set_count(&copy, 0, PAGE), 1);
	CHECK_EQ(page_set_count(&copy, PAGE, 1 << 20), 0);
	page_set_release(&copy);
}

/* A size that is no size costs what PAGE_SET_SPAN says, and addresses without end some memory. */
static void test_hostile(void)
{
	struct page_set s = { 0 };

	page_set_add(&s, 0x1000, (1ull << 46) - 1);
	CHECK_EQ(page_set_count(&s, 0, 1ull << 40), PAGE_SET_SPAN / PAGE);
	CHECK(!s.full);
	for (uint64_t i = 0; i < 200000; i++)
		page_set_add(&s, i << 26, 1);
	CHECK(s.full);
	CHECK(page_set_memory(&s) < 20u << 20);
	/* what it could not be told may be in it */
	CHECK_EQ(page_set_count(&s, 1ull << 46, (1ull << 46) + 5 * PAGE), 5);
	page_set_release(&s);
}

int main(void)
{
	RUN(test_random_ranges);
	RUN(test_copy_grows);
	RUN(test_empty);
	RUN(test_hostile);
	return test_status();
}
