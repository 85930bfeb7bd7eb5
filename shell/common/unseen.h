/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * unseen.h - what a limit in force does not hold for: memory that a process has mapped in ways that
 * no hook sees, shared memory, and children that are not traced. Each is said once, memory in the
 * summary too.
 */
#ifndef MTRUN_UNSEEN_H
#define MTRUN_UNSEEN_H

#include <stdio.h>

struct shell;
struct process;

/*
 * To be called between two turns of the loop: once a second it looks, where something has grown
 * that the ledger does not tell of.
 */
void unseen_turn(struct shell *shell);
/* The line of the summary, if there is something to say of P. */
void unseen_summary(FILE *out, const struct process *p);

#endif
