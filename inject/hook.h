/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hook.h - the C functions behind entry.S, one per kind of hook. They return what the hooked
 * function returns. Those of up to three arguments get them as they came; the others get the six
 * argument registers in memory, theirs to change.
 */
#ifndef MTRUN_HOOK_H
#define MTRUN_HOOK_H

#include "blob.h"
#include "wire_hook.h"

#define HOOK3(name)                                                                         \
	uint64_t hook_##name(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h, \
			     const struct entry *e)
#define HOOK6(name) \
	uint64_t hook_##name(uint64_t *a, const struct wire_hook *h, const struct entry *e)

/*
 * System call NR with the arguments A is about to be made, in whatever way. What it may take away,
 * no thread reads any more without a new proof (walk.c). Calls that change no mappings do nothing.
 */
void memory_leaves(uint64_t nr, const uint64_t *a);

/* B and C are no arguments of the hooked function. SAID: see entry_says_new (entry.S). */
uint64_t hook_malloc(uint64_t size, uint64_t b, uint64_t c, const struct wire_hook *h,
		     const struct entry *e, uint64_t said);
uint64_t hook_free(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h,
		   const struct entry *e, uint64_t said);
HOOK3(malloc_as);
HOOK3(free_as);
HOOK3(calloc);
HOOK3(realloc);
HOOK3(reallocarray);
HOOK3(memalign);
HOOK3(posix_memalign);
HOOK3(new);
void hook_new_zero(void);
HOOK3(munmap);
HOOK3(mprotect);
HOOK3(brk);
HOOK3(sbrk);
HOOK6(generic);
HOOK6(mmap);
HOOK6(mremap);
HOOK6(prctl);
HOOK6(syscall);
HOOK6(debug_state);
HOOK6(ptrace);
HOOK3(leak_check);
HOOK3(api);

/*
 * A system call of the program's own: A has its six arguments, then its number. True: it was made,
 * and its result is in the place of the number.
 */
bool hook_raw(uint64_t *a, const struct wire_hook *h, const struct entry *e);
/* A short wait for one of the stacks that hooks share. */
void stack_nap(void);

#endif
