// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The table of live blocks, in each layout and while it changes, against a plain array, with
 * friendly, unfriendly and hostile addresses; and what it costs.
 */
#include <errno.h>

#include "blocks/compact.h"
#include "test.h"

static uint64_t seed = 1;
static uint64_t rnd(void) { return test_random(&seed); }

static enum { FAST, COMPACT, CHANGING, LAYOUTS } layout;
static const char *const layout_name[] = { "for speed", "compact", "changing" };

static void init(struct blocks *t)
{
	CHECK_EQ(blocks_init(t), 0);
	CHECK_EQ(blocks_compact(t, layout != FAST), 0);
}

/* Now and then the other layout is wanted, and all the time blocks are on their way. */
static void change(struct blocks *t)
{
	if (layout == CHANGING && rnd() % 5000 == 0)
		CHECK_EQ(blocks_compact(t, rnd() & 1), 0);
	blocks_move(t, 1);
}

static void put(struct blocks *t, raddr_t a, uint64_t size)
{
	struct block was;
	CHECK(blocks_put(t, a, block_at(a, size, 7, 3, 12345678), &was) && !was.a);
}

/* N addresses START + i * STEP: random puts and takes, each answer compared. */
static unsigned churn_some(struct blocks *t, uint8_t *live, raddr_t start, uint64_t step,
			   unsigned n, unsigned rounds)
{
	unsigned count = 0, wrong = 0;
	for (unsigned i = 0; i < rounds; i++) {
		unsigned k = (unsigned)(rnd() % n);
		raddr_t a = start + k * step;
		struct block copy;
		const struct block *b = blocks_get(t, a, &copy);
		wrong += (b != NULL) != live[k];
		if (b) {
			wrong += block_size(b) != k || block_tick(b) != 12345678 ||
				 block_owner(b) != 3 || block_total(b) != 7;
			wrong += !blocks_take(t, a, block_stamp(5, 99), &copy) ||
				 block_size(&copy) != k || block_tick(&copy) != 12345678;
			count--;
		} else {
			put(t, a, k);
			count++;
		}
		live[k] ^= 1;
		change(t);
	}
	CHECK_EQ(wrong, 0);
	return count;
}

static size_t live_count(const struct blocks *t)
{
	struct blocks_walk w = { 0 };
	size_t n = 0;
	while (blocks_walk(t, &w))
		n += w.count;
	return n;
}

struct paged {
	raddr_t start;
	uint64_t step;
	unsigned n, wrong;
	const uint8_t *live;
	uint8_t *met;
};

/* Some live block begins in the page; all that do are met. */
static void meet_page(void *ctx, raddr_t addr, const struct block *b)
{
	struct paged *p = ctx;
	raddr_t from = addr & ~(raddr_t)BLOCK_OFFSET;
	bool any = false;
	(void)b;
	for (uint64_t k = from > p->start ? (from - p->start + p->step - 1) / p->step : 0;
	     k < p->n && p->start + k * p->step <= from + BLOCK_OFFSET; k++) {
		any |= p->live[k];
		p->met[k] = 1;
	}
	p->wrong += !any;
}

/* Each of the blocks is met once, and each of their pages. */
static void walk_all(const struct blocks *t, const uint8_t *live, raddr_t start, uint64_t step,
		     unsigned n, unsigned count)
{
	struct paged p = { start, step, n, 0, live, calloc(n, 1) };
	struct blocks_pass pages = { .pages = true };
	struct blocks_walk w = { 0 };
	unsigned wrong = 0;
	while (blocks_walk(t, &w))
		for (size_t i = 0; i < w.count; i++) {
			unsigned k = (unsigned)((w.addr[i] - start) / step);
			wrong += k >= n || start + k * step != w.addr[i] || p.met[k]++ || !live[k];
			wrong += block_size(&w.block[i]) != k;
			count--;
		}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(count, 0);
	memset(p.met, 0, n);
	while (blocks_pass(t, &pages, 100, meet_page, &p) > 0)
		;
	for (unsigned k = 0; k < n; k++)
		wrong += live[k] && !p.met[k];
	CHECK_EQ(wrong + p.wrong, 0);
	free(p.met);
}

static void churn(raddr_t start, uint64_t step, unsigned n, unsigned rounds)
{
	struct blocks t, two;
	struct block copy;
	uint8_t *live = calloc(n, 1);
	init(&t);
	unsigned count = churn_some(&t, live, start, step, n, rounds);
	raddr_t below;
	walk_all(&t, live, start, step, n, count);
	for (unsigned i = 0; i < 200; i++) {
		raddr_t a = start + rnd() % (n * step);
		bool found = blocks_below(&t, a, &below, &copy);
		unsigned k = (unsigned)((a - start) / step) + 1;
		while (k > 0 && !live[k - 1])
			k--;
		CHECK_EQ(found ? below : 0, k ? start + (k - 1) * step : 0);
		CHECK(!found || block_size(&copy) == k - 1);
	}
	CHECK_EQ(blocks_copy(&two, &t), 0);
	for (unsigned k = 0; k < n; k++) {
		raddr_t a = start + k * step;
		CHECK((blocks_get(&t, a, &copy) != NULL) == live[k]);
		CHECK_EQ(blocks_take(&t, a, block_stamp(5, 99), &copy), live[k]);
		change(&t);
		CHECK(!blocks_get(&t, a, &copy));
		CHECK((blocks_get(&two, a, &copy) != NULL) == live[k]);
	}
	CHECK_EQ(live_count(&t), 0);
	blocks_release(&t);
	blocks_release(&two);
	free(live);
}

static void test_steps(void)
{
	static const unsigned step[] = { 1,   2,   3,	8,    16,   24,	  32,	40,	48,	64,
					 128, 256, 512, 1024, 2048, 4096, 4112, 100000, 1 << 20 };
	const unsigned rounds = (unsigned)test_size(25000, 200000);

	for (size_t i = 0; i < sizeof(step) / sizeof(*step); i++) {
		churn(0x555555559000 + (step[i] & 16), step[i], rounds / 10, rounds);
		churn(0x7ffff7000010, step[i], 500, 20000);
	}
}

/* Sizes and addresses that a compact entry can say, and such that it cannot, at the borders. */
static void test_borders(void)
{
	static const raddr_t addr[] = { 8,
					0x1000,
					0x1001,
					0x1004,
					0x1008,
					0x7ffffffffff8,
					0x7fffffffffff,
					0x800000000000,
					0xfffffffffffff000 };
	static const uint64_t size[] = {
		0, 1, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, UINT32_MAX, BLOCK_SIZE_MAX
	};
	struct blocks t;
	init(&t);
	for (size_t i = 0; i < sizeof(addr) / sizeof(*addr); i++)
		for (size_t j = 0; j < sizeof(size) / sizeof(*size); j++) {
			uint32_t tick = j % 2 ? BLOCK_TICK_MAX : 0,
				 owner = j % 3 ? BLOCK_OWNER_MAX : 0, total = j % 4 ? 0x7fffff : 0;
			struct block b = block_at(addr[i], size[j], total, owner, tick), was, copy;
			CHECK(blocks_put(&t, addr[i], b, &was));
			CHECK_EQ(was.a != 0, j > 0);
			const struct block *got = blocks_get(&t, addr[i], &copy);
			CHECK(got && block_size(got) == size[j] && block_tick(got) == tick &&
			      block_owner(got) == owner && block_total(got) == total);
			CHECK(!(got->b & BLOCK_COUNTED));
			blocks_count(&t, addr[i]);
			got = blocks_get(&t, addr[i], &copy);
			CHECK(got && got->b & BLOCK_COUNTED && block_total(got) == total);
			change(&t);
		}
	blocks_release(&t);
}

static void test_any_address(void)
{
	enum { N = 100000 };
	struct blocks t;
	struct block copy;
	static raddr_t a[N];
	init(&t);
	for (int i = 0; i < N; i++) {
		a[i] = rnd() & ((1ull << 47) - 1);
		put(&t, a[i], (uint64_t)i);
		change(&t);
	}
	CHECK(blocks_memory(&t) < N * 64 * (layout == CHANGING ? 2 : 1));
	for (int i = 0; i < N; i++) {
		const struct block *b = blocks_get(&t, a[i], &copy);
		CHECK(b && block_size(b) == (uint64_t)i);
	}
	blocks_release(&t);
}

/*
 * Nine addresses that want the same entry, in each of many pages: the pages must not become large.
 */
static void test_colliding(void)
{
	struct blocks t;
	init(&t);
	for (unsigned p = 0; p < 1000; p++)
		for (unsigned i = 0; i < 24; i++)
			put(&t, 0x10000000 + p * 4096ull + i, i);
	CHECK(blocks_memory(&t) < 24000 * 256);
	blocks_release(&t);
}

static double cost(const char *what, unsigned n, unsigned least, unsigned most, bool random_free)
{
	struct blocks t;
	struct block out;
	raddr_t a = 0x555555560010;
	init(&t);
	unsigned live = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t size = least;
		for (unsigned d = most / least; d > 1 && (rnd() & 1); d /= 2)
			size *= 2;
		size += rnd() % size;
		if (size > most)
			size = most;
		put(&t, a, size);
		live += !random_free || rnd() % 4 || !blocks_take(&t, a, block_stamp(0, 0), &out);
		a += (size + 8 + 15) & ~15ull;
	}
	double bytes = (double)blocks_memory(&t) / live;
	printf("# %-28s %.1f bytes per block\n", what, bytes);
	blocks_release(&t);
	return bytes;
}

static void test_memory(void)
{
	double most = layout == COMPACT ? 22 : 64, mixed = layout == COMPACT ? 22 : 48;
	CHECK(cost("24 bytes", 1000000, 24, 24, false) < (layout == COMPACT ? 22 : 40));
	CHECK(cost("16..4096, small often", 1000000, 16, 4096, false) < mixed);
	CHECK(cost("the same, with holes", 1000000, 16, 4096, true) < mixed);
	CHECK(cost("512..4096", 1000000, 512, 4096, false) < mixed);
	CHECK(cost("4096", 1000000, 4096, 4096, false) < most);
	CHECK(cost("100 000", 1000000, 100000, 100000, false) < most);
	CHECK(cost("100 000", 600000, 100000, 100000, false) < most);
}

/* A heap that is filled and emptied again elsewhere: what the old place needed is used again. */
static void test_moving_heap(void)
{
	struct blocks t;
	struct block copy;
	init(&t);
	for (unsigned round = 0, rounds = (unsigned)test_size(12, 50); round < rounds; round++) {
		raddr_t base = 0x100000000 + round * (1ull << 30);
		for (unsigned i = 0; i < 100000; i++)
			put(&t, base + i * 64, 1);
		for (unsigned i = 0; i < 100000; i++) {
			CHECK(blocks_take(&t, base + i * 64, block_stamp(5, 99), &copy));
			change(&t);
		}
	}
	/* compact: it gives back what it does not need */
	CHECK(blocks_memory(&t) < (layout == COMPACT ? 200000 : 3 * 100000 * 32));
	blocks_release(&t);
}

/* Freed entries are found by any address inside, and disturb no search for live ones. */
static void test_freed(void)
{
	struct blocks t;
	struct block b, copy;
	raddr_t start;
	init(&t);
	CHECK(!blocks_freed(&t, 0x10000, &start, &b));
	for (unsigned i = 0; i < 64; i++)
		CHECK(blocks_put(&t, 0x10000 + i * 64,
				 block_at(0x10000 + i * 64, 40 + i % 2, 7, 3, 50), &copy));
	for (unsigned i = 0; i < 64; i += 2)
		CHECK(blocks_take(&t, 0x10000 + i * 64, block_stamp(4, (1u << 24) + i), &copy));
	for (unsigned i = 0; i < 64; i++) {
		bool found = blocks_freed(&t, 0x10000 + i * 64 + 39, &start, &b);
		CHECK_EQ(found, i % 2 == 0);
		CHECK_EQ(blocks_get(&t, 0x10000 + i * 64, &copy) != NULL, i % 2 == 1);
		if (!found)
			continue;
		CHECK_EQ(start, 0x10000 + i * 64);
		CHECK_EQ(block_size(&b), 40);
		CHECK_EQ(block_owner(&b), 4);
		CHECK_EQ(block_tick(&b), (1u << 24) + i);
	}
	CHECK(!blocks_freed(&t, 0x10000 + 40, &start, &b));
	CHECK_EQ(live_count(&t), 32);
	blocks_release(&t);
}

/* A pass, with all else that happens between its pieces: what stays is told once. */
struct told {
	uint8_t *count;
	raddr_t start;
	unsigned n, wrong;
};

static void tell(void *ctx, raddr_t addr, const struct block *b)
{
	struct told *t = ctx;
	uint64_t k = (addr - t->start) / 48;
	if (addr < t->start || k >= t->n || (addr - t->start) % 48 || block_size(b) != k)
		t->wrong++;
	else
		t->count[k]++;
}

/*
 * What was freed at an address, told from where it was or from the ring of what was displaced:
 * never what was elsewhere; and of so few that all of them are there none is forgotten. Asked after
 * each step, or now and then only.
 */
static void test_left(void)
{
	static const struct {
		unsigned addresses, steps, ask;
		bool all;
	} cases[] = { { 60, 3000, 1, true },
		      { 60, 3000, 1000, true },
		      { 3000, 100000, 500, false },
		      { 3000, 100000, 9000, false } };

	for (size_t i = 0; layout == FAST && i < sizeof(cases) / sizeof(*cases); i++) {
		unsigned n = cases[i].addresses;
		bool *live = calloc(n, sizeof(*live)), *been = calloc(n, sizeof(*been));
		unsigned wrong = 0, forgotten = 0, found = 0;
		struct blocks t;

		init(&t);
		for (unsigned step = 1; step <= cases[i].steps; step++) {
			unsigned k = (unsigned)(rnd() % n);
			raddr_t a = 0x5000000 + k * 208ull;
			struct block b;

			if (live[k])
				wrong += !blocks_take(&t, a, block_stamp(5, step), &b);
			else
				put(&t, a, (uint64_t)step * n + k);
			been[k] = true;
			live[k] = !live[k];
			if (step % cases[i].ask)
				continue;
			for (k = 0; k < n; k++) {
				if (live[k] || k % 7 == step % 7)
					continue;
				if (!blocks_left(&t, 0x5000000 + k * 208ull, &b)) {
					forgotten += been[k];
					continue;
				}
				wrong += block_size(&b) % n != k || !been[k];
				found++;
			}
		}
		CHECK_EQ(wrong, 0);
		CHECK(!cases[i].all || !forgotten);
		CHECK(found > 50);
		blocks_release(&t);
		free(been);
		free(live);
	}
}

static void test_pass(void)
{
	enum { N = 60000 };
	struct told told = { .count = calloc(N, 1), .start = 0x555500001000, .n = N };
	uint8_t *live = calloc(N, 1);
	unsigned passes = 0, again = 0, wrong = 0;
	struct blocks t;
	init(&t);
	for (unsigned k = 0; k < N; k += 2) /* these stay */
		put(&t, told.start + k * 48, k);
	if (layout == FAST) { /* it becomes another table in the middle */
		struct blocks_pass w = { 0 };
		CHECK_EQ(blocks_pass(&t, &w, 500, tell, &told), 1);
		CHECK_EQ(blocks_compact(&t, true), 0);
		CHECK_EQ(blocks_pass(&t, &w, 500, tell, &told), -EAGAIN);
		CHECK_EQ(blocks_compact(&t, false), 0);
		while (blocks_move(&t, N))
			;
		CHECK_EQ(blocks_pass(&t, &w, 500, tell, &told), -EAGAIN);
	}
	while (passes < 5 && again < 1000) {
		struct blocks_pass w = { 0 };
		int more;
		memset(told.count, 0, N);
		/* the others come and go, at first a few, then all at once: the table grows */
		while ((more = blocks_pass(&t, &w, 500, tell, &told)) > 0)
			for (unsigned i = 0; i < 50; i++) {
				unsigned k = (unsigned)(rnd() % N) | 1;
				struct block out;
				if (live[k])
					CHECK(blocks_take(&t, told.start + k * 48,
							  block_stamp(1, 2), &out));
				else
					put(&t, told.start + k * 48, k);
				live[k] ^= 1;
				change(&t);
			}
		if (more == -EAGAIN) {
			again++;
			continue;
		}
		CHECK_EQ(more, 0);
		passes++;
		for (unsigned k = 0; k < N; k += 2)
			wrong += told.count[k] != 1;
		for (unsigned k = 1; k < N; k += 2)
			wrong += told.count[k] > 1 && layout != CHANGING;
	}
	/* while all blocks are on their way it may have to be done in one piece */
	CHECK(passes || layout == CHANGING);
	memset(told.count, 0, N);
	for (struct blocks_pass w = { 0 }; blocks_pass(&t, &w, SIZE_MAX, tell, &told) > 0;)
		;
	for (unsigned k = 0; k < N; k++)
		wrong += told.count[k] != (k % 2 ? live[k] : 1);
	CHECK_EQ(wrong + told.wrong, 0);
	blocks_release(&t);
	free(told.count);
	free(live);
}

/* The layout is wanted to be another one again and again, and between two slices of a pass. */
static void test_turning(void)
{
	enum { N = 3000, ROUNDS = 100000 };
	struct told told = { .count = calloc(N, 1), .start = 0x555500001000, .n = N };
	unsigned passes = 0, again = 0, wrong = 0;
	struct blocks_pass w = { 0 };
	struct blocks t;
	init(&t);
	for (unsigned k = 0; k < N; k++)
		put(&t, told.start + k * 48, k);
	for (unsigned i = 0; i < ROUNDS; i++) {
		int more = blocks_pass(&t, &w, 1 + rnd() % 1500, tell, &told);
		for (unsigned k = 0; more == 0 && k < N; k++)
			wrong += told.count[k] != 1;
		passes += more == 0;
		again += more == -EAGAIN;
		if (more <= 0) {
			w = (struct blocks_pass){ 0 };
			memset(told.count, 0, N);
		}
		if (rnd() % 3 == 0)
			CHECK_EQ(blocks_compact(&t, rnd() & 1), 0);
		for (unsigned moves = rnd() % 3; moves; moves--)
			blocks_move(&t, 1 + rnd() % 300);
	}
	CHECK_EQ(wrong + told.wrong, 0);
	CHECK(passes > 10 && again > 10);
	blocks_release(&t);
	free(told.count);
}

int main(void)
{
	for (layout = FAST; layout < LAYOUTS; layout++) {
		printf("# %s\n", layout_name[layout]);
		RUN(test_steps);
		RUN(test_borders);
		RUN(test_any_address);
		RUN(test_colliding);
		if (layout != CHANGING)
			RUN(test_memory);
		RUN(test_moving_heap);
		RUN(test_freed);
		RUN(test_left);
		RUN(test_pass);
		if (layout == CHANGING)
			RUN(test_turning);
	}
	return test_status();
}
