/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * inline_syscall.h - the system calls that a module makes by itself: where its code has a `syscall`
 * instruction that may change mappings, install a seccomp filter or trace a process, and which
 * instructions around it a jump can replace. Knows the file only; plant.c does the rest.
 */
#ifndef MTRUN_INLINE_SYSCALL_H
#define MTRUN_INLINE_SYSCALL_H

#include "base/types.h"

struct elf;

#define INLINE_SYSCALL_WINDOWS 6
#define INLINE_SYSCALL_UNKNOWN (-1)

/* Addresses are the file's own. */
struct inline_syscall {
	uint64_t vaddr;	     /* of the instruction */
	uint64_t start, end; /* the function that it is in */
	uint64_t next;	     /* where the next function begins, UINT64_MAX: not known */
	/* what eax holds there; INLINE_SYSCALL_UNKNOWN: several, or not to be told */
	int64_t number;
	/*
	 * places where the jump may go, the best first: the site itself, or an instruction before
	 * it
	 */
	uint64_t window[INLINE_SYSCALL_WINDOWS];
	/* so many of these begin with an instruction of five bytes */
	unsigned nwhole;
	unsigned nwindows; /* 0: none, and `why` says why */
	const char *why;
};

/*
 * The sites in ELF's code, by address. They are found once for each file, and stay valid until
 * inline_syscall_forget(). A `syscall` whose number is known and is of no interest is left out.
 * *DARK: places that look like one, in code of which nothing is known (no function, or one that
 * cannot be decoded).
 */
int inline_syscall_find(struct elf *elf, const struct inline_syscall **site, size_t *count,
			size_t *dark) MUST_USE;
/* Begins to, if ELF is large: inline_syscall_find() then waits for the end. */
void inline_syscall_begin(struct elf *elf);
/* Gives back what is kept about files. */
void inline_syscall_forget(void);

#endif
