// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The ledger in small cases, each worked out by hand, and at its edges. (test_ledger_model.c has a
 * million events.)
 */
#include "ledger_rig.h"

static void test_simple(void)
{
	struct ledger *l = new_ledger(BOTH);
	uint32_t t = ledger_thread(l, 42);
	CHECK_EQ(ledger_thread_tid(l, t), 42);
	ledger_alloc(l, t, 5, 0x1000, 100, 7);
	ledger_alloc(l, t, 123, 0x2000, 0, 7);
	ledger_alloc(l, t, 130, 0x3000, 50, 9);
	CHECK_EQ(totals(l).heap, 150);
	CHECK_EQ(totals(l).live_blocks, 3);
	CHECK_EQ(totals(l).peak, 150);
	CHECK_EQ(totals(l).peak_ms, 130);
	ledger_release(l, t, 140, 0x1000, false);
	ledger_release(l, t, 140, 0x1000, false);
	ledger_release(l, t, 140, 0x1000, true);
	ledger_alloc(l, t, 150, 0x4000, 10, 7);
	CHECK_EQ(totals(l).unknown_frees, 1);
	CHECK_EQ(totals(l).frees, 1);
	CHECK_EQ(totals(l).peak, 150);
	CHECK_EQ(totals(l).peak_ms, 130);
	CHECK_EQ(ledger_stack(l, 7)->live_bytes, 10);
	CHECK_EQ(ledger_stack(l, 7)->live_count, 2);
	CHECK_EQ(ledger_stack(l, 7)->total_bytes, 110);
	CHECK_EQ(ledger_stack(l, 7)->total_count, 3);
	CHECK_EQ(ledger_stack(l, 8)->total_count, 0);
	CHECK_EQ(ledger_stack(l, 80000000)->total_count, 0);
	int64_t bytes, count;
	ledger_stack_at_peak(l, 7, &bytes, &count);
	CHECK_EQ(bytes, 100);
	CHECK_EQ(count, 2);
	ledger_stack_at_peak(l, 9, &bytes, &count);
	CHECK_EQ(bytes, 50);
	struct ledger_block b;
	CHECK(ledger_find(l, 0x3031, &b) && b.address == 0x3000 && b.size == 50 && b.stack == 9 &&
	      b.ms == 130 && b.thread == t && !b.mapping);
	CHECK(!ledger_find(l, 0x3032, &b));
	CHECK(ledger_find(l, 0x2000, &b) && b.size == 0);
	ledger_free(l);
}

static void test_temporary(void)
{
	struct ledger *l = new_ledger(BOTH);
	uint32_t t = ledger_thread(l, 1), u = ledger_thread(l, 2);
	ledger_alloc(l, t, 0, 0x1000, 1, 1);
	ledger_alloc(l, u, 0, 0x2000, 1, 1);
	ledger_release(l, t, 0, 0x1000, false); /* temporary */
	ledger_release(l, t, 0, 0x2000, false); /* another thread's */
	ledger_alloc(l, t, 0, 0x1000, 1, 1);
	ledger_alloc(l, t, 0, 0x2000, 1, 1);
	ledger_release(l, t, 0, 0x1000, false); /* another one came after it */
	ledger_leave(l, t, 0, 0x2000);
	/* taken before the thread's next allocation, which is this */
	ledger_became(l, t, 0, 0x3000, 2, 2);
	ledger_release(l, t, 0, 0x3000, false); /* temporary */
	CHECK_EQ(totals(l).temporary, 3);
	CHECK_EQ(ledger_stack(l, 1)->temporary, 2);
	CHECK_EQ(ledger_stack(l, 2)->temporary, 1);
	ledger_free(l);
}

static void test_realloc(void)
{
	struct ledger *l = new_ledger(BOTH);
	uint32_t t = ledger_thread(l, 1), u = ledger_thread(l, 2);
	ledger_alloc(l, t, 10, 0x1000, 100, 1);
	ledger_leave(l, t, 10, 0x1000);
	CHECK_EQ(totals(l).heap, 100);
	CHECK_EQ(totals(l).live_blocks, 1);
	ledger_alloc(l, u, 20, 0x1000, 30, 2); /* OLD's address, before the outcome */
	CHECK_EQ(totals(l).heap, 130);
	struct ledger_block v[2];
	CHECK_EQ(blocks_of(l, v, 2), 2);
	CHECK(v[0].size + v[1].size == 130 && v[0].address == 0x1000 && v[1].address == 0x1000);
	ledger_became(l, t, 30, 0x5000, 500, 3);
	CHECK_EQ(totals(l).heap, 530);
	CHECK_EQ(totals(l).peak, 530); /* never old + new */
	CHECK_EQ(totals(l).allocs, 3);
	CHECK_EQ(totals(l).frees, 1);
	CHECK_EQ(totals(l).total_allocated, 630);
	CHECK_EQ(ledger_stack(l, 1)->live_count, 0);

	ledger_leave(l, t, 30, 0x5000); /* in place */
	ledger_became(l, t, 30, 0x5000, 400, 4);
	CHECK_EQ(totals(l).heap, 430);
	ledger_leave(l, t, 40, 0x5000); /* fails */
	ledger_stayed(l, t, 40);
	CHECK_EQ(totals(l).heap, 430);
	CHECK_EQ(totals(l).frees, 2);
	struct ledger_block b;
	CHECK(ledger_find(l, 0x5000, &b) && b.stack == 4 && b.ms == 30);
	ledger_leave(l, t, 50, 0x5000); /* realloc(p, 0) */
	ledger_gone(l, t, 50);
	CHECK_EQ(totals(l).heap, 30);
	ledger_leave(l, t, 50, 0x9000); /* of a block that nobody knows */
	ledger_became(l, t, 50, 0x9100, 7, 1);
	CHECK_EQ(totals(l).unknown_frees, 1);
	CHECK_EQ(totals(l).heap, 37);
	ledger_became(l, t, 50, 0x9200, 7, 1); /* without leave */
	ledger_stayed(l, t, 50);
	ledger_gone(l, t, 50);
	ledger_unmap_failed(l, t, 50);
	ledger_remap_failed(l, t, 50);
	CHECK_EQ(totals(l).heap, 44);
	ledger_leave(l, t, 60, 0x9200); /* two leaves: the first stayed */
	ledger_leave(l, t, 60, 0x9100);
	ledger_became(l, t, 60, 0x9300, 1, 1);
	CHECK_EQ(totals(l).heap, 38);
	/* OLD's address taken, and then it "stayed" */
	ledger_leave(l, t, 60, 0x9300);
	ledger_alloc(l, u, 60, 0x9300, 5, 1);
	ledger_stayed(l, t, 60);
	CHECK_EQ(totals(l).heap, 42);
	CHECK_EQ(totals(l).live_blocks, 3);
	ledger_alloc(l, u, 60, 0x9300, 6, 2); /* twice at one address */
	CHECK_EQ(totals(l).heap, 43);
	CHECK_EQ(totals(l).live_blocks, 3);
	ledger_free(l);
}

static void test_mappings(void)
{
	struct ledger *l = new_ledger(BOTH);
	uint32_t t = ledger_thread(l, 1);
	const raddr_t p = 0x7f0000000000;
	ledger_map(l, t, 0, p, 10 * 4096, RW | ANON, 1, true);
	ledger_map(l, t, 0, p + 0x100000, 4096, RW | ANON, 9, false); /* libc's */
	ledger_map(l, t, 0, p + 0x200000, 4096, RW, 9, true);	      /* a file */
	CHECK_EQ(totals(l).mmap, 10 * 4096);
	CHECK_EQ(totals(l).maps, 1);
	CHECK_EQ(ledger_stack(l, 1)->live_count, 1);
	/* a hole in the middle */
	ledger_unmap(l, t, 0, p + 3 * 4096, 4000);
	CHECK_EQ(totals(l).mmap, 9 * 4096);
	CHECK_EQ(ledger_stack(l, 1)->live_bytes, 9 * 4096);
	CHECK_EQ(ledger_stack(l, 1)->live_count, 1);
	ledger_unmap_failed(l, t, 0);
	CHECK_EQ(totals(l).mmap, 10 * 4096);
	CHECK_EQ(totals(l).unmaps, 0);
	/* MAP_FIXED over it */
	ledger_map(l, t, 0, p + 4096, 2 * 4096, RW | ANON, 2, true);
	CHECK_EQ(totals(l).mmap, 10 * 4096);
	CHECK_EQ(ledger_stack(l, 1)->live_bytes, 8 * 4096);
	CHECK_EQ(ledger_stack(l, 2)->live_bytes, 2 * 4096);
	/* a file over that */
	ledger_map(l, t, 0, p + 4096, 4096, RW, 3, true);
	CHECK_EQ(totals(l).mmap, 9 * 4096);
	ledger_unmap(l, t, 0, p - 4096, 100 * 4096);
	CHECK_EQ(totals(l).mmap, 0);
	CHECK_EQ(totals(l).unmaps, 1);
	CHECK_EQ(ledger_stack(l, 1)->live_count, 0);
	CHECK_EQ(totals(l).peak, 10 * 4096);

	/* PROT_NONE: reserved */
	ledger_map(l, t, 0, p, 100 * 4096, ANON, 4, true);
	CHECK_EQ(totals(l).mmap, 0);
	CHECK_EQ(totals(l).mmap_reserved, 100 * 4096);
	CHECK_EQ(ledger_stack(l, 4)->live_count, 0);
	/* made accessible: by mprotect's stack */
	ledger_protect(l, t, 0, p + 8192, 4096, RW, 5);
	CHECK_EQ(ledger_stack(l, 5)->live_bytes, 4096);
	CHECK_EQ(ledger_stack(l, 5)->live_count, 1);
	CHECK_EQ(ledger_stack(l, 5)->total_bytes, 4096);
	/* only the second page is new */
	ledger_protect(l, t, 0, p + 8192, 8192, WIRE_PROT_READ, 6);
	CHECK_EQ(ledger_stack(l, 5)->live_bytes, 4096);
	CHECK_EQ(ledger_stack(l, 6)->live_bytes, 4096);
	ledger_protect(l, t, 0, p, 100 * 4096, 0, 7);
	CHECK_EQ(totals(l).mmap, 0);
	/* accessible again: whose it was */
	ledger_protect(l, t, 0, p + 8192, 8192, RW, 7);
	CHECK_EQ(ledger_stack(l, 5)->live_bytes, 4096);
	CHECK_EQ(ledger_stack(l, 6)->live_bytes, 4096);
	CHECK_EQ(ledger_stack(l, 6)->total_bytes, 4096);
	CHECK_EQ(ledger_stack(l, 7)->live_bytes, 0);

	ledger_remap_leave(l, t, 0, p + 8192, 4096);
	CHECK_EQ(totals(l).mmap, 8192);
	/* moved and grown */
	ledger_remap(l, t, 0, p + 0x1000000, 5 * 4096, 8);
	CHECK_EQ(totals(l).mmap, 6 * 4096);
	CHECK_EQ(ledger_stack(l, 8)->live_bytes, 5 * 4096);
	CHECK_EQ(ledger_stack(l, 5)->live_bytes, 0);
	/* shrunk in place */
	ledger_remap_leave(l, t, 0, p + 0x1000000, 5 * 4096);
	ledger_remap(l, t, 0, p + 0x1000000, 4096, 8);
	CHECK_EQ(totals(l).mmap, 2 * 4096);
	ledger_remap_leave(l, t, 0, p + 0x1000000, 4096);
	ledger_remap_failed(l, t, 0);
	CHECK_EQ(totals(l).mmap, 2 * 4096);
	struct ledger_block b;
	CHECK(ledger_find(l, p + 0x1000000 + 4095, &b) && b.mapping && b.stack == 8);
	CHECK(!ledger_find(l, p + 4096, &b));		/* reserved only */
	ledger_remap_leave(l, t, 0, 0x123456000, 4096); /* not ours */
	ledger_remap(l, t, 0, 0x223456000, 8192, 8);
	CHECK_EQ(totals(l).mmap, 2 * 4096);
	ledger_unmap(l, t, 0, 0, 1ull << 47);

	ledger_break(l, t, 0, 0x601000, 0x600000, 3, true);
	ledger_break(l, t, 0, 0x602010, 0x601000, 3, true);
	CHECK_EQ(ledger_stack(l, 3)->live_bytes, 0x2010);
	CHECK_EQ(ledger_stack(l, 3)->live_count, 2);
	ledger_break(l, t, 0, 0x600800, 0x602010, 3, true);
	CHECK_EQ(totals(l).mmap, 0x800);
	CHECK_EQ(ledger_stack(l, 3)->live_count, 1);
	ledger_free(l);
}

/* What an munmap that failed puts back may make a new peak: then that is when it was. */
static void test_peak_put_back(void)
{
	struct ledger *l = ledger_new(BOTH);
	uint32_t t = ledger_thread(l, 1);
	ledger_map(l, t, 0, 0x7f0000000000, 8192, RW | ANON, 1, true);
	ledger_unmap(l, t, 10, 0x7f0000000000, 8192);
	ledger_alloc(l, t, 20, 0x1000, 100, 2);
	ledger_unmap_failed(l, t, 30);
	CHECK_EQ(totals(l).peak, 8292);
	CHECK_EQ(totals(l).peak_ms, 30);
	ledger_free(l);
}

static void test_counted_kinds(void)
{
	struct ledger *l = new_ledger(LEDGER_COUNT_HEAP);
	ledger_map(l, 0, 0, 0x100000, 4096, RW | ANON, 1, true);
	ledger_alloc(l, 0, 0, 0x1000, 10, 2);
	CHECK_EQ(totals(l).mmap, 4096);
	CHECK_EQ(totals(l).peak, 10);
	CHECK_EQ(ledger_stack(l, 1)->live_bytes, 0);
	CHECK_EQ(ledger_stack(l, 2)->live_bytes, 10);
	ledger_free(l);
	l = new_ledger(LEDGER_COUNT_MMAP);
	ledger_map(l, 0, 0, 0x100000, 4096, RW | ANON, 1, true);
	ledger_alloc(l, 0, 0, 0x1000, 10, 2);
	CHECK_EQ(totals(l).heap, 10);
	CHECK_EQ(totals(l).peak, 4096);
	CHECK_EQ(ledger_stack(l, 2)->live_bytes, 0);
	ledger_free(l);
}

/* ---- whatever comes ------------------------------------------------------ */

static void test_garbage(void)
{
	struct ledger *l = new_ledger(BOTH), *c = NULL;
	for (int i = 0, events = test_size(100000, 300000); i < events; i++) {
		uint64_t a = rnd() >> (rnd() % 64), n = rnd() >> (rnd() % 64);
		change(l, 1000);
		uint32_t t = (uint32_t)(rnd() >> (32 + rnd() % 32)),
			 s = (uint32_t)(rnd() >> (40 + rnd() % 24));
		switch (rnd() % 20) {
		case 0:
		case 1:
		case 2: ledger_alloc(l, t, n, a, n, s); break;
		case 3: ledger_release(l, t, a, n, true); break;
		case 4: ledger_leave(l, t, n, a); break;
		case 5: ledger_became(l, t, n, a, n, s); break;
		case 6: ledger_stayed(l, t, n); break;
		case 7: ledger_gone(l, t, n); break;
		case 8:
		case 9: ledger_map(l, t, n, a, n, (unsigned)rnd(), s, rnd() & 1); break;
		case 10: ledger_unmap(l, t, n, a, n); break;
		case 11: ledger_unmap_failed(l, t, n); break;
		case 12: ledger_remap_leave(l, t, n, a, n); break;
		case 13: ledger_remap(l, t, n, a, n, s); break;
		case 14: ledger_remap_failed(l, t, n); break;
		case 15: ledger_protect(l, t, n, a, n, (unsigned)rnd(), s); break;
		case 16: ledger_break(l, t, n, a, n, s, true); break;
		case 17: {
			struct wire_event e[100];
			for (int j = 0; j < 100; j++)
				e[j] = wire_pack(rnd() % 2 ? WIRE_ALLOC : WIRE_FREE,
						 a + rnd() % 4 * 4096 + rnd() % 2000, 0,
						 (uint32_t)rnd(), s);
			ledger_batch(l, t, n, e, rnd() % 101);
			break;
		}
		case 18:
			if (ledger_threads(l) < 100)
				ledger_thread(l, (pid_t)s);
			else
				ledger_thread_ended(l, t);
			break;
		default: {
			struct ledger_block b;
			if (i % 10 == 0)
				ledger_find(l, a, &b);
			if (i % 1000 == 0) {
				ledger_free(c);
				c = ledger_fork(l);
			}
		}
		}
	}
	CHECK(ledger_memory(l) < (200u << 20));
	ledger_free(l);
	CHECK_EQ(ledger_stack(c, 1)->total_count, 0);
	ledger_free(c);
}

/*
 * A batch in which the table of pages moves, and moves again, to where it was, before blocks of
 * older pages are freed: most pages are empty, so that the first time it stays as small as it was,
 * and a few hold so many blocks that it is then kept emptier.
 */
static void test_batch_moves(void)
{
	enum { OLD = 370, CROWDED = 5, NEW = 48, FREED = 16 };
	const raddr_t old = 0x10000000, crowded = 0x20000000, new = 0x30000000;
	for (unsigned gone = 200; gone < 250; gone++) {
		struct ledger *l = new_ledger(LEDGER_COUNT_HEAP);
		struct wire_event e[NEW + FREED];
		size_t n = 0;
		CHECK(l);
		for (unsigned i = 0; i < CROWDED; i++)
			for (unsigned k = 0; k < 200; k++)
				ledger_alloc(l, 0, 1, crowded + i * 4096 + k * 16, 16, 2);
		for (unsigned i = 0; i < OLD; i++)
			ledger_alloc(l, 0, 1, old + i * 4096, 16, 1);
		for (unsigned i = 0; i < gone; i++)
			ledger_release(l, 0, 1, old + i * 4096, false);
		for (unsigned i = 0; i < NEW; i++)
			e[n++] = wire_pack(WIRE_ALLOC, new + i * 4096, 0, 16, 3);
		for (unsigned i = 0; i < FREED; i++)
			e[n++] = wire_pack(WIRE_FREE, old + (gone + i) * 4096, 0, 0, 0);
		ledger_batch(l, 0, 2, e, n);
		CHECK_EQ(totals(l).unknown_frees, 0);
		CHECK_EQ(ledger_stack(l, 1)->live_count, OLD - gone - FREED);
		ledger_free(l);
	}
}

/*
 * What was freed is still known, until its place is needed; with stacks, also by whom it was
 * allocated.
 */
static void test_freed(void)
{
	struct ledger *l = new_ledger(LEDGER_COUNT_HEAP);
	struct ledger_freed f;
	ledger_thread(l, 100);
	ledger_thread(l, 200);
	CHECK(!ledger_find_freed(l, 0x5000, &f));
	ledger_alloc(l, 0, 1000, 0x5000, 3000, 7);
	ledger_alloc(l, 0, 1000, 0x9000, 16, 8);
	CHECK(!ledger_find_freed(l, 0x5000, &f));
	ledger_release(l, 1, 2000, 0x5000, false);
	for (int i = 0; i < 2; i++) {
		CHECK(ledger_find_freed(l, i ? 0x5000 + 2999 : 0x5000, &f));
		CHECK_EQ(f.block.address, 0x5000);
		CHECK_EQ(f.block.size, 3000);
		CHECK_EQ(f.block.stack, 7);
		CHECK_EQ(f.known, false);
		CHECK_EQ(f.thread, 1);
		CHECK_EQ(f.ms, 2000);
		CHECK_EQ(f.stack, 0);
	}
	CHECK(!ledger_find_freed(l, 0x5000 + 3000, &f));
	CHECK(!ledger_find_freed(l, 0x4fff, &f));
	ledger_alloc(l, 0, 3000, 0x5000, 100, 9);
	ledger_release_by(l, 1, 4000, 0x5000, false, 11);
	CHECK(ledger_find_freed(l, 0x5063, &f));
	CHECK_EQ(f.block.size, 100);
	CHECK_EQ(f.block.stack, 9);
	CHECK_EQ(f.block.ms, 3000);
	CHECK_EQ(f.block.thread, 0);
	CHECK_EQ(f.known, true);
	CHECK_EQ(f.stack, 11);
	CHECK_EQ(f.ms, 4000);
	ledger_keep_freed(l, true);
	ledger_alloc(l, 0, 5000, 0x7000, 50, 9);
	ledger_leave(l, 0, 5000, 0x7000);
	ledger_became(l, 0, 5000, 0x17000, 60, 12);
	CHECK(ledger_find_freed(l, 0x7000, &f));
	CHECK_EQ(f.stack, 12);
	ledger_leave(l, 0, 6000, 0x17000);
	ledger_gone_by(l, 0, 6000, 13);
	CHECK(ledger_find_freed(l, 0x17000, &f));
	CHECK_EQ(f.stack, 13);
	struct wire_event pair[] = { wire_pack(WIRE_ALLOC, 0x5010, 0, 40, 21),
				     wire_pack(WIRE_FREE, 0x5010, 1, 0, 0) };
	ledger_batch(l, 1, 7000, pair, 2);
	CHECK(ledger_find_freed(l, 0x5011, &f));
	CHECK_EQ(f.block.stack, 21);
	CHECK_EQ(f.ms, 7000);
	pair[1] = wire_pack(WIRE_FREE, 0x5010, 1, 0, 22);
	ledger_batch(l, 1, 8000, pair, 2);
	CHECK(ledger_find_freed(l, 0x5011, &f));
	CHECK_EQ(f.stack, 22);
	CHECK_EQ(f.block.ms, 8000);
	struct ledger_totals t;
	ledger_totals(l, &t);
	CHECK_EQ(t.live_blocks, 1);
	ledger_free(l);
}

/* ---- pages that blocks have been in --------------------------------------- */

static uint64_t lain(const struct ledger *l, raddr_t start, raddr_t end)
{
	struct page_set set;
	uint64_t n;
	CHECK_EQ(ledger_lain(l, &set), 0);
	n = page_set_count(&set, start, end);
	page_set_release(&set);
	return n;
}

static void test_lain(void)
{
	struct ledger *l = new_ledger(BOTH), *child;
	uint32_t t = ledger_thread(l, 1);
	struct wire_event e[4];
	CHECK_EQ(lain(l, 0, 1ull << 40), 0);
	ledger_alloc(l, t, 1, 0x10010, 100, 3);
	ledger_alloc(l, t, 1, 0x20ff0, 100, 3); /* ends in the next page */
	CHECK_EQ(lain(l, 0, 1ull << 40), 3);
	ledger_alloc(l, t, 1, 0x30010, 100,
		     3); /* its page is known, what a larger one reaches not */
	ledger_release(l, t, 1, 0x30010, false);
	ledger_alloc(l, t, 1, 0x30010, 5 * 4096, 3);
	CHECK_EQ(lain(l, 0x30000, 0x40000), 6);
	for (int i = 0; i < 4; i++)
		e[i] = wire_pack(WIRE_ALLOC, 0x50000 + (uint64_t)i * 0x10000, 0, 16, 3);
	ledger_batch(l, t, 2, e, 4);
	CHECK_EQ(lain(l, 0x50000, 0x90000), 4);
	ledger_release(l, t, 3, 0x50000, false);
	ledger_release(l, t, 3, 0x30010, false);
	CHECK_EQ(lain(l, 0, 1ull << 40), 13);
	child = ledger_fork(l);
	ledger_alloc(child, t, 4, 0xa0000, 1, 3);
	CHECK_EQ(lain(child, 0, 1ull << 40), 14);
	CHECK_EQ(lain(l, 0, 1ull << 40), 13);
	ledger_free(child);
	ledger_free(l);
}

static int count_range(void *ctx, const struct ledger_block *b)
{
	*(uint64_t *)ctx += b->size;
	return 0;
}

/* What is not accessible is the program's still. */
static void test_ranges(void)
{
	struct ledger *l = new_ledger(BOTH);
	uint32_t t = ledger_thread(l, 1);
	uint64_t open = 0, all = 0;
	ledger_map(l, t, 1, 0x10000, 0x8000, RW | ANON, 3, true);
	ledger_protect(l, t, 2, 0x12000, 0x1000, 0, 3);
	ledger_each_mapping(l, count_range, &open);
	ledger_each_range(l, count_range, &all);
	CHECK_EQ(open, 0x7000);
	CHECK_EQ(all, 0x8000);
	ledger_free(l);
}

/* ---- edges --------------------------------------------------------------- */

/* Numbers that are too large, or none. */
static void test_edges(void)
{
	struct ledger *l = new_ledger(BOTH);
	struct ledger_block b;
	uint32_t t = ledger_thread(l, 1);
	/* a stack that no node can be */
	for (uint32_t stack = WIRE_NODES; stack < WIRE_NODES + 3; stack++)
		ledger_alloc(l, t, 0, 0x1000 + stack % 16 * 64, 10, stack);
	CHECK_EQ(ledger_stack(l, 0)->live_bytes, 30);
	CHECK_EQ(ledger_stack(l, WIRE_NODES)->live_bytes, 0);
	CHECK_EQ(ledger_stacks(l), 1);
	ledger_alloc(l, t, 0, 0x2000, 10, WIRE_NODES - 1);
	CHECK_EQ(ledger_stack(l, WIRE_NODES - 1)->live_bytes, 10);
	CHECK_EQ(ledger_stacks(l), WIRE_NODES);
	/* blocks as large as can be */
	ledger_alloc(l, t, 0, 0x3000, UINT64_MAX, 1);
	CHECK(ledger_find(l, 0x3000, &b) && b.size == (1ull << 46) - 1);
	ledger_release(l, t, 0, 0x3000, false);
	CHECK_EQ(totals(l).heap, 40);
	/* mappings at the end of what can be */
	const uint64_t most = 1ull << 62;
	ledger_map(l, t, 0, most + 4096, 4096, RW | ANON, 1, true);
	ledger_map(l, t, 0, 0, 0, RW | ANON, 1, true);
	CHECK_EQ(totals(l).mmap, 0);
	CHECK_EQ(totals(l).mmap_reserved, 0);
	ledger_map(l, t, 0, most - 4096, 4096, RW | ANON, 1, true);
	CHECK_EQ(totals(l).mmap, 4096);
	ledger_map(l, t, 0, 0, most, RW | ANON, 1, true);
	CHECK_EQ(totals(l).mmap, most);
	ledger_unmap(l, t, 0, 0, most + 1);
	CHECK_EQ(totals(l).mmap, 0);
	CHECK_EQ(totals(l).unmaps, 1);
	/* calls that take or give nothing */
	uint64_t maps = totals(l).maps;
	ledger_break(l, t, 0, 0x601000, 0x601000, 1, true);
	ledger_break(l, t, 0, 0x601000, 0x602000, 1, true);
	ledger_break(l, t, 0, 0x602000, 0x601000, 1, false);
	ledger_unmap(l, t, 0, 0x601000, 4096);
	CHECK_EQ(totals(l).maps, maps);
	CHECK_EQ(totals(l).unmaps, 1);
	CHECK_EQ(totals(l).mmap, 0);
	ledger_free(l);
}

enum last { NO_RANGE, UNMAP_FAILED, REMAPPED, REMAP_FAILED, STAYED, BECAME, GONE, ENDED, LASTS };

/* What THREAD does last leaves nothing unfinished. */
static void finish(struct ledger *l, uint32_t thread, enum last last)
{
	switch (last) {
	case NO_RANGE: ledger_unmap(l, thread, 0, 0x900000, 4096); break;
	case UNMAP_FAILED:
		ledger_unmap(l, thread, 0, 0x100000, 4096);
		ledger_unmap_failed(l, thread, 0);
		break;
	case REMAPPED:
		ledger_remap_leave(l, thread, 0, 0x100000, 4096);
		ledger_remap(l, thread, 0, 0x100000, 4096, 1);
		break;
	case REMAP_FAILED:
		ledger_remap_leave(l, thread, 0, 0x100000, 4096);
		ledger_remap_failed(l, thread, 0);
		break;
	case STAYED:
		ledger_leave(l, thread, 0, 0x1000);
		ledger_stayed(l, thread, 0);
		break;
	case BECAME:
		ledger_leave(l, thread, 0, 0x1000);
		ledger_became(l, thread, 0, 0x1000, 5, 1);
		break;
	case GONE:
		ledger_leave(l, thread, 0, 0x1000);
		ledger_gone(l, thread, 0);
		ledger_alloc(l, thread, 0, 0x1000, 5, 1);
		break;
	default:
		ledger_unmap(l, thread, 0, 0x100000, 4096);
		ledger_thread_ended(l, thread);
		ledger_map(l, thread, 0, 0x100000, 4096, RW | ANON, 1, true);
	}
}

static void test_nothing_unfinished(void)
{
	struct ledger *l = new_ledger(BOTH);

	ledger_map(l, ledger_thread(l, 1), 0, 0x100000, 1000 * 4096, RW | ANON, 1, true);
	ledger_alloc(l, 0, 0, 0x1000, 5, 1);
	for (enum last last = 0; last < LASTS; last++) {
		for (pid_t i = 0; i < 100; i++)
			finish(l, ledger_thread(l, 2 + i), last);
		CHECK(l->pendings <= 1);
	}
	CHECK_EQ(totals(l).mmap, 1000 * 4096);
	ledger_free(l);
}

/* What a ledger says that it takes has all its stacks in it. */
static void test_memory_of_stacks(void)
{
	const uint32_t stacks = 10000;
	struct ledger *l = new_ledger(BOTH);
	size_t none = ledger_memory(l);
	uint32_t t = ledger_thread(l, 1);

	for (uint32_t i = 1; i <= stacks; i++) {
		ledger_alloc(l, t, 0, 0x1000, 5, i);
		ledger_release(l, t, 0, 0x1000, false);
	}
	size_t least = none + stacks * (sizeof(struct stack_total) + 2 * sizeof(uint32_t));
	CHECK(ledger_memory(l) >= least && ledger_memory(l) <= least + (1u << 20));
	ledger_free(l);
}

/* As many threads as there can be; those that come then share the last one's number. */
static void test_many_threads(void)
{
	struct ledger *l = new_ledger(BOTH);
	const uint32_t most = 1u << 20;
	size_t none = ledger_memory(l), before;
	for (uint32_t i = 0; i < 1000; i++)
		CHECK_EQ(ledger_thread(l, (pid_t)i), i);
	CHECK(ledger_memory(l) >= none + 1000 * 8 && ledger_memory(l) <= none + 1000 * 32);
	/* nobody keeps what is finished, or came to nothing */
	ledger_map(l, 0, 0, 0x100000, 1000 * 4096, RW | ANON, 1, true);
	ledger_alloc(l, 0, 0, 0x1000, 5, 1);
	before = ledger_memory(l);
	for (uint32_t i = 0; i < 1000; i++) {
		ledger_unmap(l, i, 0, 0x900000, 4096);
		ledger_unmap(l, i, 0, 0x100000, 4096);
		ledger_unmap_failed(l, i, 0);
		ledger_remap_leave(l, i, 0, 0x100000 + 4096 * 4, 4096);
		ledger_remap(l, i, 0, 0x100000 + 4096 * 4, 4096, 1);
		ledger_remap_leave(l, i, 0, 0x100000, 4096);
		ledger_remap_failed(l, i, 0);
		ledger_leave(l, i, 0, 0x1000);
		ledger_stayed(l, i, 0);
		ledger_leave(l, i, 0, 0x1000);
		ledger_became(l, i, 0, 0x1000, 5, 1);
		ledger_leave(l, i, 0, 0x1000);
		ledger_gone(l, i, 0);
		ledger_alloc(l, i, 0, 0x1000, 5, 1);
		ledger_unmap(l, i, 0, 0x100000, 4096); /* and its thread ends */
		ledger_thread_ended(l, i);
		ledger_thread_ended(l, i);
		ledger_map(l, i, 0, 0x100000, 4096, RW | ANON, 1, true);
	}
	CHECK(ledger_memory(l) <= before + 60000);
	CHECK_EQ(totals(l).mmap, 1000 * 4096);
	/* what may be put back is kept for a thread that lives */
	ledger_remap_leave(l, 5, 0, 0x100000, 4096);
	ledger_thread_ended(l, 5);
	CHECK(ledger_resizing(l));
	CHECK_EQ(totals(l).mmap, 1000 * 4096);
	for (uint32_t i = 1000; i < most; i++)
		if (ledger_thread(l, (pid_t)i) != i)
			test_bad++;
	CHECK_EQ(ledger_thread(l, 77), most - 1);
	CHECK_EQ(ledger_thread(l, 77), most - 1);
	CHECK_EQ(ledger_threads(l), most);
	CHECK_EQ(ledger_thread_tid(l, most - 1), most - 1);
	CHECK_EQ(ledger_thread_tid(l, most), 0);
	ledger_free(l);
}

/* What of a range is there: accessible and not, from within and from before. */
static void test_cover(void)
{
	struct ledger *l = new_ledger(BOTH);
	struct ledger_cover c;
	const raddr_t p = 0x100000;
	ledger_map(l, 0, 0, p, 2 * 4096, RW | ANON, 1, true);
	ledger_map(l, 0, 0, p + 2 * 4096, 3 * 4096, ANON, 1, true);
	ledger_map(l, 0, 0, p + 8 * 4096, 4096, RW | ANON, 1, true);
	static const struct {
		int from, n, open, closed;
		bool begins;
	} part[] = { { 0, 9, 3, 3, true },   { 1, 1, 1, 0, true },   { 1, 2, 1, 1, true },
		     { 2, 3, 0, 3, false },  { 4, 1, 0, 1, false },  { 5, 3, 0, 0, false },
		     { 5, 4, 1, 0, false },  { 8, 1, 1, 0, true },   { 9, 5, 0, 0, false },
		     { -5, 6, 1, 0, false }, { -5, 5, 0, 0, false }, { 0, 0, 0, 0, true },
		     { 2, 0, 0, 0, false },  { 8, 0, 0, 0, true } };
	for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
		ledger_cover(l, p + (raddr_t)(part[i].from * 4096), (uint64_t)part[i].n * 4096, &c);
		CHECK_EQ(c.open, part[i].open * 4096);
		CHECK_EQ(c.closed, part[i].closed * 4096);
		CHECK_EQ(c.begins_open, part[i].begins);
	}
	ledger_free(l);
}

/* VISITED: eight blocks at most, ended by one at address 0 */
static int visit(void *ctx, const struct ledger_block *b)
{
	struct ledger_block *v = ctx;

	while (v->address)
		v++;
	*v = *b;
	return 0;
}

static void count_pages(void *ctx, raddr_t addr) { *(uint64_t *)ctx |= addr & ~0xfffull; }

/* The questions that are asked of one address, or of some blocks; also within a realloc. */
static void test_questions(void)
{
	struct ledger *l = new_ledger(BOTH);
	uint32_t t = ledger_thread(l, 1);
	const raddr_t p = 0x7f0000000000;
	struct ledger_block b;
	raddr_t some[10];
	struct blocks_pass pass = { 0 };
	struct block_list list;
	uint64_t pages = 0;
	unsigned seen = 0;
	int n = 0;

	CHECK(!ledger_below(l, UINT64_MAX, &b));
	CHECK_EQ(ledger_some(l, some, 10), 0);
	ledger_alloc(l, t, 10, 0x1000, 100, 1);
	ledger_alloc(l, t, 20, 0x5010, 50, 2);
	CHECK(!ledger_below(l, 0xfff, &b));
	CHECK(ledger_below(l, 0x1000, &b) && b.address == 0x1000);
	CHECK(ledger_below(l, 0x500f, &b) && b.address == 0x1000 && b.size == 100);
	CHECK(ledger_below(l, UINT64_MAX >> 20, &b) && b.address == 0x5010 && b.stack == 2);
	CHECK(ledger_holds(l, 0x5010) && !ledger_holds(l, 0x5011) && !ledger_holds(l, 0x1001));
	for (n = 0; n < 1000; n++) { /* others each time, as time goes on */
		size_t found = ledger_some(l, some, 1 + (size_t)n % 2);
		CHECK(found <= 1 + (size_t)n % 2 && (found < 2 || some[0] != some[1]));
		for (size_t i = 0; i < found; i++) {
			CHECK(some[i] == 0x1000 || some[i] == 0x5010);
			seen |= some[i] == 0x1000 ? 1u : 2u;
		}
		ledger_stayed(l, t, 20);
	}
	CHECK_EQ(seen, 3);
	n = 0;
	CHECK_EQ(ledger_some(l, some, 0), 0);
	while ((n = ledger_pass_pages(l, &pass, 1000, count_pages, &pages)) > 0)
		;
	CHECK_EQ(n, 0);
	CHECK_EQ(pages, 0x5000 | 0x1000);
	/* what is under way is there still */
	ledger_map(l, t, 30, p, 3 * 4096, RW | ANON, 3, true);
	ledger_protect(l, t, 30, p + 4096, 4096, 0, 3);
	ledger_leave(l, t, 40, 0x1000);
	ledger_remap_leave(l, t, 40, p, 3 * 4096);
	CHECK(ledger_find(l, 0x1063, &b) && b.address == 0x1000 && b.size == 100 && b.stack == 1 &&
	      b.ms == 10 && !b.mapping);
	CHECK(!ledger_find(l, 0x1064, &b) && !ledger_find(l, 0xfff, &b));
	CHECK(ledger_find(l, p + 4095, &b) && b.mapping && b.address == p && b.size == 4096 &&
	      b.stack == 3 && b.ms == 30 && b.count == 1 && b.bytes == 4096);
	CHECK(!ledger_find(l, p + 4096, &b));
	CHECK(ledger_find(l, p + 3 * 4096 - 1, &b) && b.address == p + 8192);
	CHECK(!ledger_find(l, p + 3 * 4096, &b) && !ledger_find(l, p - 1, &b));
	/* and so is the block that is leaving, in a list */
	CHECK_EQ(block_list_now(l, &list), 0);
	CHECK_EQ(list.count, 4);
	CHECK_EQ(list.block[0].address, 0x1000);
	block_list_release(&list);
	struct ledger_block v[8] = { 0 };
	CHECK_EQ(ledger_each_mapping(l, visit, v), 0);
	CHECK(v[0].address == p && v[1].address == p + 8192 && !v[2].address);
	/* others beside it, in order */
	ledger_map(l, ledger_thread(l, 2), 50, p - 8192, 4096, RW | ANON, 4, true);
	ledger_map(l, 1, 50, p + 4096, 4096, RW | ANON, 4, true);
	ledger_map(l, 1, 50, p + 8 * 4096, 4096, RW | ANON, 4, true);
	memset(v, 0, sizeof(v));
	CHECK_EQ(ledger_each_mapping(l, visit, v), 0);
	CHECK(v[0].address == p - 8192 && v[1].address == p && v[2].address == p + 4096 &&
	      v[3].address == p + 8192 && v[4].address == p + 8 * 4096 && !v[5].address);
	CHECK(v[2].stack == 4 && v[2].thread == 1 && v[2].ms == 50);
	ledger_free(l);
}

/* What was freed and then used again: the later of both, by its own time. */
static void test_freed_later(void)
{
	struct ledger *l = new_ledger(LEDGER_COUNT_HEAP);
	struct ledger_freed f;
	ledger_thread(l, 1);
	ledger_alloc(l, 0, 100, 0x5000, 100, 1);
	ledger_release_by(l, 0, 200, 0x5000, false, 9);
	ledger_alloc(l, 0, 300, 0x5000, 50, 2);
	ledger_release(l, 0, 400, 0x5000, false);
	CHECK(ledger_find_freed(l, 0x5000, &f) && f.block.stack == 2 && f.stack == 0 &&
	      f.ms == 400);
	CHECK(!f.known);
	CHECK(ledger_find_freed(l, 0x5000 + 60, &f) && f.block.stack == 1 && f.stack == 9);
	ledger_alloc(l, 0, 400, 0x5000, 50, 3);
	ledger_release_by(l, 0, 400, 0x5000, false, 8); /* of the same time: what is known of */
	CHECK(ledger_find_freed(l, 0x5000, &f) && f.block.stack == 3 && f.stack == 8 && f.known);
	ledger_free(l);
}

static void tests(void)
{
	RUN(test_simple);
	RUN(test_temporary);
	RUN(test_realloc);
	RUN(test_mappings);
	RUN(test_counted_kinds);
	RUN(test_peak_put_back);
	RUN(test_batch_moves);
	RUN(test_freed);
	RUN(test_garbage);
	RUN(test_lain);
	RUN(test_ranges);
	RUN(test_edges);
	RUN(test_nothing_unfinished);
	RUN(test_memory_of_stacks);
	RUN(test_many_threads);
	RUN(test_cover);
	RUN(test_questions);
	RUN(test_freed_later);
}

int main(void) { return in_each_layout(tests); }
