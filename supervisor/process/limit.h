/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limit.h - the limit of one process: accounts of what its threads were given in advance
 * (inject/wire_mail.h, ASK_ROOM), and whether a request fits. session/limit_enforce.h acts on one
 * that does not. Bytes and milliseconds everywhere.
 */
#ifndef MTRUN_LIMIT_H
#define MTRUN_LIMIT_H

#include "base/types.h"
#include "inject/wire_mail.h"
#include "process/limit_books.h"

struct process;
struct shared_question; /* transport/shared.h */

/* Counts a refused request of BYTES. 0 or -ENOMEM. */
int limit_refused(struct limit *l, uint32_t stack, uint64_t bytes) MUST_USE;

/* Lets P's hooks charge what COUNT names (LEDGER_COUNT_*), or no more. 0 or -ENOMEM. */
int limit_switch(struct process *p, unsigned count) MUST_USE;
/* P is being left: it is under no limit any more, and each request that waits is granted. */
void limit_lift(struct process *p);
/*
 * Takes back what was given in advance. It is certain that no thread uses it any more when each has
 * passed a memory barrier, which the caller then tells by limit_fenced().
 */
void limit_close(struct process *p);
void limit_fenced(struct process *p);
/* The thread with thread pointer FS has ended: closes its lease, with what was left and in flight. */
void limit_thread_gone(struct process *p, uint64_t fs);

struct room_rules;
struct room_question;
struct room_case;
/*
 * The crossing by a request from SLOT was told (LIMIT_REPORT): requests are granted from now on, by
 * limit_above(), and P's events are watched.
 */
void limit_watch(struct process *p, uint32_t slot, const struct room_rules *r);
/* Whether P is still above the limit; then *C is what to grant. */
bool limit_above(struct process *p, const struct room_question *q, const struct room_rules *r,
		 struct room_case *c);
/* Ends limit_watch(). */
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
	ROOM_LATER, /* not known yet: to be asked again soon */
	/* every thread is to pass a memory barrier: limit_fenced(), then ask again */
	ROOM_FENCE,
	ROOM_CROSSES
};
struct room_case {
	uint64_t growth;    /* bytes by which `allocated` would grow */
	uint64_t allocated; /* now, with what is in flight; exact with ROOM_CROSSES */
	uint64_t charge;    /* what the hook is to charge */
	uint64_t ahead;	    /* what its thread may have in advance */
};
enum room_verdict limit_judge(struct process *p, const struct room_question *q,
			      const struct room_rules *r, struct room_case *c);
/* Return the answer to the question (wire_mail.answer). */
uint64_t limit_grant(struct process *p, const struct room_question *q, const struct room_case *c);
uint64_t limit_refuse(struct process *p, const struct room_question *q);
/* The answer came too late: the thread of SLOT has gone on without charging anything. */
void limit_unanswered(struct process *p, uint32_t slot);

#endif
