/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * credible.h - whether what a process tells of itself can be true: its events come from memory that
 * it can write. One that tells of more than fits into its memory is given up: its hooks do nothing
 * from then on, its ledger is emptied, and it runs on unsupervised, which is said. The state is in
 * struct process.
 */
#ifndef MTRUN_CREDIBLE_H
#define MTRUN_CREDIBLE_H

#include "base/types.h"

struct process;
struct session;

/* For the session's loop, after the rings were read. */
void credible_turn(struct session *s);
/* credible_turn() for P alone: at its end, as long as its memory is still there. */
void credible_look(struct session *s, struct process *p);

#endif
