/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stacks.h - stacks with their symbols that are no live process': read from a file (heapfile.h), or
 * of several sources brought together. Nodes as sites.h has them: a caller has the lower number.
 * Pure data; the strings are borrowed.
 */
#ifndef MTRUN_STACKS_H
#define MTRUN_STACKS_H

#include "base/types.h"
#include "report/sites.h"

struct stacks;

struct stacks *stacks_new(void) MUST_USE; /* NULL: out of memory */
void stacks_free(struct stacks *s);

/*
 * Adds node ID, above all that are there and below WIRE_NODES, with caller PARENT, 0 or one that is
 * there, and LINES, which are borrowed. PC as in sites_pc(), not 0. -EINVAL: not so, or the stack
 * is deeper than any program's. -ENOMEM.
 */
int stacks_add(struct stacks *s, uint32_t id, uint32_t parent, uint64_t pc,
	       const struct symbol_frame *line, size_t lines) MUST_USE;
/* The lines of node ID and its callers; 0: there is no such node. */
size_t stacks_depth(const struct stacks *s, uint32_t id);

/* For struct sites_source; CTX is the struct stacks. */
uint32_t stacks_parent(void *ctx, uint32_t node, uint64_t *pc);
struct symbol_frames stacks_frames(void *ctx, uint32_t node, uint64_t pc);

#endif
