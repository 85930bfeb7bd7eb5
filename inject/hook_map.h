/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hook_map.h - the two halves around a call that changes mappings, whoever makes it: libc's
 * function, syscall(), or the program's own instruction.
 *
 * Each has a first half before the real function, which charges and, if that is refused, makes the
 * call impossible in its arguments; and a second half with what the real function returned. The
 * mark stands meanwhile: where a program puts its own mmap before libc's, the inner one is not
 * counted again.
 */
#ifndef MTRUN_HOOK_MAP_H
#define MTRUN_HOOK_MAP_H

#include "counting.h"

/* Arguments and results of mmap(2) and the kernel's constants, which are ABI. */
enum {
	K_MAP_SHARED = 1,
	K_MAP_FIXED = 0x10,
	K_MAP_ANONYMOUS = 0x20,
	K_MREMAP_FIXED = 2,
	K_MREMAP_DONTUNMAP = 4
};

static inline bool failed(uint64_t ret) { return ret >= (uint64_t)-4095; }

static inline uint64_t pages(uint64_t n) { return (n + 4095) & ~4095ull; }

/* What munmap and mremap refuse without looking; no event then. */
bool valid_range(uint64_t addr, uint64_t length);

/*
 * A call that would take memory of mtrun's away, which the program has found in its mappings: NR
 * with arguments A. True: it is not made, and its result is 0. Otherwise A may have been changed,
 * so that it fails.
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

/* 0: not known, and then nothing is said of what becomes of it. */
uint64_t current_break(void);
/* The break is to grow by GROWTH bytes, if that is positive. */
uint64_t break_begin(struct scope s, const struct entry *e, int64_t growth);
void break_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t now,
		uint64_t old);

#endif
