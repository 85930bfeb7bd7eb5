/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * patch.h - the first instructions of a function, made to run elsewhere, so that a 5-byte jump fits
 * in their place. Bytes in, bytes out: no process, no file. What cannot be moved safely is refused,
 * and why is said.
 */
#ifndef MTRUN_PATCH_H
#define MTRUN_PATCH_H

#include "base/types.h"

#define PATCH_JUMP 5 /* bytes of `jmp rel32` */
/* give at least so many of a function's bytes, if there are so many */
#define PATCH_BYTES 32
#define PATCH_CODE  112 /* the most that the moved copy takes */

struct patch {
	/* where the jump goes: the function's address, or behind its endbr64 */
	raddr_t entry;
	/*
	 * bytes from entry on whose instructions were moved, padding included; at least PATCH_JUMP
	 */
	uint8_t nbytes;
	uint8_t ninsn;
	/*
	 * offsets from entry, and in the copy; one more follows: where the copy jumps back (or
	 * ends)
	 */
	struct {
		uint8_t from, to;
	} insn[8];
	/* patch_site(): where in the copy the way to the hook is, and the system call */
	uint8_t check, call;
	uint8_t len;
	uint8_t code[PATCH_CODE]; /* the copy, with holes at the fixups until patch_place() */
	uint8_t nfixups;
	/* int32 at `at` = target - (place + end) */
	struct patch_fixup {
		uint8_t at, end;
		raddr_t target;
	} fixup[8];
};

/*
 * Decodes the function at ADDR whose first LEN bytes are BYTES; SIZE: how many bytes belong to it
 * for certain (its symbol's size; 0 if not known, then up to LEN). Returns 0, or -EOPNOTSUPP and
 * *WHY (static) if its entry cannot be redirected.
 */
int patch_decode(struct patch *patch, raddr_t addr, const uint8_t *bytes, size_t len, uint64_t size,
		 const char **why) MUST_USE;
/*
 * patch_decode() for a system call at SITE: the instructions from ADDR (the site itself, or one of
 * those before it) until behind the call and the five bytes. END: where the function ends, LIMIT:
 * where the next one begins. In the copy PATCH_CHECK bytes precede the call: `lea r11, [rip + its
 * hook]; jmp [r11]`, for patch_hook() to fill in, and two of which the first stands for the site in
 * stacks, see HOOK_RAW.
 */
#define PATCH_CHECK  12
#define PATCH_STANDS 10 /* the first of these two */
int patch_site(struct patch *patch, raddr_t addr, raddr_t site, const uint8_t *bytes, size_t len,
	       raddr_t end, raddr_t limit, const char **why) MUST_USE;
/* Fills in where the hook is, for the copy at PLACE. -ERANGE. */
int patch_hook(struct patch *patch, raddr_t place, raddr_t hook) MUST_USE;
/*
 * Fills in the copy for the address PLACE. -ERANGE: something that it refers to is more than 2 GiB
 * away.
 */
int patch_place(struct patch *patch, raddr_t place) MUST_USE;
/* The 5 bytes of a jump from AT to TO. -ERANGE. */
int patch_jump(uint8_t *out, raddr_t at, raddr_t to) MUST_USE;

/*
 * Does any branch in the function's BODY (SIZE bytes at ADDR, from the file) go into (lo, hi), that
 * is, behind the start of a place that is to be overwritten?
 */
bool patch_is_target(raddr_t addr, const uint8_t *body, size_t size, raddr_t lo, raddr_t hi);
/*
 * The one address outside of the function that it calls or jumps to directly; 0 if there is none or
 * more than one.
 */
raddr_t patch_only_callee(raddr_t addr, const uint8_t *body, size_t size);

#endif
