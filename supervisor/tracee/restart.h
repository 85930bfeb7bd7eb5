/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * restart.h - a system call that a stop of ours has interrupted goes on as if it had not been. Most
 * of them the kernel restarts by itself, when the thread runs on where it stopped; a few return
 * EINTR at any stop (signal(7)), and so do signals that the program ignores, which stop a tracee
 * alone: these we restart. A thread that is sent elsewhere first needs both
 * done.
 */
#ifndef MTRUN_RESTART_H
#define MTRUN_RESTART_H

#include <sys/user.h>

#include "base/types.h"

/*
 * TID of PID has stopped: by us, or because SIGNAL is about to be delivered to it (0: none). True:
 * its call has ended for nothing that it would have heard of without us, and REGS are other ones
 * now, to be set.
 */
bool restart_interrupted(pid_t pid, pid_t tid, struct user_regs_struct *regs, int signal) MUST_USE;
/*
 * REGS of a thread that stopped anywhere, made so that it can go on from them at any time later:
 * before the call, if it was in one.
 */
void restart_whole(pid_t pid, pid_t tid, struct user_regs_struct *regs);

#endif
