/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * path.h - what holds a block: the shortest way to it from a root, or, of a lost one, from the
 * block that heads it.
 *
 * Blocks are read in the order in which they are found, so for 1 GB this takes longer than the
 * scan; mostly it ends early. Pointers to usual places (prefixes.h) are followed first; where there
 * is no way by these alone, all are.
 */
#ifndef MTRUN_LEAKS_PATH_H
#define MTRUN_LEAKS_PATH_H

#include "leaks/leaks.h"

struct leak_step { /* where a pointer to the next one is */
	enum leak_step_kind {
		STEP_REGISTER, /* a register, `at`: its number among the image's words */
		STEP_MEMORY,   /* memory in no block, `at`: the address */
		STEP_BLOCK
	} kind;
	uint64_t at;
	uint32_t block; /* STEP_BLOCK: in it, */
	uint64_t into;	/* so far */
};
struct leak_path {
	struct leak_step *step; /* the last one is the block itself: `into` is 0 */
	size_t steps;
};

/* 0, -ENOMEM, -EINTR. The caller releases PATH. */
int path_find(const struct leaks *l, uint32_t block, struct leak_path *path) MUST_USE;
void path_release(struct leak_path *path);

#endif
