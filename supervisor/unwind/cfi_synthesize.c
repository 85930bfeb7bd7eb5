// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/cfi_synthesize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/effect.h"
#include "arch/insn.h"
#include "base/array.h"
#include "base/search.h"

/*
 * cfi_synthesize.c - where the return address is, in code that nobody describes.
 *
 * The code is followed from the places where functions begin (symbols, targets of calls),
 * instruction by instruction and along all branches, with a state: how far rsp and rbp are below
 * the CFA, which callee-saved registers have been changed, and where they were saved before. Where
 * two ways meet with different states, what differs is unknown from there on. A call is stepped
 * over only once its callee is known to return, so that what follows a call of abort() is not taken
 * for its continuation. Switches are followed through their tables. At the end every instruction
 * that was reached has one state that holds whichever way it is come to, and that is its rule. It
 * is a proof but for two assumptions, which compilers keep: functions leave their caller's
 * registers and stack pointer as they were, and nobody overwrites a saved register in the stack.
 *
 * What one instruction does is in arch/effect.c. Outermost frames are recognised by what the ABI
 * asks of them: at the entry point, and where rbp is cleared behind a system call (a new thread's
 * first steps). Signal frames are recognised by the kernel's rule for rt_sigreturn: the nine bytes
 * that debuggers look for, too.
 *
 * A stripped file does not say where its functions begin. Then the code is gone over once from end
 * to end for the targets of calls, and its data for addresses of places behind another function's
 * end that look like a beginning.
 *
 * All ranges together are one space of positions; for each position there is the state that its
 * instruction begins with.
 */

#define NO_POS UINT32_MAX

enum { STATE_NONE, STATE_BAD, STATE_ENTRY, STATE_START, STATE_SIGNAL, STATES_RESERVED };
#define STATES_MAX 0xfff0u
#define INSIDE	   0xffffu /* of the state map: not the first byte of an instruction */

struct function {
	uint32_t pos;
	bool returns;
	uint32_t waiters; /* list of struct waiter, index + 1 */
};

struct waiter { /* what happens when a function turns out to return */
	uint32_t next;
	uint32_t pos; /* continue there; NO_POS: `function` returns, too */
	uint32_t function;
	uint16_t state;
};

struct work {
	uint32_t pos, function; /* NO_POS: `function` returns */
	uint16_t state;
	bool over_call; /* pos is behind a call, */
	bool unsure;	/* of a function that we do not know: it may never return */
};

struct vector {
	void *item;
	size_t count, room;
};

struct synthesis {
	const struct cfi_synth_input *in;
	uint32_t *base;	       /* position of each range's first byte */
	const uint8_t **bytes; /* each range's code; NULL: not in the file */
	uint32_t size;	       /* positions */
	uint16_t *map;	       /* state id by position */
	uint16_t *owner;       /* function + 1 whose way came there first */
	struct vector states, functions, waiters, work, guesses;
	uint16_t *slot; /* states by hash; more than twice as many as there are states */
	uint32_t slots;
	uint32_t *entry; /* hash of entry positions -> function + 1 */
	uint32_t entry_slots;
	/* what is known of functions outside of the ranges, by a hash of their address */
	struct {
		uint64_t vaddr;
		bool never;
	} callee[256];
	bool failed; /* out of memory */
};

/* ---- small things -------------------------------------------------------- */

static void *push(struct synthesis *f, struct vector *v, size_t size)
{
	if (array_room(&v->item, v->count, &v->room, size)) {
		f->failed = true;
		return NULL;
	}
	return (char *)v->item + size * v->count++;
}

static struct frame_state *state_at(const struct synthesis *f, uint32_t id)
{
	return (struct frame_state *)f->states.item + id;
}

static struct function *function_at(const struct synthesis *f, uint32_t n)
{
	return (struct function *)f->functions.item + n;
}

static size_t range_of(const struct synthesis *f, uint32_t pos)
{
	size_t above = SEARCH(i, f->in->nranges, f->base[i] <= pos);

	return above ? above - 1 : 0;
}

static uint32_t pos_of(const struct synthesis *f, uint64_t vaddr)
{
	const struct cfi_synth_range *r = f->in->range;
	size_t at = SEARCH(i, f->in->nranges, r[i].end <= vaddr);

	if (at == f->in->nranges || r[at].start > vaddr || !f->bytes[at])
		return NO_POS;
	return f->base[at] + (uint32_t)(vaddr - r[at].start);
}

static uint64_t vaddr_of(const struct synthesis *f, uint32_t pos)
{
	size_t r = range_of(f, pos);

	return f->in->range[r].start + (pos - f->base[r]);
}

#define STATES_MOST (1u << 13)
#define SLOTS_FIRST 1024u

static uint32_t state_hash(const struct frame_state *s)
{
	const uint32_t *w = (const uint32_t *)(const void *)s;
	uint32_t h = 0;

	for (size_t i = 0; i < sizeof(*s) / 4; i++)
		h = (h ^ w[i]) * 0x9e3779b1u ^ h >> 15;
	return h >> 4;
}

/* Where S is, or else is to be. */
static uint16_t *state_slot(const struct synthesis *f, const struct frame_state *s)
{
	for (uint32_t h = state_hash(s);; h++) {
		uint16_t *slot = &f->slot[h & (f->slots - 1)];

		if (!*slot || !memcmp(state_at(f, *slot), s, sizeof(*s)))
			return slot;
	}
}

static bool state_room(struct synthesis *f)
{
	uint32_t slots = f->slots ? f->slots * 2 : SLOTS_FIRST;

	if (f->states.count * 2 < f->slots)
		return true;
	free(f->slot);
	f->slot = calloc(slots, sizeof(*f->slot));
	f->slots = f->slot ? slots : 0;
	f->failed |= !f->slot;
	for (size_t i = STATES_RESERVED; i < f->states.count && f->slot; i++)
		*state_slot(f, state_at(f, (uint32_t)i)) = (uint16_t)i;
	return f->slot;
}

static uint16_t state_id(struct synthesis *f, const struct frame_state *s)
{
	struct frame_state *new;
	uint16_t *slot;

	if (s->bad || !state_room(f))
		return STATE_BAD;
	slot = state_slot(f, s);
	if (*slot)
		return *slot;
	new = f->states.count < STATES_MOST ? push(f, &f->states, sizeof(*new)) : NULL;
	if (!new)
		return STATE_BAD;
	*new = *s;
	*slot = (uint16_t)(f->states.count - 1);
	return *slot;
}

/* ---- functions ----------------------------------------------------------- */

static uint32_t *entry_slot(const struct synthesis *f, uint32_t pos)
{
	uint32_t h = pos * 0x9e3779b1u;

	for (h >>= 8;; h++) {
		uint32_t *slot = &f->entry[h % f->entry_slots];

		if (!*slot || function_at(f, *slot - 1)->pos == pos)
			return slot;
	}
}

static bool entry_room(struct synthesis *f)
{
	uint32_t slots = f->entry_slots ? f->entry_slots * 2 : 1024;

	if (f->functions.count * 2 < f->entry_slots)
		return true;
	free(f->entry);
	f->entry = calloc(slots, sizeof(*f->entry));
	f->entry_slots = slots;
	if (!f->entry) {
		f->failed = true;
		return false;
	}
	for (uint32_t i = 0; i < f->functions.count; i++)
		*entry_slot(f, function_at(f, i)->pos) = i + 1;
	return true;
}

static struct work *work_add(struct synthesis *f, uint32_t pos, uint32_t function, uint16_t state,
			     bool over_call)
{
	struct work *w = push(f, &f->work, sizeof(*w));

	if (w)
		*w = (struct work){ pos, function, state, over_call, false };
	return w;
}

/* The function at POS, made (with its first step of work) if it is new. Index, or NO_POS. */
static uint32_t function_get(struct synthesis *f, uint32_t pos, uint16_t state)
{
	struct function *new;
	uint32_t *slot;

	if (!entry_room(f))
		return NO_POS;
	slot = entry_slot(f, pos);
	if (*slot)
		return *slot - 1;
	if (f->functions.count >= 0xfff0)
		return NO_POS;
	new = push(f, &f->functions, sizeof(*new));
	if (!new)
		return NO_POS;
	*new = (struct function){ .pos = pos };
	*slot = (uint32_t)f->functions.count;
	work_add(f, pos, (uint32_t)f->functions.count - 1, state, false);
	return (uint32_t)f->functions.count - 1;
}

static bool is_entry(const struct synthesis *f, uint32_t pos)
{
	return f->entry_slots && *entry_slot(f, pos);
}

static void returns(struct synthesis *f, uint32_t function)
{
	uint32_t next;

	if (function_at(f, function)->returns)
		return;
	function_at(f, function)->returns = true;
	for (uint32_t i = function_at(f, function)->waiters; i; i = next) {
		struct waiter w = ((struct waiter *)f->waiters.item)[i - 1];

		next = w.next;
		if (w.pos != NO_POS)
			work_add(f, w.pos, w.function, w.state, true);
		else if (!function_at(f, w.function)->returns)
			/* not by recursion: chains may be long */
			work_add(f, NO_POS, w.function, 0, false);
	}
	function_at(f, function)->waiters = 0;
}

/* When CALLEE returns: FUNCTION goes on at POS with STATE, or (NO_POS) returns itself. */
static void when_returns(struct synthesis *f, uint32_t callee, uint32_t pos, uint32_t function,
			 uint16_t state)
{
	struct waiter *w;

	if (callee == NO_POS || function_at(f, callee)->returns) {
		struct work *work = work_add(f, pos, function, state, true);

		if (work)
			work->unsure = callee == NO_POS;
		return;
	}
	w = push(f, &f->waiters, sizeof(*w));
	if (!w)
		return;
	*w = (struct waiter){ function_at(f, callee)->waiters, pos, function, state };
	function_at(f, callee)->waiters = (uint32_t)f->waiters.count;
}

/* ---- the way through the code -------------------------------------------- */

/* A run of instructions that follow each other. */
struct run {
	uint32_t pos, function;
	uint64_t vaddr;
	struct frame_state state;
	uint16_t id; /* of that state */
	/* the last branch-like thing on the way here was a call (as struct work) */
	bool over_call, unsure;
	uint64_t table;	  /* the last address that was loaded relative to rip */
	int64_t compared; /* the last number that something was compared with */
	/* the last such that was followed by `ja`: a switch's greatest case */
	int64_t bound;
};

/*
 * The run comes to its position with its state. False: nothing new there. The run's state becomes
 * what holds there now.
 */
static bool arrive(struct synthesis *f, struct run *r)
{
	uint16_t was = f->map[r->pos];

	if (was == INSIDE)
		/* the middle of another instruction: one of the two ways is not code */
		return false;
	if (was == STATE_NONE) {
		f->map[r->pos] = r->id;
		f->owner[r->pos] = (uint16_t)(r->function + 1);
		return true;
	}
	if (f->owner[r->pos] != r->function + 1 && f->owner[r->pos])
		when_returns(f, f->owner[r->pos] - 1u, NO_POS, r->function, 0);
	if (was == r->id)
		return false;
	r->state = effect_meet(state_at(f, was), &r->state);
	r->id = state_id(f, &r->state);
	if (r->id == was)
		return false;
	f->map[r->pos] = r->id;
	r->state = *state_at(f, r->id);
	return true;
}

/* The jump goes on at VADDR in the same function, or leaves it. */
static void jump_to(struct synthesis *f, const struct run *r, uint64_t vaddr)
{
	uint32_t pos = pos_of(f, vaddr);

	if (pos == NO_POS)
		returns(f, r->function); /* a tail call to somewhere else */
	else if (f->map[pos] != r->id || f->owner[pos] != r->function + 1)
		work_add(f, pos, r->function, r->id, false);
}

/* A function that has an FDE: nothing in it returns or leads out of it. */
static bool has_no_return(struct synthesis *f, uint64_t vaddr, uint64_t end)
{
	size_t left = 0;
	const uint8_t *p = f->in->code(f->in->ctx, vaddr, &left);
	uint64_t at = vaddr;
	struct insn i;

	while (p && at < end) {
		bool branch;
		uint64_t target;

		if (!decode(p, left, &i))
			return false;
		p += i.len;
		left -= i.len;
		at += i.len;
		if (i.vex)
			continue;
		branch = i.map == MAP_ONE
				 ? (i.opcode & 0xf0) == 0x70 || i.opcode == 0xe9 || i.opcode == 0xeb
				 : i.map == MAP_0F && (i.opcode & 0xf0) == 0x80;
		target = at + (uint64_t)i.imm;
		if (branch && (target < vaddr || target >= end))
			return false;
		if (i.map == MAP_ONE && (i.opcode == 0xc3 || i.opcode == 0xc2 ||
					 (i.opcode == 0xff && (i.reg & 7) == 4)))
			return false;
	}
	return p != NULL;
}

static bool never_returns(struct synthesis *f, uint64_t vaddr)
{
	size_t slot = (vaddr ^ vaddr >> 8) % (sizeof(f->callee) / sizeof(f->callee[0]));
	uint64_t end;

	if (!f->in->described)
		return false;
	if (f->callee[slot].vaddr != vaddr) {
		end = f->in->described(f->in->ctx, vaddr);
		f->callee[slot].vaddr = vaddr;
		f->callee[slot].never = end && has_no_return(f, vaddr, end);
	}
	return f->callee[slot].never;
}

static void call_to(struct synthesis *f, const struct run *r, uint64_t vaddr, uint32_t next)
{
	uint32_t pos = pos_of(f, vaddr), callee = NO_POS;

	if (pos == NO_POS && never_returns(f, vaddr))
		return;
	if (pos != NO_POS && f->map[pos] != INSIDE)
		callee = function_get(f, pos, STATE_ENTRY);
	if (next != NO_POS)
		when_returns(f, callee, next, r->function, r->id);
}

/* jmp through a register: a switch, if a table of offsets was mentioned just before. */
static bool jump_table(struct synthesis *f, const struct run *r)
{
	size_t left = 0;
	const uint8_t *table = r->table ? f->in->code(f->in->ctx, r->table, &left) : NULL;
	int64_t n = r->bound >= 0 && r->bound < 4096 ? r->bound + 1 : 0;
	uint64_t target[4096];

	if (!table || !n || left / 4 < (size_t)n)
		return false;
	for (int64_t i = 0; i < n; i++) {
		int32_t offset;

		memcpy(&offset, table + 4 * i, 4);
		target[i] = r->table + (uint64_t)(int64_t)offset;
		if (pos_of(f, target[i]) == NO_POS)
			return false;
	}
	for (int64_t i = 0; i < n; i++)
		if (!i || target[i] != target[i - 1])
			jump_to(f, r, target[i]);
	return true;
}

/* jmp [table + 8 * register]: the same in code that is linked to a fixed address. */
static bool jump_table_absolute(struct synthesis *f, const struct run *r, const struct insn *i)
{
	uint64_t at = (uint64_t)(int64_t)i->disp, target[4096];
	int64_t n = r->bound >= 0 && r->bound < 4096 ? r->bound + 1 : 0;
	size_t left = 0;
	const uint8_t *table = f->in->code(f->in->ctx, at, &left);

	if (!table || !n || left / 8 < (size_t)n)
		return false;
	for (int64_t k = 0; k < n; k++) {
		memcpy(&target[k], table + 8 * k, 8);
		if (pos_of(f, target[k]) == NO_POS)
			return false;
	}
	for (int64_t k = 0; k < n; k++)
		if (!k || target[k] != target[k - 1])
			jump_to(f, r, target[k]);
	return true;
}

static void indirect_jump(struct synthesis *f, const struct run *r, const struct insn *i)
{
	if (i->mod != 3 && i->base == DECODE_NO_REG && i->index != DECODE_NO_REG) {
		if (jump_table_absolute(f, r, i))
			return;
	} else if (i->base != DECODE_RIP && jump_table(f, r))
		return;
	/* a tail call, or a switch that we do not understand */
	returns(f, r->function);
}

/* An address that code loads may be that of a function that is called through a pointer. */
static void guess(struct synthesis *f, uint64_t vaddr)
{
	uint32_t pos = pos_of(f, vaddr), *g;

	if (pos == NO_POS || f->map[pos] != STATE_NONE)
		return;
	g = push(f, &f->guesses, sizeof(*g));
	if (g)
		*g = pos;
}

static void notice(struct synthesis *f, struct run *r, const struct insn *i, uint64_t next)
{
	if (i->map != MAP_ONE || i->vex)
		return;
	if (i->opcode == 0x8d && i->base == DECODE_RIP) {
		r->table = next + (uint64_t)(int64_t)i->disp;
		guess(f, r->table);
	} else if ((i->opcode == 0x83 || i->opcode == 0x81 || i->opcode == 0x80) &&
		   (i->reg & 7) == 7)
		r->compared = i->imm;
	else if (i->opcode == 0x3c || i->opcode == 0x3d)
		r->compared = i->imm;
	else if (i->opcode == 0x77)
		r->bound = r->compared;
	else if ((i->opcode & 0xf8) == 0xb8 && !i->wide && i->imm > 0)
		guess(f, (uint64_t)i->imm);
}

enum flow { FLOW_ON, FLOW_STOP, FLOW_CALLED };

/*
 * What the instruction does to the control flow. NEXT is the position behind it, NO_POS at a
 * range's end.
 */
static enum flow flow(struct synthesis *f, struct run *r, const struct insn *i, uint64_t end,
		      uint32_t next)
{
	uint64_t target = end + (uint64_t)i->imm;

	if (i->vex)
		return FLOW_ON;
	if (i->map == MAP_0F) {
		if ((i->opcode & 0xf0) == 0x80)
			jump_to(f, r, target);
		if (i->opcode == 0x87)
			r->bound = r->compared;
		return i->opcode == 0x0b || i->opcode == 0xff || i->opcode == 0xb9 ||
				       i->opcode == 0x07
			       ? FLOW_STOP
			       : FLOW_ON;
	}
	if (i->map != MAP_ONE)
		return FLOW_ON;
	switch (i->opcode) {
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3: jump_to(f, r, target); return FLOW_ON;
	case 0xe9:
	case 0xeb: jump_to(f, r, target); return FLOW_STOP;
	case 0xe8:
		if (i->imm == 0) { /* call to what follows: a push of the pc */
			effect_push(&r->state, RAX);
			r->id = state_id(f, &r->state);
			return FLOW_ON;
		}
		call_to(f, r, target, next);
		return FLOW_STOP; /* goes on when the callee is known to return */
	case 0xff:
		if ((i->reg & 7) == 2 || (i->reg & 7) == 3)
			return FLOW_CALLED;
		if ((i->reg & 7) != 4 && (i->reg & 7) != 5)
			return FLOW_ON;
		indirect_jump(f, r, i);
		return FLOW_STOP;
	case 0xc2:
	case 0xc3: returns(f, r->function); return FLOW_STOP;
	case 0xca:
	case 0xcb:
	case 0xcc:
	case 0xcf:
	case 0xf4:
	case 0xf1: return FLOW_STOP;
	}
	return FLOW_ON;
}

static bool is_padding(const struct insn *i)
{
	return !i->vex && ((i->map == MAP_ONE && (i->opcode == 0x90 || i->opcode == 0xcc)) ||
			   (i->map == MAP_0F && i->opcode == 0x1f));
}

/*
 * Bytes that this instruction would share with another that was reached before: one of the two is
 * not code.
 */
static bool overlaps(const struct synthesis *f, uint32_t pos, unsigned len)
{
	for (unsigned k = 1; k < len; k++)
		if (f->map[pos + k] != STATE_NONE && f->map[pos + k] != INSIDE)
			return true;
	return false;
}

/*
 * endbr64, a push of a register that must be kept, room on the stack: what functions begin with
 * that call others.
 */
static bool looks_like_beginning(const uint8_t *p, size_t left)
{
	struct insn i;

	if (left >= 4 && !memcmp(p, "\xf3\x0f\x1e\xfa", 4))
		return true;
	if (!decode(p, left, &i) || i.vex || i.map != MAP_ONE)
		return false;
	if (i.opcode >= 0x50 && i.opcode <= 0x57)
		return effect_saved(i.rm) >= 0 || i.rm == RAX;
	return (i.opcode == 0x83 || i.opcode == 0x81) && i.mod == 3 && i.rm == RSP &&
	       (i.reg & 7) == 5;
}

static bool is_return(const struct insn *i)
{
	return !i->vex && i->map == MAP_ONE && (i->opcode == 0xc3 || i->opcode == 0xc2);
}

/*
 * What was followed from FROM to a return at TO cannot have been its function: the stack pointer is
 * not where a return needs it.
 */
static void forget_run(struct synthesis *f, uint32_t from, uint32_t to)
{
	for (uint32_t pos = from; pos <= to; pos++)
		if (f->map[pos] != INSIDE && f->map[pos] != STATE_NONE)
			f->map[pos] = STATE_BAD;
}

static void follow(struct synthesis *f, struct work w)
{
	size_t range = range_of(f, w.pos);
	const uint8_t *bytes = f->bytes[range];
	uint32_t end = range + 1 < f->in->nranges ? f->base[range + 1] : f->size;
	struct run r = { .pos = w.pos,
			 .function = w.function,
			 .vaddr = vaddr_of(f, w.pos),
			 .state = *state_at(f, w.state),
			 .id = w.state,
			 .compared = -1,
			 .bound = -1 };

	r.over_call = w.over_call;
	r.unsure = w.unsure;
	if (!bytes || (r.over_call && is_entry(f, w.pos)))
		/* the callee did not return, and the next function begins */
		return;
	while (!f->failed) {
		bool was_none = f->map[r.pos] == STATE_NONE;
		struct frame_state before;
		struct insn i;
		uint32_t next;
		enum flow go;

		if (!arrive(f, &r))
			return;
		before = r.state;
		if (!decode(bytes + (r.pos - f->base[range]), end - r.pos, &i) ||
		    overlaps(f, r.pos, i.len)) {
			f->map[r.pos] = STATE_BAD;
			return;
		}
		if (r.unsure && was_none &&
		    looks_like_beginning(bytes + (r.pos - f->base[range]), end - r.pos)) {
			/* exit() or the like, and then another function */
			f->map[r.pos] = STATE_NONE;
			return;
		}
		for (unsigned k = 1; k < i.len; k++)
			f->map[r.pos + k] = INSIDE;
		next = r.pos + i.len < end ? r.pos + i.len : NO_POS;
		notice(f, &r, &i, r.vaddr + i.len);
		go = flow(f, &r, &i, r.vaddr + i.len, next);
		if (go == FLOW_STOP && w.unsure && is_return(&i) && r.state.rsp != 8)
			forget_run(f, w.pos, r.pos);
		if (go == FLOW_STOP || next == NO_POS)
			return;
		effect_apply(&r.state, &i);
		if (memcmp(&before, &r.state, sizeof(before)))
			r.id = state_id(f, &r.state);
		r.over_call = go == FLOW_CALLED || (r.over_call && is_padding(&i));
		r.unsure = r.unsure && is_padding(&i);
		if (r.over_call && is_entry(f, next))
			return;
		r.pos = next;
		r.vaddr += i.len;
	}
}

static void drain(struct synthesis *f)
{
	while (f->work.count && !f->failed) {
		struct work w = ((struct work *)f->work.item)[--f->work.count];

		if (w.pos == NO_POS)
			returns(f, w.function);
		else
			follow(f, w);
	}
}

/*
 * Guessed functions are taken only where nothing else claims the place and a function could begin:
 * aligned, behind padding or another's end.
 */
static void try_guesses(struct synthesis *f)
{
	for (size_t n = 0; n < f->guesses.count && !f->failed; n++) {
		uint32_t pos = ((uint32_t *)f->guesses.item)[n];

		if (f->map[pos] != STATE_NONE || vaddr_of(f, pos) % 16)
			continue;
		function_get(f, pos, STATE_ENTRY);
		drain(f);
	}
}

/* ---- stripped files ------------------------------------------------------ */

/* an instruction begins; so, behind one that does not go on, or a call */
enum { MARK_NONE, MARK_INSN, MARK_FIRST };

static bool never_goes_on(const struct insn *i)
{
	if (i->vex || i->map > MAP_0F)
		return false;
	if (i->map == MAP_0F)
		return i->opcode == 0x0b;
	return i->opcode == 0xc2 || i->opcode == 0xc3 || i->opcode == 0xe9 || i->opcode == 0xeb ||
	       i->opcode == 0xf4 || (i->opcode == 0xff && (i->reg & 7) == 4);
}

/* Marks where instructions begin, notes the targets of calls in `guesses`. */
static void sweep(struct synthesis *f, uint8_t *mark)
{
	for (size_t r = 0; r < f->in->nranges; r++) {
		const uint8_t *bytes = f->bytes[r];
		uint32_t size = (uint32_t)(f->in->range[r].end - f->in->range[r].start), at = 0;
		bool first = true;
		struct insn i;

		while (bytes && at < size) {
			uint32_t pos = f->base[r] + at, *g;

			if (!decode(bytes + at, size - at, &i)) {
				at++;
				continue;
			}
			mark[pos] = first ? MARK_FIRST : MARK_INSN;
			first = never_goes_on(&i) ||
				(!i.vex && i.map == MAP_ONE && i.opcode == 0xe8) ||
				(first && is_padding(&i));
			at += i.len;
			if (i.vex || i.map != MAP_ONE || i.opcode != 0xe8)
				continue;
			pos = pos_of(f, f->in->range[r].start + at + (uint64_t)i.imm);
			g = pos != NO_POS ? push(f, &f->guesses, sizeof(*g)) : NULL;
			if (g)
				*g = pos;
		}
	}
}

static void try_pointers(struct synthesis *f, const uint8_t *mark)
{
	for (size_t d = 0; d < f->in->ndata && !f->failed; d++) {
		size_t left = 0;
		const uint8_t *p = f->in->code(f->in->ctx, f->in->data[d].start, &left);
		size_t size = (size_t)(f->in->data[d].end - f->in->data[d].start);

		for (size_t at = 0; p && at + 8 <= size && at + 8 <= left; at += 8) {
			uint64_t value;
			uint32_t pos;

			memcpy(&value, p + at, 8);
			pos = pos_of(f, value);
			if (pos == NO_POS || f->map[pos] != STATE_NONE || mark[pos] != MARK_FIRST)
				continue;
			if (!looks_like_beginning(f->bytes[range_of(f, pos)] +
							  (pos - f->base[range_of(f, pos)]),
						  (size_t)(f->in->range[range_of(f, pos)].end -
							   value)))
				continue;
			function_get(f, pos, STATE_ENTRY);
			drain(f);
		}
	}
}

/* The entry point hands main() to the libc by its address. */
static void try_main(struct synthesis *f, const uint8_t *mark)
{
	uint64_t vaddr = f->in->start;
	size_t left = 0;
	const uint8_t *p = f->in->code(f->in->ctx, vaddr, &left);
	struct insn i;

	for (unsigned n = 0; p && n < 24 && decode(p, left, &i) && !never_goes_on(&i); n++) {
		uint64_t target = 0;
		uint32_t pos;

		p += i.len;
		left -= i.len;
		vaddr += i.len;
		if (i.vex || i.map != MAP_ONE)
			continue;
		if (i.opcode == 0x8d && i.base == DECODE_RIP)
			target = vaddr + (uint64_t)(int64_t)i.disp;
		else if ((i.opcode & 0xf8) == 0xb8 || (i.opcode == 0xc7 && i.mod == 3))
			target = (uint64_t)i.imm;
		pos = pos_of(f, target);
		if (pos != NO_POS && mark[pos] == MARK_FIRST)
			function_get(f, pos, STATE_ENTRY);
	}
}

static void find_functions(struct synthesis *f)
{
	uint8_t *mark = calloc(f->size + 1, 1);

	if (!mark) {
		f->failed = true;
		return;
	}
	sweep(f, mark);
	for (size_t n = 0; n < f->guesses.count && !f->failed; n++) {
		uint32_t pos = ((uint32_t *)f->guesses.item)[n];

		if (mark[pos])
			function_get(f, pos, STATE_ENTRY);
	}
	f->guesses.count = 0;
	try_main(f, mark);
	drain(f);
	try_pointers(f, mark);
	free(mark);
}

/*
 * mov rax, 15; syscall: what the kernel lets a handler return to. The byte before belongs to it:
 * return addresses are looked up less 1.
 */
static void find_signal_frames(struct synthesis *f)
{
	static const uint8_t restore[] = { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 };

	for (size_t r = 0; r < f->in->nranges; r++) {
		size_t size = (size_t)(f->in->range[r].end - f->in->range[r].start);
		const uint8_t *at = f->bytes[r];

		while (at && (at = memmem(at, size - (size_t)(at - f->bytes[r]), restore,
					  sizeof(restore)))) {
			uint32_t pos = f->base[r] + (uint32_t)(at - f->bytes[r]);

			if (at > f->bytes[r])
				f->map[pos - 1] = STATE_SIGNAL;
			f->map[pos] = STATE_SIGNAL;
			for (size_t k = 1; k < sizeof(restore); k++)
				f->map[pos + k] = INSIDE;
			at += sizeof(restore);
		}
	}
}

/* ---- rows ---------------------------------------------------------------- */

static struct wire_rule rule_of(const struct frame_state *s)
{
	struct wire_rule r = { .cfa = CFA_NONE };

	if (s->bad)
		return r;
	if (s->outermost)
		return (struct wire_rule){ .cfa = CFA_END };
	if (s->rsp != FRAME_UNKNOWN && s->rsp >= 8)
		r = (struct wire_rule){ .cfa = CFA_RSP, .cfa_off = s->rsp };
	else if (s->rsp == FRAME_UNKNOWN && s->rbp != FRAME_UNKNOWN && s->rbp >= 8)
		r = (struct wire_rule){ .cfa = CFA_RBP, .cfa_off = s->rbp };
	else
		return r;
	for (unsigned i = 0; i < WIRE_REGS; i++) {
		bool kept = s->saved[i] && s->saved[i] % 8 == 0 && s->saved[i] / 8 < INT16_MAX;

		r.off[i] = !(s->changed & 1u << i) ? RULE_SAME
			   : kept		   ? (int16_t) - (s->saved[i] / 8)
						   : RULE_LOST;
	}
	return r;
}

static void emit(struct synthesis *f, struct vector *rows, uint32_t offset,
		 const struct wire_rule *rule)
{
	struct cfi_synth_row *last = rows->count
					     ? (struct cfi_synth_row *)rows->item + rows->count - 1
					     : NULL,
			     *row;

	if (last && !memcmp(&last->rule, rule, sizeof(*rule)))
		return;
	row = push(f, rows, sizeof(*row));
	if (row)
		*row = (struct cfi_synth_row){ offset, *rule };
}

static void make_rows(struct synthesis *f, struct vector *rows)
{
	static const struct wire_rule none, signal = { .cfa = CFA_SIGNAL };

	for (size_t r = 0; r < f->in->nranges; r++) {
		uint32_t end = r + 1 < f->in->nranges ? f->base[r + 1] : f->size;
		uint32_t offset = (uint32_t)(f->in->range[r].start - f->in->lo);
		uint16_t last = INSIDE;

		for (uint32_t pos = f->base[r]; pos < end; pos++, offset++) {
			uint16_t id = f->map[pos];
			struct wire_rule rule;

			if (id == INSIDE || id == last)
				continue;
			last = id;
			rule = id == STATE_SIGNAL ? signal
			       : id == STATE_NONE ? none
						  : rule_of(state_at(f, id));
			emit(f, rows, offset, &rule);
		}
		emit(f, rows, offset, &none);
	}
}

/* ---- all of it ----------------------------------------------------------- */

static int synthesize_begin(struct synthesis *f, const struct cfi_synth_input *in)
{
	uint64_t size = 0;

	f->in = in;
	f->base = calloc(in->nranges + 1, sizeof(*f->base));
	f->bytes = calloc(in->nranges + 1, sizeof(*f->bytes));
	if (!f->base || !f->bytes)
		return -ENOMEM;
	for (size_t r = 0; r < in->nranges; r++) {
		uint64_t len = in->range[r].end - in->range[r].start;
		size_t left = 0;

		f->base[r] = (uint32_t)size;
		f->bytes[r] = in->code(in->ctx, in->range[r].start, &left);
		if (left < len)
			f->bytes[r] = NULL;
		size += len;
	}
	if (size >= NO_POS)
		return -ENOMEM;
	f->size = (uint32_t)size;
	f->map = calloc(size + 16, sizeof(*f->map));
	f->owner = calloc(size + 16, sizeof(*f->owner));
	return f->map && f->owner ? 0 : -ENOMEM;
}

static void reserve_states(struct synthesis *f)
{
	struct frame_state entry = { .rsp = 8, .rbp = FRAME_UNKNOWN }, bad = { .bad = true },
			   start = { .rsp = 8, .rbp = FRAME_UNKNOWN, .outermost = true };

	for (unsigned i = 0; i < STATES_RESERVED; i++) {
		struct frame_state *s = push(f, &f->states, sizeof(*s));

		if (s)
			*s = bad;
	}
	if (f->failed)
		return;
	*state_at(f, STATE_ENTRY) = entry;
	*state_at(f, STATE_START) = start;
}

static void synthesize_end(struct synthesis *f)
{
	free(f->base);
	free(f->bytes);
	free(f->map);
	free(f->owner);
	free(f->states.item);
	free(f->functions.item);
	free(f->waiters.item);
	free(f->work.item);
	free(f->guesses.item);
	free(f->entry);
	free(f->slot);
	free(f);
}

int cfi_synth_rows(const struct cfi_synth_input *in, struct cfi_synth_row **rows, size_t *count)
{
	struct synthesis *f = calloc(1, sizeof(*f));
	struct vector out = { .item = NULL };
	int rc;

	if (!f)
		return -ENOMEM;
	rc = synthesize_begin(f, in);
	if (rc)
		goto out;
	reserve_states(f);
	for (size_t i = 0; i < in->nentries && !f->failed; i++) {
		uint32_t pos = pos_of(f, in->entry[i]);

		if (pos != NO_POS)
			function_get(f, pos, in->entry[i] == in->start ? STATE_START : STATE_ENTRY);
	}
	drain(f);
	if (in->data)
		find_functions(f);
	try_guesses(f);
	find_signal_frames(f);
	make_rows(f, &out);
	rc = f->failed ? -ENOMEM : 0;
out:
	synthesize_end(f);
	if (rc) {
		free(out.item);
		return rc;
	}
	*rows = out.item;
	*count = out.count;
	return 0;
}
