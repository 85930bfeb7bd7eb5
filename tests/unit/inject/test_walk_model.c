// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_walk_model.c - stacks with frames of every kind, against a second, plain walk that remembers
 * nothing: as they are built, and after one word that may decide something has changed. What the
 * second walk does is what wire_stack.h says of the rules.
 */
#include "walk_alone.h"

/* ---- memory: two stacks ------------------------------------------------- */

enum { AREA_BYTES = 16 * 4096, APART = 32 << 20 };
static struct area {
	uint64_t lo, hi;
} area[2];
static uint64_t seed = 88172645463325252ull;

static uint64_t any(uint64_t n) { return test_random(&seed) % n; }
static uint64_t *word(uint64_t at) { return (uint64_t *)at; }

static void areas_map(void)
{
	char *p = mmap(NULL, APART + 2 * AREA_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		exit(77);
	for (int i = 0; i < 2; i++) {
		area[i].lo = (uint64_t)p + (uint64_t)i * APART + 4096;
		area[i].hi = area[i].lo + AREA_BYTES;
		if (mprotect((void *)area[i].lo, AREA_BYTES, PROT_READ | PROT_WRITE))
			exit(77);
	}
}

static const struct area *area_of(uint64_t at)
{
	for (int i = 0; i < 2; i++)
		if (at >= area[i].lo && at < area[i].hi)
			return &area[i];
	return NULL;
}

static bool can_read(uint64_t at) { return !(at & 7) && area_of(at); }

/* ---- functions, each with a rule ----------------------------------------- */

enum { FUNCTIONS = 120, FUNCTION_BYTES = 1024, IN_BLOB = FUNCTIONS };
#define BASE 0x10000000ull

static uint64_t pc_in(uint32_t function)
{
	return (function == IN_BLOB ? (uint64_t)blob_start
				    : BASE + (uint64_t)function * FUNCTION_BYTES) +
	       5 + any(32);
}

static const struct wire_rule *rule_ref(uint64_t pc)
{
	uint64_t at = pc & WIRE_PC_EXACT ? pc & WIRE_PC_MASK : pc - 1;

	if (at - (uint64_t)blob_start < 1024)
		return &tables->rule[1 + IN_BLOB];
	return &tables->rule[at - BASE < FUNCTIONS * FUNCTION_BYTES
				     ? 1 + (at - BASE) / FUNCTION_BYTES
				     : 0];
}

/* KIND's frame has WORDS words below the return address' slot that registers may be saved in. */
static struct wire_rule rule_any(uint8_t kind)
{
	struct wire_rule u = { .cfa = kind, .cfa_off = 8 + 8 * (int32_t)any(20) };
	int words = (int)(kind == CFA_RSP ? u.cfa_off / 8 - 1 : 12);
	bool rbp = kind == CFA_RBP || kind == CFA_RBP_DEREF || kind == CFA_FRAME;

	switch (kind) {
	case CFA_RBP:
	case CFA_FRAME: u.cfa_off = 16; break;
	case CFA_RBP_DEREF:
		u.cfa_off = -8 * (int32_t)any(4);
		u.deref = (int16_t)(8 * (int)any(3));
		break;
	case CFA_RSP_DEREF:
		u.cfa_off = 8 * (int32_t)any(30) - 128;
		u.deref = (int16_t)(8 * (int)any(3));
		break;
	case CFA_PLT: u.reg = (uint8_t)(9 + any(3)); break;
	case CFA_SCRATCH: u.reg = (uint8_t)any(17); break;
	case CFA_REG:
	case CFA_REG_DEREF:
		u.reg = (uint8_t)(WIRE_RBX + any(WIRE_REGS - 1));
		u.deref = (int16_t)(8 * (int)any(3) - 8);
		break;
	default: break;
	}
	for (int i = 0; i < WIRE_REGS; i++) {
		bool needed = (i == WIRE_RBP && rbp) || (kind >= CFA_REG && i == u.reg);

		u.off[i] = RULE_SAME;
		if (words && (needed || !any(3)))
			u.off[i] = any(60) ? (int16_t)(-2 - (int)any((uint64_t)words)) : RULE_LOST;
		if (rbp && u.off[i] > -4 && any(2))
			u.from_rbp |= (uint8_t)(1 << i);
	}
	if (kind == CFA_RBP || kind == CFA_FRAME) { /* nothing else is where rbp points */
		u.off[WIRE_RBP] = any(2) ? -2 : 0;
		u.from_rbp = (uint8_t)((u.from_rbp & ~1) | (u.off[WIRE_RBP] == 0));
	}
	return u;
}

static void module_add(uint32_t at, uint64_t start, uint32_t functions, uint32_t first, uint32_t to)
{
	struct wire_module *m = &process->modules[0].module[at];

	*m = (struct wire_module){ .start = start,
				   .end = start + (uint64_t)functions * FUNCTION_BYTES,
				   .nrows = functions,
				   .rows = to,
				   .rules = to + 4 * functions,
				   .index = to + 8 * functions };
	for (uint32_t i = 0; i < functions; i++) {
		((uint32_t *)(tables->pool + m->rows))[i] = i * FUNCTION_BYTES;
		((uint16_t *)(tables->pool + m->rules))[i] = (uint16_t)(1 + first + i);
		((uint32_t *)(tables->pool + m->index))[i] = i;
	}
	((uint32_t *)(tables->pool + m->index))[functions] = functions - 1;
}

/* OFTEN: what most of them are of. */
static void functions_make(uint8_t often)
{
	static const uint8_t kinds[] = { CFA_RBP,	CFA_RBP,      CFA_RBP_DEREF, CFA_PLT,
					 CFA_RSP_DEREF, CFA_FRAME,    CFA_SIGNAL,    CFA_SCRATCH,
					 CFA_REG,	CFA_REG_DEREF };

	for (uint32_t i = 0; i < FUNCTIONS; i++)
		tables->rule[1 + i] = rule_any(any(3)	 ? often
					       : any(60) ? kinds[any(sizeof(kinds))]
					       : any(2)	 ? CFA_NONE
							 : CFA_END);
	tables->rule[1 + IN_BLOB] = rule_any(CFA_RSP);
	process->modules_now = 0;
	process->modules[0].count = 2;
	module_add(0, BASE, FUNCTIONS, 0, 0);
	module_add(1, (uint64_t)blob_start, 1, IN_BLOB, 1 << 16);
	memset(process->cache, 0, sizeof(process->cache));
	process->flush++;
}

/* ---- the second walk ----------------------------------------------------- */

struct state {
	uint64_t slot, pc, rsp, reg[WIRE_REGS];
	uint64_t scratch; /* while building: what the rule's scratch register is to be */
};

static enum step signal_ref(struct state *c)
{
	static const int at[WIRE_REGS] = { [WIRE_RBP] = 120, [WIRE_RBX] = 128, [WIRE_R12] = 72,
					   [WIRE_R13] = 80,  [WIRE_R14] = 88,  [WIRE_R15] = 96 };
	uint64_t uc = c->rsp;

	if (!can_read(uc) || !can_read(uc + 168))
		return STEP_LOST;
	for (int i = 0; i < WIRE_REGS; i++)
		c->reg[i] = *word(uc + (uint64_t)at[i]);
	c->rsp = *word(uc + 160);
	c->slot = uc + 168;
	c->pc = *word(uc + 168) | WIRE_PC_EXACT;
	return (*word(uc + 168) & ~WIRE_PC_MASK) || !area_of(c->rsp) ? STEP_LOST : STEP_ON;
}

/* *CFA := the word at AT, plus DEREF. */
static bool word_ref(const struct state *c, uint64_t at, int16_t deref, uint64_t *cfa)
{
	if (at < c->rsp - 128 || !can_read(at))
		return false;
	*cfa = *word(at) + (uint64_t)(int64_t)deref;
	return true;
}

static enum step cfa_ref(struct state *c, const struct wire_rule *u, uint64_t *cfa)
{
	uint64_t off = (uint64_t)(int64_t)u->cfa_off, rbp = c->reg[WIRE_RBP];

	switch (u->cfa) {
	case CFA_RSP: *cfa = c->rsp + off; return STEP_ON;
	case CFA_RBP: *cfa = rbp + off; return STEP_ON;
	case CFA_PLT: *cfa = c->rsp + off + ((c->pc & 15) >= u->reg ? 8 : 0); return STEP_ON;
	case CFA_END: return STEP_END;
	case CFA_FRAME:
		if (!rbp)
			return STEP_END;
		*cfa = rbp + off;
		if (!can_read(rbp) || !can_read(*cfa - 8))
			return STEP_LOST;
		c->rsp = *cfa - 8;
		return STEP_ON;
	case CFA_RBP_DEREF: return word_ref(c, rbp + off, u->deref, cfa) ? STEP_ON : STEP_LOST;
	case CFA_RSP_DEREF: return word_ref(c, c->rsp + off, u->deref, cfa) ? STEP_ON : STEP_LOST;
	case CFA_REG: *cfa = c->reg[u->reg] + off; return STEP_ON;
	case CFA_REG_DEREF:
		return word_ref(c, c->reg[u->reg] + off, u->deref, cfa) ? STEP_ON : STEP_LOST;
	case CFA_SCRATCH:
		if (!(c->pc & WIRE_PC_EXACT))
			return STEP_LOST;
		*cfa = *word(c->slot - 168 + 40 + 8ull * u->reg) + off;
		return STEP_ON;
	default: return STEP_LOST;
	}
}

static enum step step_ref(struct state *c)
{
	const struct wire_rule *u = rule_ref(c->pc);
	uint64_t cfa = 0, rbp = c->reg[WIRE_RBP];
	enum step s;

	if (u->cfa == CFA_SIGNAL)
		return signal_ref(c);
	s = cfa_ref(c, u, &cfa);
	if (s != STEP_ON)
		return s;
	if (cfa - 8 < c->rsp || !can_read(cfa - 8))
		return STEP_LOST;
	for (int i = 0; i < WIRE_REGS; i++) {
		uint64_t at = (u->from_rbp >> i & 1 ? rbp : cfa) + (uint64_t)(u->off[i] * 8ll);

		if (u->off[i] != RULE_SAME) /* what was saved is on the same stack */
			c->reg[i] = u->off[i] != RULE_LOST && area_of(at) == area_of(cfa - 8) &&
						    at + 8 <= area_of(cfa - 8)->hi
					    ? *word(at)
					    : 0;
	}
	c->slot = cfa - 8;
	c->rsp = cfa;
	c->pc = *word(cfa - 8);
	return c->pc & ~WIRE_PC_MASK ? STEP_LOST : c->pc ? STEP_ON : STEP_END;
}

static struct state state_of(const struct entry *e)
{
	struct state c = { .slot = (uint64_t)&e->ra,
			   .pc = e->ra & WIRE_PC_MASK,
			   .rsp = (uint64_t)&e->ra + 8 };

	memcpy(c.reg, e->reg, sizeof(c.reg));
	return c;
}

struct walked {
	uint64_t pc[WIRE_DEPTH], slot[WIRE_DEPTH];
	uint32_t count;
	enum step end;
};

static void walk_ref(const struct entry *e, uint32_t depth, struct walked *out)
{
	struct state c = state_of(e);

	out->end = STEP_ON;
	for (out->count = 0; out->end == STEP_ON && out->count < depth;) {
		out->slot[out->count] = c.slot;
		out->pc[out->count++] = c.pc;
		out->end = step_ref(&c);
	}
}

static bool is_walked(uint32_t node, const struct walked *w)
{
	for (uint32_t i = 0; i < w->count; i++, node = nodes[node].parent)
		if (nodes[node].pc != w->pc[i])
			return false;
	if (w->end == STEP_END)
		return node == process->root;
	return nodes[node].pc == (w->end == STEP_ON ? WIRE_PC_DEEP : WIRE_PC_TRUNCATED) &&
	       nodes[node].parent == process->root;
}

/* ---- building ------------------------------------------------------------ */

/* The frame of FUNCTION, called (or interrupting) where OUT is; OUT becomes it. */
static void frame_add(struct state *out, uint32_t function)
{
	static const int at[WIRE_REGS] = { 120, 128, 72, 80, 88, 96 };
	const struct wire_rule *u = &tables->rule[1 + function];
	uint64_t cfa = out->rsp, below = cfa - 8 * 13 - 8 * any(10);
	struct state in = { .pc = pc_in(function), .rsp = below };
	int needed = u->cfa == CFA_REG || u->cfa == CFA_REG_DEREF ? u->reg : -1;

	for (int i = 0; i < WIRE_REGS; i++)
		in.reg[i] = any(3) ? out->reg[i] : any(1000);
	if (u->cfa == CFA_SIGNAL) {
		in.rsp = (area_of(cfa) == &area[0] && any(2) ? area[1].hi - 8 * any(8)
							     : cfa - 128 - 8 * any(8)) -
			 400;
		for (int i = 0; i < 17; i++)
			*word(in.rsp + 40 + 8ull * (unsigned)i) = any(4096);
		if (out->scratch)
			*word(in.rsp + 40 + 8ull * rule_ref(out->pc | WIRE_PC_EXACT)->reg) =
				out->scratch;
		for (int i = 0; i < WIRE_REGS; i++)
			*word(in.rsp + (uint64_t)at[i]) = out->reg[i];
		*word(in.rsp + 160) = out->rsp;
		*word(in.rsp + 168) = out->pc;
		*out = in;
		return;
	}
	for (int i = 0; i < WIRE_REGS; i++)
		if (u->off[i] == RULE_SAME)
			in.reg[i] = out->reg[i];
	switch (u->cfa) {
	case CFA_RSP: in.rsp = cfa - (uint64_t)u->cfa_off; break;
	case CFA_RBP:
	case CFA_FRAME: in.reg[WIRE_RBP] = cfa - (uint64_t)u->cfa_off; break;
	case CFA_RBP_DEREF: in.reg[WIRE_RBP] = cfa - 8 * 17; break;
	case CFA_PLT: in.rsp = cfa - (uint64_t)u->cfa_off - ((in.pc & 15) >= u->reg ? 8 : 0); break;
	case CFA_REG: in.reg[needed] = cfa - (uint64_t)u->cfa_off; break;
	case CFA_REG_DEREF: in.reg[needed] = cfa - 8 * 17 - (uint64_t)u->cfa_off; break;
	case CFA_SCRATCH: in.scratch = cfa - (uint64_t)u->cfa_off; break;
	default: break;
	}
	if (u->cfa == CFA_RBP_DEREF || u->cfa == CFA_REG_DEREF || u->cfa == CFA_RSP_DEREF)
		in.rsp = cfa - 8 * 40;
	for (int i = 0; i < WIRE_REGS; i++)
		if (u->off[i] != RULE_SAME && u->off[i] != RULE_LOST)
			*word((u->from_rbp >> i & 1 ? in.reg[WIRE_RBP] : cfa) +
			      (uint64_t)(u->off[i] * 8ll)) = out->reg[i];
	if (u->cfa == CFA_RBP_DEREF)
		*word(in.reg[WIRE_RBP] + (uint64_t)(int64_t)u->cfa_off) = cfa - (uint64_t)u->deref;
	if (u->cfa == CFA_REG_DEREF)
		*word(cfa - 8 * 17) = cfa - (uint64_t)(int64_t)u->deref;
	if (u->cfa == CFA_RSP_DEREF)
		*word(in.rsp + (uint64_t)(int64_t)u->cfa_off) = cfa - (uint64_t)u->deref;
	*word(cfa - 8) = out->pc;
	*out = in;
}

/* What calls a hook from where OUT is. */
static struct entry *entry_make(const struct state *out)
{
	struct entry *e = (struct entry *)(out->rsp - 8 - offsetof(struct entry, ra));

	memcpy(e->reg, out->reg, sizeof(e->reg));
	e->ra = out->pc;
	return e;
}

static struct state bottom(void) { return (struct state){ .rsp = area[0].hi - 64 }; }

/* What OUT calls: anything; what has its CFA in a scratch register is interrupted. */
static uint32_t function_any(const struct state *out)
{
	uint32_t f = (uint32_t)any(FUNCTIONS);

	for (uint32_t i = 0; out->scratch && i < FUNCTIONS; i++)
		if (tables->rule[1 + (f + i) % FUNCTIONS].cfa == CFA_SIGNAL)
			return (f + i) % FUNCTIONS;
	return f;
}

enum { STACK_MOST = 80 };

/* A stack of about DEPTH frames; FRAMES[i]: what it was at before the i-th of them. */
static struct entry *stack_build(uint32_t depth, struct state *frames)
{
	struct state now = bottom();

	for (uint32_t i = 0; i < depth; i++) {
		frames[i] = now;
		if (now.rsp - area_of(now.rsp)->lo < 8192)
			now = bottom(); /* the memory is used up */
		frame_add(&now, function_any(&now));
	}
	return entry_make(&now);
}

/* Others instead of the innermost ones from FRAMES[FROM] on. */
static struct entry *stack_rebuild(uint32_t from, uint32_t depth, struct state *frames)
{
	struct state now = frames[from];

	for (uint32_t i = from; i < depth; i++) {
		frames[i] = now;
		if (now.rsp - area_of(now.rsp)->lo < 8192)
			break;
		frame_add(&now, function_any(&now));
	}
	return entry_make(&now);
}

/* ---- the tests ----------------------------------------------------------- */

static void begin(void)
{
	static struct wire_big *remembered;
	struct wire_thread *t = &process->thread[0];

	memset(t, 0, offsetof(struct wire_thread, small));
	if (!remembered)
		remembered = remembers(t);
	memset((char *)remembered + sizeof(remembered->ring), 0,
	       sizeof(*remembered) - sizeof(remembered->ring));
	t->memory = (uintptr_t)remembered;
	for (int i = 0; i < 2; i++)
		t->range[i] = (struct wire_range){ area[i].lo, area[i].hi };
	process->root = 1;
	process->nodes = 2;
	process->nodes_mapped = WIRE_NODES;
	memset(nodes, 0, sizeof(*nodes) * (1 << 16));
	memset(process->bucket, 0, sizeof(process->bucket));
	process->depth = 128;
}

/* Whether a walk from E gives what the second one gives, and says that it was cut off. */
static bool right(struct wire_thread *t, const struct entry *e)
{
	static struct walked w;
	uint32_t truncated = t->truncated, deep = t->deep;

	walk_ref(e, process->depth, &w);
	return is_walked(walk(t, e), &w) && t->truncated - truncated == (w.end != STEP_END) &&
	       t->deep - deep == (w.end == STEP_ON);
}

static uint64_t other_word(const struct entry *e)
{
	switch (any(8)) {
	case 0: return 0;
	case 1: return 1ull << 47 | any(1 << 20);
	case 2: return any(4096);
	case 3: return pc_in((uint32_t)any(FUNCTIONS));
	case 4: return (uint64_t)e + 8 * any(400);
	case 5: return area[any(2)].lo + any(AREA_BYTES);
	case 6: return area[any(2)].hi - 8 * any(3);
	default: return *word((uint64_t)e + 8 * any((area_of((uint64_t)e)->hi - (uint64_t)e) / 8));
	}
}

/* One word of what the stack is on, or a register. */
static uint64_t *some_word(struct entry *e)
{
	const struct area *a = area_of((uint64_t)e);
	uint64_t at = (uint64_t)e - 128 + 8 * any(any(2) ? 100 : (a->hi - (uint64_t)e + 128) / 8);

	return word(at < a->hi ? at : a->hi - 8);
}

static void test_model(void)
{
	static const uint8_t often[] = { CFA_RSP, CFA_RSP, CFA_RBP, CFA_RSP, CFA_FRAME, CFA_RBP };
	static struct state frames[STACK_MOST];
	struct wire_thread *t = &process->thread[0];
	uint64_t wrong = 0, walks = 0, ends[4] = { 0 }, deep = 0;

	for (uint32_t round = 0; round < (uint32_t)test_size(8000, 400000); round++) {
		uint32_t depth = 1 + (uint32_t)any(40);
		static struct walked w;
		struct entry *e;

		if (round % 50 == 0) {
			begin();
			if (round / 50 % 7 == 3) /* a thread that remembers nothing */
				t->memory = 0;
			functions_make(often[round / 50 % sizeof(often)]);
		}
		process->depth = any(4) ? 128 : 1 + (uint32_t)any(30);
		e = stack_build(depth, frames);
		walk_ref(e, WIRE_DEPTH, &w);
		ends[w.end]++;
		deep += w.count > 10;
		for (uint32_t i = 0; i < 40; i++, walks++) {
			uint64_t *changed = any(3) ? some_word(e) : NULL, was = 0;

			if (changed) {
				was = *changed;
				*changed = any(8) ? other_word(e) : was ^ 8;
			} else if (!any(4)) {
				e = stack_rebuild((uint32_t)any(depth), depth, frames);
			}
			wrong += !right(t, e);
			wrong += any(2) && !right(t, e);
			if (changed && any(4)) /* as it was, mostly */
				*changed = was;
			wrong += !right(t, e);
			if (!any(100))
				process->flush++;
		}
		if (wrong && !test_bad++)
			printf("# round %u\n", round);
	}
	printf("# %llu walks; stacks: %llu to the end, %llu not, %llu of more than ten frames\n",
	       (unsigned long long)walks, (unsigned long long)ends[STEP_END],
	       (unsigned long long)ends[STEP_LOST], (unsigned long long)deep);
	CHECK_EQ(wrong, 0);
	CHECK(ends[STEP_END] > 500 && ends[STEP_LOST] > 500 && deep > 500);
}

/* Where nothing of the thread may be touched, and no page is known to be readable. */
static void test_plain(void)
{
	static struct state frames[STACK_MOST];
	static struct walked w;
	uint32_t wrong = 0;

	for (uint32_t round = 0; round < 3000; round++) {
		struct entry *e;

		if (round % 50 == 0) {
			begin();
			functions_make(CFA_RSP);
			memset(process->thread[0].range, 0, sizeof(process->thread[0].range));
		}
		process->depth = any(2) ? 128 : 1 + (uint32_t)any(30);
		e = stack_build(1 + (uint32_t)any(STACK_MOST), frames);
		walk_ref(e, process->depth < PLAIN_DEPTH ? process->depth : PLAIN_DEPTH, &w);
		wrong += !is_walked(walk_plain(e), &w);
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(process->thread[0].range[0].hi, 0);
	CHECK_EQ(process->thread[0].truncated, 0);
}

/* ---- what is remembered saves -------------------------------------------- */

static void cache_clear(void) { memset(process->cache, 0, sizeof(process->cache)); }

/* How many rules were looked up since. */
static uint32_t cache_used(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < WIRE_RULE_CACHE; i++)
		n += process->cache[i] != 0;
	return n;
}

/* A stack that was walked is not walked again, but for what is new of it. */
static void test_saved(void)
{
	static struct state frames[STACK_MOST];
	static char memory[2][AREA_BYTES];
	struct wire_thread *t = &process->thread[0];
	struct entry *e[2];

	begin();
	functions_make(CFA_RSP);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		tables->rule[1 + i] = rule_any(i % 3 ? CFA_RSP : CFA_RBP);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		for (int k = 0; k < WIRE_REGS; k++)
			if (tables->rule[1 + i].off[k] == RULE_LOST)
				tables->rule[1 + i].off[k] = -2 - k;
	e[0] = stack_build(30, frames);
	cache_clear();
	CHECK(right(t, e[0]));
	CHECK(cache_used() > 20);
	CHECK_EQ(t->depth, 30);
	cache_clear();
	CHECK(right(t, e[0]));
	CHECK_EQ(cache_used(), 0);
	memcpy(memory[0], (void *)area[0].lo, AREA_BYTES);
	e[1] = stack_rebuild(27, 30, frames);
	CHECK(right(t, e[1]));
	CHECK(cache_used() > 0 && cache_used() <= 3);
	CHECK_EQ(t->depth, 30);
	memcpy(memory[1], (void *)area[0].lo, AREA_BYTES);
	process->flush++; /* all of it may be another one now */
	cache_clear();
	CHECK(right(t, e[1]));
	CHECK(cache_used() > 20);
	/* two that alternate: each was seen often enough, and is known as a whole */
	for (int i = 0; i < 1010; i++) {
		if (i == 1000)
			cache_clear();
		memcpy((void *)area[0].lo, memory[i % 2], AREA_BYTES);
		CHECK(right(t, e[i % 2]));
	}
	CHECK_EQ(cache_used(), 0);
	process->flush++;
	CHECK(right(t, e[1]));
	CHECK(cache_used() > 20);
}

/*
 * A function that keeps rbp in its caller's place and one that keeps it elsewhere are called from
 * the same place: each saves it where it says, wherever the other did.
 */
static void test_saved_elsewhere(void)
{
	struct wire_thread *t = &process->thread[0];
	struct state outer = bottom(), caller, now;
	struct entry *e;

	begin();
	functions_make(CFA_RSP);
	for (int f = 0; f < 4; f++) {
		struct wire_rule u = { .cfa = f == 1 ? CFA_RBP : CFA_RSP,
				       .cfa_off = f == 1 ? 16 : 80 };

		for (int i = 0; i < WIRE_REGS; i++)
			u.off[i] = RULE_SAME;
		if (f)
			u.off[WIRE_RBP] = (int16_t)(f == 3 ? -6 : -2);
		tables->rule[1 + f] = u;
	}
	frame_add(&outer, 0);
	caller = outer;
	frame_add(&caller, 1);
	for (int f = 2; f <= 3; f++) { /* the second one finds its caller remembered */
		now = caller;
		frame_add(&now, (uint32_t)f);
		e = entry_make(&now);
		CHECK(right(t, e));
		CHECK_EQ(t->depth, 3);
	}
	*word(caller.rsp - 48) -= 8; /* where the second one has saved it */
	CHECK(right(t, e));
	*word(caller.rsp - 48) += 8;
	CHECK(right(t, e));
	CHECK_EQ(t->depth, 3);
}

/* ---- hooks in hooks ------------------------------------------------------ */

static bool blob_ref(uint64_t pc)
{
	return (pc & WIRE_PC_MASK) >= (uint64_t)blob_start &&
	       (pc & WIRE_PC_MASK) < (uint64_t)blob_start + (AGENT_JOURNAL - AGENT_BLOB);
}

static enum nesting nesting_ref(uint64_t marked, const struct entry *e)
{
	static const int below[] = { 16, 64, 96, 112 };
	struct state c = state_of(e);
	uint64_t inner = 0, from = (uint64_t)e;
	bool signalled = false;
	enum step s = STEP_ON;

	for (; s == STEP_ON; s = step_ref(&c)) {
		if (c.pc & WIRE_PC_EXACT) {
			signalled = true;
			from = c.rsp;
		}
		if (c.slot == marked && blob_ref(inner))
			return signalled ? SIGNALLED : NESTED;
		if (!signalled && marked > (uint64_t)e && c.slot >= marked)
			return STALE; /* past it, on the same stack */
		inner = c.pc;
	}
	/* no way to go on; but the entry's own frame is still there, not far above, or past a signal */
	if ((s == STEP_LOST || signalled) && marked > from &&
	    (signalled || marked < (uint64_t)e + 4096) && area_of(marked - 16) &&
	    area_of(marked - 112))
		for (int i = 0; i < 4; i++)
			if (blob_ref(*word(marked - (uint64_t)below[i])))
				return signalled ? SIGNALLED : NESTED;
	return STALE;
}

static void test_nesting(void)
{
	static struct state frames[STACK_MOST];
	struct wire_thread *t = &process->thread[0];
	uint32_t wrong = 0, found[3] = { 0 };

	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t depth = 2 + (uint32_t)any(20), at = (uint32_t)any(depth);
		struct state now;
		struct entry *e;
		uint64_t marked;

		if (round % 100 == 0) {
			begin();
			functions_make(CFA_RSP);
		}
		stack_build(depth, frames);
		now = frames[at];
		marked = now.rsp - 8; /* where the function that calls the hook is to return to */
		frame_add(&now, any(8) ? IN_BLOB : function_any(&now));
		for (uint32_t i = at + 1; i < depth && now.rsp - area_of(now.rsp)->lo > 8192; i++)
			frame_add(&now, function_any(&now));
		e = entry_make(&now);
		if (!any(10))
			marked = frames[any(depth)].rsp - 8;
		if (!any(10))
			marked += 8 * any(20) - 80;
		if (!any(10))
			*word(marked - 16 * (1 + any(7))) = pc_in(IN_BLOB);
		t->mark = marked | any(2);
		if (nesting(t, e) != nesting_ref(marked, e) && !wrong++)
			printf("# round %u: %d, not %d\n", round, nesting(t, e),
			       nesting_ref(marked, e));
		found[nesting(t, e)]++;
	}
	printf("# %u nested, %u signalled, %u stale\n", found[NESTED], found[SIGNALLED],
	       found[STALE]);
	CHECK_EQ(wrong, 0);
	CHECK(found[NESTED] > 1000 && found[SIGNALLED] > 1000 && found[STALE] > 1000);
}

/* ---- the tree of stacks -------------------------------------------------- */

/* Each child is one node, however many there are. */
static void test_nodes(void)
{
	enum { KIDS = 20000 };
	static uint64_t pc[KIDS];
	static uint32_t id[KIDS];
	uint32_t wrong = 0;

	begin();
	for (uint32_t i = 0; i < KIDS; i++) {
		uint32_t parent = i % 4 ? 1
				  : i	? id[i - 1]
					: 1; /* one with very many, and others */

		pc[i] = (any(1ull << 30) << 12 | i) + 16; /* no two are equal */
		id[i] = node_child(parent, pc[i]);
		wrong += id[i] != i + 2 || nodes[id[i]].pc != pc[i] ||
			 nodes[id[i]].parent != parent;
	}
	for (uint32_t i = 0; i < KIDS; i++)
		wrong += node_child(nodes[id[i]].parent, pc[i]) != id[i] ||
			 node_child(nodes[id[i]].parent, pc[i]) != id[i];
	CHECK_EQ(wrong, 0);
	CHECK_EQ(process->nodes, KIDS + 2);
	/* no more fit: the stack ends where it can; those that there are, are found still */
	process->nodes_mapped = process->nodes;
	CHECK_EQ(node_child(1, 7), 1);
	CHECK_EQ(node_child(id[9], 7), id[9]);
	CHECK_EQ(process->nodes, KIDS + 2);
	CHECK_EQ(node_child(1, pc[1]), id[1]);
	process->nodes_mapped++;
	CHECK_EQ(node_child(1, 7), KIDS + 2);
	process->nodes_mapped = WIRE_NODES;
	/* a chain that the program has made a ring: the search ends */
	for (uint32_t hash = 0, k = 0; k < WIRE_KIDS; k++, hash += 1u << 30)
		*kid_of(id[1], hash) = wire_link(id[2], hash);
	nodes[id[2]].next = wire_link(id[2], 0);
	id[0] = node_child(id[1], 0x7777);
	CHECK(nodes[id[0]].pc == 0x7777 && nodes[id[0]].parent == id[1]);
	CHECK_EQ(node_child(id[1], 0x7777), id[0]);
	/* the same pc below another one, in the same chain of a hash table, is another node */
	for (uint32_t i = 0; i < 3 * WIRE_KIDS * CHAIN_FULL; i++)
		for (uint32_t parent = 10; parent < 12; parent++)
			node_child(parent, 16 + i * 64);
	for (uint32_t i = 0; i < 3 * WIRE_KIDS * CHAIN_FULL; i++) {
		uint32_t a = node_child(10, 16 + i * 64), b = node_child(11, 16 + i * 64);

		CHECK(a != b && nodes[a].parent == 10 && nodes[b].parent == 11);
		CHECK(nodes[a].pc == 16 + i * 64 && nodes[b].pc == 16 + i * 64);
	}
}

int main(void)
{
	agent_map();
	areas_map();
	RUN(test_model);
	RUN(test_plain);
	RUN(test_saved);
	RUN(test_saved_elsewhere);
	RUN(test_nesting);
	RUN(test_nodes);
	return test_status();
}
