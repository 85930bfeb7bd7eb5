/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hook_map.h - the two halves around a call that changes mappings, whoever makes it: libc's
 * function, syscall(), or the program's own instruction.
 *
 * X_begin() comes before the real function: it charges and, if that is refused, changes the
 * arguments so that the call fails. X_done() comes after it, gets its result and returns it. The
 * mark stands meanwhile: where a program has its own mmap, which calls libc's, the inner one is not
 * counted again. CHARGED is X_begin()'s answer: bytes, or ROOM_NONE.
 */
#ifndef MTRUN_HOOK_MAP_H
#define MTRUN_HOOK_MAP_H

#include "counting.h"

/* The kernel's constants, which are ABI. */
enum {
	K_MAP_SHARED = 1,
	K_MAP_FIXED = 0x10,
	K_MAP_ANONYMOUS = 0x20,
	K_MREMAP_FIXED = 2,
	K_MREMAP_DONTUNMAP = 4
};

static inline bool failed(uint64_t ret) { return ret >= (uint64_t)-4095; }

static inline uint64_t pages(uint64_t n) { return (n + 4095) & ~4095ull; }

/* False: munmap and mremap refuse that without looking, and there is no event. */
bool valid_range(uint64_t addr, uint64_t length);

/*
 * System call NR with the arguments A may take away memory of mtrun's, which a program can find in
 * its mappings. True: the call is not to be made, and its result is 0. Otherwise A may have been
 * changed so that the call fails.
 */
bool spares_ours(struct scope s, const struct entry *e, uint64_t nr, uint64_t *a);

/* A is mmap's six arguments. */
uint64_t map_begin(struct scope s, const struct entry *e, uint64_t *a);
uint64_t map_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
		  const uint64_t *a);

void unmap_begin(struct scope s, const struct entry *e, uint64_t addr, uint64_t length);
uint64_t unmap_done(struct scope s, const struct entry *e, uint64_t ret, uint64_t addr,
		    uint64_t length);

/* A is mremap's (old, old length, new length, flags, new address). */
uint64_t remap_begin(struct scope s, const struct entry *e, uint64_t *a);
uint64_t remap_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
		    const uint64_t *a);

/* A is mprotect's (address, length, protection). */
uint64_t protect_begin(struct scope s, const struct entry *e, uint64_t *a);
uint64_t protect_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
		      const uint64_t *a);

/* 0: not known; then no event tells how it changes. */
uint64_t current_break(void);
/* The break is about to grow by GROWTH bytes (shrink, if negative); it is NOW, and was OLD. */
uint64_t break_begin(struct scope s, const struct entry *e, int64_t growth);
void break_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t now,
		uint64_t old);

#endif
