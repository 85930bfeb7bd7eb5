// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_walk.c - how the trampoline finds the rule of a pc while modules are published, and in
 * tables that somebody has scribbled over; and that what a thread remembers of its stacks never
 * makes one of them another one.
 */
#include "walk_alone.h"

#define SIZE (1u << 20)
#define BASE 0x10000000ull

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

static uint64_t entry_of(uint64_t pc, uint32_t number)
{
	return wire_cache_entry(pc, number, &TABLES->rule[number]);
}

static void test_publications(void)
{
	build();
	publish();
	for (uint32_t place = 0; place < MODULES; place++) {
		uint64_t pc = BASE + (uint64_t)place * SIZE + 77;

		meanwhile = publish_and_begin;
		later = 1;
		CHECK_EQ(wire_cache_rule(rule_search(pc)), rule_now(place));
		CHECK_EQ(process->cache[wire_cache_slot(pc)], entry_of(pc, rule_now(place)));
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
	CHECK_EQ(wire_cache_rule(rule_search(BASE + 77)), 0);
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
	CHECK_EQ(process->cache[wire_cache_slot(pc)], entry_of(pc, rule_now(5)));
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
		CHECK(wire_cache_rule(
			      rule_search(any(&seed, BASE + test_random(&seed) % (64ull * SIZE)) &
					  WIRE_PC_MASK)) < WIRE_RULES);
	}
}

/* ---- what is known to be readable ---------------------------------------- */

static void test_ranges(void)
{
	struct wire_thread *t = &process->thread[0];
	struct wire_big *remembered = remembers(t);
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
	remembered->last[0] = (struct wire_frame){ .checks = 0, .own_checks = 1 };
	remembered->check[0].slot = (uint64_t)page + 104;
	for (int i = 0; i < WIRE_RANGES - 1; i++) {
		range_of(t, (uint64_t)map(4096) + 8);
		CHECK_EQ(t->depth, 1);
	}
	range_of(t, (uint64_t)map(4096) + 8);
	CHECK_EQ(t->depth, 0);
	CHECK_EQ(t->ranges_turn & 1, 0);
}

/* Stacks that grow, others that are far away or have a hole between; the last used comes first. */
static void test_more_ranges(void)
{
	enum { PAGES = 80 };
	struct wire_thread *t = &process->thread[2];
	char *stack = map(PAGES * 4096), *end = stack + PAGES * 4096, *far[WIRE_RANGES];
	struct cursor c = { .t = t };
	struct wire_range *r = range_of(t, (uint64_t)(end - 8));

	CHECK(r == t->range && r->lo == (uint64_t)end - 4096 && r->hi == (uint64_t)end);
	CHECK(range_of(t, (uint64_t)(end - 4096)) == r);
	/* it has grown: by a page, by as much as is looked at, by more */
	r = range_of(t, (uint64_t)end - 4096 - 8);
	CHECK(r->lo == (uint64_t)end - 2 * 4096 && r->hi == (uint64_t)end);
	r = range_of(t, (uint64_t)end - (2 + 64) * 4096 + 8);
	CHECK(r->lo == (uint64_t)end - 66 * 4096 && r->hi == (uint64_t)end);
	t->range[0].lo = (uint64_t)end - 8192;
	r = range_of(t, (uint64_t)end - (2 + 64) * 4096);
	CHECK(r->lo == (uint64_t)end - 66 * 4096 && r->hi == (uint64_t)end - 65 * 4096);
	CHECK_EQ(t->range[1].lo, (uint64_t)end - 8192);
	/* what cannot be read between is no part of it */
	memset(t->range, 0, sizeof(t->range));
	range_of(t, (uint64_t)end - 8);
	CHECK_EQ(mprotect(end - 4 * 4096, 4096, PROT_NONE), 0);
	r = range_of(t, (uint64_t)end - 6 * 4096);
	CHECK(r->lo == (uint64_t)end - 6 * 4096 && r->hi == (uint64_t)end - 5 * 4096);
	CHECK(!readable(&c, r, (uint64_t)end - 4 * 4096));
	CHECK_EQ(r->hi, (uint64_t)end - 4 * 4096);
	CHECK(!readable(&c, r, (uint64_t)end - 3 * 4096)); /* none jumps over it */
	CHECK_EQ(t->range[0].lo, (uint64_t)end - 6 * 4096);
	/* below the range, or far above it, is another one */
	CHECK(readable(&c, r, (uint64_t)end - 7 * 4096));
	CHECK(r->lo == (uint64_t)end - 7 * 4096 && r->hi == (uint64_t)end - 6 * 4096);
	CHECK_EQ(c.stacks, 1);
	CHECK(readable(&c, r, (uint64_t)end - 7 * 4096));
	CHECK_EQ(c.stacks, 1);
	CHECK(readable(&c, r, (uint64_t)end - 6 * 4096)); /* it ends there: it is extended */
	CHECK_EQ(c.stacks, 1);
	for (int i = 0; i < WIRE_RANGES; i++) {
		far[i] = map(4096);
		range_of(t, (uint64_t)far[i]);
	}
	for (int i = 0; i < WIRE_RANGES; i++)
		CHECK_EQ(t->range[i].lo, (uint64_t)far[WIRE_RANGES - 1 - i]);
	range_of(t, (uint64_t)far[1]);
	CHECK(t->range[0].lo == (uint64_t)far[1] && t->range[1].lo == (uint64_t)far[3] &&
	      t->range[2].lo == (uint64_t)far[2] && t->range[3].lo == (uint64_t)far[0]);
	CHECK_EQ(t->ranges_turn & 1, 0);
	/* what stands behind the last range is none */
	t->countdown = 0x1000;
	t->sample = 0x2000;
	CHECK(!range_find(t, 0x1800));
	/* a range of nobody's: one page at first, as far as it goes then */
	c.t = NULL;
	r = &(struct wire_range){ (uint64_t)end - 8 * 4096, (uint64_t)end - 7 * 4096 };
	CHECK(readable(&c, r, (uint64_t)end - 5 * 4096));
	CHECK(!readable(&c, r, (uint64_t)end));
	CHECK(r->lo == (uint64_t)end - 8 * 4096 && r->hi == (uint64_t)end - 4 * 4096);
	CHECK(readable(&c, r, (uint64_t)end - 20 * 4096));
	CHECK(r->lo == (uint64_t)end - 20 * 4096 && r->hi == (uint64_t)end - 19 * 4096);
	for (int i = 0; i < 300; i++) { /* the count does not run over */
		*r = (struct wire_range){ 0, 0 };
		CHECK(readable(&c, r, (uint64_t)end - 20 * 4096));
	}
	CHECK_EQ(c.stacks, UINT8_MAX);
}

/* Where no system call may be made mtrun is asked, and its answer goes further than a page. */
static void test_asked(void)
{
	char *page = map(4 * 4096);
	uint64_t at = (uint64_t)page + 100;

	CHECK_EQ(readable_end(at), (uint64_t)page + 4096);
	CHECK_EQ(readable_end((uint64_t)page + 4 * 4096), 0);
	no_calls = true;
	CHECK_EQ(readable_end(at), 0); /* who has no slot cannot ask */
	self = &process->thread[3];
	answer = (uint64_t)page + 3 * 4096;
	CHECK_EQ(readable_end(at), (uint64_t)page + 3 * 4096);
	CHECK(asked.what == ASK_READABLE && asked.arg[0] == at);
	answer = at;
	CHECK_EQ(readable_end(at), 0);
	answer = 0;
	CHECK(!page_readable(at));
	no_calls = false;
	self = NULL;
}

/* Other threads' doing: a range is gone, or a test wants to look first. */
static void test_stale(void)
{
	struct wire_thread *t = &process->thread[2];
	uint64_t at = (uint64_t)map(4096);

	range_of(t, at);
	t->depth = 3;
	t->stale = WIRE_STALE_SHOW;
	asked.what = ASK_NOTHING;
	CHECK_EQ(range_of(t, at)->lo, at);
	CHECK(asked.what == ASK_FRAMES && t->stale == 0 && t->depth == 3);
	CHECK(t->range[1].hi != 0);
	t->stale = 1;
	asked.what = ASK_NOTHING;
	CHECK_EQ(range_of(t, at)->lo, at);
	CHECK(asked.what == ASK_NOTHING && t->stale == 0 && t->depth == 0);
	for (int i = 1; i < WIRE_RANGES; i++)
		CHECK(!t->range[i].lo && !t->range[i].hi);
	CHECK_EQ(t->ranges_turn & 1, 0);
}

/* Who is made to forget: threads that are there, and may hold something of what goes. */
static void test_forget(void)
{
	uint64_t at = (uint64_t)map(4 * 4096) + 4096;

	for (uint32_t i = 0; i < 6; i++) {
		struct wire_thread *t = &process->thread[i];

		*t = (struct wire_thread){ .fs = i < 3 ? i : 0x1000 };
		t->range[i % WIRE_RANGES] = (struct wire_range){ at, at + 4096 };
	}
	process->threads_high = 5;
	stacks_forget(at - 4096, at);
	stacks_forget(at + 4096, at + 8192);
	for (uint32_t i = 0; i < 6; i++)
		CHECK_EQ(process->thread[i].stale, 0);
	stacks_forget(at - 8, at + 1);
	for (uint32_t i = 0; i < 6;
	     i++) /* the first two slots are nobody's, the last is not used */
		CHECK_EQ(process->thread[i].stale, i >= 2 && i < 5);
	process->thread[3].stale = 0;
	stacks_forget(at + 4095, at + 8192);
	CHECK_EQ(process->thread[3].stale, 1);
	process->threads_high = UINT32_MAX; /* more than there can be */
	process->thread[WIRE_THREADS - 1].fs = 0x2000;
	process->thread[WIRE_THREADS - 1].range[0] = (struct wire_range){ at, at + 4096 };
	stacks_forget(at, at + 1);
	CHECK_EQ(process->thread[WIRE_THREADS - 1].stale, 1);
	CHECK_EQ(process->thread[WIRE_THREADS - 2].stale, 0);
	process->threads_high = 1;
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
	uint64_t pc[STACK_DEPTH], slot[STACK_DEPTH]; /* innermost first */
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
		b.slot[i] = cfa - 8;
		*(uint64_t *)b.slot[i] = b.pc[i];
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
	struct wire_big *remembered = remembers(t);
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
		lucky += whole_start(remembered, b.entry)->luck > WHOLE_LUCK;
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

/*
 * Stacks of one shape: each frame was called from one of four places in its caller, as two bits of
 * PATH say.
 */
static struct built_stack path_build(char *memory, uint64_t path)
{
	struct built_stack b = stack_build(memory, 1, 0);

	for (uint32_t i = 0; i < b.depth; i++, path >>= 2) {
		b.pc[i] += path & 3;
		*(uint64_t *)b.slot[i] = b.pc[i];
	}
	return b;
}

/* WALKS of PATHS stacks at random; returns how many were found whole. */
static uint32_t paths_walk(struct wire_thread *t, char *memory, uint64_t paths, uint32_t walks)
{
	struct wire_big *remembered = (struct wire_big *)(uintptr_t)t->memory;
	uint32_t wrong = 0, found = 0;
	static uint64_t seed = 7;

	for (uint32_t i = 0; i < walks; i++) {
		struct built_stack b = path_build(memory, test_random(&seed) % paths);
		uint32_t hits = remembered->hits;

		wrong += !is_stack(walk(t, b.entry), &b);
		found += remembered->hits == hits + 1;
	}
	CHECK_EQ(wrong, 0);
	return found;
}

/* Stacks are found whole as far as there is room for them; beyond, they cost little. */
static void test_whole(void)
{
	struct wire_thread *t = &process->thread[2];
	struct wire_big *remembered = remembers(t);
	char *memory = map(STACK_BYTES);

	functions_publish();
	process->root = process->nodes++;
	t->big = 1;
	paths_walk(t, memory, 4, 100);
	CHECK_EQ(paths_walk(t, memory, 4, 1000), 1000);
	paths_walk(t, memory, 256, 10000);
	CHECK(paths_walk(t, memory, 256, 1000) > 990);
	CHECK(remembered->forks > 60 && remembered->forks < 256); /* fewer than stacks */
	/* far too many: the log is full again and again, and then not used for a while */
	paths_walk(t, memory, 1 << 14, 200000);
	CHECK(remembered->rest > 0);
	CHECK(paths_walk(t, memory, 1 << 14, 10000) < 100);
	/* few again */
	paths_walk(t, memory, 256, 2 * WHOLE_REST);
	CHECK(paths_walk(t, memory, 256, 1000) > 990);
	/* one of many threads has less room */
	whole_clear(remembered);
	t->big = WIRE_WHOLE_RINGS + 1;
	paths_walk(t, memory, 1 << 14, 30000);
	CHECK(remembered->logged * WIRE_WHOLE_UNIT <= WIRE_WHOLE_LOG / 4);
	/* whatever is written there, a walk ends; a stack that is found holds */
	for (int i = 0; i < 20000; i++) {
		static uint64_t seed = 9;
		char *from = (char *)remembered->start;
		size_t bytes = sizeof(*remembered) - offsetof(struct wire_big, start);

		from[test_random(&seed) % bytes] = (char)test_random(&seed);
		t->big = 1;
		walk(t, path_build(memory, test_random(&seed) % 256).entry);
	}
}

/* ---- stacks by their paths ----------------------------------------------- */

/* Each stack is one node, whether its path is in the table or not, and whatever is there. */
static void test_paths(void)
{
	enum { PATHS = 1 << 14 };
	struct wire_thread *t = &process->thread[4];
	struct wire_big *remembered = remembers(t);
	char *memory = map(STACK_BYTES);
	static uint32_t node[PATHS];
	uint64_t seed = 3;
	uint32_t nodes_then = 0, skipped = 0, wrong = 0;

	functions_publish();
	memset(process->path, 0, sizeof(process->path));
	process->root = process->nodes++;
	t->big = 1;
	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < PATHS; i++) {
			struct built_stack b = path_build(memory, i);
			uint32_t found = walk(t, b.entry);

			wrong += !is_stack(found, &b) || (round && found != node[i]);
			node[i] = found;
		}
		nodes_then = round ? nodes_then : process->nodes;
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(process->nodes, nodes_then);
	/*
	 * There are as many entries as stacks, and some lines have more than eight of these: most
	 * are found, and the nodes on their ways are not looked for.
	 */
	for (uint32_t i = 0; i < PATHS; i++) {
		process->flush++;
		wrong += walk(t, path_build(memory, i).entry) != node[i];
		skipped += !remembered->last[t->depth - 2].node;
	}
	CHECK(skipped > PATHS / 2);
	/* entries in others' places, and with other bits of a hash */
	for (uint32_t i = 0; i < 20 * PATHS; i++) {
		uint64_t *all = process->path[0];
		size_t n = sizeof(process->path) / sizeof(*all);
		uint64_t *a = &all[test_random(&seed) % n];
		uint32_t k = (uint32_t)(test_random(&seed) % PATHS);

		if (i % 2)
			*a = all[test_random(&seed) % n];
		else
			*a ^= 1ull << test_random(&seed) % 64 & ~(uint64_t)(WIRE_NODES - 1);
		process->path_shift = (uint32_t)test_random(&seed);
		wrong += walk(t, path_build(memory, k).entry) != node[k];
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(process->nodes, nodes_then);
	/* another root has other stacks */
	process->root = process->nodes++;
	process->flush++;
	for (uint32_t i = 0; i < PATHS; i++) {
		struct built_stack b = path_build(memory, i);
		uint32_t found = walk(t, b.entry);

		wrong += found <= process->root || !is_stack(found, &b);
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(remembered->last[0].node, process->root + 1);
}

/* How many lines there are for so many nodes: up to 8 bytes a node, and no more than all. */
static void test_path_shift(void)
{
	CHECK_EQ(wire_path_shift(0), 58); /* a page */
	for (uint32_t n = 512; n < WIRE_NODES; n += n / 3) {
		uint64_t bytes = (1ull << (64 - wire_path_shift(n))) * sizeof(process->path[0]);

		CHECK(bytes <= 8ull * n && bytes <= sizeof(process->path));
		CHECK(bytes > 4ull * n || bytes == sizeof(process->path));
	}
	CHECK_EQ(wire_path_shift(~0u), 64 - WIRE_PATH_BITS);
}

/* The stack that T has just walked is not kept where one word of it cannot be written down. */
static void test_whole_bounds(void)
{
	enum { FAR = WIRE_WHOLE_LOG / WIRE_WHOLE_UNIT };
	struct wire_thread *t = &process->thread[3];
	struct wire_big *b = remembers(t);
	struct built_stack s = path_build(map(STACK_BYTES), 5);
	struct wire_range r = { 0, 1ull << 47 };
	uint64_t start = (uint64_t)&s.entry->ra;
	struct wire_frame *l;
	uint32_t node, words, units;

	functions_publish();
	process->root = process->nodes++;
	t->big = 1;
	node = walk(t, s.entry);
	l = &b->last[t->depth - 1];
	words = l->checks + l->own_checks;
	CHECK_EQ(whole_write(t, b, &r, s.entry, node), 1);
	units = b->logged;
	CHECK_EQ(units, (WIRE_WHOLE_HEAD + (words + 3) / 4 * 5 + 3) / WIRE_WHOLE_UNIT);
	/* the last place that it fits into, and the one behind */
	b->logged = FAR - units - 1;
	CHECK_EQ(whole_write(t, b, &r, s.entry, node), FAR - units);
	b->logged = FAR - units + 1;
	CHECK_EQ(whole_write(t, b, &r, s.entry, node), 0);
	CHECK_EQ(b->logged, 0);
	/* a word at the end of the range, below the start, too far up, at an odd address */
	r.hi = start + 8ull * 0x20000;
	for (int i = 0; i < 5; i++) {
		const uint64_t at[] = { r.hi, start - 8, start + 8 * FORK_RBP, start + 12,
					start + 8 * (FORK_RBP - 1) };

		b->check[1].slot = at[i];
		CHECK_EQ(whole_write(t, b, &r, s.entry, node), i == 4);
		CHECK_EQ(b->logged, i == 4 ? units : 0);
	}
	/* as many words as there may be, and more */
	for (uint32_t i = 0; i < 200; i++)
		b->check[i] = (struct wire_check){ start + 8 * i, i };
	l->own_checks = 1;
	l->checks = WIRE_WHOLE_WORDS;
	CHECK_EQ(whole_write(t, b, &r, s.entry, node), 0);
	l->checks--;
	CHECK(whole_write(t, b, &r, s.entry, node) != 0);
	/* the last fork, and none more */
	whole_clear(b);
	CHECK_EQ(whole_write(t, b, &r, s.entry, node), 1);
	CHECK_EQ(whole_write(t, b, &r, s.entry, node), b->logged / 2 + 1);
	whole_at(b, b->logged / 2 + 1)->rbp++;
	b->forks = WIRE_FORKS - 2;
	for (int i = 1; i >= 0; i--)
		CHECK_EQ(fork_make(b, FORK_RBP, 1, whole_at(b, 1), b->logged / 2 + 1),
			 i ? WIRE_IS_FORK | (WIRE_FORKS - 1) : 0);
	b->start[0].ref = 1;
	CHECK(!whole_link(b, &b->start[0].ref, b->logged / 2 + 1));
	CHECK_EQ(b->start[0].ref, 1);
	/* a fork whose place is where the range ends */
	r.hi = (start | 4095) + 1;
	b->fork[1].word = (uint16_t)((r.hi - start) / 8);
	CHECK(!mprotect((void *)r.hi, 4096, PROT_NONE));
	CHECK_EQ(fork_value(&b->fork[1], &r, s.entry), 0);
	CHECK(!mprotect((void *)r.hi, 4096, PROT_READ | PROT_WRITE));
	/* a fork that leads to itself */
	for (uint32_t i = 0; i < WIRE_STARTS; i++)
		b->start[i].ref = WIRE_IS_FORK | 1;
	for (uint32_t i = 0; i < WIRE_FORK_KIDS; i++)
		b->fork[1].kid[i] = WIRE_IS_FORK | 1;
	CHECK_EQ(walk(t, s.entry), node);
	CHECK(whole_link(b, &b->start[0].ref, 1));
}

/* ---- what a walk costs --------------------------------------------------- */

/*
 * N walks of a KIND, for tests/system/stacks/cost.py, which counts their instructions: `hit`, the
 * stack that was there last; `many`, one of 256 that differ in four words; `near`, one whose
 * innermost frames are others than the last one's; `cold`, one of which nothing is remembered;
 * `small`, of a thread that remembers nothing. The stacks are built once, each in memory of its
 * own, but for `many`, whose words are changed.
 */
static int cost(const char *kind, long n)
{
	enum { STACKS = 8 };
	struct wire_thread *t = &process->thread[1];
	struct wire_big *remembered = remembers(t);
	struct built_stack b[STACKS];
	uint64_t sum = 0;

	if (!strcmp(kind, "small"))
		t->memory = 0;
	functions_publish();
	process->depth = 128;
	process->root = 1;
	process->nodes = 2;
	process->nodes_mapped = WIRE_NODES;
	for (uint64_t i = 0; i < STACKS; i++)
		b[i] = stack_build(map(STACK_BYTES), 1, i);
	for (long i = 0; i < n; i++) {
		const struct built_stack *now = &b[*kind == 'h' || *kind == 'm' ? 1 : i % STACKS];

		if (*kind == 'n') { /* its last stack, whose innermost frame was left */
			now = &b[1];
			whole_clear(remembered);
			t->depth -= t->depth > 3 ? 3 : 0;
		}
		if (*kind == 'c')
			process->flush++;
		for (int k = 2; *kind == 'm' && k < 6; k++)
			*(uint64_t *)now->slot[k] = now->pc[k] + (uint64_t)(i >> 2 * k & 3);
		sum += walk(t, now->entry);
	}
	return sum ? 0 : 1;
}

int main(int argc, char **argv)
{
	agent_map();
	if (argc == 4 && !strcmp(argv[1], "cost"))
		return cost(argv[2], atol(argv[3]));
	RUN(test_publications);
	RUN(test_no_end);
	RUN(test_cache);
	RUN(test_scribbled);
	RUN(test_ranges);
	RUN(test_more_ranges);
	RUN(test_asked);
	RUN(test_stale);
	RUN(test_forget);
	RUN(test_remembered);
	RUN(test_whole);
	RUN(test_whole_bounds);
	RUN(test_paths);
	RUN(test_path_shift);
	return test_status();
}
