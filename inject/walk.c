// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * walk.c - the call stack at a hook, as the id of a node in the image's tree of stacks.
 *
 * A frame is where its pc was found (the slot), the pc, and the registers there. The caller's frame follows from the rule of that pc
 * (wire_rule, made by the supervisor from .eh_frame, found through a direct-mapped cache, else by search in the module's table).
 *
 * Each thread remembers its last stack, outermost frame first, and with it `check`: every memory word that the way out depended on, with its
 * value then: the return addresses, and those saved rbp that an outer frame's rule really needs. A walk ends at the first frame that is
 * remembered (same slot, same pc, same rbp where it matters) provided all words checked below it still hold: the same start and the same memory lead to
 * the same continuation, so this is exact, not a guess. What the memory costs is one compare per word; what it saves is a rule and a
 * table look-up per frame.
 *
 * A word is read only if its page is known to be mapped: stack pages are proved readable once, by a system call that fails with EFAULT
 * and has no effect otherwise, and kept as ranges per thread; whoever unmaps or protects memory makes the threads concerned
 * forget (stacks_forget). Hence wrong unwind information ends in [truncated], never in a fault.
 *
 * Rules that need a register other than rsp and rbp are rare (hand-written assembly): the walk then starts again with all six
 * callee-saved registers tracked, and nothing is remembered of it.
 */
#include "blob.h"

enum { RBP_SAME = 1, RBP_USED = 2 };
enum { RED_ZONE = 128 };		/* what lies below rsp and is still the function's */

struct cursor {
	uint64_t slot;			/* where pc was found */
	uint64_t pc;			/* WIRE_PC_EXACT if interrupted */
	uint64_t rsp;			/* in that frame, at its call */
	uint64_t reg[WIRE_REGS];
	uint64_t rbp_slot, rsp_slot;	/* what the step that led here loaded them from; 0: nothing */
	uint64_t rsp_word;		/* what was in rsp_slot */
	uint8_t rbp_use;		/* what the step away from here did with rbp */
};

enum step { STEP_ON, STEP_END, STEP_LOST, STEP_NEEDS_ALL };

/* ---- readable memory ---------------------------------------------------------------------------------------------------------- */

/* rt_sigprocmask copies the new set in before it looks at `how`: EFAULT if it cannot, EINVAL if it can. Nothing changes. */
static bool page_readable(uint64_t addr)
{
	return own_call(__NR_rt_sigprocmask, -1, (long)addr, 0, 8) == -22 /* EINVAL */;
}

/* Extends the range that holds (or ends below) ADDR page by page; a far-off ADDR begins a range of its own. */
static noinline bool range_extend(struct wire_range *r, uint64_t addr)
{
	uint64_t page = addr & ~4095ull;

	if (r->hi && addr >= r->hi && addr - r->hi < 8u << 20) {
		while (r->hi <= page) {
			if (!page_readable(r->hi))
				return false;
			r->hi += 4096;
		}
		return true;
	}
	if (!page_readable(page))
		return false;
	*r = (struct wire_range){ page, page + 4096 };
	return true;
}

/* The range of the stack that RSP is on. The page of rsp itself is in use and needs no proof. */
static noinline struct wire_range *range_search(struct wire_thread *t, uint64_t rsp)
{
	uint64_t page = rsp & ~4095ull;
	struct wire_range *r = t->range;
	uint32_t stale = unlikely(load(&t->stale)) ? __atomic_exchange_n(&t->stale, 0, __ATOMIC_SEQ_CST) : 0;

	if (stale == WIRE_STALE_SHOW)
		ask_loudly(t, &(struct question){ ASK_FRAMES, { 0 } });
	else if (unlikely(stale)) {
		for (int i = 0; i < WIRE_RANGES; i++)
			r[i] = (struct wire_range){ 0, 0 };
		t->depth = 0;
	}
	if (rsp - r->lo < r->hi - r->lo)
		return r;
	for (int i = 1; i < WIRE_RANGES; i++)
		if (rsp - r[i].lo < r[i].hi - r[i].lo) {
			struct wire_range was = r[0];

			r[0] = r[i];
			r[i] = was;
			return r;
		}
	/* a stack that has grown by a few pages: prove the pages between, then it is one range */
	if (rsp < r->lo && r->lo - rsp < 64 * 4096) {
		uint64_t p = page + 4096;

		while (p < r->lo && page_readable(p))
			p += 4096;
		if (p == r->lo) {
			r->lo = page;
			return r;
		}
	}
	for (int i = WIRE_RANGES - 1; i > 0; i--)
		r[i] = r[i - 1];
	*r = (struct wire_range){ page, page + 4096 };
	return r;
}

static inline struct wire_range *range_of(struct wire_thread *t, uint64_t rsp)
{
	struct wire_range *r = t->range;

	return likely(rsp - r->lo < r->hi - r->lo && !load(&t->stale)) ? r : range_search(t, rsp);
}

static inline bool readable(struct wire_range *r, uint64_t addr)
{
	if (unlikely(addr & 7))
		return false;
	return likely(addr - r->lo < r->hi - r->lo) || range_extend(r, addr);
}

void stacks_forget(uint64_t lo, uint64_t hi)
{
	uint32_t high = load(&PROC->threads_high);

	for (uint32_t i = 0; i < high && i < WIRE_THREADS; i++) {
		struct wire_thread *t = &PROC->thread[i];

		if (load(&t->fs) <= 1)
			continue;
		for (int k = 0; k < WIRE_RANGES; k++)
			if (t->range[k].lo < hi && lo < t->range[k].hi)
				__atomic_store_n(&t->stale, 1, __ATOMIC_SEQ_CST);
	}
}

/* ---- rules --------------------------------------------------------------------------------------------------------------------- */

static const struct wire_module *module_of(uint64_t pc)
{
	const struct wire_modules *m = &PROC->modules[load(&PROC->modules_now) & 1];
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

static noinline uint32_t rule_search(uint64_t pc)
{
	const struct wire_module *m = module_of(pc);
	const uint8_t *pool = IMAGE->pool;
	const uint32_t *offs, *index;
	uint32_t off, lo, hi, rule = 0;

	if (m && m->nrows) {
		off = (uint32_t)(pc - m->start);
		offs = (const uint32_t *)(pool + m->rows);
		index = (const uint32_t *)(pool + m->index);
		lo = index[off >> 10];
		hi = index[(off >> 10) + 1] + 1;
		if (hi > m->nrows)
			hi = m->nrows;
		if (offs[lo] <= off) {
			while (hi - lo > 1) {
				uint32_t mid = (lo + hi) / 2;

				if (offs[mid] <= off)
					lo = mid;
				else
					hi = mid;
			}
			rule = ((const uint16_t *)(pool + m->rules))[lo];
		}
	}
	__atomic_store_n(&IMAGE->cache[wire_cache_slot(pc)], pc << 16 | rule, __ATOMIC_RELAXED);
	return rule;
}

static inline const struct wire_rule *rule_at(uint64_t pc)
{
	uint64_t c = __atomic_load_n(&IMAGE->cache[wire_cache_slot(pc)], __ATOMIC_RELAXED);

	return &IMAGE->rule[likely(c >> 16 == pc) ? (uint32_t)(c & 0xffff) : rule_search(pc)];
}

/* ---- one step outwards --------------------------------------------------------------------------------------------------------- */

/* The kernel's rt_sigframe past its return address: ucontext, whose registers stand at these offsets. */
enum { UC_REGS = 40, UC_R12 = 72, UC_R13 = 80, UC_R14 = 88, UC_R15 = 96, UC_RBP = 120, UC_RBX = 128, UC_RSP = 160, UC_RIP = 168 };

static inline uint64_t peek(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static noinline enum step step_signal(struct cursor *c, struct wire_range *r)
{
	uint64_t uc = c->rsp;

	if (!readable(r, uc) || !readable(r, uc + UC_RIP))
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
	if (c->rsp - r->lo >= r->hi - r->lo) {	/* the handler ran on a stack of its own */
		if (!page_readable(c->rsp & ~4095ull))
			return STEP_LOST;
		*r = (struct wire_range){ c->rsp & ~4095ull, (c->rsp & ~4095ull) + 4096 };
	}
	c->pc = (peek(uc + UC_RIP) & WIRE_PC_MASK) | WIRE_PC_EXACT;
	return STEP_ON;
}

/* The CFA is in a word of memory: one more that the way out depends on. */
static inline bool load_cfa(struct cursor *c, struct wire_range *r, uint64_t at, uint64_t *cfa)
{
	if (at < c->rsp - RED_ZONE || !readable(r, at))	/* libcrypto keeps it just below rsp */
		return false;
	c->rsp_slot = at;
	*cfa = c->rsp_word = peek(at);
	return true;
}

/* The canonical frame address, by the rules that are less common. Registers but rsp and rbp are known only if ALL. */
static noinline enum step cfa_uncommon(struct cursor *c, struct wire_range *r, const struct wire_rule *u, bool all, uint64_t *cfa)
{
	uint64_t off = (uint64_t)(int64_t)u->cfa_off, deref = (uint64_t)(int64_t)u->deref;

	switch (u->cfa) {
	case CFA_RBP_DEREF:
		c->rbp_use |= RBP_USED;
		if (!load_cfa(c, r, c->reg[WIRE_RBP] + off, cfa))
			return STEP_LOST;
		*cfa += deref;
		return STEP_ON;
	case CFA_RSP_DEREF:
		if (!load_cfa(c, r, c->rsp + off, cfa))
			return STEP_LOST;
		*cfa += deref;
		return STEP_ON;
	case CFA_PLT:
		*cfa = c->rsp + off + ((c->pc & 15) >= u->reg ? 8 : 0);
		return STEP_ON;
	case CFA_SCRATCH:		/* still in the signal frame that we came from: the pc's slot is in it */
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
	case CFA_END:
		return STEP_END;
	default:
		return STEP_LOST;
	}
}

/* ALL: every callee-saved register of the cursor is known. Otherwise only rsp and rbp are. */
static inline __attribute__((always_inline)) enum step step(struct cursor *c, struct wire_range *r, bool all)
{
	const struct wire_rule *u = rule_at(c->pc & WIRE_PC_EXACT ? c->pc & WIRE_PC_MASK : c->pc - 1);
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
	if (cfa - 8 < c->rsp || !readable(r, cfa - 8))
		return STEP_LOST;
	if (off != RULE_SAME) {
		at = (u->from_rbp & 1 << WIRE_RBP ? rbp : cfa) + (uint64_t)(int64_t)(off * 8);
		if (unlikely(off == RULE_LOST || at - r->lo >= r->hi - r->lo))
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
			at = (u->from_rbp & 1 << i ? rbp : cfa) + (uint64_t)(int64_t)(u->off[i] * 8);
			c->reg[i] = u->off[i] == RULE_LOST || at - r->lo >= r->hi - r->lo ? 0 : peek(at);
		}
	c->slot = cfa - 8;
	c->rsp = cfa;
	c->pc = peek(cfa - 8);
	if (unlikely(c->pc & ~WIRE_PC_MASK))
		return STEP_LOST;
	return c->pc ? STEP_ON : STEP_END;
}

static inline void cursor_begin(struct cursor *c, const struct entry *e)
{
	c->slot = (uint64_t)&e->ra;
	c->pc = e->ra & WIRE_PC_MASK;
	c->rsp = c->slot + 8;
	c->reg[WIRE_RBP] = e->reg[WIRE_RBP];
	c->rbp_slot = c->rsp_slot = 0;
}

static void cursor_begin_all(struct cursor *c, const struct entry *e)
{
	cursor_begin(c, e);
	for (int i = WIRE_RBX; i < WIRE_REGS; i++)
		c->reg[i] = e->reg[i];
}

/* ---- the tree of stacks -------------------------------------------------------------------------------------------------------- */

/*
 * A node's children hang in three short chains whose heads are in the node itself: going from a stack to one that branches off it costs the
 * lines of the nodes on the way and no other. A node with very many children (a hub: an interpreter's loop) has the later ones in a hash
 * table. A chain only grows, and whoever adds to it has just seen that it is not full, so a child is never in both.
 */
#define CHAIN_FULL 6

static uint32_t bucket_find(uint32_t id, uint32_t parent, uint64_t pc)
{
	const struct wire_node *node = IMAGE->node;

	for (; id; id = node[id].next)
		if (node[id].pc == pc && node[id].parent == parent)
			return id;
	return 0;
}

static inline uint32_t node_new(uint32_t parent, uint64_t pc)
{
	struct wire_image *image = IMAGE;
	uint32_t id;

	if (load(&image->nodes) >= WIRE_NODES)
		return 0;
	id = __atomic_fetch_add(&image->nodes, 1, __ATOMIC_ACQ_REL);
	if (id >= WIRE_NODES)
		return 0;
	image->node[id].pc = pc;
	image->node[id].parent = parent;
	return id;
}

static noinline uint32_t node_insert(uint32_t parent, uint64_t pc)
{
	struct wire_node *node = IMAGE->node;
	uint32_t *kid = &node[parent].kid[(uint64_t)((uint32_t)pc * 0x9e3779b1u) * WIRE_KIDS >> 32];
	uint32_t mine = 0;

	for (;;) {
		uint32_t *chain = kid, head = load(chain), id, length = 0;

		for (id = head; id; id = node[id].next, length++)
			if (node[id].pc == pc)
				return id;	/* if another thread was first, our id stays unused */
		if (unlikely(length >= CHAIN_FULL)) {
			chain = &IMAGE->bucket[wire_node_hash(parent, pc) & (WIRE_BUCKETS - 1)];
			head = load(chain);
			id = bucket_find(head, parent, pc);
			if (id)
				return id;
		}
		if (!mine)
			mine = node_new(parent, pc);
		if (!mine)
			return parent;		/* full: the stack ends here; the supervisor says so */
		node[mine].next = head;
		if (__atomic_compare_exchange_n(chain, &head, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return mine;
	}
}

static inline uint32_t node_child(uint32_t parent, uint64_t pc)
{
	struct wire_node *node = IMAGE->node;
	uint32_t memo = __atomic_load_n(&node[parent].memo, __ATOMIC_RELAXED);

	if (likely(memo && node[memo].pc == pc && node[memo].parent == parent))
		return memo;
	memo = node_insert(parent, pc);
	if (memo != parent)
		__atomic_store_n(&node[parent].memo, memo, __ATOMIC_RELAXED);
	return memo;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------------------ */

/* How many of the first FRAMES remembered frames still hold. */
static inline uint32_t remembered_valid(const struct wire_thread *t, uint32_t frames)
{
	const struct wire_check *c = t->check;
	uint32_t n = frames ? t->last[frames - 1].checks : 0, i;
	uint64_t differs = 0;

	for (i = 0; i + 4 <= n; i += 4)
		differs |= (peek(c[i].slot) ^ c[i].value) | (peek(c[i + 1].slot) ^ c[i + 1].value) |
			   (peek(c[i + 2].slot) ^ c[i + 2].value) | (peek(c[i + 3].slot) ^ c[i + 3].value);
	for (; i < n; i++)
		differs |= peek(c[i].slot) ^ c[i].value;
	if (likely(!differs))
		return frames;
	for (i = 0; i < n && peek(c[i].slot) == c[i].value; i++)
		;
	while (frames && t->last[frames - 1].checks > i)
		frames--;
	return frames;
}

/* Appends the COUNT fresh frames (innermost first) to the KEPT remembered ones, and gives them their nodes. */
static uint32_t remember(struct wire_thread *t, uint32_t kept, uint32_t count, uint32_t base)
{
	uint32_t node = kept ? t->last[kept - 1].node : base;
	uint32_t checks = kept ? t->last[kept - 1].checks + t->last[kept - 1].own_checks : 0;
	bool outer_needs = kept ? t->last[kept - 1].needs_rbp : false;

	while (count) {
		struct wire_frame *f = &t->fresh[--count];
		struct wire_frame *to = &t->last[kept++];

		node = node_child(node, f->pc);
		to->slot = f->slot;
		to->pc = f->pc;
		to->rbp = f->rbp;
		to->node = node;
		to->needs_rbp = (f->rbp_use & RBP_USED) || ((f->rbp_use & RBP_SAME) && outer_needs);
		/* a match of this frame relies on the words of the frames outside of it; a match further in, on its own too */
		to->checks = (uint16_t)checks;
		t->check[checks].slot = f->slot;
		t->check[checks++].value = f->pc & ~WIRE_PC_EXACT;
		if (f->rsp_slot) {
			t->check[checks].slot = f->rsp_slot;
			t->check[checks++].value = f->rsp_word;
		}
		if (f->rbp_slot && to->needs_rbp) {
			t->check[checks].slot = f->rbp_slot;
			t->check[checks++].value = f->rbp;
		}
		to->own_checks = (uint8_t)(checks - to->checks);
		outer_needs = to->needs_rbp;
	}
	t->depth = kept;
	return node;
}

static noinline uint32_t walk_all(struct wire_thread *t, const struct entry *e);

uint32_t walk(struct wire_thread *t, const struct entry *e)
{
	struct cursor c;
	struct wire_range *r;
	uint32_t depth = PROC->depth, count = 0, k, base;
	enum step s = STEP_ON;

	r = range_of(t, (uint64_t)e);
	if (unlikely(t->flush != load(&PROC->flush))) {
		t->flush = load(&PROC->flush);
		t->depth = 0;
	}
	k = t->depth;
	cursor_begin(&c, e);
	for (;;) {
		struct wire_frame *f;

		while (k && t->last[k - 1].slot < c.slot)
			k--;
		if (k && t->last[k - 1].slot == c.slot && t->last[k - 1].pc == c.pc &&
		    (!t->last[k - 1].needs_rbp || t->last[k - 1].rbp == c.reg[WIRE_RBP])) {
			uint32_t valid = remembered_valid(t, k);

			if (likely(valid == k))
				break;
			k = valid;
		}
		if (unlikely(count >= depth || count >= WIRE_DEPTH)) {
			s = STEP_ON;
			goto cut;
		}
		f = &t->fresh[count++];
		f->slot = c.slot;
		f->pc = c.pc;
		f->rbp = c.reg[WIRE_RBP];
		f->rbp_slot = c.rbp_slot;
		f->rsp_slot = c.rsp_slot;
		f->rsp_word = c.rsp_word;
		s = step(&c, r, false);
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
	return remember(t, k, count, base);
cut:
	/* too deep: the innermost `depth` frames under a [truncated] of their own */
	while (count < depth && k) {
		const struct wire_frame *l = &t->last[--k];

		t->fresh[count++].pc = l->pc;
	}
	base = node_child(PROC->root, WIRE_PC_DEEP);
	while (count)
		base = node_child(base, t->fresh[--count].pc);
	t->depth = 0;
	return base;
}

/* With every register, remembering nothing. PC: room for DEPTH of them. Returns the node. */
static uint32_t walk_full(struct wire_range *r, const struct entry *e, struct wire_frame *frame, uint64_t *pc, uint32_t depth, enum step *end)
{
	struct cursor c;
	uint32_t count = 0, node;
	enum step s = STEP_ON;

	cursor_begin_all(&c, e);
	while (s == STEP_ON && count < depth) {
		if (frame)
			frame[count++].pc = c.pc;
		else
			pc[count++] = c.pc;
		s = step(&c, r, true);
	}
	node = PROC->root;
	if (s != STEP_END)
		node = node_child(node, s == STEP_ON ? WIRE_PC_DEEP : WIRE_PC_TRUNCATED);
	while (count) {
		count--;
		node = node_child(node, frame ? frame[count].pc : pc[count]);
	}
	*end = s;
	return node;
}

static noinline uint32_t walk_all(struct wire_thread *t, const struct entry *e)
{
	uint32_t depth = PROC->depth < WIRE_DEPTH ? PROC->depth : WIRE_DEPTH;
	enum step end;
	uint32_t node = walk_full(range_of(t, (uint64_t)e), e, t->fresh, NULL, depth, &end);

	t->depth = 0;
	if (end == STEP_LOST)
		t->truncated++;
	return node;
}

#define PLAIN_DEPTH 64

noinline uint32_t walk_plain(const struct entry *e)
{
	uint64_t pc[PLAIN_DEPTH];
	struct wire_range r = { (uint64_t)e & ~4095ull, ((uint64_t)e & ~4095ull) + 4096 };
	enum step end;

	return walk_full(&r, e, NULL, pc, PROC->depth < PLAIN_DEPTH ? PROC->depth : PLAIN_DEPTH, &end);
}

/*
 * A hook was entered while this thread's mark says that it is in one already. Walk out to the marked frame: straight there means that the
 * real function called another allocator function; past a signal frame, that a handler interrupted us; never there, that the
 * marked frame was left by a longjmp or an unwind. The slot of a frame that was left may belong to another one by now, often to the
 * very next call: so what was called from there must be ours.
 */
static bool in_blob(uint64_t pc)
{
	return (pc & WIRE_PC_MASK) - (uint64_t)blob_start < HOME_BEACON - HOME_BLOB;
}

/* Below the return address of a hook's entry lies the one of its C function: see entry.S for the layouts; in its short way through malloc the real one's. */
static bool entry_below(uint64_t slot)
{
	return in_blob(peek(slot - 16)) || in_blob(peek(slot - 64)) || in_blob(peek(slot - 96)) || in_blob(peek(slot - 112));
}

noinline enum nesting nesting(const struct wire_thread *t, const struct entry *e)
{
	struct wire_range r = { (uint64_t)e & ~4095ull, ((uint64_t)e & ~4095ull) + 4096 };
	uint64_t marked = t->mark & ~7ull, inner = 0;
	bool signalled = false;
	enum step s = STEP_ON;
	struct cursor c;

	cursor_begin_all(&c, e);
	for (int i = 0; i < 256; i++) {
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
			r = (struct wire_range){ c.rsp & ~4095ull, (c.rsp & ~4095ull) + 4096 };
			if (!page_readable(r.lo))
				break;
		}
	}
	/* Not found. Above us on the same stack it may still be there, if the unwind information was no help. */
	return s == STEP_LOST && marked > (uint64_t)e && marked - (uint64_t)e < 4096 && entry_below(marked) ? NESTED : STALE;
}
