/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_walk.c - how the trampoline finds the rule of a pc while modules are published, and in
 * tables that somebody has scribbled over; and that what a thread remembers of its stacks never
 * makes one of them another one.
 *
 * It is the trampoline's own code, with a process and an image that lie elsewhere.
 */
#include <sys/mman.h>
#include <unistd.h>

#define own_call own_call_in_agent
#include "inject/blob.h"
#undef own_call
#undef PROC
#undef TABLES
#undef NODES
#define PROC   process
#define TABLES tables
#define NODES  nodes
static struct wire_process *process;
static struct wire_tables *tables;
static struct wire_node *nodes;
const char blob_start[1];

static long own_call(long nr, long a, long b, long c, long d) { return sys6(nr, a, b, c, d, 0, 0); }

/* What happens right after the LATER-th look at the counter of publications. */
static void (*meanwhile)(void);
static int later;

static void looked(const void *at)
{
	if (at == &process->modules_now && meanwhile && !--later)
		meanwhile();
}

#undef load
#define load(p)                                                             \
	({                                                                  \
		__auto_type loaded_ = __atomic_load_n(p, __ATOMIC_ACQUIRE); \
		looked(p);                                                  \
		loaded_;                                                    \
	})
#include "inject/walk.c"
#include "test.h"

bool nodes_reach(uint32_t id)
{
	(void)id;
	return false;
}

uint64_t ask_loudly(struct wire_thread *t, const struct question *q)
{
	(void)t, (void)q;
	return 0;
}

uint64_t ask(struct wire_thread *t, const struct question *q) { return ask_loudly(t, q); }

uint64_t thread_pointer_early(void) { return 0; }

struct wire_thread *slot_find(uint64_t fs, uint32_t at)
{
	(void)fs, (void)at;
	return NULL;
}

#define SIZE (1u << 20)
#define BASE 0x10000000ull

/* Behind it is nothing that can be read. */
static void *map(size_t size)
{
	size_t whole = (size + 4095) & ~4095ul;
	char *p = mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED || mprotect(p + whole, 4096, PROT_NONE))
		exit(77);
	return p;
}

/* ---- publications -------------------------------------------------------- */

enum { MODULES = 64 };
static struct wire_module built[MODULES]; /* all of module M's code has rule M + 1 */

static void build(void)
{
	uint64_t at = 0;

	for (uint32_t m = 0; m < MODULES; m++) {
		built[m] = (struct wire_module){
			.nrows = 1, .rows = at, .rules = at + 4, .index = at + 8
		};
		*(uint16_t *)(tables->pool + at + 4) = (uint16_t)(m + 1);
		at += 8 + (SIZE / 1024 + 1) * 4;
	}
}

/* Publication V says so, in part or in full: module M is at place (M + V) % MODULES. */
static void fill(uint32_t v, uint32_t places)
{
	struct wire_modules *fresh = &process->modules[v & 1];

	for (uint32_t place = 0; place < places; place++) {
		fresh->module[place] = built[(place - v) % MODULES];
		fresh->module[place].start = BASE + (uint64_t)place * SIZE;
		fresh->module[place].end = fresh->module[place].start + SIZE;
	}
	fresh->count = MODULES;
}

/* As image_publish() does it. */
static void publish(void)
{
	fill(process->modules_now + 1, MODULES);
	__atomic_store_n(&process->modules_now, process->modules_now + 1, __ATOMIC_SEQ_CST);
	memset(process->cache, 0, sizeof(process->cache));
}

/*
 * One is published, and the next one is half written where the thread that was kept from running is
 * about to read.
 */
static void publish_and_begin(void)
{
	meanwhile = NULL;
	publish();
	fill(process->modules_now + 1, MODULES / 2);
	memset(&process->modules[(process->modules_now + 1) & 1].module[MODULES / 2], 0x55,
	       MODULES / 2 * sizeof(struct wire_module));
}

static uint32_t rule_now(uint32_t place) { return (place - process->modules_now) % MODULES + 1; }

static void test_publications(void)
{
	build();
	publish();
	for (uint32_t place = 0; place < MODULES; place++) {
		uint64_t pc = BASE + (uint64_t)place * SIZE + 77;

		meanwhile = publish_and_begin;
		later = 1;
		CHECK_EQ(rule_search(pc), rule_now(place));
		CHECK_EQ(process->cache[wire_cache_slot(pc)], pc << 16 | rule_now(place));
	}
}

/* All the time another one: the search ends. */
static void publish_again(void)
{
	publish();
	later = 1;
}

static void test_no_end(void)
{
	uint32_t flush = process->flush;

	meanwhile = publish_again;
	later = 1;
	CHECK_EQ(rule_search(BASE + 77), 0);
	meanwhile = NULL;
	CHECK_EQ(process->cache[wire_cache_slot(BASE + 77)], 0);
	CHECK(process->flush != flush);
}

/*
 * Nothing stays in the cache that was found before a publication and stored after it, and nothing
 * that was walked with it.
 */
static void test_cache(void)
{
	uint64_t pc = BASE + 5 * SIZE + 77;
	uint32_t flush = process->flush;

	rule_search(pc);
	CHECK_EQ(process->cache[wire_cache_slot(pc)], pc << 16 | rule_now(5));
	CHECK_EQ(process->flush, flush);
	meanwhile = publish_and_begin;
	later = 2;
	rule_search(pc);
	CHECK_EQ(process->cache[wire_cache_slot(pc)], 0);
	CHECK_EQ(process->flush, flush + 1);
}

/* ---- tables that are scribbled over -------------------------------------- */

static uint64_t any(uint64_t *seed, uint64_t usual)
{
	switch (test_random(seed) % 4) {
	case 0: return test_random(seed);
	case 1: return test_random(seed) % WIRE_POOL;
	case 2: return WIRE_POOL - test_random(seed) % 64;
	default: return usual;
	}
}

static void test_scribbled(void)
{
	uint64_t seed = 11;

	for (size_t i = 0; i < WIRE_POOL; i += 8 + test_random(&seed) % 65536)
		*(uint64_t *)(tables->pool + (i & ~7ul)) = test_random(&seed);
	for (int i = 0; i < 200000; i++) {
		struct wire_modules *m = &process->modules[i & 1];

		process->modules_now = (uint32_t)i;
		m->count = (uint32_t)any(&seed, MODULES);
		for (int k = 0; k < 4; k++)
			m->module[test_random(&seed) % MODULES] = (struct wire_module){
				.start = any(&seed, BASE),
				.end = any(&seed, BASE + 64ull * SIZE),
				.rows = any(&seed, 0),
				.rules = any(&seed, 4),
				.index = any(&seed, 8),
				.nrows = (uint32_t)any(&seed, 1000),
			};
		CHECK(rule_search(any(&seed, BASE + test_random(&seed) % (64ull * SIZE)) &
				  WIRE_PC_MASK) < WIRE_RULES);
	}
}

/* ---- what is known to be readable ---------------------------------------- */

static void test_ranges(void)
{
	struct wire_thread *t = &process->thread[0];
	struct cursor c = { .t = t };
	char *page = map(8 * 4096);

	process->threads_high = 1;
	t->fs = 5;
	CHECK(range_of(t, (uint64_t)page + 100)->lo == (uint64_t)page);
	CHECK(readable(&c, t->range, (uint64_t)page + 3 * 4096));
	CHECK_EQ(t->range[0].hi, (uint64_t)page + 4 * 4096);
	CHECK(!readable(&c, t->range, (uint64_t)page + 8 * 4096));
	CHECK(!readable(&c, t->range, (uint64_t)page + 4));
	stacks_forget((uint64_t)page + 8 * 4096, (uint64_t)page + 9 * 4096);
	CHECK_EQ(t->stale, 0);
	stacks_forget((uint64_t)page + 2 * 4096, (uint64_t)page + 3 * 4096);
	CHECK_EQ(t->stale, 1);
	t->stale = 0;
	t->ranges_turn = 1; /* it is being changed: what it will be nobody knows */
	stacks_forget(4096, 8192);
	CHECK_EQ(t->stale, 1);
	t->ranges_turn = 2;
	/* a range that is dropped takes with it what is remembered of it */
	range_of(t, (uint64_t)page + 100);
	t->depth = 1;
	t->last[0] = (struct wire_frame){ .checks = 0, .own_checks = 1 };
	t->check[0].slot = (uint64_t)page + 104;
	for (int i = 0; i < WIRE_RANGES - 1; i++) {
		range_of(t, (uint64_t)map(4096) + 8);
		CHECK_EQ(t->depth, 1);
	}
	range_of(t, (uint64_t)map(4096) + 8);
	CHECK_EQ(t->depth, 0);
	CHECK_EQ(t->ranges_turn & 1, 0);
}

/* ---- what is remembered of stacks ---------------------------------------- */

/*
 * Stacks are built by hand in STACK_BYTES of memory, from functions of 1 KiB whose rule is
 * FRAME_KINDS' in turn, and walked again and again in any order. Which frames they have is known
 * from how they were built.
 */
enum { STACK_BYTES = 64 << 10, STACK_DEPTH = 24, STACK_FUNCTIONS = 64, STACK_SHAPES = 3 };
enum { FRAME_SMALL, FRAME_SAVES_RBP, FRAME_BY_RBP, FRAME_WIDE, FRAME_KINDS };

struct built_stack {
	const struct entry *entry;
	uint64_t pc[STACK_DEPTH]; /* innermost first */
	uint32_t depth;
};

static void functions_publish(void)
{
	struct wire_modules *m = &process->modules[0];

	memset(process->cache, 0, sizeof(process->cache));
	process->modules_now = 0;
	tables->rule[1 + FRAME_SMALL] = (struct wire_rule){ .cfa = CFA_RSP, .cfa_off = 16 };
	tables->rule[1 + FRAME_SAVES_RBP] = (struct wire_rule){ .cfa = CFA_RSP, .cfa_off = 48 };
	tables->rule[1 + FRAME_BY_RBP] = (struct wire_rule){ .cfa = CFA_RBP, .cfa_off = 16 };
	tables->rule[1 + FRAME_WIDE] = (struct wire_rule){ .cfa = CFA_RSP, .cfa_off = 88 };
	for (int k = 0; k < FRAME_KINDS; k++)
		for (int i = 0; i < WIRE_REGS; i++)
			tables->rule[1 + k].off[i] = RULE_SAME;
	tables->rule[1 + FRAME_SAVES_RBP].off[WIRE_RBP] = -2;
	tables->rule[1 + FRAME_BY_RBP].off[WIRE_RBP] = -2;
	m->count = 1;
	m->module[0] = (struct wire_module){ .start = BASE,
					     .end = BASE + STACK_FUNCTIONS * 1024,
					     .nrows = STACK_FUNCTIONS,
					     .rows = 0,
					     .rules = 4 * STACK_FUNCTIONS,
					     .index = 8 * STACK_FUNCTIONS };
	for (uint32_t i = 0; i < STACK_FUNCTIONS; i++) {
		((uint32_t *)tables->pool)[i] = i * 1024;
		((uint16_t *)(tables->pool + 4 * STACK_FUNCTIONS))[i] =
			(uint16_t)(1 + i % FRAME_KINDS);
		((uint32_t *)(tables->pool + 8 * STACK_FUNCTIONS))[i] = i;
	}
	((uint32_t *)(tables->pool + 8 * STACK_FUNCTIONS))[STACK_FUNCTIONS] = STACK_FUNCTIONS - 1;
}

/*
 * SHAPE says which kind each frame is and how large, so that stacks of one shape begin at one
 * place; WHICH, the functions, and the values of rbp where nobody needs it: all of its eighth, and
 * its remainder those of one frame.
 */
static struct built_stack stack_build(char *memory, uint64_t shape, uint64_t which)
{
	uint64_t cfa = (uint64_t)memory + STACK_BYTES - 64, caller_rbp = 0, rsp;
	uint64_t kinds = 77 + shape;
	struct built_stack b = { .depth = 8 + (uint32_t)(test_random(&kinds) % (STACK_DEPTH - 8)) };
	struct entry *e;

	*(uint64_t *)(cfa - 8) = 0;
	for (uint32_t i = b.depth; i-- > 0;) {
		uint64_t kind = test_random(&kinds) % FRAME_KINDS, room = test_random(&kinds) % 8;
		bool other = which % 8 && i == (which % 8 < 4 ? b.depth - which % 8 : which % 8);
		uint64_t choice = 1000 + which / 8 + i * 64 + (other ? 9999 : 0), own_rbp;
		uint64_t function = test_random(&choice) % (STACK_FUNCTIONS / 4) * 4 + kind;

		own_rbp = caller_rbp;

		switch (kind) {
		case FRAME_SMALL: rsp = cfa - 16; break;
		case FRAME_WIDE: rsp = cfa - 88; break;
		case FRAME_SAVES_RBP:
			*(uint64_t *)(cfa - 16) = caller_rbp;
			own_rbp = test_random(&choice) % 3 ? caller_rbp : test_random(&choice);
			rsp = cfa - 48;
			break;
		default:
			*(uint64_t *)(cfa - 16) = caller_rbp;
			own_rbp = cfa - 16;
			rsp = cfa - 16 - 8 * room;
		}
		b.pc[i] = BASE + function * 1024 + 5;
		cfa = rsp;
		caller_rbp = own_rbp;
		*(uint64_t *)(cfa - 8) = b.pc[i];
	}
	e = (struct entry *)(cfa - 8 - offsetof(struct entry, ra));
	e->reg[WIRE_RBP] = caller_rbp;
	b.entry = e;
	return b;
}

static bool is_stack(uint32_t node, const struct built_stack *b)
{
	for (uint32_t i = 0; i < b->depth; i++, node = nodes[node].parent)
		if (nodes[node].pc != b->pc[i])
			return false;
	return node == process->root;
}

static void test_remembered(void)
{
	struct wire_thread *t = &process->thread[1];
	char *memory = map(STACK_BYTES);
	uint64_t seed = 5, now = 0;
	uint32_t wrong = 0, lucky = 0;

	functions_publish();
	process->depth = 128;
	process->root = 1;
	process->nodes = 2;
	process->nodes_mapped = WIRE_NODES;
	for (uint32_t i = 0; i < 400000; i++) {
		struct built_stack b;

		/* a few by turns for a while, then others */
		if (!(i % 200))
			now = test_random(&seed);
		b = stack_build(memory, (now + test_random(&seed) % 2) % STACK_SHAPES,
				(now + test_random(&seed) % (now % 3 ? 3 : 40)) % 64);
		wrong += !is_stack(walk(t, b.entry), &b);
		lucky += t->whole_luck[whole_set((uint64_t)&b.entry->ra, b.entry->ra)] > 8;
		if (!(test_random(&seed) % 500))
			process->flush++;
		if (!(test_random(&seed) % 500))
			t->stale = 1;
	}
	CHECK_EQ(wrong, 0);
	CHECK(lucky > 10000); /* whole stacks are found */
	CHECK_EQ(t->truncated, 0);
	/* the functions are others now */
	process->flush++;
	for (uint32_t i = 0; i < STACK_FUNCTIONS; i++)
		((uint16_t *)(tables->pool + 4 * STACK_FUNCTIONS))[i] = 0;
	memset(process->cache, 0, sizeof(process->cache));
	for (uint32_t i = 0; i < 64; i++) {
		struct built_stack b = stack_build(memory, i % STACK_SHAPES, i);

		CHECK(!is_stack(walk(t, b.entry), &b));
	}
}

int main(void)
{
	process = map(sizeof(*process));
	tables = map(sizeof(*tables));
	nodes = map(sizeof(*nodes) * WIRE_NODES);
	RUN(test_publications);
	RUN(test_no_end);
	RUN(test_cache);
	RUN(test_scribbled);
	RUN(test_ranges);
	RUN(test_remembered);
	return test_status();
}
