/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fault_fixup.h - the trampoline's loads that may fail, ended when they do. */
#ifndef MTRUN_FAULT_FIXUP_H
#define MTRUN_FAULT_FIXUP_H

#include "process/process.h"

/*
 * TID of P has stopped for SIGNAL. True: it is a fault of a load that may fail, which is ended; the
 * signal is not to be delivered.
 */
bool fault_fixup_end_fault(struct process *p, pid_t tid, int signal) MUST_USE;
/* Every thread of P proves its stacks again before it next reads there. P has its agent. */
void fault_fixup_forget(struct process *p);

#endif
