/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sampling.h - sampling switched on and off in one process (inject/wire.h tells what the hooks do
 * then). Embedded in struct process.
 */
#ifndef MTRUN_SAMPLING_H
#define MTRUN_SAMPLING_H

#include "base/types.h"
#include "inject/wire.h"

struct process;

/*
 * P has its ledger and its agent, that of a new process: with the period that the image or the
 * parent had. PERIOD: what it is now.
 */
void sampling_begin(struct process *p, uint64_t period);
/* PERIOD: bytes, at most SAMPLE_MAX; 0: off. From now on, also while it runs. */
void sampling_switch(struct process *p, uint64_t period);
/*
 * P's ledger is a new one, while P is off: nothing of what was counted is in it. PERIOD as above,
 * from when it is on.
 */
void sampling_anew(struct process *p, uint64_t period);
/* What is pending, as far as it can be done now; MS: the time. To be called often. */
void sampling_turn(struct process *p, uint64_t ms);
/* A number that no two processes share. */
uint64_t sampling_seed(void);

#endif
