// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Lists of live blocks that are made in slices while events go on, against an array of what lived
 * when they were begun; in both layouts of the table, and while one becomes the other. And how long
 * a slice takes.
 */
#include "inject/wire_event.h"
#include "ledger/block_list.h"
#include "test.h"

#include <time.h>

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(void) { return test_random(&seed); }

static enum { FAST, COMPACT, CHANGING, LAYOUTS } layout;
static const char *const layout_name[] = { "for speed", "compact", "changing" };

#define BOTH (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP)
#define RW   (WIRE_PROT_READ | WIRE_PROT_WRITE)

static struct ledger *new_ledger(void)
{
	struct ledger *l = ledger_new(BOTH);
	CHECK(l && !ledger_compact(l, layout != FAST));
	ledger_thread(l, 100);
	ledger_thread(l, 200);
	return l;
}

/* ---- against an array ---------------------------------------------------- */

enum { ADDRESSES = 20000, MAPPINGS = 50, LISTS = 3 };

struct held {
	uint64_t size, bytes, ms;
	uint32_t stack, thread;
	bool live;
};

struct model {
	struct held block[ADDRESSES], mapping[MAPPINGS];
	int leaving; /* thread 0 is in a realloc of it; -1: in none */
};

static struct model now, then[LISTS];

/* Dense and sparse ones, some that the compact layout cannot have. */
static raddr_t address_of(int k)
{
	return k % 2   ? 0x555555560010ull + (raddr_t)k * 48
	       : k % 7 ? 0x7fff00000008ull + (raddr_t)k * 520
		       : 0x7000000000ull + (raddr_t)k * 4099;
}

static raddr_t mapping_at(int k) { return 0x7f0000000000ull + (raddr_t)k * 0x1000000; }

static void heap_event(struct ledger *l, uint64_t ms)
{
	int k = (int)(rnd() % ADDRESSES);
	struct held *h = &now.block[k];
	uint32_t thread = (uint32_t)(rnd() & 1), stack = (uint32_t)(rnd() % 1000);
	uint64_t size = rnd() % 9 ? rnd() % 5000 : rnd() % (1ull << 30);
	if (k == now.leaving)
		return;
	if (!h->live) {
		*h = (struct held){ size, size, ms / 10 * 10, stack, thread, true };
		if (rnd() % 4) {
			ledger_alloc(l, thread, ms, address_of(k), size, stack);
		} else {
			ledger_alloc_counted(l, thread, ms, address_of(k), size, stack, 100000);
			h->bytes = UINT64_MAX; /* some, which the stacks' sums know */
		}
	} else {
		ledger_release(l, thread, ms, address_of(k), false);
		h->live = false;
	}
}

/* Thread 0 alone reallocates, in place, to somewhere else, in vain, or to nothing. */
static void realloc_event(struct ledger *l, uint64_t ms)
{
	int k = (int)(rnd() % ADDRESSES), old = now.leaving;
	if (old < 0) {
		if (now.block[k].live) {
			ledger_leave(l, 0, ms, address_of(k));
			now.leaving = k;
		}
		return;
	}
	now.leaving = -1;
	switch (rnd() % 4) {
	case 0: ledger_stayed(l, 0, ms); return;
	case 1: k = old; break;
	case 2:
		ledger_gone(l, 0, ms);
		now.block[old].live = false;
		return;
	default:
		if (now.block[k].live)
			k = old;
	}
	ledger_became(l, 0, ms, address_of(k), 77, 7);
	now.block[old].live = false;
	now.block[k] = (struct held){ 77, 77, ms / 10 * 10, 7, 0, true };
}

static void map_event(struct ledger *l, uint64_t ms)
{
	int k = (int)(rnd() % MAPPINGS);
	struct held *h = &now.mapping[k];
	if (h->live)
		ledger_unmap(l, 0, ms, mapping_at(k), h->size);
	else
		ledger_map(l, 0, ms, mapping_at(k), 8192, RW | WIRE_MAP_ANON, 5, true);
	*h = (struct held){ 8192, 8192, ms / 10 * 10, 5, 0, !h->live };
}

/* Several at once, of blocks that come and go, too. */
static void batch(struct ledger *l, uint64_t ms)
{
	struct wire_event e[100];
	size_t n = 0;
	while (n + 2 < 100 && rnd() % 20) {
		int k = (int)(rnd() % ADDRESSES);
		struct held *h = &now.block[k];
		uint64_t size = rnd() % 3000;
		if (k == now.leaving)
			continue;
		if (h->live)
			e[n++] = wire_pack(WIRE_FREE, address_of(k), 0, 0, 0);
		else
			e[n++] = wire_pack(WIRE_ALLOC, address_of(k), 0, size, 3);
		*h = (struct held){ size, size, ms / 10 * 10, 3, 1, !h->live };
		if (h->live && rnd() % 2) {
			e[n++] = wire_pack(WIRE_FREE, address_of(k), 0, 0, 0);
			h->live = false;
		}
	}
	ledger_batch(l, 1, ms, e, n);
}

static void any_event(struct ledger *l, uint64_t ms)
{
	static uint64_t own = 1;
	if (rnd() % 100 == 0)
		batch(l, ms);
	else if (rnd() % 50 == 0)
		map_event(l, ms);
	else if (rnd() % 10 == 0)
		realloc_event(l, ms);
	else
		heap_event(l, ms);
	if (layout == CHANGING && test_random(&own) % 20000 == 0)
		CHECK_EQ(ledger_compact(l, test_random(&own) & 1), 0);
	if (test_random(&own) % 16 == 0)
		ledger_move(l);
}

static unsigned compare(const struct block_list *list, const struct model *m)
{
	static bool seen[ADDRESSES], mapped[MAPPINGS];
	raddr_t last = 0;
	unsigned wrong = 0;
	memset(seen, 0, sizeof(seen));
	memset(mapped, 0, sizeof(mapped));
	for (size_t i = 0; i < list->count; i++) {
		struct ledger_block b = block_list_get(list, i);
		const struct held *h = NULL;
		wrong += b.address <= last;
		last = b.address;
		for (int k = 0; b.mapping && k < MAPPINGS; k++)
			if (mapping_at(k) == b.address && !mapped[k]) {
				mapped[k] = true;
				h = &m->mapping[k];
			}
		int k = b.address >= 0x7fff00000000ull
				? (int)((b.address - 0x7fff00000000ull) / 520)
			: b.address >= 0x555555560000ull
				? (int)((b.address - 0x555555560010ull) / 48)
				: (int)((b.address - 0x7000000000ull) / 4099);
		if (!b.mapping && k < ADDRESSES && address_of(k) == b.address && !seen[k]) {
			seen[k] = true;
			h = &m->block[k];
		}
		wrong += !h || !h->live || b.size != h->size || b.stack != h->stack ||
			 b.thread != h->thread || b.ms != h->ms ||
			 (h->bytes == UINT64_MAX ? b.bytes < b.size : b.bytes != h->bytes) ||
			 block_list_tid(list, b.thread) != (b.thread ? 200 : 100);
	}
	for (int k = 0; k < ADDRESSES; k++)
		wrong += m->block[k].live && !seen[k];
	for (int k = 0; k < MAPPINGS; k++)
		wrong += m->mapping[k].live && !mapped[k];
	return wrong;
}

static void test_while_it_changes(void)
{
	const int events = test_size(150000, 4000000);
	struct ledger *l = new_ledger();
	struct listing *g[LISTS] = { NULL };
	unsigned wrong = 0, lists = 0, cancelled = 0;
	now = (struct model){ .leaving = -1 };
	for (int i = 0; i < events && wrong < 10; i++) {
		any_event(l, (uint64_t)i / 100);
		if (rnd() % 30)
			continue;
		int n = (int)(rnd() % LISTS);
		if (!g[n]) {
			g[n] = listing_begin(l);
			then[n] = now;
			continue;
		}
		if (rnd() % 50 == 0) {
			listing_cancel(g[n]);
			g[n] = NULL;
			cancelled++;
			continue;
		}
		size_t most = 1 + rnd() % 2000;
		struct block_list list;
		if (rnd() & 1)
			listing_prepare(g[n], most);
		if (listing_slice(g[n], most))
			continue;
		bool sorted = rnd() & 1;
		CHECK_EQ(listing_end(g[n], sorted, &list), 0);
		g[n] = NULL;
		if (!sorted)
			CHECK_EQ(block_list_sort(&list), 0);
		wrong += compare(&list, &then[n]);
		lists++;
		block_list_release(&list);
	}
	CHECK_EQ(wrong, 0);
	CHECK(lists > 20);
	CHECK(cancelled > 0);
	printf("# %u lists\n", lists);
	ledger_free(l); /* and what is still to be copied is, at once */
	for (int n = 0; n < LISTS; n++) {
		struct block_list list;
		if (!g[n])
			continue;
		CHECK(!listing_slice(g[n], 1));
		CHECK_EQ(listing_end(g[n], true, &list), 0);
		CHECK_EQ(compare(&list, &then[n]), 0);
		block_list_release(&list);
	}
}

/* A program that is faster than the one who copies: the notes take no more than their share. */
static void test_overtaken(void)
{
	enum { BLOCKS = 50000 };
	struct ledger *l = new_ledger();
	struct block_list list;
	for (unsigned i = 0; i < BLOCKS; i++)
		ledger_alloc(l, 0, 0, 0x10000000 + i * 64ull, i, 1);
	struct listing *g = listing_begin(l);
	CHECK(listing_slice(g, 100));
	for (unsigned round = 0; round < 5; round++)
		for (unsigned i = 0; i < BLOCKS; i++) {
			ledger_release(l, 1, 20, 0x10000000 + i * 64ull, false);
			ledger_alloc(l, 1, 20, 0x20000000 + (round * BLOCKS + i) * 64ull, 1, 2);
			ledger_alloc(l, 1, 20, 0x10000000 + i * 64ull, 1, 2);
		}
	CHECK(!listing_slice(g, 100));
	CHECK_EQ(listing_end(g, true, &list), 0);
	CHECK_EQ(list.count, BLOCKS);
	unsigned wrong = 0;
	for (unsigned i = 0; i < list.count; i++) {
		struct ledger_block b = block_list_get(&list, i);
		wrong += b.address != 0x10000000 + i * 64ull || b.size != i || b.stack != 1 ||
			 b.thread || b.ms;
	}
	CHECK_EQ(wrong, 0);
	block_list_release(&list);
	ledger_free(l);
}

/* ---- time ---------------------------------------------------------------- */

static double ms_of_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/*
 * A million blocks from 10^5 stacks. A slice is as long as those of session/copies.c, which take 5
 * ms at most; the best of some lists is looked at, as the machine does other things.
 */
static void test_slices_are_short(void)
{
	enum { BLOCKS = 1000000, SLICE = 131072 };
	struct ledger *l = new_ledger();
	double best = 1e9, whole = 1e9;
	for (unsigned i = 0; i < BLOCKS; i++)
		ledger_alloc(l, 0, 0, 0x10000000 + i * 48ull, 40, (uint32_t)(rnd() % 100000));
	while (ledger_move(l))
		;
	for (unsigned round = 0; round < 5; round++) {
		double longest = 0, began = ms_of_cpu();
		struct listing *g = listing_begin(l);
		struct block_list list;
		bool more = true;
		while (more) {
			listing_prepare(g, SLICE);
			double before = ms_of_cpu();
			more = listing_slice(g, SLICE);
			double took = ms_of_cpu() - before;
			longest = took > longest ? took : longest;
		}
		CHECK_EQ(listing_end(g, true, &list), 0);
		CHECK_EQ(list.count, BLOCKS);
		block_list_release(&list);
		best = longest < best ? longest : best;
		whole = ms_of_cpu() - began < whole ? ms_of_cpu() - began : whole;
	}
	printf("# longest slice %.2f ms, all of it %.1f ms\n", best, whole);
	CHECK(TEST_SANITIZED || best < 5);
	ledger_free(l);
}

int main(void)
{
	for (layout = FAST; layout < LAYOUTS; layout++) {
		printf("# %s\n", layout_name[layout]);
		RUN(test_while_it_changes);
		RUN(test_overtaken);
		if (layout != CHANGING)
			RUN(test_slices_are_short);
	}
	return test_status();
}
