/* SPDX-License-Identifier: GPL-3.0-or-later */
/* capture_state.h - what is behind a capture: for capture_make.c, which fills it, and capture_read.c. */
#ifndef MTRUN_CAPTURE_STATE_H
#define MTRUN_CAPTURE_STATE_H

#include "base/proc.h"
#include "memory/capture.h"
#include "memory/copy.h"
#include "memory/pages.h"

struct making { /* a capture, and what is behind it */
	struct capture c;
	struct maps maps; /* whose names the ranges have */
	struct capture_range *range;
	struct capture_thread *thread;
	struct capture_block *block;
	struct capture_weight *weight;
	size_t thread_room;
	struct own_mapping { /* the program's, as of the ledger */
		raddr_t start, end;
	} * own;
	size_t owns, own_room;
	bool moving;	   /* some block is being resized: it is in no list, maybe */
	struct copy *copy; /* NULL: read where it is: */
	struct memory from;
	struct pages pages;
	int error; /* of that */
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

/* As for pages_next(). */
static inline unsigned capture_pages_wanted(const struct capture_range *r)
{
	return r->kind == CAPTURE_SHARED ? PAGES_FILES : 0;
}

#endif
