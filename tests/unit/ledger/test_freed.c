// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/freed.h"

#include "test.h"

static void add(struct freed *f, raddr_t address, uint64_t size, uint32_t tick, uint32_t stack)
{
	freed_add(f, &(struct freed_block){ .address = address,
					    .size = size,
					    .freed_tick = tick,
					    .freed_stack = stack });
}

static uint32_t found(const struct freed *f, raddr_t addr)
{
	const struct freed_block *b = freed_find(f, addr);

	return b ? b->freed_stack : 0;
}

static void test_empty(void)
{
	struct freed f = { 0 };

	CHECK(!freed_find(&f, 0));
	CHECK(!freed_at(&f, 0x1000));
	CHECK_EQ(freed_memory(&f), 0);
	freed_release(&f);
}

static void test_inside(void)
{
	struct freed f = { 0 };

	add(&f, 0x1000, 100, 1, 1);
	add(&f, 0x2000, 0, 1, 2);
	CHECK_EQ(found(&f, 0x1000), 1);
	CHECK_EQ(found(&f, 0x1063), 1);
	CHECK_EQ(found(&f, 0x1064), 0);
	CHECK_EQ(found(&f, 0xfff), 0);
	CHECK_EQ(found(&f, 0), 0);
	CHECK_EQ(found(&f, 0x2000), 2);
	CHECK_EQ(found(&f, 0x2001), 0);
	add(&f, 0xff0, 0x1000, 2, 3);
	CHECK_EQ(found(&f, 0x1010), 3); /* the later one */
	add(&f, 0x1000, 100, 3, 4);
	CHECK_EQ(found(&f, 0x1010), 4);
	for (raddr_t at = 0xff0; at <= 0x2000; at += 16) {
		const struct freed_block *b = freed_at(&f, at);
		bool there = at == 0xff0 || at == 0x1000 || at == 0x2000;

		CHECK(there ? b && b->address == at : !b);
	}
	freed_release(&f);
}

/* Of one time the inner one, wherever the two are kept. */
static void test_nested(void)
{
	struct freed f = { 0 };

	for (uint32_t i = 0; i < 64; i++) {
		raddr_t outer = 0x100000 + i * 0x10000ull, inner = outer + 16 * (1 + i % 7);

		add(&f, i % 2 ? outer : inner, 0x1000, 5, i % 2 ? 1 : 2);
		add(&f, i % 2 ? inner : outer, 0x1000, 5, i % 2 ? 2 : 1);
		CHECK_EQ(found(&f, inner), 2);
		CHECK_EQ(found(&f, outer), 1);
	}
	freed_release(&f);
}

/*
 * An address that is freed all the time does not push out others; memory is bounded; most of the
 * last ones are there.
 */
static void test_bounded(void)
{
	struct freed f = { 0 };
	unsigned n = FREED_SETS * FREED_WAYS, there = 0;

	add(&f, 0x5000, 16, 1, 1);
	for (uint32_t i = 0; i < 1000000; i++)
		add(&f, 0x6000 + i % 3 * 16, 16, 2, 2);
	CHECK_EQ(found(&f, 0x5000), 1);
	for (uint32_t i = 0; i < 4 * n; i++)
		add(&f, 0x100000 + i * 48ull, 48, 3, i + 1);
	for (uint32_t i = 0; i < 100; i++)
		there += found(&f, 0x100000 + (4 * n - n / 2 + i * 1000) * 48ull) ==
			 4 * n - n / 2 + i * 1000 + 1;
	CHECK(there >= 90);
	CHECK(freed_memory(&f) <= 16u << 20);
	freed_release(&f);
}

int main(void)
{
	RUN(test_empty);
	RUN(test_inside);
	RUN(test_nested);
	RUN(test_bounded);
	return test_status();
}
