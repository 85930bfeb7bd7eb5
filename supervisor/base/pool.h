/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool.h - jobs done by several threads, while the one that asked looks on. */
#ifndef MTRUN_POOL_H
#define MTRUN_POOL_H

#include "base/types.h"

struct pool_work {
	void *ctx;
	/* Of a worker: what it needs for itself, NULL: out of memory; and its end. */
	void *(*begin)(void *ctx);
	void (*end)(void *ctx, void *own);
	/* Job number JOB, in order of the numbers. */
	void (*job)(void *ctx, void *own, size_t job);
	/*
	 * Called in the thread that asked, several times a second and after the last job; false:
	 * what has not begun is left undone. NULL: is not.
	 */
	bool (*look)(void *ctx);
};

/*
 * JOBS jobs by WORKERS threads, at least one. 0, -ECANCELED: LOOK said so; -ENOMEM, -EAGAIN: not
 * all were done.
 */
int pool_run(const struct pool_work *work, unsigned workers, size_t jobs) MUST_USE;
/* Processors that we may use. */
unsigned pool_processors(void);

#endif
