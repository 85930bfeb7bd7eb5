/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * effect.h - what an x86-64 instruction does to its frame: how far rsp and rbp are below the CFA,
 * and where the caller's registers are. Pure; for cfi_synthesize.c, which follows the ways through
 * the code. Jumps, calls and returns change nothing here.
 */
#ifndef MTRUN_EFFECT_H
#define MTRUN_EFFECT_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/insn.h"
#include "inject/wire_stack.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP }; /* as instructions number them */
#define FRAME_UNKNOWN INT32_MIN

struct frame_state {
	int32_t rsp, rbp; /* CFA - register, or FRAME_UNKNOWN */
	/* CFA - address where the caller's value is kept; 0: nowhere */
	int32_t saved[WIRE_REGS];
	uint8_t changed; /* bit i: register i no longer has its caller's value */
	bool outermost;
	bool after_syscall;
	bool bad; /* nothing is known */
};

void effect_apply(struct frame_state *s, const struct insn *i);
/* As by a push of register HW. */
void effect_push(struct frame_state *s, unsigned hw);
/* What holds where two ways meet. */
struct frame_state effect_meet(const struct frame_state *a, const struct frame_state *b);
/* WIRE_* of the register HW, if functions must leave their callers' value in it; or -1. */
int effect_saved(unsigned hw);

#endif
