/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * stub.h - has a thread of the target, stopped anywhere, run a routine of ours (inject/entry.S: the
 * bootstrap stub, the unmap stub, the service): where the code is put, how the thread is sent
 * there, and how it is put back, as if it had only been stopped, also in the middle of a system
 * call.
 */
#ifndef MTRUN_STUB_H
#define MTRUN_STUB_H

#include <sys/user.h>

#include "base/types.h"
#include "tracee/tracer.h"

/*
 * Unused zero bytes at the end of an executable mapping, taken for a while. A header in them says
 * so, so that those of a former mtrun are found.
 */
struct code_cave {
	raddr_t start, code, end;
};
/* Puts LEN bytes of CODE into a cave. 0, or -errno; -ENOSPC: there is no such place. */
int cave_use(pid_t pid, const void *code, size_t len, struct code_cave *cave) MUST_USE;
int cave_clear(pid_t pid, const struct code_cave *cave) MUST_USE;
#define CAVE_MOST 8
/* The caves in use, at most CAVE_MOST. Returns how many. */
size_t cave_find(pid_t pid, struct code_cave found[CAVE_MOST]);

struct stub_run { /* one thread on its way through a routine */
	pid_t pid, tid;
	struct user_regs_struct was;	 /* as it stopped, */
	uint64_t mask;			 /* the signals that it blocked, */
	struct tracer_dispatch dispatch; /* and which of its calls are told to itself */
	raddr_t lo, hi;			 /* the routine, */
	raddr_t more_lo, more_hi;	 /* and what it calls elsewhere */
};
/*
 * TID is stopped, not by a signal: sends it to PC; the routine is all in [LO, HI). It begins when
 * the thread runs on.
 */
int stub_send(struct stub_run *l, pid_t pid, pid_t tid, raddr_t pc, raddr_t lo,
	      raddr_t hi) MUST_USE;
/*
 * Lets the thread run to the routine's next system call stop, entry or exit. -ESRCH: it was killed.
 */
int stub_stop(struct stub_run *l, struct user_regs_struct *regs) MUST_USE;
/*
 * Lets the thread run through the routine's next system call: *RET is its result. -ESRCH: it was
 * killed.
 */
int stub_call(struct stub_run *l, int64_t *ret) MUST_USE;
/*
 * The routine makes a thread: lets it run until that is there. *MADE waits, traced like the other,
 * at its beginning. -errno, and *MADE is 0: why there is none.
 */
int stub_thread(struct stub_run *l, pid_t *made) MUST_USE;
/*
 * The routine ends by itself: lets the thread run until it has restored its signal mask, and puts
 * it back where it was. It runs on, and reports a stop (EVENT_STOP, or EVENT_GROUP_STOP) before it
 * executes anything.
 */
int stub_recall(struct stub_run *l) MUST_USE;

/*
 * The thread is somewhere in the routine: stops it, and sets the registers and the signal mask that it
 * was sent with, without a system call of its own. *SIGNAL: what it is to get when it goes on.
 * -ETIMEDOUT: it does not stop, or is in a handler rather than in the routine, and goes on there.
 */
int stub_take_out(struct stub_run *l, int *signal) MUST_USE;
/*
 * stub_take_out() where the routine may never end by itself, as when the program has replaced what
 * it reads. The thread runs on, and reports a stop first.
 */
int stub_force(struct stub_run *l) MUST_USE;

/* For a thread that could not be sent: it runs on, and reports a stop first. Returns ERR. */
int stub_none(pid_t tid, int err);

#endif
