/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * errors.h - releases that a process' ledger cannot agree with are judged: whether that can have
 * another reason than an error, and then nothing is said.
 */
#ifndef MTRUN_ERRORS_H
#define MTRUN_ERRORS_H

#include "base/types.h"

struct process;

/*
 * From now on P's ledger tells of errors (ON), or no more; to be called for each ledger that it
 * gets. MS: now.
 */
void errors_listen(struct process *p, bool on, uint64_t ms);
/* A child of P goes on with what P knows of its heap. ALONE: no other thread of P ran meanwhile. */
void errors_inherit(struct process *child, const struct process *p, bool alone, uint64_t ms);

#endif
