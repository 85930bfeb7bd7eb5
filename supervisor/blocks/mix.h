/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * mix.h - live blocks where they are not in one table of pages alone (blocks.h): most in a compact
 * table, in pages those that do not fit there; and while the layout changes, also in the table that
 * they come from. For blocks_pages.c alone.
 */
#ifndef MTRUN_MIX_H
#define MTRUN_MIX_H

#include "blocks/compact.h"

struct mix {
	bool leaving; /* all go to `pages`, which then are the table */
	struct compact compact;
	struct blocks pages;
	/* blocks are only taken from it; released: `page` is NULL */
	struct blocks old;
	size_t moved;	  /* its first so many pages are empty */
	uint64_t changes; /* how often a block has gone to another table, or tables their roles */
};

/* A mix with all of T, which is then empty. NULL: out of memory. */
struct mix *mix_new(struct blocks *t) MUST_USE;
void mix_free(struct mix *m);
struct mix *mix_copy(const struct mix *m) MUST_USE; /* NULL: out of memory */
size_t mix_memory(const struct mix *m);
/* Where blocks go from now on. 0 or -ENOMEM: as it was. */
int mix_turn(struct mix *m, bool leaving) MUST_USE;
/* About N blocks come to where they belong. False: all are there. */
bool mix_move(struct mix *m, size_t n);

/* As those of blocks.h. */
const struct block *mix_get(const struct mix *m, raddr_t addr, struct block *copy);
bool mix_put(struct mix *m, raddr_t addr, struct block block, struct block *was);
bool mix_take(struct mix *m, raddr_t addr, struct block stamp, struct block *out);
void mix_count(struct mix *m, raddr_t addr);
bool mix_walk(const struct mix *m, struct blocks_walk *w);
uint64_t mix_moves(const struct mix *m); /* grows when a pass would lose its place */
int mix_pass(const struct mix *m, struct blocks_pass *w, size_t n,
	     void (*fn)(void *ctx, raddr_t addr, const struct block *b), void *ctx) MUST_USE;
bool mix_below(const struct mix *m, raddr_t addr, raddr_t *start, struct block *out);
bool mix_freed(const struct mix *m, raddr_t addr, raddr_t *start, struct block *out);
bool mix_left(const struct mix *m, raddr_t addr, struct block *out);

#endif
