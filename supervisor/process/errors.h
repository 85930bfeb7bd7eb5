/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * errors.h - judges the releases that do not fit a process' ledger: an error is told only if
 * nothing else can be the reason.
 */
#ifndef MTRUN_ERRORS_H
#define MTRUN_ERRORS_H

#include "base/types.h"

struct process;

/*
 * From now on P's ledger tells of errors (ON), or no more. To be called for each ledger that P
 * gets. MS: now, since tracing began.
 */
void errors_listen(struct process *p, bool on, uint64_t ms);
/* CHILD was forked from P, and inherits P's state. ALONE: P had no other thread. */
void errors_inherit(struct process *child, const struct process *p, bool alone, uint64_t ms);
/* Whether all functions that give and take blocks of P are hooked, as far as can be seen. */
bool errors_hooks_see_all(const struct process *p);

#endif
