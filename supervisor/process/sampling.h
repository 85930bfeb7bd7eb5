/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sampling.h - switches sampling on and off in one process (inject/wire_event.h says what its hooks
 * do). The state is in struct process.
 */
#ifndef MTRUN_SAMPLING_H
#define MTRUN_SAMPLING_H

#include "base/types.h"
#include "inject/wire_event.h"

struct process;

/*
 * P has just got its ledger and its agent, which has the period of its image or its parent. PERIOD:
 * the present one, bytes.
 */
void sampling_begin(struct process *p, uint64_t period);
/* From now on P's hooks sample with PERIOD: bytes, at most SAMPLE_MAX; 0: off. P may run. */
void sampling_switch(struct process *p, uint64_t period);
/* P is off and has a new ledger: nothing is counted any more. PERIOD: for when it is on again. */
void sampling_anew(struct process *p, uint64_t period);
/* Goes on with what is pending. To be called often. MS: now. */
void sampling_turn(struct process *p, uint64_t ms);
/* A number that no two processes share. */
uint64_t sampling_seed(void);

#endif
