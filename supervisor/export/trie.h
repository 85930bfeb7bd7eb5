/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * trie.h - stacks as numbers: frames that read the same have one number, and stacks that begin
 * alike share their nodes. What viewers' files are made of. Caller's storage, trie_release() frees.
 * Strings belong to the symbols under `sites`.
 */
#ifndef MTRUN_TRIE_H
#define MTRUN_TRIE_H

#include "export/export.h"

struct trie_frame {
	/* function, file, line, column, module: what makes it one frame */
	struct symbol_frame at;
	raddr_t address; /* of the first seen */
	uint32_t next;
};
struct trie_node {
	uint32_t parent, frame; /* parent < the node itself */
	uint32_t next;
};
struct trie {
	/* a node's parent is what it calls; otherwise what calls it */
	bool inverted;
	/* lines of one function are not told apart. To be set before the first stack */
	bool functions;
	size_t frames, nodes; /* node 0 is above all */
	struct trie_frame *frame;
	struct trie_node *node;
	uint32_t *leaf; /* by stack: its node */
	size_t leaves;
	uint32_t *frame_bucket, *node_bucket;
	size_t frame_room, node_room;
	struct export_stack stack; /* taken apart at present */
};

int trie_init(struct trie *t, bool inverted) MUST_USE; /* 0 or -ENOMEM */
/* *NODE: where STACK ends. Equal stacks have one. 0 or -ENOMEM. */
int trie_stack(struct trie *t, const struct export *e, uint32_t stack, uint32_t *node) MUST_USE;
int trie_view(struct trie *t, const struct export *e) MUST_USE; /* all stacks of E's view */
/*
 * SUM[node]: the bytes of P's stacks through it, for NODES nodes. Every stack of P has been in
 * trie_stack().
 */
void trie_sum(const struct trie *t, const struct profile *p, int64_t *sum);
void trie_release(struct trie *t);

#endif
