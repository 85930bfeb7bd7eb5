/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nodes.h - our side of a process' stacks (struct wire_node[]), which its hooks write. A forked
 * child goes on with its parent's numbers: those up to its BASE are its parent's stacks, which it
 * cannot change; later ones are its own. Counted: they are asked as long as somebody has blocks of
 * them.
 */
#ifndef MTRUN_NODES_H
#define MTRUN_NODES_H

#include "base/types.h"
#include "inject/wire.h"

struct nodes;

/*
 * Of the process whose memory file is FD and whose part WIRE is mapped; ELDER: of its parent, or
 * NULL. NULL: out of memory.
 */
struct nodes *nodes_new(int fd, struct wire_process *wire, struct nodes *elder) MUST_USE;
struct nodes *nodes_ref(struct nodes *n);
void nodes_unref(struct nodes *n); /* NULL is fine */
/* WIRE is going to be unmapped: there will be no more. */
void nodes_close(struct nodes *n);

/* Numbers given out, at most WIRE_NODES. 1: none. */
uint32_t nodes_count(const struct nodes *n);
/* Bytes of those that are its own, not an elder's. */
uint64_t nodes_memory(const struct nodes *n);
/* A new root. 0: there is no room. */
uint32_t nodes_root(struct nodes *n);
/* The node's parent (always less than NODE; 0: a root, or no such node) and pc. */
uint32_t nodes_parent(struct nodes *n, uint32_t node, uint64_t *pc);

#endif
