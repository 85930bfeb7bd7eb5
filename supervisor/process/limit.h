/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limit.h - the most that a process may have allocated: the books of what its threads were given in advance (inject/wire.h, ASK_ROOM), and whether a
 * request fits. Embedded in struct process. What is done when one does not: verdict.h.
 */
#ifndef MTRUN_LIMIT_H
#define MTRUN_LIMIT_H

#include "inject/wire.h"
#include "base/types.h"

enum limit_action {
	LIMIT_KILL,			/* the whole tree */
	LIMIT_STOP,			/* it stays stopped, with the request waiting */
	LIMIT_FAIL,			/* the call fails as if there were no memory, the program goes on */
	LIMIT_REPORT,			/* said once per crossing, and granted */
	LIMIT_ACTIONS,
};
extern const char *const limit_action_names[LIMIT_ACTIONS];

struct process;
struct shared_question;			/* shared.h */

/* A request that would cross the limit: allocated + request > limit. */
struct limit_hit {
	struct process *process;
	pid_t tid;
	uint64_t request;		/* bytes by which `allocated` would grow: of a realloc the difference, of a mapping what would become accessible */
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

struct lease;

struct limit {
	uint64_t hits;			/* requests that would have crossed it, whatever the action */
	struct limit_refusal *refusal;	/* ascending by stack */
	size_t refusals, room;
	bool told, frozen, due;		/* the shell's: a hit was told; the process stays stopped for it; `on limit` is to hear of it */
	struct limit_hit last;		/* ... that one */
	bool above;			/* LIMIT_REPORT: the crossing was told, and no request has fitted since; room is given without another look then */
	struct limit_watch {		/* ... so events tell when it is below, and crosses it again */
		uint64_t limit, allocated;	/* allocated: after the last event */
		unsigned count;
		uint32_t slot;		/* whose request crossed it, */
		bool risen;		/* and was given its memory */
		unsigned crossings;	/* that are to be told; the last one: */
		struct limit_hit last;
	} watch;
	struct lease *lease;		/* by slot, the last of handlers; NULL: it never had a limit */
	bool fenced;			/* since leases were closed last every thread has passed a memory barrier */
	uint64_t retry_ms;		/* its threads did not stop for a verdict: not again before then */
};

void limit_release(struct limit *l);
int limit_refused(struct limit *l, uint32_t stack, uint64_t bytes) MUST_USE;	/* one more: 0 or -ENOMEM */

/* Lets P's hooks charge what COUNT names (LEDGER_COUNT_*), or no more. 0 or -ENOMEM. */
int limit_switch(struct process *p, unsigned count) MUST_USE;
/* Nothing more is taken from what was given in advance, once every thread has passed a memory barrier (limit_fenced). */
void limit_close(struct process *p);
void limit_fenced(struct process *p);
/* The thread with thread pointer FS is at its end: what it had left, and what it was in the middle of, is nobody's. */
void limit_thread_gone(struct process *p, uint64_t fs);

struct room_rules;
struct room_question;
struct room_case;
/* The crossing by a request from SLOT was told (LIMIT_REPORT): requests are granted from now on, by limit_above(), and P's events are watched. */
void limit_watch(struct process *p, uint32_t slot, const struct room_rules *r);
/* Whether P is still above; then *C is what to grant. */
bool limit_above(struct process *p, const struct room_question *q, const struct room_rules *r, struct room_case *c);
/* It is not above any more, nor watched. */
void limit_unwatch(struct process *p);

struct room_question {			/* an ASK_ROOM */
	uint32_t slot, stack;
	enum wire_room kind;
	bool handler;
	uint64_t arg[4];
};
void room_question(struct room_question *q, const struct shared_question *asked);

struct room_rules {
	uint64_t limit;			/* bytes */
	unsigned count;			/* LEDGER_COUNT_* | COUNT_IMAGE */
	uint64_t ms;			/* now */
	bool final;			/* a verdict against it ends or stops the program */
	bool frozen;			/* all threads are stopped */
};
enum room_verdict {
	ROOM_FITS,			/* limit_grant() */
	ROOM_LATER,			/* it cannot be told yet: ask again soon */
	ROOM_FENCE,			/* every thread is to pass a memory barrier: limit_fenced(), then ask again */
	ROOM_CROSSES
};
struct room_case {
	uint64_t growth;		/* bytes by which `allocated` would grow */
	uint64_t allocated;		/* now, with what is in flight; exact with ROOM_CROSSES */
	uint64_t charge;		/* what the hook is to charge */
	uint64_t ahead;			/* and what its thread may have in advance */
};
enum room_verdict limit_judge(struct process *p, const struct room_question *q, const struct room_rules *r, struct room_case *c);
/* The answer to the question. */
uint64_t limit_grant(struct process *p, const struct room_question *q, const struct room_case *c);
uint64_t limit_refuse(struct process *p, const struct room_question *q);
/* The answer came too late: the thread of SLOT goes on without having charged anything. */
void limit_unanswered(struct process *p, uint32_t slot);

#endif
