// SPDX-License-Identifier: GPL-3.0-or-later
#include "blob.h"
#include "ring.h"
#include "whole.h"

/*
 * walk.c - the call stack at a hook, as the id of a node in the image's tree of stacks.
 *
 * A frame is where its pc was found (the slot), the pc, and the registers there. The caller's frame
 * follows from the rule of that pc (wire_rule, made by the supervisor from .eh_frame, found through
 * a direct-mapped cache, else by search in the module's table).
 *
 * Each thread remembers its last stack, outermost frame first, and with it `check`: every memory
 * word that the walk depended on, with its value then: the return addresses, including the last
 * one, at which the walk ended; those saved rbp that an outer frame's rule really needs; saved rsp.
 * A walk ends at the first frame that is remembered (same slot, same pc, same rbp where it matters;
 * after a signal frame also the same rsp, which the slot does not tell there) if all words that
 * were checked further out still hold: the same start and the same memory lead to the same
 * continuation, so this is exact, not a guess. It costs one compare a word, and saves a rule and
 * its look-up a frame.
 *
 * Before that, each thread looks among the whole stacks that it has walked twice (whole.h): the
 * words that such a stack depended on, innermost first. A program that allocates by turns from some
 * hundred places finds its stack there, without a walk to where it parts from the last one. That
 * one stays as it is then: it is compared with memory whenever it is used.
 *
 * A word is read only if its page is known to be mapped: stack pages are proved readable once, by a
 * system call that fails with EFAULT and has no effect otherwise, and kept as ranges per thread,
 * which hold every word that is remembered. Whoever unmaps or protects memory first makes the
 * threads concerned forget their ranges (stacks_forget). Not all such calls pass a hook, and
 * another thread may make one between the proof and the read. Nobody takes away a stack that is in
 * use; but wrong unwind information, or a stack that once led into another one, may have made us
 * read beyond it. So each read may fault: the supervisor, which is told by ptrace, then sets the
 * word to WIRE_LOAD_FAILED (supervisor/tracee/fault_fixup.c), and all threads forget. Hence wrong unwind
 * information ends in [truncated], never in a fault that the program sees.
 *
 * Rules that need a register other than rsp and rbp are rare (hand-written assembly): the walk then
 * starts again with all six callee-saved registers tracked, and nothing is remembered of it. Nor is
 * anything of the walks of a thread that has no room for that (big.c).
 */

enum { RBP_SAME = 1, RBP_USED = 2 };
enum { RED_ZONE = 128 }; /* bytes below rsp that are the function's, too */

struct cursor {
	uint64_t slot; /* where pc was found */
	uint64_t pc;   /* WIRE_PC_EXACT if interrupted */
	uint64_t rsp;  /* in that frame, at its call */
	uint64_t reg[WIRE_REGS];
	/* where the step that led here loaded rbp and rsp from; 0: it loaded none */
	uint64_t rbp_slot, rsp_slot;
	uint64_t rsp_word; /* what was in rsp_slot */
	/* whose ranges are used; NULL: the walk has one range of its own */
	struct wire_thread *t;
	uint8_t rbp_use; /* what the step away from here did with rbp */
	uint8_t stacks;	 /* how often the walk has come to another range */
};

enum step { STEP_ON, STEP_END, STEP_LOST, STEP_NEEDS_ALL };

/* ---- readable memory ----------------------------------------------------- */

/*
 * The end of the readable memory that begins with ADDR's page; 0: that page is not readable.
 * rt_sigprocmask copies the new set in before it looks at `how`, here an invalid one: EFAULT if it
 * cannot, EINVAL if it can. Nothing changes. Where no system call may be made mtrun reads the list
 * of mappings, and its answer goes further than a page.
 */
static noinline uint64_t readable_end(uint64_t addr)
{
	uint64_t page = addr & ~4095ull;
	long answer = own_call(__NR_rt_sigprocmask, -1, (long)addr, 0, 8);
	struct wire_thread *t;

	if (likely(answer != -38 /* ENOSYS */))
		return answer == -22 /* EINVAL */ ? page + 4096 : 0;
	t = thread_calling();
	page = t ? ask(t, &(struct question){ ASK_READABLE, { addr } }) : 0;
	return page > addr ? page : 0;
}

static bool page_readable(uint64_t addr) { return readable_end(addr) != 0; }

/*
 * Around a change of T's ranges: another thread may read them at any time (stacks_forget), and sees
 * by `ranges_turn` that they were being changed.
 */
static void ranges_begin(struct wire_thread *t)
{
	store(&t->ranges_turn, t->ranges_turn | 1);
	__asm__ volatile("" ::: "memory");
}

static void ranges_end(struct wire_thread *t) { store(&t->ranges_turn, t->ranges_turn + 1); }

static void ranges_clear(struct wire_thread *t)
{
	ranges_begin(t);
	for (int i = 0; i < WIRE_RANGES; i++)
		t->range[i] = (struct wire_range){ 0, 0 };
	ranges_end(t);
	t->depth = 0;
}

/* Where T's walks remember stacks; NULL: they remember nothing. */
static inline struct wire_big *big_of(const struct wire_thread *t)
{
	return (struct wire_big *)(uintptr_t)load(&t->memory);
}

/* Whether the last stack depends on a word in R. */
static bool is_remembered(const struct wire_thread *t, const struct wire_range *r)
{
	const struct wire_big *b = big_of(t);
	uint32_t depth = b ? t->depth : 0,
		 n = depth ? b->last[depth - 1].checks + b->last[depth - 1].own_checks : 0;

	for (uint32_t i = 0; i < n; i++)
		if (b->check[i].slot - r->lo < r->hi - r->lo)
			return true;
	return false;
}

/* FIRST becomes the first range; those before range I move up by one, over it. */
static void range_first(struct wire_thread *t, int i, struct wire_range first)
{
	struct wire_range *r = t->range;

	ranges_begin(t);
	for (; i > 0; i--)
		r[i] = r[i - 1];
	r[0] = first;
	ranges_end(t);
}

/*
 * PAGE, which is readable, becomes the first range. The one that was used longest ago is dropped,
 * and with it the last stack if that depends on it.
 */
static void range_add(struct wire_thread *t, uint64_t page)
{
	if (is_remembered(t, &t->range[WIRE_RANGES - 1]))
		t->depth = 0;
	range_first(t, WIRE_RANGES - 1, (struct wire_range){ page, page + 4096 });
}

static bool range_find(struct wire_thread *t, uint64_t addr)
{
	const struct wire_range *r = t->range;

	for (int i = 0; i < WIRE_RANGES; i++)
		if (addr - r[i].lo < r[i].hi - r[i].lo) {
			if (i)
				range_first(t, i, r[i]);
			return true;
		}
	return false;
}

/* ADDR lies outside of R: R becomes its range. False: it is not readable. */
static noinline bool range_change(struct cursor *c, struct wire_range *r, uint64_t addr)
{
	uint64_t page = addr & ~4095ull;

	c->stacks += c->stacks < UINT8_MAX;
	if (c->t && range_find(c->t, addr))
		return true;
	if (!page_readable(page))
		return false;
	if (c->t)
		range_add(c->t, page);
	else
		*r = (struct wire_range){ page, page + 4096 };
	return true;
}

/* Extends R page by page up to ADDR; an ADDR that is below it or far off gets another range. */
static noinline bool range_extend(struct cursor *c, struct wire_range *r, uint64_t addr)
{
	uint64_t page = addr & ~4095ull, hi = r->hi, end;

	if (!hi || addr < hi || addr - hi >= 8u << 20)
		return range_change(c, r, addr);
	while (hi <= page && (end = readable_end(hi))) {
		hi = end;
		store(&r->hi, hi);
	}
	return hi > page;
}

/* The range of the stack that RSP is on. RSP's own page is in use and needs no proof. */
static noinline struct wire_range *range_search(struct wire_thread *t, uint64_t rsp)
{
	uint64_t page = rsp & ~4095ull;
	struct wire_range *r = t->range;
	uint32_t stale =
		unlikely(load(&t->stale)) ? __atomic_exchange_n(&t->stale, 0, __ATOMIC_SEQ_CST) : 0;

	if (stale == WIRE_STALE_SHOW)
		ask_loudly(t, &(struct question){ ASK_FRAMES, { 0 } });
	else if (unlikely(stale))
		ranges_clear(t);
	if (range_find(t, rsp))
		return r;
	/* a stack that has grown by a few pages: prove the pages between, then it is one range */
	if (rsp < r->lo && r->lo - rsp < 64 * 4096) {
		uint64_t p = page + 4096, end;

		while (p < r->lo && (end = readable_end(p)))
			p = end;
		if (p >= r->lo) {
			store(&r->lo, page);
			return r;
		}
	}
	range_add(t, page);
	return r;
}

static inline struct wire_range *range_of(struct wire_thread *t, uint64_t rsp)
{
	struct wire_range *r = t->range;

	return likely(rsp - r->lo < r->hi - r->lo && !load(&t->stale)) ? r : range_search(t, rsp);
}

static inline bool readable(struct cursor *c, struct wire_range *r, uint64_t addr)
{
	if (unlikely(addr & 7))
		return false;
	return likely(addr - r->lo < r->hi - r->lo) || range_extend(c, r, addr);
}

static bool may_hold(const struct wire_thread *t, uint64_t lo, uint64_t hi)
{
	uint32_t turn = load(&t->ranges_turn);

	for (int k = 0; k < WIRE_RANGES; k++)
		if (load(&t->range[k].lo) < hi && lo < load(&t->range[k].hi))
			return true;
	return turn & 1 || load(&t->ranges_turn) != turn;
}

void stacks_forget(uint64_t lo, uint64_t hi)
{
	uint32_t high = load(&PROC->threads_high);

	for (uint32_t i = 0; i < high && i < WIRE_THREADS; i++) {
		struct wire_thread *t = &PROC->thread[i];

		if (load(&t->fs) > 1 && may_hold(t, lo, hi))
			__atomic_store_n(&t->stale, 1, __ATOMIC_SEQ_CST);
	}
}

/* ---- rules --------------------------------------------------------------- */

static const struct wire_module *module_find(const struct wire_modules *m, uint64_t pc)
{
	uint32_t lo = 0, hi = m->count < WIRE_MODULES ? m->count : WIRE_MODULES;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (pc < m->module[mid].start)
			hi = mid;
		else if (pc >= m->module[mid].end)
			lo = mid + 1;
		else
			return &m->module[mid];
	}
	return NULL;
}

#define TABLE_TRIES 8

/*
 * The module of PC. The supervisor changes a table only while it is not the current one, and then
 * publishes it. So what was read holds if `modules_now` is the same afterwards; it may not be,
 * where this thread was preempted. *NOW: that counter.
 */
static bool module_of(uint64_t pc, struct wire_module *out, uint32_t *now)
{
	for (int i = 0; i < TABLE_TRIES; i++) {
		const struct wire_module *m;
		bool found;

		*now = load(&PROC->modules_now);
		m = module_find(&PROC->modules[*now & 1], pc);
		found = m != NULL;
		if (found)
			*out = *m;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (load(&PROC->modules_now) == *now)
			return found;
	}
	return false;
}

static bool in_pool(uint64_t at, uint64_t count, uint64_t size)
{
	return at <= WIRE_POOL && at % size == 0 && count <= (WIRE_POOL - at) / size;
}

/*
 * The rule of the row that has the module's offset OFF. The target can write M: nothing outside of
 * the tables is read, whatever it says.
 */
static uint32_t rule_of(const struct wire_module *m, uint64_t off)
{
	const uint8_t *pool = TABLES->pool;
	const uint32_t *offs, *index;
	uint32_t lo, hi;

	if (!m->nrows || !in_pool(m->rows, m->nrows, sizeof(uint32_t)) ||
	    !in_pool(m->rules, m->nrows, sizeof(uint16_t)) ||
	    !in_pool(m->index, (off >> 10) + 2, sizeof(uint32_t)))
		return 0;
	offs = (const uint32_t *)(pool + m->rows);
	index = (const uint32_t *)(pool + m->index);
	lo = index[off >> 10];
	hi = index[(off >> 10) + 1];
	if (hi >= m->nrows || lo > hi || offs[lo] > off)
		return 0;
	hi++;
	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (offs[mid] <= off)
			lo = mid;
		else
			hi = mid;
	}
	return ((const uint16_t *)(pool + m->rules))[lo];
}

/*
 * Finds PC's rule, and caches it. An entry must not outlive its module. The supervisor first
 * publishes the modules, then clears the cache: either it sees this entry, or we see its new
 * counter. `flush` makes threads forget what they found by the entry meanwhile.
 */
static noinline uint64_t rule_search(uint64_t pc)
{
	uint64_t *at = &PROC->cache[wire_cache_slot(pc)], entry;
	struct wire_module m = { .nrows = 0 };
	uint32_t now, rule;

	rule = module_of(pc, &m, &now) ? rule_of(&m, pc - m.start) : 0;
	entry = wire_cache_entry(pc, rule, &TABLES->rule[rule]);
	__atomic_store_n(at, entry, __ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&PROC->modules_now, __ATOMIC_SEQ_CST) != now)) {
		__atomic_store_n(at, 0, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&PROC->flush, 1, __ATOMIC_SEQ_CST);
	}
	return entry;
}

/* The cache's entry for PC: a return address, or (WIRE_PC_EXACT) where code was interrupted. */
static inline uint64_t rule_at(uint64_t pc)
{
	uint64_t at = unlikely(pc & WIRE_PC_EXACT) ? pc & WIRE_PC_MASK : pc - 1;
	uint64_t entry = __atomic_load_n(&PROC->cache[wire_cache_slot(at)], __ATOMIC_RELAXED);

	return likely(wire_cache_is(entry, at)) ? entry : rule_search(at);
}

/* ---- one step outwards --------------------------------------------------- */

/* Offsets of registers in the ucontext, which follows the return address in an rt_sigframe. */
enum {
	UC_REGS = 40,
	UC_R12 = 72,
	UC_R13 = 80,
	UC_R14 = 88,
	UC_R15 = 96,
	UC_RBP = 120,
	UC_RBX = 128,
	UC_RSP = 160,
	UC_RIP = 168
};

static noinline enum step step_signal(struct cursor *c, struct wire_range *r)
{
	uint64_t uc = c->rsp;

	if (!readable(c, r, uc) || !readable(c, r, uc + UC_RIP))
		return STEP_LOST;
	c->reg[WIRE_RBP] = peek(uc + UC_RBP);
	c->reg[WIRE_RBX] = peek(uc + UC_RBX);
	c->reg[WIRE_R12] = peek(uc + UC_R12);
	c->reg[WIRE_R13] = peek(uc + UC_R13);
	c->reg[WIRE_R14] = peek(uc + UC_R14);
	c->reg[WIRE_R15] = peek(uc + UC_R15);
	c->rbp_slot = uc + UC_RBP;
	c->rsp_slot = uc + UC_RSP;
	c->rbp_use = 0;
	c->rsp = c->rsp_word = peek(uc + UC_RSP);
	c->slot = uc + UC_RIP;
	c->pc = peek(uc + UC_RIP);
	if (c->pc & ~WIRE_PC_MASK)
		return STEP_LOST;
	c->pc |= WIRE_PC_EXACT;
	/* the handler may have run on a stack of its own */
	return c->rsp - r->lo < r->hi - r->lo || range_change(c, r, c->rsp) ? STEP_ON : STEP_LOST;
}

/* The CFA is in the word at AT, on which the walk depends, too. */
static inline bool load_cfa(struct cursor *c, struct wire_range *r, uint64_t at, uint64_t *cfa)
{
	/* libcrypto keeps it just below rsp */
	if (at < c->rsp - RED_ZONE || !readable(c, r, at))
		return false;
	c->rsp_slot = at;
	*cfa = c->rsp_word = peek(at);
	return true;
}

/*
 * The canonical frame address, by the less common rules. ALL: registers other than rsp and rbp are
 * known, too.
 */
static noinline enum step cfa_uncommon(struct cursor *c, struct wire_range *r,
				       const struct wire_rule *u, bool all, uint64_t *cfa)
{
	uint64_t off = (uint64_t)(int64_t)u->cfa_off, deref = (uint64_t)(int64_t)u->deref;

	switch (u->cfa) {
	case CFA_RBP_DEREF:
		c->rbp_use |= RBP_USED;
		if (!load_cfa(c, r, c->reg[WIRE_RBP] + off, cfa))
			return STEP_LOST;
		*cfa += deref;
		return STEP_ON;
	/* the frame's two words are at rbp, perhaps on another stack: the walk goes on there */
	case CFA_FRAME:
		c->rbp_use |= RBP_USED;
		*cfa = c->reg[WIRE_RBP] + off;
		if (!c->reg[WIRE_RBP])
			return STEP_END;
		if (!readable(c, r, c->reg[WIRE_RBP]) || !readable(c, r, *cfa - 8))
			return STEP_LOST;
		c->rsp = *cfa - 8;
		return STEP_ON;
	case CFA_RSP_DEREF:
		if (!load_cfa(c, r, c->rsp + off, cfa))
			return STEP_LOST;
		*cfa += deref;
		return STEP_ON;
	case CFA_PLT: *cfa = c->rsp + off + ((c->pc & 15) >= u->reg ? 8 : 0); return STEP_ON;
	/* still in the signal frame that we came from: the pc's slot is in it */
	case CFA_SCRATCH:
		if (!(c->pc & WIRE_PC_EXACT) || u->reg > 16)
			return STEP_LOST;
		c->rsp_slot = c->slot - UC_RIP + UC_REGS + 8 * u->reg;
		c->rsp_word = peek(c->rsp_slot);
		*cfa = c->rsp_word + off;
		return STEP_ON;
	case CFA_REG:
	case CFA_REG_DEREF:
		if (!all)
			return STEP_NEEDS_ALL;
		if (u->reg >= WIRE_REGS)
			return STEP_LOST;
		*cfa = c->reg[u->reg] + off;
		if (u->cfa == CFA_REG)
			return STEP_ON;
		if (!load_cfa(c, r, *cfa, cfa))
			return STEP_LOST;
		*cfa += deref;
		return STEP_ON;
	case CFA_END: return STEP_END;
	default: return STEP_LOST;
	}
}

/* ALL: every callee-saved register of the cursor is known. Otherwise only rsp and rbp are. */
static inline __attribute__((always_inline)) enum step step(struct cursor *c, struct wire_range *r,
							    bool all)
{
	const struct wire_rule *u = &TABLES->rule[wire_cache_rule(rule_at(c->pc))];
	uint64_t cfa, at, rbp = c->reg[WIRE_RBP];
	int16_t off = u->off[WIRE_RBP];
	enum step s;

	c->rbp_use = off == RULE_SAME ? RBP_SAME : u->from_rbp & 1 << WIRE_RBP ? RBP_USED : 0;
	if (unlikely(u->cfa == CFA_SIGNAL))
		return step_signal(c, r);
	c->rbp_slot = 0;
	c->rsp_slot = 0;
	if (likely(u->cfa == CFA_RSP))
		cfa = c->rsp + (uint64_t)(int64_t)u->cfa_off;
	else if (u->cfa == CFA_RBP) {
		cfa = rbp + (uint64_t)(int64_t)u->cfa_off;
		c->rbp_use |= RBP_USED;
	} else {
		s = cfa_uncommon(c, r, u, all, &cfa);
		if (s != STEP_ON)
			return s;
	}
	if (cfa - 8 < c->rsp || !readable(c, r, cfa - 8))
		return STEP_LOST;
	if (off != RULE_SAME) {
		at = (u->from_rbp & 1 << WIRE_RBP ? rbp : cfa) + (uint64_t)(int64_t)(off * 8);
		if (unlikely(off == RULE_LOST || at - r->lo > r->hi - r->lo - 8))
			c->reg[WIRE_RBP] = 0;
		else {
			c->reg[WIRE_RBP] = peek(at);
			c->rbp_slot = at;
		}
	}
	if (all)
		for (int i = WIRE_RBX; i < WIRE_REGS; i++) {
			if (u->off[i] == RULE_SAME)
				continue;
			at = (u->from_rbp & 1 << i ? rbp : cfa) +
			     (uint64_t)(int64_t)(u->off[i] * 8);
			c->reg[i] = u->off[i] == RULE_LOST || at - r->lo > r->hi - r->lo - 8
					    ? 0
					    : peek(at);
		}
	c->slot = cfa - 8;
	c->rsp = cfa;
	c->pc = peek(cfa - 8);
	if (unlikely(c->pc & ~WIRE_PC_MASK))
		return STEP_LOST;
	return c->pc ? STEP_ON : STEP_END;
}

/*
 * The step of nearly every frame: by the cache's entry alone, with no branch that depends on the
 * rule. False: the entry does not say enough, and *C has not changed.
 */
static inline __attribute__((always_inline)) bool step_usual(struct cursor *c,
							     const struct wire_range *r)
{
	uint64_t entry = rule_at(c->pc), rbp = c->reg[WIRE_RBP], pc;
	bool from_rbp = entry & WIRE_CACHE_FROM_RBP, saves = wire_cache_saved(entry);
	uint64_t cfa = (from_rbp ? rbp : c->rsp) + 8ull * wire_cache_cfa(entry);
	uint64_t slot = cfa - 8, at = slot - 8ull * wire_cache_saved(entry);

	if (unlikely(!wire_cache_cfa(entry) || slot < c->rsp || slot & 7 || at < r->lo ||
		     slot >= r->hi))
		return false;
	pc = peek(slot);
	if (unlikely(pc - 1 >= WIRE_PC_MASK))
		return false;
	rbp = peek(at);
	c->reg[WIRE_RBP] = saves ? rbp : c->reg[WIRE_RBP];
	c->rbp_slot = saves ? at : 0;
	c->rbp_use = (uint8_t)((saves ? 0 : RBP_SAME) | (from_rbp ? RBP_USED : 0));
	c->rsp_slot = 0;
	c->slot = slot;
	c->rsp = cfa;
	c->pc = pc;
	return true;
}

static noinline enum step step_unusual(struct cursor *c, struct wire_range *r)
{
	return step(c, r, false);
}

static inline __attribute__((always_inline)) enum step step_either(struct cursor *c,
								   struct wire_range *r)
{
	struct cursor copy;
	enum step s;

	if (likely(step_usual(c, r)))
		return STEP_ON;
	/* a copy: so *C, whose address no other function gets, can stay in registers */
	copy = *c;
	s = step_unusual(&copy, r);
	*c = copy;
	return s;
}

static inline void cursor_begin(struct cursor *c, struct wire_thread *t, const struct entry *e)
{
	c->t = t;
	c->stacks = 0;
	c->slot = (uint64_t)&e->ra;
	c->pc = e->ra & WIRE_PC_MASK;
	c->rsp = c->slot + 8;
	c->reg[WIRE_RBP] = e->reg[WIRE_RBP];
	c->rbp_slot = c->rsp_slot = 0;
}

static void cursor_begin_all(struct cursor *c, struct wire_thread *t, const struct entry *e)
{
	cursor_begin(c, t, e);
	for (int i = WIRE_RBX; i < WIRE_REGS; i++)
		c->reg[i] = e->reg[i];
}

/* ---- the tree of stacks -------------------------------------------------- */

/*
 * A node's children are in four short chains whose heads are in the node itself: going from a node
 * to a child touches the cache lines of nodes only. A node with very many children (an
 * interpreter's loop) has the later ones in a hash table. A chain only grows, and a child is added
 * to it only if it has just been seen not to be full, so no child is in both.
 *
 * Each link has some bits of the hash of the child's pc beside its id (wire_stack.h), so that
 * hardly any other node is touched than the right one: where stacks are many each node is a cache
 * miss.
 */
#define CHAIN_FULL 6
/* All threads may find a chain not full at once. What is longer, the program has made a ring. */
#define CHAIN_MOST (CHAIN_FULL + WIRE_THREADS)

static inline uint32_t pc_hash(uint64_t pc) { return (uint32_t)pc * 0x9e3779b1u; }

static inline uint32_t *kid_of(uint32_t parent, uint32_t hash)
{
	_Static_assert(WIRE_KIDS == 1u << (32 - 30), "the hash fits");
	return NODES[parent].kid + (hash >> 30);
}

static uint32_t bucket_find(uint32_t link, uint32_t hash, uint32_t parent, uint64_t pc)
{
	for (uint32_t i = 0; link && i < WIRE_NODES; i++) {
		const struct wire_node *n = &NODES[wire_link_id(link)];

		if (wire_link_to(link, hash) < WIRE_NODES && n->pc == pc && n->parent == parent)
			return wire_link_id(link);
		link = n->next;
	}
	return 0;
}

static inline uint32_t node_new(uint32_t parent, uint64_t pc)
{
	uint32_t id = load(&PROC->nodes);

	if (unlikely(id >= load(&PROC->nodes_mapped)) && !nodes_reach(id))
		return 0;
	id = __atomic_fetch_add(&PROC->nodes, 1, __ATOMIC_ACQ_REL);
	if (unlikely(id >= load(&PROC->nodes_mapped)) && !nodes_reach(id))
		return 0;
	if (unlikely(id % NODES_TOUCHED == 0))
		nodes_touch(id);
	NODES[id].pc = pc;
	NODES[id].parent = parent;
	return id;
}

static noinline uint32_t node_insert(uint32_t parent, uint64_t pc)
{
	struct wire_node *node = NODES;
	uint32_t hash = pc_hash(pc), *kid = kid_of(parent, hash), mine = 0;

	for (;;) {
		uint32_t *chain = kid, head = load(chain), link, id, length = 0;

		for (link = head; link && length < CHAIN_MOST; link = node[id].next, length++) {
			id = wire_link_id(link);
			if (wire_link_to(link, hash) == id && node[id].pc == pc)
				/* if another thread was first, our id stays unused */
				return id;
		}
		if (unlikely(length >= CHAIN_FULL)) {
			chain = &PROC->bucket[wire_node_hash(parent, pc) & (WIRE_BUCKETS - 1)];
			head = load(chain);
			id = bucket_find(head, hash, parent, pc);
			if (id)
				return id;
		}
		if (!mine)
			mine = node_new(parent, pc);
		if (!mine)
			/* full: the stack ends here; the supervisor says so */
			return parent;
		node[mine].next = head;
		if (__atomic_compare_exchange_n(chain, &head, wire_link(mine, hash), false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return mine;
	}
}

static inline uint32_t node_child(uint32_t parent, uint64_t pc)
{
	uint32_t hash = pc_hash(pc), id = wire_link_to(load(kid_of(parent, hash)), hash);
	const struct wire_node *n = &NODES[id];

	if (likely(id - 1 < WIRE_NODES - 1)) {
		/* a stack's new nodes were made in a row: its next ones are likely to be there */
		__builtin_prefetch(n + 2);
		if (likely(n->pc == pc))
			return id;
	}
	return node_insert(parent, pc);
}

/* ---- stacks by their paths ----------------------------------------------- */

/*
 * A stack that is known is found by the hash of its pcs, in one line of a table: where stacks are
 * many the nodes on the way to it, a cache miss each, are not touched. (For 65536 random stacks
 * that halves what is added to a pair, for 4096 it takes a tenth off.) Only where the table does not
 * have it its nodes are looked for, from the next frame further out whose node is known.
 */
static inline uint64_t *path_line(uint64_t path)
{
	uint64_t line = path >> (load(&PROC->path_shift) & 63);

	return PROC->path[line & ((1u << WIRE_PATH_BITS) - 1)];
}

/* The node of the stack whose path is PATH; 0: it is not known. */
static inline uint32_t path_find(uint64_t path)
{
	const uint64_t *line = path_line(path);
	uint64_t tag = wire_path_tag(path);

	for (uint32_t i = 0; i < WIRE_PATH_WAYS; i++) {
		uint64_t id = load(&line[i]) ^ tag;

		if (id - 1 < WIRE_NODES - 1)
			return (uint32_t)id;
	}
	return 0;
}

static void path_add(uint64_t path, uint32_t node)
{
	uint32_t i;
	uint64_t *line;

	store(&PROC->path_shift, wire_path_shift(load(&PROC->nodes) - PROC->root));
	line = path_line(path);
	for (i = 0; i < WIRE_PATH_WAYS && load(&line[i]); i++)
		;
	store(&line[i < WIRE_PATH_WAYS ? i : node % WIRE_PATH_WAYS], wire_path_tag(path) | node);
}

/* The node of B's frame I, made of the next one further out whose node is known. */
static noinline uint32_t node_of(struct wire_big *b, uint32_t i)
{
	uint32_t from = i, node;

	while (from && !b->last[from].node)
		from--;
	node = b->last[from].node;
	while (from < i) {
		node = node_child(node, b->last[++from].pc);
		b->last[from].node = node;
	}
	path_add(b->last[i].path, node);
	return node;
}

static inline uint32_t node_at(struct wire_big *b, uint32_t i)
{
	struct wire_frame *f = &b->last[i];

	if (!f->node)
		f->node = path_find(f->path);
	return likely(f->node) ? f->node : node_of(b, i);
}

/* ---- the last stack ------------------------------------------------------ */

/* How many of the first FRAMES remembered frames still hold. */
static inline uint32_t remembered_valid(const struct wire_thread *t, const struct wire_big *b,
					uint32_t frames)
{
	const struct wire_check *c = b->check;
	uint32_t n = frames ? b->last[frames - 1].checks : 0, i;
	uint64_t differs = 0;

	if (unlikely(!t->depth)) /* this walk has dropped a range with words of it */
		return 0;
	for (i = 0; i + 4 <= n; i += 4)
		differs |= (peek(c[i].slot) ^ c[i].value) | (peek(c[i + 1].slot) ^ c[i + 1].value) |
			   (peek(c[i + 2].slot) ^ c[i + 2].value) |
			   (peek(c[i + 3].slot) ^ c[i + 3].value);
	for (; i < n; i++)
		differs |= peek(c[i].slot) ^ c[i].value;
	if (likely(!differs))
		return frames;
	for (i = 0; i < n && peek(c[i].slot) == c[i].value; i++)
		;
	while (frames && b->last[frames - 1].checks > i)
		frames--;
	return frames;
}

/*
 * A walk of COUNT frames has ended at C: the words that it read last, which made it end, are the
 * first checks. Returns how many.
 */
static uint32_t remember_end(struct wire_big *b, uint32_t count, const struct cursor *c)
{
	uint32_t checks = 0;

	if (count && c->slot != b->fresh[count - 1].slot)
		b->check[checks++] = (struct wire_check){ c->slot, c->pc & ~WIRE_PC_EXACT };
	if (c->rsp_slot)
		b->check[checks++] = (struct wire_check){ c->rsp_slot, c->rsp_word };
	return checks;
}

/*
 * Appends the words by which a walk has come to the frame of SLOT and PC to the CHECKS checks: a
 * match of a frame further in relies on them. Returns how many checks there are then.
 */
static inline uint32_t remember_words(struct wire_big *b, uint32_t checks, uint64_t slot,
				      uint64_t pc, uint64_t rsp_slot, uint64_t rsp_word,
				      uint64_t rbp_slot, uint64_t rbp)
{
	b->check[checks].slot = slot;
	b->check[checks++].value = pc & ~WIRE_PC_EXACT;
	if (rsp_slot) {
		b->check[checks].slot = rsp_slot;
		b->check[checks++].value = rsp_word;
	}
	if (rbp_slot) {
		b->check[checks].slot = rbp_slot;
		b->check[checks++].value = rbp;
	}
	return checks;
}

/*
 * Appends the COUNT fresh frames (innermost first) to the KEPT remembered ones, and finds their
 * nodes. BASE: the node to begin from if none is kept. C: where the walk stands. Returns the
 * stack's node.
 */
static uint32_t remember(struct wire_thread *t, struct wire_big *b, uint32_t kept, uint32_t count,
			 uint32_t base, const struct cursor *c)
{
	uint64_t path = base;
	uint32_t checks;
	bool outer_needs = false;

	if (kept) {
		struct wire_frame *l = &b->last[kept - 1];

		path = l->path;
		outer_needs = l->needs & NEEDS_RBP;
		checks = l->checks + l->own_checks;
		/* it was perhaps reached from another function, which saved rbp elsewhere */
		if (count && (l->own_checks > 1 || c->rsp_slot || (c->rbp_slot && outer_needs))) {
			checks = remember_words(b, l->checks, l->slot, l->pc, c->rsp_slot,
						c->rsp_word, outer_needs ? c->rbp_slot : 0, l->rbp);
			l->own_checks = (uint8_t)(checks - l->checks);
		}
	} else {
		checks = remember_end(b, count, c);
	}
	while (count) {
		struct wire_frame *f = &b->fresh[--count];
		struct wire_frame *to = &b->last[kept++];

		path = wire_path_on(path, f->pc);
		to->slot = f->slot;
		to->pc = f->pc;
		to->rbp = f->rbp;
		to->node = kept > 1 ? 0 : node_child(base, f->pc);
		to->path = path;
		outer_needs = (f->rbp_use & RBP_USED) || ((f->rbp_use & RBP_SAME) && outer_needs);
		to->needs = outer_needs ? NEEDS_RBP : 0;
		if (unlikely(f->pc & WIRE_PC_EXACT)) {
			to->needs |= NEEDS_RSP;
			to->rsp_word = f->rsp_word;
		}
		/*
		 * a match of this frame relies on the words of the frames further out; a match
		 * further in, on this frame's own, too
		 */
		to->checks = (uint16_t)checks;
		checks = remember_words(b, checks, f->slot, f->pc, f->rsp_slot, f->rsp_word,
					outer_needs ? f->rbp_slot : 0, f->rbp);
		to->own_checks = (uint8_t)(checks - to->checks);
	}
	/* 0: some of its words lie in no range any more */
	t->depth = unlikely(c->stacks >= WIRE_RANGES) ? 0 : kept;
	return node_at(b, kept - 1);
}

/* ---- the walk ------------------------------------------------------------ */

static noinline uint32_t walk_all(struct wire_thread *t, const struct entry *e);
static noinline uint32_t walk_once(struct wire_thread *t, struct wire_range *r,
				   const struct entry *e);

/* Whether C's registers are those of frame L, as far as they decide what lies further out. */
static inline bool same_registers(const struct wire_frame *l, const struct cursor *c)
{
	if (!l->needs)
		return true;
	return (!(l->needs & NEEDS_RBP) || l->rbp == c->reg[WIRE_RBP]) &&
	       (likely(!(l->needs & NEEDS_RSP)) || l->rsp_word == c->rsp);
}

static noinline uint32_t walk_out(struct wire_thread *t, struct wire_big *b, struct wire_range *r,
				  const struct entry *e)
{
	struct cursor c;
	uint32_t depth = PROC->depth, count = 0, k, base;
	enum step s = STEP_ON;

	k = t->depth;
	cursor_begin(&c, t, e);
	for (;;) {
		struct wire_frame *f;

		while (k && b->last[k - 1].slot < c.slot)
			k--;
		if (k && b->last[k - 1].slot == c.slot && b->last[k - 1].pc == c.pc &&
		    same_registers(&b->last[k - 1], &c)) {
			uint32_t valid = remembered_valid(t, b, k);

			if (likely(valid == k))
				break;
			k = valid;
		}
		if (unlikely(count >= depth || count >= WIRE_DEPTH)) {
			s = STEP_ON;
			goto cut;
		}
		f = &b->fresh[count++];
		f->slot = c.slot;
		f->pc = c.pc;
		f->rbp = c.reg[WIRE_RBP];
		f->rbp_slot = c.rbp_slot;
		f->rsp_slot = c.rsp_slot;
		f->rsp_word = c.rsp_word;
		s = step_either(&c, r);
		f->rbp_use = c.rbp_use;
		if (unlikely(s != STEP_ON)) {
			if (s == STEP_NEEDS_ALL)
				return walk_all(t, e);
			k = 0;
			break;
		}
	}
	if (unlikely(k + count > depth)) {
		s = STEP_ON;
		goto cut;
	}
	base = PROC->root;
	if (k == 0) {
		t->base_truncated = s == STEP_LOST;
		if (unlikely(s == STEP_LOST))
			base = node_child(base, WIRE_PC_TRUNCATED);
	}
	if (unlikely(t->base_truncated))
		t->truncated++;
	return remember(t, b, k, count, base, &c);
cut:
	/* too deep: the innermost `depth` frames under a [truncated] of their own */
	while (count < depth && k) {
		const struct wire_frame *l = &b->last[--k];

		b->fresh[count++].pc = l->pc;
	}
	base = node_child(PROC->root, WIRE_PC_DEEP);
	while (count)
		base = node_child(base, b->fresh[--count].pc);
	t->depth = 0;
	t->truncated++;
	t->deep++;
	return base;
}

/* walk() where no whole stack was found. R: the range of E. */
static noinline uint32_t walk_on(struct wire_thread *t, struct wire_range *r, const struct entry *e)
{
	struct wire_big *b = big_of(t);
	uint32_t node;

	if (unlikely(!b))
		return walk_once(t, r, e);
	if (unlikely(t->flush != load(&PROC->flush))) {
		t->flush = load(&PROC->flush);
		t->depth = 0;
		whole_clear(b);
	}
	node = walk_out(t, b, r, e);
	whole_seen(t, b, r, e, node);
	return node;
}

uint32_t walk(struct wire_thread *t, const struct entry *e)
{
	struct wire_big *b = big_of(t); /* first: see big.c */
	struct wire_range *r = range_of(t, (uint64_t)e);
	uint32_t node;

	if (unlikely(t->flush != load(&PROC->flush)))
		return walk_on(t, r, e);
	node = whole_find(t, b, r, e);
	return likely(node) ? node : walk_on(t, r, e);
}

/*
 * A walk that remembers nothing; with every callee-saved register if ALL. R: the ranges of T, or
 * one alone. PC: room for DEPTH of them. Returns the node; 0 with *END STEP_NEEDS_ALL.
 */
static inline __attribute__((always_inline)) uint32_t walk_full(struct wire_thread *t,
								struct wire_range *r,
								const struct entry *e, bool all,
								uint64_t *pc, uint32_t depth,
								enum step *end)
{
	struct cursor c;
	uint32_t count = 0, node;
	enum step s = STEP_ON;

	cursor_begin_all(&c, t, e);
	while (s == STEP_ON && count < depth) {
		pc[count++] = c.pc;
		s = all ? step(&c, r, true) : step_either(&c, r);
	}
	*end = s;
	if (s == STEP_NEEDS_ALL)
		return 0;
	node = PROC->root;
	if (s != STEP_END)
		node = node_child(node, s == STEP_ON ? WIRE_PC_DEEP : WIRE_PC_TRUNCATED);
	while (count)
		node = node_child(node, pc[--count]);
	return node;
}

/* Counts how a walk of T's has ended: at the outermost frame, or before it. */
static inline void count_cut(struct wire_thread *t, enum step end)
{
	t->truncated += end != STEP_END;
	t->deep += end == STEP_ON;
}

static uint32_t walk_depth(void) { return PROC->depth < WIRE_DEPTH ? PROC->depth : WIRE_DEPTH; }

static noinline uint32_t walk_all(struct wire_thread *t, const struct entry *e)
{
	enum step end;
	uint32_t node = walk_full(t, range_of(t, (uint64_t)e), e, true, t->pc, walk_depth(), &end);

	t->depth = 0;
	count_cut(t, end);
	return node;
}

/* T has no room to remember stacks (big.c). */
static noinline uint32_t walk_once(struct wire_thread *t, struct wire_range *r,
				   const struct entry *e)
{
	enum step end;
	uint32_t node = walk_full(t, r, e, false, t->pc, walk_depth(), &end);

	if (unlikely(end == STEP_NEEDS_ALL))
		return walk_all(t, e);
	count_cut(t, end);
	return node;
}

#define PLAIN_DEPTH 64

noinline uint32_t walk_plain(const struct entry *e)
{
	uint64_t pc[PLAIN_DEPTH];
	struct wire_range r = { (uint64_t)e & ~4095ull, ((uint64_t)e & ~4095ull) + 4096 };
	enum step end;

	return walk_full(NULL, &r, e, true, pc,
			 PROC->depth < PLAIN_DEPTH ? PROC->depth : PLAIN_DEPTH, &end);
}

static bool in_blob(uint64_t pc)
{
	return (pc & WIRE_PC_MASK) - (uint64_t)blob_start < AGENT_JOURNAL - AGENT_BLOB;
}

/*
 * Whether SLOT is a hook's entry: at one of these places below it lies a return address of the
 * trampoline's own, that of the hook's C function or, in entry_gives, of the real function. The
 * layouts are entry.S's.
 */
static bool entry_below(uint64_t slot)
{
	return page_readable((slot - 16) & ~4095ull) && page_readable((slot - 112) & ~4095ull) &&
	       (in_blob(peek(slot - 16)) || in_blob(peek(slot - 64)) || in_blob(peek(slot - 96)) ||
		in_blob(peek(slot - 112)));
}

#define NESTING_DEPTH (1u << 16) /* of a recursion inside a hook: some milliseconds */

/*
 * A hook was entered while this thread's mark says that it is in one already. Walk out to the
 * marked frame. NESTED: it was reached directly, so the real function has called another allocator
 * function. SIGNALLED: it was reached past a signal frame, so a handler has interrupted us. STALE:
 * it was not reached, so it was left by a longjmp or an unwind. The slot of a frame that was left
 * may belong to another frame by now, often to the very next call: so what was called from there
 * must be ours.
 */
noinline enum nesting nesting(const struct wire_thread *t, const struct entry *e)
{
	struct wire_range r = { (uint64_t)e & ~4095ull, ((uint64_t)e & ~4095ull) + 4096 };
	uint64_t marked = t->mark & ~7ull, inner = 0, from = (uint64_t)e;
	bool signalled = false;
	enum step s = STEP_ON;
	struct cursor c;

	cursor_begin_all(&c, NULL, e);
	for (uint32_t i = 0; i < NESTING_DEPTH; i++) {
		if (c.slot == marked && in_blob(inner))
			return signalled ? SIGNALLED : NESTED;
		if (!signalled && c.slot >= marked && marked > (uint64_t)e)
			return STALE;
		inner = c.pc;
		s = step(&c, &r, true);
		if (s != STEP_ON)
			break;
		if (c.pc & WIRE_PC_EXACT) {
			signalled = true;
			from = c.rsp;
		}
	}
	/*
	 * Where unwind information is missing or wrong, the frame may still be above on this stack:
	 * close, unless the kernel's signal frame with all its registers is between. A handler may
	 * have interrupted any instruction, also one for which a made-up rule finds an end.
	 */
	if ((s != STEP_LOST && !signalled) || marked <= from || !entry_below(marked))
		return STALE;
	if (signalled)
		return SIGNALLED;
	return marked - (uint64_t)e < 4096 ? NESTED : STALE;
}
