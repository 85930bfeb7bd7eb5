/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * freed.h - blocks that were released, with who did it: a bounded history, asked by address. Pure
 * data. A zeroed struct freed is an empty one that has no memory; freed_release() gives it back. An
 * address is remembered until it is released again, or WAYS others with the same place were.
 */
#ifndef MTRUN_FREED_H
#define MTRUN_FREED_H

#include "base/types.h"

#define FREED_SETS (1u << 16)
#define FREED_WAYS 4u

struct freed_block {
	raddr_t address;
	uint64_t size;
	uint32_t total, owner, tick; /* as blocks.h has them: of its allocation */
	uint32_t freed_owner, freed_tick, freed_stack;
};

struct freed {
	/* [FREED_SETS][FREED_WAYS], the newest first; NULL: nothing yet */
	struct freed_block *block;
	uint32_t used; /* sets that have something */
};

void freed_release(struct freed *f);
/* Out of memory: it is forgotten at once. */
void freed_add(struct freed *f, const struct freed_block *b);
/*
 * Of those that ADDR was in (also inside) the one that was freed last; NULL: none. Looks at all of
 * them.
 */
const struct freed_block *freed_find(const struct freed *f, raddr_t addr);
/* The one that began at ADDR itself; NULL: none. Quick. */
const struct freed_block *freed_at(const struct freed *f, raddr_t addr);
/* Bytes, at most. */
size_t freed_memory(const struct freed *f);

#endif
