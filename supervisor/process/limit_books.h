/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limit_books.h - the state of one process' limit: hits, refusals, what its threads were given in
 * advance. Embedded in struct process; limit.c keeps it.
 */
#ifndef MTRUN_LIMIT_BOOKS_H
#define MTRUN_LIMIT_BOOKS_H

#include "base/types.h"

enum limit_action {
	LIMIT_KILL, /* the whole tree */
	LIMIT_STOP, /* the process stays stopped, with the request waiting */
	/* the call fails as if there were no memory, the program goes on */
	LIMIT_FAIL,
	LIMIT_REPORT, /* each crossing is said once, and the request is granted */
	LIMIT_ACTIONS,
};
extern const char *const limit_action_names[LIMIT_ACTIONS];

struct process;

/* A request that would cross the limit: allocated + request > limit. */
struct limit_hit {
	struct process *process;
	pid_t tid;
	/*
	 * bytes by which `allocated` would grow: of a realloc the difference, of a mapping what
	 * would become accessible
	 */
	uint64_t request;
	uint64_t allocated, limit; /* before the request; at the image's hit 0 */
	uint32_t stack;		   /* the request's; 0: none */
	/* the executable's text alone is above the limit: nothing of the program has run */
	bool image;
	uint64_t ms; /* since tracing began */
};

/* Calls that were refused (LIMIT_FAIL), by stack. */
struct limit_refusal {
	uint32_t stack;
	uint64_t count, bytes;
};

struct lease;

struct limit {
	/* requests that would have crossed it, whatever the action */
	uint64_t hits;
	struct limit_refusal *refusal; /* ascending by stack */
	size_t refusals, room;
	/*
	 * the shell's: a hit was told; the process stays stopped for it; `on limit` is to hear of
	 * it
	 */
	bool told, frozen, due;
	struct limit_hit last; /* ... that one */
	/*
	 * LIMIT_REPORT: the crossing was told, and no request has fitted since; room is given
	 * without another look then
	 */
	bool above;
	/* ... so events tell when it is below, and crosses it again */
	struct limit_watch {
		uint64_t limit, allocated; /* allocated: after the last event */
		unsigned count;
		uint32_t slot;	    /* whose request crossed it, */
		bool risen;	    /* and was given its memory */
		unsigned crossings; /* that are to be told; the last one: */
		struct limit_hit last;
	} watch;
	/* by slot, the last of handlers; NULL: it never had a limit */
	struct lease *lease;
	/* every thread has passed a memory barrier since leases were last closed */
	bool fenced;
	/* its threads did not stop for a verdict: not again before then */
	uint64_t retry_ms;
	/* it is being left: every request is granted, so that no thread waits inside a hook */
	bool lifted;
};

#endif
