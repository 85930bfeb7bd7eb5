/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * insn.h - x86-64 instructions taken apart as far as a stack analysis asks: how long, what is the
 * opcode, what are the operands. It exists beside capstone because it is some thirty times faster:
 * a libc without unwind tables is read at every start of a program. Pure; a test compares the
 * lengths with capstone's.
 */
#ifndef MTRUN_INSN_H
#define MTRUN_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum decode_map { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A };
enum { DECODE_NO_REG = 16, DECODE_RIP = 17 }; /* as `base` of a memory operand */

struct insn {
	uint8_t len; /* bytes, prefixes and all */
	uint8_t map; /* enum decode_map */
	uint8_t opcode;
	uint8_t prefix;	     /* 0, 0x66, 0xf2 or 0xf3; of VEX the same by its pp */
	bool rex, wide, vex; /* wide: REX.W */
	bool modrm;
	uint8_t mod, reg, rm; /* with REX's bits; rm is a register only if mod is 3 */
	uint8_t vvvv;	      /* VEX: the third register */
	uint8_t base, index;  /* of the memory operand: register or DECODE_* */
	int32_t disp;
	int64_t imm; /* immediate, or the displacement of a branch */
};

/*
 * Takes apart the instruction at P, where SIZE bytes are. False: not an instruction (or not whole).
 */
bool decode(const uint8_t *p, size_t size, struct insn *insn);

#endif
