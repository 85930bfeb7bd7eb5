/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * api_answer.h - answers what the program's own code asks through inject/mtrun.h, while its thread
 * waits for it.
 */
#ifndef MTRUN_API_ANSWER_H
#define MTRUN_API_ANSWER_H

#include "process/process.h"

struct api {
	unsigned count; /* what counts as allocated: LEDGER_COUNT_* | COUNT_IMAGE */
	uint64_t limit; /* bytes; 0: none */
	/* mtrun_snapshot(): everything that had happened is in P's ledger. NULL: nobody wants it */
	void (*snapshot)(void *ctx, struct process *p, const char *name);
	void *ctx;
};

/*
 * Fills in MAIL's answer (its `what` is ASK_API). False: not yet, an event that was begun by
 * another thread is still to come; ask again soon.
 */
bool api_answer(struct process *p, const struct shared_question *q, const struct api *api);

#endif
