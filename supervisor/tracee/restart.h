/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * restart.h - a system call that a stop of ours has interrupted goes on as if nothing had happened.
 * The kernel restarts most of them by itself when the thread runs on. A few return EINTR after any
 * stop (signal(7)), and a signal that the program ignores stops only a tracee: those calls we
 * restart. A thread that is sent elsewhere first needs both.
 */
#ifndef MTRUN_RESTART_H
#define MTRUN_RESTART_H

#include <sys/user.h>

#include "base/types.h"

/*
 * TID of PID has stopped: by us, or because SIGNAL is about to be delivered to it (0: none). True:
 * its system call has ended only because it is traced, and *REGS has been changed so that it is
 * made again; the caller sets them.
 */
bool restart_interrupted(pid_t pid, pid_t tid, struct user_regs_struct *regs, int signal) MUST_USE;
/*
 * Changes REGS, those of a thread that stopped anywhere, so that it can go on from them at any time
 * later: before its system call, if it was in one.
 */
void restart_whole(pid_t pid, pid_t tid, struct user_regs_struct *regs);

#endif
