/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limit.h - the most that a process may have allocated: what was refused, and what happens then. Embedded in struct process; pure data.
 */
#ifndef MTRUN_LIMIT_H
#define MTRUN_LIMIT_H

#include "types.h"

enum limit_action {
	LIMIT_KILL,			/* the whole tree */
	LIMIT_STOP,			/* it stays stopped, with the request waiting */
	LIMIT_FAIL,			/* the call fails as if there were no memory, the program goes on */
	LIMIT_REPORT,			/* said once per crossing, and granted */
	LIMIT_ACTIONS,
};
extern const char *const limit_action_names[LIMIT_ACTIONS];

struct process;

/* A request that would cross the limit: allocated + request > limit. */
struct limit_hit {
	struct process *process;
	pid_t tid;
	uint64_t request;		/* bytes by which `allocated` would grow; realloc: by which the block would */
	uint64_t allocated, limit;	/* before the request; at the image's hit 0 */
	uint32_t stack;			/* the request's; 0: none */
	bool image;			/* the executable's text alone is above the limit: nothing of the program has run */
	uint64_t ms;			/* since tracing began */
};

/* Calls that were refused (LIMIT_FAIL), by stack. */
struct limit_refusal {
	uint32_t stack;
	uint64_t count, bytes;
};

struct limit {
	uint64_t hits;			/* requests that would have crossed it, whatever the action */
	struct limit_refusal *refusal;	/* ascending by stack */
	size_t refusals, room;
	bool told, frozen, due;		/* the shell's: a hit was told; the process stays stopped for it; `on limit` is to hear of it */
};

void limit_release(struct limit *l);
int limit_refused(struct limit *l, uint32_t stack, uint64_t bytes) MUST_USE;	/* one more: 0 or -ENOMEM */

#endif
