// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/effect.h"

/*
 * Whatever an instruction may do to rsp, rbp, a callee-saved register or a slot where one is saved
 * is either followed exactly or forgotten; all that an instruction can do besides does not matter
 * here. Byte registers and operands of 32 bits end what is known of the register.
 */

#define MAX_DEPTH (1 << 24) /* bytes of stack in one frame; beyond it is nonsense */

int effect_saved(unsigned hw)
{
	static const int8_t reg[16] = {
		-1, -1, -1, WIRE_RBX, -1,	WIRE_RBP, -1,	    -1,
		-1, -1, -1, -1,	      WIRE_R12, WIRE_R13, WIRE_R14, WIRE_R15
	};

	return hw < 16 ? reg[hw] : -1;
}

static bool rbp_is_callers(const struct frame_state *s) { return !(s->changed & 1u << WIRE_RBP); }

static void set_rsp(struct frame_state *s, int32_t rsp)
{
	s->rsp = rsp;
	if (rsp == FRAME_UNKNOWN)
		return;
	if (rsp < -MAX_DEPTH || rsp > MAX_DEPTH)
		s->rsp = FRAME_UNKNOWN;
	for (unsigned i = 0; i < WIRE_REGS; i++)
		if (s->saved[i] > rsp)
			s->saved[i] = 0; /* it is below the stack pointer now */
}

/* A register gets a value that we do not follow. */
static void clobber(struct frame_state *s, unsigned hw)
{
	int reg = effect_saved(hw);

	if (hw == RSP)
		s->rsp = FRAME_UNKNOWN;
	if (hw == RBP)
		s->rbp = FRAME_UNKNOWN;
	if (reg >= 0)
		s->changed |= (uint8_t)(1u << reg);
}

/* A byte register without REX: 4 to 7 are ah, ch, dh, bh. */
static void clobber_byte(struct frame_state *s, unsigned hw, const struct insn *i)
{
	clobber(s, !i->rex && hw >= 4 && hw < 8 ? hw - 4 : hw);
}

/* CFA - address of a memory operand on the stack; FRAME_UNKNOWN. */
static int32_t operand(const struct frame_state *s, const struct insn *i)
{
	int32_t reg = i->base == RSP ? s->rsp : i->base == RBP ? s->rbp : FRAME_UNKNOWN;

	if (reg == FRAME_UNKNOWN || i->index != DECODE_NO_REG || i->disp < -MAX_DEPTH ||
	    i->disp > MAX_DEPTH)
		return FRAME_UNKNOWN;
	return reg - i->disp;
}

void effect_push(struct frame_state *s, unsigned hw)
{
	int reg = effect_saved(hw);

	if (s->rsp == FRAME_UNKNOWN)
		return;
	set_rsp(s, s->rsp + 8);
	if (reg >= 0 && !(s->changed & 1u << reg) && !s->saved[reg])
		s->saved[reg] = s->rsp;
}

/* The caller's value comes back from where it was saved, or something else comes. */
static void load_reg(struct frame_state *s, unsigned hw, int32_t from)
{
	int reg = effect_saved(hw);

	if (hw == RBP)
		s->rbp = FRAME_UNKNOWN;
	if (reg >= 0 && from != FRAME_UNKNOWN && from > 0 && s->saved[reg] == from) {
		s->changed &= (uint8_t) ~(1u << reg);
		return;
	}
	clobber(s, hw);
}

static void pop_reg(struct frame_state *s, unsigned hw)
{
	int32_t from = s->rsp;

	load_reg(s, hw, from);
	if (from != FRAME_UNKNOWN && hw != RSP)
		set_rsp(s, from - 8);
}

static void store(struct frame_state *s, const struct insn *i, int src)
{
	int32_t at = operand(s, i);
	int reg = src < 0 ? -1 : effect_saved((unsigned)src);

	if (at == FRAME_UNKNOWN || at <= 0)
		return;
	for (unsigned k = 0; k < WIRE_REGS; k++)
		if (s->saved[k] && at > s->saved[k] - 8 && at < s->saved[k] + 8 && (int)k != reg)
			/* no longer a saved register: the slot has a second life */
			s->saved[k] = 0;
	if (reg >= 0 && !(s->changed & 1u << reg) && at % 8 == 0 && s->rsp != FRAME_UNKNOWN &&
	    at <= s->rsp)
		s->saved[reg] = at;
	else if (reg >= 0 && s->saved[reg] == at)
		s->saved[reg] = 0;
}

static void move_reg(struct frame_state *s, unsigned to, unsigned from)
{
	int32_t value = from == RSP ? s->rsp : from == RBP ? s->rbp : FRAME_UNKNOWN;

	if (to == RSP) {
		if (value == FRAME_UNKNOWN)
			s->rsp = FRAME_UNKNOWN;
		else
			set_rsp(s, value);
		return;
	}
	clobber(s, to);
	if (to == RBP)
		s->rbp = value;
}

static void add_rsp(struct frame_state *s, int64_t imm)
{
	if (s->rsp == FRAME_UNKNOWN || imm < -MAX_DEPTH || imm > MAX_DEPTH)
		s->rsp = FRAME_UNKNOWN;
	else
		set_rsp(s, s->rsp - (int32_t)imm);
}

/* 80..83: arithmetic with an immediate. */
static void apply_immediate(struct frame_state *s, const struct insn *i)
{
	unsigned op = i->reg & 7;

	if (op == 7 || i->mod != 3) {
		if (op != 7)
			store(s, i, -1);
		return;
	}
	if (i->opcode == 0x80)
		clobber_byte(s, i->rm, i);
	else if (i->rm == RSP && i->wide && (op == 0 || op == 5))
		add_rsp(s, op == 0 ? i->imm : -i->imm);
	else
		clobber(s, i->rm);
}

static void apply_low(struct frame_state *s, const struct insn *i)
{
	unsigned form = i->opcode & 7, reg = form & 2 ? i->reg : i->rm;

	if (form > 3 || i->opcode >= 0x38) /* into al, eax; cmp */
		return;
	if (!(form & 2) && i->mod != 3) {
		store(s, i, -1);
		return;
	}
	if ((i->opcode | 3) == 0x33 && form != 0 && form != 2 && i->mod == 3 && i->reg == i->rm &&
	    i->rm == RBP && s->after_syscall && rbp_is_callers(s) && !s->saved[WIRE_RBP])
		s->outermost = true; /* xor ebp, ebp */
	if (form & 1)
		clobber(s, reg);
	else
		clobber_byte(s, reg, i);
}

static void apply_lea(struct frame_state *s, const struct insn *i)
{
	int32_t at = operand(s, i);

	if (i->mod == 3)
		return;
	if (i->reg == RSP) {
		if (at == FRAME_UNKNOWN || !i->wide)
			s->rsp = FRAME_UNKNOWN;
		else
			set_rsp(s, at);
		return;
	}
	clobber(s, i->reg);
	if (i->reg == RBP && i->wide)
		s->rbp = at;
}

static void apply_leave(struct frame_state *s)
{
	if (s->rbp == FRAME_UNKNOWN) {
		s->rsp = FRAME_UNKNOWN;
		clobber(s, RBP);
		return;
	}
	s->rsp = s->rbp;
	pop_reg(s, RBP);
}

static void apply_one(struct frame_state *s, const struct insn *i)
{
	uint8_t op = i->opcode;

	if (op < 0x40) {
		apply_low(s, i);
		return;
	}
	switch (op) {
	case 0x50 ... 0x57: effect_push(s, i->rm); break;
	case 0x58 ... 0x5f: pop_reg(s, i->rm); break;
	case 0x68:
	case 0x6a:
	case 0x9c: effect_push(s, RAX); break;
	case 0x9d: pop_reg(s, RAX); break;
	case 0x63:
	case 0x69:
	case 0x6b: clobber(s, i->reg); break;
	case 0x80:
	case 0x81:
	case 0x83: apply_immediate(s, i); break;
	case 0x86:
	case 0x87:
		clobber_byte(s, i->reg, i);
		clobber(s, i->reg);
		if (i->mod == 3)
			clobber(s, i->rm);
		else
			store(s, i, -1);
		break;
	case 0x88:
		if (i->mod == 3)
			clobber_byte(s, i->rm, i);
		else
			store(s, i, -1);
		break;
	case 0x89:
		if (i->mod != 3)
			store(s, i, i->wide ? i->reg : -1);
		else if (i->wide)
			move_reg(s, i->rm, i->reg);
		else
			clobber(s, i->rm);
		break;
	case 0x8a: clobber_byte(s, i->reg, i); break;
	case 0x8b:
		if (!i->wide)
			clobber(s, i->reg);
		else if (i->mod == 3)
			move_reg(s, i->reg, i->rm);
		else
			load_reg(s, i->reg, operand(s, i));
		break;
	case 0x8c:
		if (i->mod == 3)
			clobber(s, i->rm);
		break;
	case 0x8d: apply_lea(s, i); break;
	case 0x8f: pop_reg(s, i->mod == 3 ? i->rm : RAX); break;
	case 0x90 ... 0x97:
		if (i->rm != RAX)
			clobber(s, i->rm);
		break;
	case 0xb0 ... 0xb7: clobber_byte(s, i->rm, i); break;
	case 0xb8 ... 0xbf: clobber(s, i->rm); break;
	case 0xc0:
	case 0xd0:
	case 0xd2:
	case 0xc6:
	case 0xf6:
	case 0xfe:
		if (i->mod != 3)
			store(s, i, -1);
		else if (op != 0xf6 || (i->reg & 7) == 2 || (i->reg & 7) == 3)
			clobber_byte(s, i->rm, i);
		break;
	case 0xc1:
	case 0xd1:
	case 0xd3:
	case 0xc7:
	case 0xf7:
		if (i->mod != 3)
			store(s, i, -1);
		else if (op != 0xf7 || (i->reg & 7) == 2 || (i->reg & 7) == 3)
			clobber(s, i->rm);
		break;
	case 0xc8:
		s->rsp = FRAME_UNKNOWN;
		clobber(s, RBP);
		break;
	case 0xc9: apply_leave(s); break;
	case 0xff:
		if ((i->reg & 7) == 6)
			effect_push(s, RAX);
		else if ((i->reg & 7) < 2 && i->mod == 3)
			clobber(s, i->rm);
		break;
	}
}

static void apply_0f(struct frame_state *s, const struct insn *i)
{
	switch (i->opcode) {
	case 0x05: s->after_syscall = true; break;
	/* a general register from vector ones */
	case 0x2c:
	case 0x2d:
	case 0x50:
	case 0xc5:
	case 0xd7:
	case 0x40 ... 0x4f:
	case 0xaf:
	case 0xb6 ... 0xb8:
	case 0xbc ... 0xbf:
	case 0x02:
	case 0x03: clobber(s, i->reg); break;
	case 0x7e:
		if (i->mod == 3 && i->prefix != 0xf3)
			clobber(s, i->rm);
		break;
	case 0x90 ... 0x9f:
		if (i->mod == 3)
			clobber_byte(s, i->rm, i);
		break;
	case 0xa2: clobber(s, RBX); break;
	case 0xa4:
	case 0xa5:
	case 0xab:
	case 0xac:
	case 0xad:
	case 0xb3:
	case 0xbb:
	case 0xb0:
	case 0xb1:
	case 0x00:
	case 0xc7:
	case 0xae:
		if (i->mod == 3)
			clobber(s, i->rm);
		break;
	case 0xba:
		if (i->mod == 3 && (i->reg & 7) != 4)
			clobber(s, i->rm);
		break;
	case 0xc0:
	case 0xc1:
		clobber_byte(s, i->reg, i);
		clobber(s, i->reg);
		if (i->mod == 3)
			clobber(s, i->rm);
		break;
	case 0xc8 ... 0xcf: clobber(s, i->rm); break;
	}
}

static void apply_vex(struct frame_state *s, const struct insn *i)
{
	if (i->map == MAP_0F &&
	    (i->opcode == 0x2c || i->opcode == 0x2d || i->opcode == 0x50 || i->opcode == 0xc5 ||
	     i->opcode == 0xd7 || i->opcode == 0x93 || i->opcode == 0x78 || i->opcode == 0x79))
		clobber(s, i->reg);
	else if (i->map == MAP_0F && i->opcode == 0x7e && i->prefix == 0x66 && i->mod == 3)
		clobber(s, i->rm);
	else if (i->map == MAP_0F38 && i->opcode >= 0xf2 && i->opcode <= 0xf7) {
		clobber(s, i->reg);
		clobber(s, i->vvvv);
	} else if (i->map == MAP_0F3A && i->opcode == 0xf0)
		clobber(s, i->reg);
	else if (i->map == MAP_0F3A && i->opcode >= 0x14 && i->opcode <= 0x17 && i->mod == 3)
		clobber(s, i->rm);
}

void effect_apply(struct frame_state *s, const struct insn *i)
{
	if (i->vex)
		apply_vex(s, i);
	else if (i->map == MAP_ONE)
		apply_one(s, i);
	else if (i->map == MAP_0F)
		apply_0f(s, i);
	else if (i->map == MAP_0F38 && i->opcode >= 0xf0)
		clobber(s, i->reg);
	else if (i->map == MAP_0F3A && i->opcode >= 0x14 && i->opcode <= 0x17 && i->mod == 3)
		clobber(s, i->rm);
}

struct frame_state effect_meet(const struct frame_state *a, const struct frame_state *b)
{
	struct frame_state m = *a;

	m.bad = a->bad || b->bad || a->outermost != b->outermost;
	m.after_syscall = a->after_syscall && b->after_syscall;
	m.changed = a->changed | b->changed;
	if (a->rsp != b->rsp)
		m.rsp = FRAME_UNKNOWN;
	if (a->rbp != b->rbp)
		m.rbp = FRAME_UNKNOWN;
	for (unsigned i = 0; i < WIRE_REGS; i++)
		if (a->saved[i] != b->saved[i])
			m.saved[i] = 0;
	return m;
}
