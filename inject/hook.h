/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hook.h - the C functions behind entry.S, one per kind of hook. They return what the hooked function returns. Those of up to three arguments get
 * them as they came; the others get the six argument registers in memory, theirs to change.
 */
#ifndef MTRUN_HOOK_H
#define MTRUN_HOOK_H

#include "blob.h"

#define HOOK3(name) uint64_t hook_##name(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
#define HOOK6(name) uint64_t hook_##name(uint64_t *a, const struct wire_hook *h, const struct entry *e)

HOOK3(malloc);
HOOK3(calloc);
HOOK3(realloc);
HOOK3(reallocarray);
HOOK3(free);
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
HOOK3(api);

#endif
