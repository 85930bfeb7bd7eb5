/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * attach_check.h - whether a running process can be supervised, found out without touching it, and
 * what to do if it cannot.
 */
#ifndef MTRUN_ATTACH_CHECK_H
#define MTRUN_ATTACH_CHECK_H

#include "base/types.h"

/*
 * 0, or -errno with the whole line to say in WHY: "cannot attach to 812 ('redis-server'): ...".
 * HOOKS_GIVEN: --hook names its allocator. After 0 ptrace(2) can still refuse, and the process can
 * end or change at any time. Its first thread may have ended before the others: it cannot be seized
 * then.
 */
int attach_check(pid_t pid, bool hooks_given, char *why, size_t len) MUST_USE;

/*
 * ptrace(2) has answered ERR (-errno) for PID, which attach_check() had let pass: the line to say.
 * (-EINPROGRESS: nothing, as PID executes a program that does not come.)
 * Returns -errno as attach_check() would now, or ERR.
 */
int attach_refused(pid_t pid, int err, char *why, size_t len);

#endif
