/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * capture_state.h - what is behind a capture: for capture_make.c, which fills it, and
 * capture_read.c.
 */
#ifndef MTRUN_CAPTURE_STATE_H
#define MTRUN_CAPTURE_STATE_H

#include "base/arena.h"
#include "base/maps.h"
#include "memory/capture.h"
#include "memory/copy.h"
#include "memory/pages.h"

struct making { /* a capture, and what is behind it */
	struct capture c;
	struct maps maps; /* whose names the ranges have */
	struct capture_range *range;
	struct capture_thread *thread;
	struct arena blocks; /* struct capture_block */
	struct capture_weight *weight;
	size_t thread_room;
	struct own_mapping { /* the program's, as of the ledger */
		raddr_t start, end;
	} * own;
	size_t owns, own_room;
	raddr_t *leaving; /* blocks that a realloc was at work on */
	size_t leavings, leaving_room;
	/* What was a range at first; the ranges may be split since. */
	struct part {
		raddr_t start, end;
		unsigned wanted; /* for pages_next() */
		bool shared;	 /* with who may write it elsewhere */
		bool held;	 /* its pages are in the copy */
	} * part;
	size_t parts;
	struct copy *copy;  /* of what is in it already; NULL: nothing */
	struct memory from; /* where the others are; `mem` -1: nowhere (any more) */
	int error;	    /* of that */
	/* By rounds: how many; what could not be protected; what was there in the end. */
	unsigned rounds;
	struct page_run *untracked, *run;
	size_t nuntracked, untracked_room, runs, run_room;
	bool (*interrupted)(void *ctx);
	void *ctx;
};

static inline struct making *capture_making(struct capture *c)
{
	return (struct making *)(void *)c;
}

static inline const struct making *capture_made(const struct capture *c)
{
	return (const struct making *)(const void *)c;
}

#endif
