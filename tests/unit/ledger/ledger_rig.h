/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ledger_rig.h - a ledger that is tested, in each layout of its table of live blocks. */
#include "blocks/blocks.h"
#include "blocks/page_set.h"
#include "inject/wire_event.h"
#include "inject/wire_stack.h"
#include "ledger/block_list.h"
#include "ledger/ledger_state.h"
#include "test.h"

#include <time.h>

#define SEED 88172645463325252ull
static uint64_t seed;
static inline uint64_t rnd(void) { return test_random(&seed); }

static inline struct ledger_totals totals(struct ledger *l)
{
	struct ledger_totals t;
	ledger_totals(l, &t);
	return t;
}

/* Everything holds in both layouts of the table of live blocks, and while one becomes the other. */
static enum { FAST, COMPACT, CHANGING, LAYOUTS } layout;

static inline struct ledger *new_ledger(unsigned count)
{
	struct ledger *l = ledger_new(count);
	CHECK(l && !ledger_compact(l, layout != FAST));
	return l;
}

/* One time in ODDS. */
static inline void change(struct ledger *l, unsigned odds)
{
	static uint64_t own = SEED; /* the events are the same in all layouts */
	if (l && layout == CHANGING && test_random(&own) % odds == 0)
		CHECK_EQ(ledger_compact(l, test_random(&own) & 1), 0);
	if (l && test_random(&own) % odds == 0)
		ledger_move(l);
}

#define BOTH (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP)
#define RW   (WIRE_PROT_READ | WIRE_PROT_WRITE)
#define ANON WIRE_MAP_ANON

/* The live blocks, at most MOST of them; how many there are. */
static inline size_t blocks_of(struct ledger *l, struct ledger_block *v, size_t most)
{
	struct block_list list;
	CHECK_EQ(block_list_now(l, &list), 0);
	size_t count = list.count;
	for (size_t i = 0; i < count && i < most; i++)
		v[i] = block_list_get(&list, i);
	block_list_release(&list);
	return count;
}

/* Runs TESTS in each layout, from the same seed. The program's exit status. */
static inline int in_each_layout(void (*tests)(void))
{
	static const char *const name[] = { "for speed", "compact", "changing" };
	for (layout = FAST; layout < LAYOUTS; layout++) {
		printf("# %s\n", name[layout]);
		seed = SEED;
		tests();
	}
	return test_status();
}
