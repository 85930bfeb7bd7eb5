// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/insn.h"

#include <string.h>

/*
 * insn.c - the x86-64 instruction format: prefixes, opcode map, ModRM, SIB, displacement,
 * immediate.
 *
 * Two tables, one bit pattern per opcode, say whether a ModRM byte follows and what immediate.
 * Everything else is in the few lines of decode(). Opcodes that 64-bit mode does not have are
 * refused, privileged ones are not.
 */

/* What follows an opcode. */
enum {
	M = 1, /* ModRM */
	/* immediate: byte; 16/32 bits by operand size; IZ or 64 bits with REX.W */
	I8 = 2,
	IZ = 4,
	IV = 8,
	I16 = 16,
	ADDR = 32, /* 16 bits; an address of 8 bytes */
	T3 = 64,   /* immediate only if ModRM's reg is 0 or 1 (test) */
	X = 128,   /* no instruction */
};

static const uint8_t one[256] = {
	/* 00 */ M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	/* 10 */ M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	/* 20 */ M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	/* 30 */ M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	M,
	M,
	M,
	M,
	I8,
	IZ,
	X,
	X,
	/* 40 */ X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	/* 50 */ 0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	/* 60 */ X,
	X,
	X,
	M,
	X,
	X,
	X,
	X,
	IZ,
	M | IZ,
	I8,
	M | I8,
	0,
	0,
	0,
	0,
	/* 70 */ I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	/* 80 */ M | I8,
	M | IZ,
	X,
	M | I8,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* 90 */ 0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	X,
	0,
	0,
	0,
	0,
	0,
	/* a0 */ ADDR,
	ADDR,
	ADDR,
	ADDR,
	0,
	0,
	0,
	0,
	I8,
	IZ,
	0,
	0,
	0,
	0,
	0,
	0,
	/* b0 */ I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	IV,
	IV,
	IV,
	IV,
	IV,
	IV,
	IV,
	IV,
	/* c0 */ M | I8,
	M | I8,
	I16,
	0,
	X,
	X,
	M | I8,
	M | IZ,
	I16 | I8,
	0,
	I16,
	0,
	0,
	I8,
	X,
	0,
	/* d0 */ M,
	M,
	M,
	M,
	X,
	X,
	X,
	0,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* e0 */ I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	I8,
	IZ,
	IZ,
	X,
	I8,
	0,
	0,
	0,
	0,
	/* f0 */ X,
	0,
	X,
	X,
	0,
	0,
	M | I8 | T3,
	M | IZ | T3,
	0,
	0,
	0,
	0,
	0,
	0,
	M,
	M,
};

static const uint8_t two[256] = {
	/* 00 */ M,
	M,
	M,
	M,
	X,
	0,
	0,
	0,
	0,
	0,
	X,
	0,
	X,
	M,
	0,
	M | I8,
	/* 10 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* 20 */ M,
	M,
	M,
	M,
	X,
	X,
	X,
	X,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* 30 */ 0,
	0,
	0,
	0,
	0,
	0,
	X,
	0,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	X,
	/* 40 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* 50 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* 60 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* 70 */ M | I8,
	M | I8,
	M | I8,
	M | I8,
	M,
	M,
	M,
	0,
	M,
	M,
	X,
	X,
	M,
	M,
	M,
	M,
	/* 80 */ IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	IZ,
	/* 90 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* a0 */ 0,
	0,
	0,
	M,
	M | I8,
	M,
	X,
	X,
	0,
	0,
	0,
	M,
	M | I8,
	M,
	M,
	M,
	/* b0 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M | I8,
	M,
	M,
	M,
	M,
	M,
	/* c0 */ M,
	M,
	M | I8,
	M,
	M | I8,
	M | I8,
	M | I8,
	M,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	/* d0 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* e0 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	/* f0 */ M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
	M,
};

struct reader {
	const uint8_t *p, *end;
};

static bool get(struct reader *r, size_t bytes, int64_t *value)
{
	uint64_t v = 0;
	unsigned shift = (unsigned)(64 - bytes * 8);

	if ((size_t)(r->end - r->p) < bytes)
		return false;
	memcpy(&v, r->p, bytes);
	r->p += bytes;
	*value = (int64_t)(v << shift) >> shift;
	return true;
}

static bool get_modrm(struct reader *r, struct insn *i, unsigned rex)
{
	int64_t disp = 0;
	uint8_t b, sib;

	if (r->p == r->end)
		return false;
	b = *r->p++;
	i->modrm = true;
	i->mod = b >> 6;
	i->reg = (b >> 3 & 7) | (rex & 4) << 1;
	i->rm = (b & 7) | (rex & 1) << 3;
	if (i->mod == 3)
		return true;
	i->base = i->rm;
	if ((b & 7) == 4) {
		if (r->p == r->end)
			return false;
		sib = *r->p++;
		i->base = (sib & 7) | (rex & 1) << 3;
		i->index = (sib >> 3 & 7) | (rex & 2) << 2;
		if (i->index == 4)
			i->index = DECODE_NO_REG;
		if ((sib & 7) == 5 && i->mod == 0)
			i->base = DECODE_NO_REG;
	} else if ((b & 7) == 5 && i->mod == 0)
		i->base = DECODE_RIP;
	if (i->mod == 1 && !get(r, 1, &disp))
		return false;
	if ((i->mod == 2 || i->base >= DECODE_NO_REG) && !get(r, 4, &disp))
		return false;
	i->disp = (int32_t)disp;
	return true;
}

/* Legacy prefixes and REX. The opcode is next. */
static bool get_prefixes(struct reader *r, struct insn *i, unsigned *rex, bool *small,
			 bool *small_address)
{
	for (; r->p < r->end; r->p++) {
		uint8_t b = *r->p;

		if ((b & 0xf0) == 0x40) {
			*rex = b & 15;
			i->rex = true;
			continue;
		}
		switch (b) {
		case 0x66:
			*small = true;
			if (!i->prefix)
				i->prefix = b;
			break;
		case 0xf2:
		case 0xf3: i->prefix = b; break;
		case 0x67: *small_address = true; break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0xf0: break;
		default: return true;
		}
		*rex = 0; /* REX counts only right before the opcode */
		i->rex = false;
	}
	return false;
}

/* VEX (2 or 3 bytes) and EVEX; their first byte is at r->p. */
static bool get_vex(struct reader *r, struct insn *i, unsigned *rex)
{
	static const uint8_t pp[] = { 0, 0x66, 0xf3, 0xf2 };
	size_t len = *r->p == 0xc5 ? 2 : *r->p == 0xc4 ? 3 : 4;
	const uint8_t *b = r->p;
	unsigned map = 1, last;

	if ((size_t)(r->end - r->p) < len)
		return false;
	if (len > 2)
		map = b[1] & (len == 3 ? 31 : 7);
	last = len == 2 ? b[1] : b[2];
	if (map < 1 || map > 3)
		return false;
	*rex = (~b[1] >> 7 & 1) << 2;
	if (len > 2)
		*rex |= (~b[1] >> 6 & 1) << 1 | (~b[1] >> 5 & 1);
	i->vex = true;
	i->map = (uint8_t)map;
	i->wide = len > 2 && last >> 7;
	i->prefix = pp[last & 3];
	i->vvvv = ~last >> 3 & 15;
	r->p += len;
	return true;
}

static bool get_opcode(struct reader *r, struct insn *i)
{
	if (r->p == r->end)
		return false;
	i->opcode = *r->p++;
	if (i->vex || i->opcode != 0x0f)
		return true;
	if (r->p == r->end)
		return false;
	i->map = MAP_0F;
	i->opcode = *r->p++;
	if (i->opcode != 0x38 && i->opcode != 0x3a)
		return true;
	if (r->p == r->end)
		return false;
	i->map = i->opcode == 0x38 ? MAP_0F38 : MAP_0F3A;
	i->opcode = *r->p++;
	return true;
}

static unsigned follows(const struct insn *i)
{
	switch (i->map) {
	case MAP_ONE: return one[i->opcode];
	case MAP_0F:
		return i->vex && i->opcode == 0x77 ? 0
		       : i->vex			   ? two[i->opcode] | M
						   : two[i->opcode];
	case MAP_0F38: return M;
	default: return M | I8;
	}
}

bool decode(const uint8_t *p, size_t size, struct insn *i)
{
	struct reader r = { .p = p, .end = p + (size < 15 ? size : 15) };
	bool small = false, small_address = false, branch;
	unsigned rex = 0, what;
	int64_t ignored;

	*i = (struct insn){ .base = DECODE_NO_REG, .index = DECODE_NO_REG };
	if (!get_prefixes(&r, i, &rex, &small, &small_address))
		return false;
	if (*r.p == 0xc4 || *r.p == 0xc5 || *r.p == 0x62) {
		if (!get_vex(&r, i, &rex))
			return false;
	} else
		i->wide = rex & 8;
	if (!get_opcode(&r, i))
		return false;
	what = follows(i);
	if (what & X)
		return false;
	if (what & M && !get_modrm(&r, i, rex))
		return false;
	if (!(what & M)) /* push, pop, mov: the register is in the opcode */
		i->rm = (i->opcode & 7) | (rex & 1) << 3;
	if (i->map == MAP_ONE && i->opcode == 0x8f && i->reg & 7)
		return false; /* XOP */
	if (what & T3 && (i->reg & 7) > 1)
		what = 0;
	branch = (i->map == MAP_0F && !i->vex && (i->opcode & 0xf0) == 0x80) ||
		 (i->map == MAP_ONE && (i->opcode == 0xe8 || i->opcode == 0xe9));
	if (what & I16 && !get(&r, 2, &i->imm))
		return false;
	if (what & I8 && !get(&r, 1, what & I16 ? &ignored : &i->imm))
		return false;
	if (what & ADDR && !get(&r, small_address ? 4 : 8, &i->imm))
		return false;
	if (what & IV && i->wide && !get(&r, 8, &i->imm))
		return false;
	if ((what & IZ || (what & IV && !i->wide)) &&
	    !get(&r, small && !i->wide && !branch ? 2 : 4, &i->imm))
		return false;
	i->len = (uint8_t)(r.p - p);
	return true;
}
