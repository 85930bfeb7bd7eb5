/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of live blocks against a plain array, with friendly, unfriendly and hostile addresses; and what it costs. */
#include "../../supervisor/blocks.h"
#include "test.h"

static uint64_t seed = 1;
static uint64_t rnd(void) { return test_random(&seed); }

static void put(struct blocks *t, raddr_t a, uint64_t size)
{
	bool was;
	struct block *b = blocks_put(t, a, &was);
	CHECK(b && !was);
	block_set(b, a, size, 7, 3, 12345678);
}

/* N addresses START + i * STEP: random puts and takes, each answer compared. */
static void churn(raddr_t start, uint64_t step, unsigned n, unsigned rounds)
{
	struct blocks t;
	struct block_page *page;
	uint8_t *live = calloc(n, 1);
	unsigned count = 0, wrong = 0;
	CHECK_EQ(blocks_init(&t), 0);
	for (unsigned i = 0; i < rounds; i++) {
		unsigned k = (unsigned)(rnd() % n);
		raddr_t a = start + k * step;
		struct block *b = blocks_get(&t, a, &page);
		wrong += (b != NULL) != live[k];
		if (b) {
			wrong += block_size(b) != k || block_tick(b) != 12345678 || block_owner(b) != 3 || block_line(b) != 7;
			blocks_take(&t, page, b, block_stamp(5, 99));
			count--;
		} else {
			put(&t, a, k);
			count++;
		}
		live[k] ^= 1;
	}
	CHECK_EQ(wrong, 0);
	raddr_t *list;
	ssize_t m = blocks_addresses(&t, &list);
	CHECK_EQ(m, count);
	unsigned j = 0;
	for (unsigned k = 0; k < n; k++)
		if (live[k])
			CHECK(list[j++] == start + k * step);
	free(list);
	raddr_t below;
	for (unsigned i = 0; i < 1000; i++) {
		raddr_t a = start + rnd() % (n * step);
		const struct block *b = blocks_below(&t, a, &below);
		unsigned k = (unsigned)((a - start) / step) + 1;
		while (k > 0 && !live[k - 1])
			k--;
		CHECK_EQ(b ? below : 0, k ? start + (k - 1) * step : 0);
	}
	struct blocks copy;
	CHECK_EQ(blocks_copy(&copy, &t), 0);
	for (unsigned k = 0; k < n; k++) {
		struct block *b = blocks_get(&t, start + k * step, &page);
		CHECK((b != NULL) == live[k]);
		if (b)
			blocks_take(&t, page, b, block_stamp(5, 99));
		CHECK(!blocks_get(&t, start + k * step, &page));
		CHECK((blocks_get(&copy, start + k * step, &page) != NULL) == live[k]);
	}
	CHECK_EQ(blocks_addresses(&t, &list), 0);
	free(list);
	blocks_release(&t);
	blocks_release(&copy);
	free(live);
}

static void test_steps(void)
{
	static const unsigned step[] = { 1, 2, 3, 8, 16, 24, 32, 40, 48, 64, 128, 256, 512, 1024, 2048, 4096, 4112, 100000, 1 << 20 };
	for (size_t i = 0; i < sizeof(step) / sizeof(*step); i++) {
		churn(0x555555559000 + (step[i] & 16), step[i], 20000, 200000);
		churn(0x7ffff7000010, step[i], 500, 20000);
	}
}

static void test_any_address(void)
{
	enum { N = 100000 };
	struct blocks t;
	struct block_page *page;
	static raddr_t a[N];
	CHECK_EQ(blocks_init(&t), 0);
	for (int i = 0; i < N; i++) {
		a[i] = rnd() & ((1ull << 47) - 1);
		put(&t, a[i], (uint64_t)i);
	}
	CHECK(blocks_memory(&t) < N * 64);
	for (int i = 0; i < N; i++) {
		struct block *b = blocks_get(&t, a[i], &page);
		CHECK(b && block_size(b) == (uint64_t)i);
	}
	blocks_release(&t);
}

/* Nine addresses that want the same entry, in each of many pages: the pages must not become large. */
static void test_colliding(void)
{
	struct blocks t;
	CHECK_EQ(blocks_init(&t), 0);
	for (unsigned p = 0; p < 1000; p++)
		for (unsigned i = 0; i < 24; i++)
			put(&t, 0x10000000 + p * 4096ull + i, i);
	CHECK(blocks_memory(&t) < 24000 * 256);
	blocks_release(&t);
}

static double cost(const char *what, unsigned n, unsigned least, unsigned most, bool random_free)
{
	struct blocks t;
	struct block_page *page;
	raddr_t a = 0x555555560010;
	bool was;
	CHECK_EQ(blocks_init(&t), 0);
	unsigned live = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t size = least;
		for (unsigned d = most / least; d > 1 && (rnd() & 1); d /= 2)
			size *= 2;
		size += rnd() % size;
		if (size > most)
			size = most;
		struct block *b = blocks_put(&t, a, &was);
		block_set(b, a, size, 0, 0, 0);
		if (random_free && rnd() % 4 == 0)
			blocks_take(&t, blocks_page(&t, a), blocks_get(&t, a, &page), block_stamp(0, 0));
		else
			live++;
		a += (size + 8 + 15) & ~15ull;
	}
	double bytes = (double)blocks_memory(&t) / live;
	printf("# %-28s %.1f bytes per block\n", what, bytes);
	blocks_release(&t);
	return bytes;
}

static void test_memory(void)
{
	CHECK(cost("24 bytes", 1000000, 24, 24, false) < 40);
	CHECK(cost("16..4096, small often", 1000000, 16, 4096, false) < 48);
	CHECK(cost("the same, with holes", 1000000, 16, 4096, true) < 48);
	CHECK(cost("512..4096", 1000000, 512, 4096, false) < 48);
	CHECK(cost("4096", 1000000, 4096, 4096, false) < 64);
	CHECK(cost("100 000", 1000000, 100000, 100000, false) < 64);
	CHECK(cost("100 000", 600000, 100000, 100000, false) < 64);
}

/* A heap that is filled and emptied again elsewhere: what the old place needed is used again. */
static void test_moving_heap(void)
{
	struct blocks t;
	struct block_page *page;
	CHECK_EQ(blocks_init(&t), 0);
	for (unsigned round = 0; round < 50; round++) {
		raddr_t base = 0x100000000 + round * (1ull << 30);
		for (unsigned i = 0; i < 100000; i++)
			put(&t, base + i * 64, 1);
		for (unsigned i = 0; i < 100000; i++) {
			struct block *b = blocks_get(&t, base + i * 64, &page);
			CHECK(b != NULL);
			if (b)
				blocks_take(&t, page, b, block_stamp(5, 99));
		}
	}
	CHECK(blocks_memory(&t) < 3 * 100000 * 32);
	blocks_release(&t);
}

/* Freed entries are found by any address inside, and disturb no search for live ones. */
static void test_freed(void)
{
	struct blocks t;
	struct block_page *page;
	raddr_t start;
	bool was;
	CHECK_EQ(blocks_init(&t), 0);
	CHECK(!blocks_freed(&t, 0x10000, &start));
	for (unsigned i = 0; i < 64; i++)
		block_set(blocks_put(&t, 0x10000 + i * 64, &was), 0x10000 + i * 64, 40 + i % 2, 7, 3, 50);
	for (unsigned i = 0; i < 64; i += 2) {
		struct block *b = blocks_get(&t, 0x10000 + i * 64, &page);
		blocks_take(&t, page, b, block_stamp(4, (1u << 24) + i));
	}
	for (unsigned i = 0; i < 64; i++) {
		const struct block *b = blocks_freed(&t, 0x10000 + i * 64 + 39, &start);
		CHECK_EQ(b != NULL, i % 2 == 0);
		CHECK_EQ(blocks_get(&t, 0x10000 + i * 64, &page) != NULL, i % 2 == 1);
		if (!b)
			continue;
		CHECK_EQ(start, 0x10000 + i * 64);
		CHECK_EQ(block_size(b), 40);
		CHECK_EQ(block_line(b), 7);
		CHECK_EQ(block_owner(b), 4);
		CHECK_EQ(block_tick(b), (1u << 24) + i);
	}
	CHECK(!blocks_freed(&t, 0x10000 + 40, &start));
	raddr_t *list;
	CHECK_EQ(blocks_addresses(&t, &list), 32);
	free(list);
	blocks_release(&t);
}

int main(void)
{
	RUN(test_steps);
	RUN(test_any_address);
	RUN(test_colliding);
	RUN(test_memory);
	RUN(test_moving_heap);
	RUN(test_freed);
	return test_status();
}
