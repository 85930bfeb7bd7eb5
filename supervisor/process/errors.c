// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/errors.h"

#include <stdlib.h>
#include <string.h>

#include "base/maps.h"
#include "process/call_site.h"
#include "process/process.h"
#include "symbols/elf.h"

/*
 * What the ledger sees as an error may be one, or an allocation or a release that was not seen. So
 * an error is told only where the latter is excluded:
 *
 *  - In all cases everything that gives and takes blocks in the process is hooked: a libc, or an
 *    allocator whose functions are known; nothing by --hook, nothing that could not be hooked, no
 *    event lost.
 *  - In a child that was forked beside other threads, the block is not from before the fork. The
 *    memory was copied while they ran: it is of one instant, and the ledger of another.
 *  - Double free: the block was seen to be given, to be freed, and to be freed again. Where the heap
 *    was there before us an unseen call may have been under way at first: what is freed in the first
 *    second does not count. Once blocks were freed that were never seen to be given, something is
 *    not seen, and no double free is told any more.
 *  - Within a block: the block was seen to be given, and no address was given twice without a
 *    release. Events of several threads at different addresses come in any order: the release of a
 *    block from before us may come after the allocation of one that has its memory. So where there
 *    are such blocks, the thread must be the one that was given the block, the release must have
 *    come in that thread's own order, and the first second is over.
 *  - Not a block: the address is in a module's data or code, on a stack, or where nothing is mapped.
 *  - Wrong family: both calls tell their family by themselves. An operator does (HOOK_SAYS_*); but
 *    where nothing was said, that may have been lost, or an operator may be hidden in a library, with
 *    a C++ runtime that was linked into it. So there the innermost call must be to malloc or free
 *    itself, and in a function that has a name, and not an operator's; or in a file that imports its
 *    operators, and so has none.
 *
 * The place of a call is known from its stack; some releases have none (inject/hint.h).
 */
#define TRUST_MS 1000u
#define TICK_MS	 10u /* the times of blocks are in these */
/*
 * Mappings or symbols are looked at once in LOOK_MS; LOOKS_MOST looks can be saved up. Each takes
 * half a millisecond, or some for a very large file's symbols.
 */
#define LOOK_MS	   50u
#define LOOKS_MOST 20u

const char *const error_action_names[ERROR_ACTIONS] = { "report", "stop", "off" };

/* ---- whether all is seen ------------------------------------------------- */

/* Whether some module uses functions of the allocator's own besides malloc and free. */
static bool is_used_beside(const struct process *p)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];

		if (!(m->roles & MODULE_ALLOCATOR) &&
		    (elf_imports(m->elf, "mi_") || elf_imports(m->elf, "tc_")))
			return true;
	}
	return false;
}

bool errors_hooks_see_all(const struct process *p)
{
	bool allocator = false;

	for (size_t i = 0; i < p->modules.count; i++) {
		if (p->modules.module[i]->roles & MODULE_UNSEEN)
			return false;
		allocator |= p->modules.module[i]->roles & MODULE_ALLOCATOR;
	}
	for (size_t i = 0; i < p->plant.count; i++)
		if (p->plant.planted[i].requested)
			return false;
	return !allocator || !is_used_beside(p);
}

/* Whether every block of P is given and taken by functions that are hooked. */
static bool trusted(struct process *p)
{
	struct errors *e = &p->errors;
	struct stream_stats s = p->last_stats;

	if (p->stream)
		stream_stats(p->stream, &s);
	if (s.dropped || s.gaps || s.bad)
		return false;
	if (e->trusted_modules != p->modules.count || e->trusted_hooks != p->plant.count) {
		e->trusted = errors_hooks_see_all(p);
		e->trusted_modules = p->modules.count;
		e->trusted_hooks = p->plant.count;
	}
	return e->trusted;
}

/* Whether P's heap has no blocks from before us, nor from a fork beside other threads. */
static bool is_new(const struct process *p)
{
	return p->preattach.state == PREATTACH_NONE && !p->errors.trust_ms && !p->errors.forked_ms;
}

/* is_new(), and each block that was freed was seen to be given. */
static bool complete(const struct process *p) { return is_new(p) && !p->errors.unexplained; }

static bool may_look(struct errors *e, uint64_t ms)
{
	uint64_t more = (ms - e->looks_ms) / LOOK_MS;

	if (!e->looks_ms || more) {
		e->looks = e->looks_ms && more < LOOKS_MOST - e->looks ? e->looks + (unsigned)more
								       : LOOKS_MOST;
		e->looks_ms = ms;
	}
	return e->looks && e->looks--;
}

/* ---- places -------------------------------------------------------------- */

/* The pc of STACK's innermost frame; 0: none. */
static raddr_t leaf_of(const struct process *p, uint32_t stack)
{
	uint64_t pc = 0;

	process_stack_parent(p, stack, &pc);
	return pc & WIRE_PC_EXACT ? 0 : pc & WIRE_PC_MASK;
}

static unsigned roles_at(const struct process *p, raddr_t pc)
{
	const struct module *m = pc ? modules_find(&p->modules, pc, UINT32_MAX) : NULL;

	return m ? m->roles : 0;
}

static bool is_no_operators_name(const char *name)
{
	return strncmp(name, "_Zn", 3) != 0 && strncmp(name, "_Zd", 3) != 0;
}

/*
 * Whether the innermost call of STACK, whose family nobody has said, is not by an operator. If it
 * does not go to the hooked function itself an operator may have come between, which is not on the
 * stack, as operators often end with a jump.
 */
static bool is_no_operator(const struct process *p, uint32_t stack)
{
	raddr_t pc = leaf_of(p, stack), target;
	const struct module *m = pc ? modules_find(&p->modules, pc, UINT32_MAX) : NULL;
	const struct planted *hook;

	if (!m || m->roles & MODULE_CXX)
		return false;
	target = call_site_target(p, pc);
	hook = target ? plant_find(&p->plant, target) : NULL;
	if (!hook || !is_no_operators_name(hook->name))
		return false;
	return (m->roles & MODULE_LIBC && elf_soname(m->elf)) ||
	       (elf_imports(m->elf, "_Zn") && elf_imports(m->elf, "_Zd")) ||
	       call_site_named(m, pc, is_no_operators_name);
}

static const char *in_module(const struct process *p, raddr_t address)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		const struct module *m = p->modules.module[i];
		const struct elf_segment *s;
		size_t n = elf_segments(m->elf, &s);

		/* allocators give away unused parts of their own pages, libcs of all modules' */
		if (m->dead != UINT32_MAX ||
		    m->roles & (MODULE_LIBC | MODULE_LDSO | MODULE_ALLOCATOR))
			continue;
		for (size_t k = 0; k < n; k++)
			if (s[k].type == 1 /* PT_LOAD */ && address - m->bias >= s[k].vaddr &&
			    address - m->bias - s[k].vaddr < s[k].memsz)
				return s[k].flags & 2 /* PF_W */ ? "a variable"
								 : "code or constants";
	}
	return NULL;
}

/* Whether ADDRESS is in M below TID's thread pointer, where libcs put a thread's stack. */
static bool on_own_stack(const struct process *p, const struct map *m, raddr_t address, pid_t tid)
{
	uint32_t high = p->wire ? shared_slots_mapped(&p->shared) : 0;

	for (uint32_t i = 0; i < high; i++) {
		const struct wire_thread *t = &p->wire->thread[i];
		uint64_t fs = __atomic_load_n(&t->fs, __ATOMIC_ACQUIRE);

		if ((pid_t)(t->tid & INT32_MAX) == tid && fs >= m->start && fs < m->end)
			return address < fs;
	}
	return false;
}

/*
 * What is at ADDRESS that no allocator gives; NULL: it may have been given. If there was a heap
 * before us, only places where no block can ever be count.
 */
static const char *place_of(struct process *p, raddr_t address, pid_t tid, uint64_t ms)
{
	const char *place = in_module(p, address);
	const struct map *m;
	struct maps maps;

	if (place)
		return complete(p) ? place : NULL;
	if (!may_look(&p->errors, ms) || maps_read(&maps, p->via) < 0)
		return NULL;
	m = maps_find(&maps, address);
	if (m && !strcmp(m->path, "[stack]"))
		place = "a local variable, on the stack";
	else if (!complete(p))
		place = NULL;
	else if (!m)
		place = "where nothing is mapped";
	else if (!m->path[0] && on_own_stack(p, m, address, tid))
		place = "a local variable, on the stack";
	maps_release(&maps);
	return place;
}

/* ---- judging ------------------------------------------------------------- */

static bool freed_twice(const struct process *p, const struct ledger_wrong *w)
{
	return is_new(p) ? complete(p) : w->block.ms >= p->errors.trust_ms;
}

/* The cache's entry for W, and its *PAIR of stacks. */
static uint64_t *dismissal(const struct errors *all, const struct ledger_wrong *w, uint64_t *pair)
{
	*pair = (uint64_t)w->stack << 32 | w->block.block.stack;
	return &all->dismissed[*pair * 0x9e3779b97f4a7c15ull >> 32 & (ERRORS_DISMISSED - 1)];
}

static bool mismatched(const struct process *p, const struct ledger_wrong *w)
{
	for (size_t i = 0; i < p->modules.count; i++)
		if (p->modules.module[i]->roles & MODULE_OPERATORS)
			return false;
	return (w->family != FAMILY_HEAP || is_no_operator(p, w->stack)) &&
	       (w->gave != FAMILY_HEAP || is_no_operator(p, w->block.block.stack));
}

/* Judges a pair of stacks once, as it comes again and again, and not too many in a short time. */
static bool told_apart(struct errors *all, const struct process *p, const struct ledger_wrong *w)
{
	uint64_t *at, pair;

	if (!all->dismissed)
		all->dismissed = calloc(ERRORS_DISMISSED, sizeof(*all->dismissed));
	if (!all->dismissed)
		return false;
	at = dismissal(all, w, &pair);
	if (*at == pair || !may_look(all, w->ms))
		return false;
	if (mismatched(p, w))
		return true;
	*at = pair;
	return false;
}

static bool is_within(const struct process *p, const struct ledger_wrong *w, const struct error *e)
{
	if (ledger_overlaid(p->ledger) || (w->block.block.mapping && !complete(p)))
		return false;
	return is_new(p) ||
	       (!w->late && e->tid == e->block_tid && e->block_ms >= p->errors.trust_ms);
}

static bool is_error(struct process *p, const struct ledger_wrong *w, struct error *e)
{
	uint64_t since = w->kind == WRONG_FREED ? w->block.ms : w->block.block.ms;

	/* libc itself frees what it has cached */
	if (roles_at(p, leaf_of(p, w->stack)) & (MODULE_LIBC | MODULE_LDSO))
		return false;
	if (!trusted(p) || (w->kind != WRONG_NOTHING && since < p->errors.forked_ms))
		return false;
	switch (w->kind) {
	case WRONG_FREED: return freed_twice(p, w);
	case WRONG_WITHIN: return is_within(p, w, e);
	case WRONG_FAMILY: return told_apart(&p->errors, p, w);
	case WRONG_NOTHING: e->place = place_of(p, w->address, e->tid, w->ms); return e->place;
	}
	return false;
}

static struct error *find(const struct errors *all, const struct error *e)
{
	for (size_t i = 0; i < all->errors; i++) {
		struct error *o = &all->error[i];

		if (o->kind == e->kind && o->stack == e->stack &&
		    o->block_stack == e->block_stack && o->resize == e->resize)
			return o;
	}
	return NULL;
}

static void add(struct errors *all, const struct error *e)
{
	if (!all->error)
		all->error = calloc(ERRORS_MOST, sizeof(*all->error));
	if (all->error && all->errors < ERRORS_MOST)
		all->error[all->errors++] = *e;
	else
		all->unlisted = true;
}

static void count(struct errors *all, enum error_kind kind)
{
	all->count++;
	all->counts[kind]++;
}

static struct error error_of(const struct process *p, const struct ledger_wrong *w)
{
	static const enum error_kind kinds[] = { [WRONG_FREED] = ERROR_DOUBLE,
						 [WRONG_WITHIN] = ERROR_INTERIOR,
						 [WRONG_NOTHING] = ERROR_FOREIGN,
						 [WRONG_FAMILY] = ERROR_MISMATCH };
	const struct ledger_block *b = &w->block.block;
	struct error e = { .kind = kinds[w->kind],
			   .address = w->address,
			   .resize = w->resize,
			   .family = w->family,
			   .gave = w->gave,
			   .tid = ledger_thread_tid(p->ledger, w->thread),
			   .stack = w->stack,
			   .ms = w->ms,
			   .count = 1 };

	if (w->kind == WRONG_NOTHING)
		return e;
	e.block = b->address;
	e.size = b->size;
	e.mapping = b->mapping;
	e.block_stack = b->stack;
	e.known = w->block.known;
	if (e.known) {
		e.block_tid = ledger_thread_tid(p->ledger, b->thread);
		e.block_ms = b->ms;
	}
	if (w->kind == WRONG_FREED) {
		e.freed_stack = w->block.stack;
		e.freed_tid = ledger_thread_tid(p->ledger, w->block.thread);
		e.freed_ms = w->block.ms;
	}
	return e;
}

static void judge(void *ctx, const struct ledger_wrong *w)
{
	struct process *p = ctx;
	struct errors *all = &p->errors;
	struct error e = error_of(p, w), *same = find(all, &e);

	if (same) {
		same->count++;
		count(all, e.kind);
	} else if (is_error(p, w, &e)) {
		count(all, e.kind);
		add(all, &e);
	} else if (w->kind == WRONG_NOTHING) {
		all->unexplained++;
	}
}

void errors_listen(struct process *p, bool on, uint64_t ms)
{
	ledger_on_wrong(p->ledger, on ? judge : NULL, p);
	if (p->preattach.state != PREATTACH_NONE || p->recorded_ms > p->began_ms)
		p->errors.trust_ms = ms + TRUST_MS;
}

void errors_inherit(struct process *child, const struct process *p, bool alone, uint64_t ms)
{
	child->errors.forked_ms = alone ? p->errors.forked_ms : ms + 2ull * TICK_MS;
	child->errors.unexplained = p->errors.unexplained;
	child->errors.trust_ms = p->errors.trust_ms;
}
