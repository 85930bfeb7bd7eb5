/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nodes.h - our side of a process' stacks (struct wire_node[]), which its hooks write. A forked
 * child goes on with its parent's numbers: those below its base are its parent's stacks, which it
 * cannot change; the others are its own. Reference-counted: a child needs its parent's.
 */
#ifndef MTRUN_NODES_H
#define MTRUN_NODES_H

#include "base/types.h"
#include "inject/wire.h"

struct nodes;

/*
 * The nodes of the process whose memory file is FD (borrowed for the call) and whose process part
 * is mapped at WIRE. ELDER: its parent's, or NULL. NULL: out of memory.
 */
struct nodes *nodes_new(int fd, struct wire_process *wire, struct nodes *elder) MUST_USE;
struct nodes *nodes_ref(struct nodes *n);
void nodes_unref(struct nodes *n); /* NULL is fine */
/* WIRE is going to be unmapped: there will be no more. */
void nodes_close(struct nodes *n);

/* One more than the highest number given out, at most WIRE_NODES; 1: none was. */
uint32_t nodes_count(const struct nodes *n);
/* Bytes of its own nodes, without its elder's. */
uint64_t nodes_memory(const struct nodes *n);
/* A new root. 0: there is no room. */
uint32_t nodes_root(struct nodes *n);
/* The node's parent (always less than NODE; 0: a root, or no such node) and pc. */
uint32_t nodes_parent(struct nodes *n, uint32_t node, uint64_t *pc);

#endif
