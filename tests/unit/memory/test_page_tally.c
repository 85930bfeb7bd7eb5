// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Pages in memory and what of them is live, against a model that has a number for each byte; and
 * that forged blocks cost no time.
 */
#include <time.h>

#include "memory/page_tally.h"
#include "test.h"

#define START 0x10000ull
#define MOST  400u /* pages */

static uint64_t seed = 7;
static uint64_t rnd(void) { return test_random(&seed); }

struct model {
	bool there[MOST];
	unsigned row[MOST];
	uint32_t byte[MOST * 4096]; /* the block's owner + 1; 0: nobody */
};
static struct model model;
/* owners 1 to 3 are one group, 4 and 5 another; 0 and 6 are alone, as is 9, beyond the table */
static const uint32_t group[8] = { 0, 5, 5, 5, 9, 9, 0, 11 };

static uint32_t group_of(uint32_t owner)
{
	return owner < 8 && group[owner] ? 1000 + group[owner] : owner;
}

struct sums {
	uint64_t pages, bytes, wrong;
};

static void compare(void *ctx, const struct tally_run *run)
{
	struct sums *s = ctx;

	for (raddr_t at = run->start; at < run->end; at += PAGE) {
		const uint32_t *byte = &model.byte[at - START];
		uint32_t owner = 0, first = byte[0];
		unsigned live = 0;
		bool several = false, filled = first;

		for (unsigned i = 0; i < PAGE; i++) {
			live += byte[i] != 0;
			filled &= byte[i] == first;
			if (!byte[i])
				continue;
			several |= owner && group_of(owner - 1) != group_of(byte[i] - 1);
			owner = owner ? owner : byte[i];
		}
		s->wrong += !model.there[(at - START) / PAGE] ||
			    run->row != model.row[(at - START) / PAGE] || run->live != live;
		if (filled)
			s->wrong += run->owner != TALLY_NOBODY;
		else if (several)
			s->wrong += run->owner != TALLY_SEVERAL;
		else if (!owner)
			s->wrong += run->owner != TALLY_NOBODY;
		else
			s->wrong += run->owner == TALLY_NOBODY || run->owner == TALLY_SEVERAL ||
				    group_of(run->owner - 1) != group_of(owner - 1);
		s->pages++;
		s->bytes += run->live;
	}
}

static void make_spans(struct page_tally *p)
{
	size_t at = 0;

	memset(&model, 0, sizeof(model));
	while (at < MOST) {
		size_t n = 1 + rnd() % (rnd() & 1 ? 3 : 20), end = at + n < MOST ? at + n : MOST;
		unsigned row = (unsigned)(rnd() % 3);

		if (rnd() % 3) {
			CHECK_EQ(tally_add(p, START + at * PAGE, START + end * PAGE, row), 0);
			for (size_t i = at; i < end; i++) {
				model.there[i] = true;
				model.row[i] = row;
			}
		}
		at = end;
	}
}

/* Blocks that do not overlap, in any order, also where there is no page. */
static void make_blocks(struct page_tally *p)
{
	struct {
		uint64_t at, size;
		uint32_t owner;
	} block[4000];
	size_t n = 0;

	for (uint64_t at = rnd() % 3000; at < MOST * PAGE && n < 4000;) {
		uint64_t most = rnd() % 4   ? 200
				: rnd() % 4 ? 5000
					    : 40000,
			 size = rnd() % 8 ? 1 + rnd() % most : PAGE * (1 + rnd() % 3);

		if (rnd() % 10 == 0)
			at = (at + PAGE - 1) & ~(PAGE - 1);
		if (at + size > MOST * PAGE)
			break;
		block[n].at = at;
		block[n].size = size;
		block[n++].owner = (uint32_t)(rnd() % 10);
		at += size + (rnd() % 3 ? rnd() % 64 : rnd() % 20000);
	}
	for (size_t i = n; i > 1; i--) {
		size_t j = rnd() % i;
		typeof(block[0]) other = block[j];

		block[j] = block[i - 1];
		block[i - 1] = other;
	}
	for (size_t i = 0; i < n; i++) {
		tally_block(p, START + block[i].at, block[i].size, block[i].owner);
		for (uint64_t k = 0; k < block[i].size; k++)
			if (model.there[(block[i].at + k) / PAGE])
				model.byte[block[i].at + k] = block[i].owner + 1;
	}
}

static void test_model(void)
{
	for (int i = 0; i < 60; i++) {
		struct page_tally p = { .group = group, .groups = 8 };
		struct sums s = { 0 };
		uint64_t bytes = 0, pages = 0;

		make_spans(&p);
		CHECK_EQ(tally_begin(&p), 0);
		make_blocks(&p);
		tally_each(&p, compare, &s);
		for (size_t k = 0; k < MOST; k++)
			pages += model.there[k];
		for (size_t k = 0; k < MOST * PAGE; k++)
			bytes += model.byte[k] != 0;
		CHECK_EQ(s.wrong, 0);
		CHECK_EQ(s.pages, pages);
		CHECK_EQ(s.pages, p.count);
		CHECK_EQ(s.bytes, bytes);
		tally_release(&p);
	}
}

static void only(void *ctx, const struct tally_run *run) { *(struct tally_run *)ctx = *run; }

static void test_ends(void)
{
	struct page_tally p = { 0 };
	struct tally_run run = { 0 };

	tally_each(&p, only, &run);
	CHECK_EQ(run.end, 0);
	CHECK_EQ(tally_begin(&p), 0);
	tally_block(&p, START, 100, 1); /* no page at all */
	CHECK_EQ(tally_add(&p, START, START + PAGE, 2), 0);
	CHECK_EQ(tally_begin(&p), 0);
	tally_block(&p, START, 0, 1); /* one of no bytes keeps its page */
	tally_block(&p, START - 1, 1, 7);
	tally_block(&p, START + PAGE, 1, 7);
	tally_each(&p, only, &run);
	CHECK(run.live == 1 && run.owner == 2 && run.row == 2);
	/* told again from the beginning; and more than there is room for */
	CHECK_EQ(tally_begin(&p), 0);
	tally_each(&p, only, &run);
	CHECK(run.live == 0 && run.owner == TALLY_NOBODY);
	for (int i = 0; i < 100; i++)
		tally_block(&p, START + 8, 4000, 3);
	tally_each(&p, only, &run);
	CHECK(run.live == PAGE && run.owner == 4);
	tally_release(&p);
}

/* 10^5 blocks of 64 TB over 10^5 pages: by steps over pages that were 10^10. */
static void test_forged(void)
{
	struct page_tally p = { 0 };
	struct tally_run run = { 0 };
	clock_t began = clock();

	for (uint64_t i = 0; i < 100000; i++)
		CHECK_EQ(tally_add(&p, START + i * 2 * PAGE, START + (i * 2 + 1) * PAGE, 0), 0);
	CHECK_EQ(tally_begin(&p), 0);
	for (uint64_t i = 0; i < 100000; i++)
		tally_block(&p, i * 16, i & 1 ? UINT64_MAX - i : (1ull << 46) - 1, (uint32_t)i);
	tally_each(&p, only, &run);
	CHECK(run.live == PAGE && run.owner == TALLY_NOBODY);
	CHECK((clock() - began) / CLOCKS_PER_SEC < 5);
	tally_release(&p);
}

int main(void)
{
	RUN(test_model);
	RUN(test_ends);
	RUN(test_forged);
	return test_status();
}
