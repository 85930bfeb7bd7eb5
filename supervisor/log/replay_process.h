/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * replay_process.h - a process that a log tells of, as a source of numbers (process/process.h): its
 * ledger is as it was at the end.
 */
#ifndef MTRUN_LOG_REPLAY_PROCESS_H
#define MTRUN_LOG_REPLAY_PROCESS_H

#include "base/types.h"
#include "log/replay.h"
#include "process/process.h"

/*
 * The process that LOG, which is to live longer, tells of; COUNT: LEDGER_COUNT_*. NULL: out of
 * memory.
 */
struct process *replay_process_new(struct replay_process *log, unsigned count) MUST_USE;

#endif
