/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * heapfile_process.h - the process that a .heap file tells of, as a source of numbers
 * (process/process.h): one moment, without a ledger.
 */
#ifndef MTRUN_HEAPFILE_PROCESS_H
#define MTRUN_HEAPFILE_PROCESS_H

#include "base/types.h"
#include "process/process.h"
#include "report/heapfile.h"

/* The process that HEAP, which is taken over, tells of. NULL: out of memory. */
struct process *heapfile_process(struct heap *heap) MUST_USE;
/* What HEAP holds; with PROFILE_DEAD in DETAIL also stacks that hold nothing. 0 or -ENOMEM. */
int heapfile_profile(const struct heap *heap, unsigned detail, struct profile *profile) MUST_USE;

#endif
