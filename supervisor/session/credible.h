/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * credible.h - whether what a process tells of itself can be: its events come from memory that it can write. One that says that it has more than fits into its memory is
 * given up: its hooks do nothing from then on, its ledger is emptied, it runs on unsupervised and is named so. The state belongs to its struct process.
 */
#ifndef MTRUN_CREDIBLE_H
#define MTRUN_CREDIBLE_H

#include "base/types.h"

struct process;
struct session;

#define CREDIBLE_SUSPECTS 512u

struct credible {
	uint64_t memory;		/* bytes of its ledger at which it is looked at again */
	uint64_t peak;			/* the most that it ever had mapped, as last seen */
	uint64_t blocks;		/* live blocks at which some of them are looked up again */
	raddr_t *suspect;		/* blocks that lay outside of its mappings, */
	size_t suspects, sample;	/* of so many */
	uint64_t suspect_ms;		/* then */
	bool given_up;
	bool emptied;			/* its ledger is another one */
};

/* For the session's loop, after the rings were read. */
void credible_turn(struct session *s);
/* The same for P alone: at its end, as long as its memory is still there. */
void credible_look(struct session *s, struct process *p);
void credible_release(struct credible *c);

#endif
