/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limit.h - the most that a process may have allocated: the books of what its threads were given in
 * advance (inject/wire.h, ASK_ROOM), and whether a request fits. What is done when one does not:
 * session/limit_enforce.h.
 */
#ifndef MTRUN_LIMIT_H
#define MTRUN_LIMIT_H

#include "base/types.h"
#include "inject/wire.h"
#include "process/limit_books.h"

struct process;
struct shared_question; /* transport/shared.h */

/* one more: 0 or -ENOMEM */
int limit_refused(struct limit *l, uint32_t stack, uint64_t bytes) MUST_USE;

/* Lets P's hooks charge what COUNT names (LEDGER_COUNT_*), or no more. 0 or -ENOMEM. */
int limit_switch(struct process *p, unsigned count) MUST_USE;
/* P is being left: it is under no limit any more, and who waits for an answer is let through. */
void limit_lift(struct process *p);
/*
 * Nothing more is taken from what was given in advance, once every thread has passed a memory
 * barrier (limit_fenced).
 */
void limit_close(struct process *p);
void limit_fenced(struct process *p);
/*
 * The thread with thread pointer FS is at its end: what it had left, and what it was in the middle
 * of, is nobody's.
 */
void limit_thread_gone(struct process *p, uint64_t fs);

struct room_rules;
struct room_question;
struct room_case;
/*
 * The crossing by a request from SLOT was told (LIMIT_REPORT): requests are granted from now on, by
 * limit_above(), and P's events are watched.
 */
void limit_watch(struct process *p, uint32_t slot, const struct room_rules *r);
/* Whether P is still above; then *C is what to grant. */
bool limit_above(struct process *p, const struct room_question *q, const struct room_rules *r,
		 struct room_case *c);
/* It is not above any more, nor watched. */
void limit_unwatch(struct process *p);

struct room_question { /* an ASK_ROOM */
	uint32_t slot, stack;
	enum wire_room kind;
	bool handler;
	uint64_t arg[4];
};
void room_question(struct room_question *q, const struct shared_question *asked);

struct room_rules {
	uint64_t limit; /* bytes */
	unsigned count; /* LEDGER_COUNT_* | COUNT_IMAGE */
	uint64_t ms;	/* now */
	bool final;	/* a verdict against it ends or stops the program */
	bool frozen;	/* all threads are stopped */
};
enum room_verdict {
	ROOM_FITS,  /* limit_grant() */
	ROOM_LATER, /* it cannot be told yet: ask again soon */
	/* every thread is to pass a memory barrier: limit_fenced(), then ask again */
	ROOM_FENCE,
	ROOM_CROSSES
};
struct room_case {
	uint64_t growth;    /* bytes by which `allocated` would grow */
	uint64_t allocated; /* now, with what is in flight; exact with ROOM_CROSSES */
	uint64_t charge;    /* what the hook is to charge */
	uint64_t ahead;	    /* and what its thread may have in advance */
};
enum room_verdict limit_judge(struct process *p, const struct room_question *q,
			      const struct room_rules *r, struct room_case *c);
/* The answer to the question. */
uint64_t limit_grant(struct process *p, const struct room_question *q, const struct room_case *c);
uint64_t limit_refuse(struct process *p, const struct room_question *q);
/* The answer came too late: the thread of SLOT goes on without having charged anything. */
void limit_unanswered(struct process *p, uint32_t slot);

#endif
