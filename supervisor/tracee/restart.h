/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * restart.h - a system call that a stop of ours has interrupted goes on as if nothing had happened.
 * The kernel restarts most of them by itself when the thread runs on. A few return EINTR after any
 * stop (signal(7)), and a signal that the program ignores stops only a tracee: those calls we
 * restart. A thread that is sent elsewhere first needs both.
 *
 * A call that times out would never do so if it were stopped again and again: each time it begins
 * anew. So it is followed from one stop to the next, by system-call stops: only so is it known that
 * it has not returned in between. At a stop after its time, counted from the first one, it returns
 * what it would have, and epoll_wait(2) is given what is left of its time.
 */
#ifndef MTRUN_RESTART_H
#define MTRUN_RESTART_H

#include <sys/user.h>

#include "base/types.h"

/* A thread's call that a stop has interrupted. All zero: none. */
struct interrupted_call {
	enum {
		CALL_NONE,
		CALL_AGAIN,	 /* it is about to be made again */
		CALL_ENTERED,	 /* it has been; this and the next one only where it is followed */
		CALL_INTERRUPTED /* it has returned, and a stop follows */
	} state;
	uint64_t nr, pc, sp; /* which one: the instruction's end, and the stack */
	uint64_t timeout;    /* as the program gave it to epoll_wait(2), in ms; 0: another call */
	uint64_t end_us;     /* clock_us(), or CALL_ENDLESS */
};

#define CALL_ENDLESS UINT64_MAX

/* Whether the thread is to be resumed to its next system-call stop, for restart_at_call(). */
static inline bool restart_follows(const struct interrupted_call *call)
{
	return call->state != CALL_NONE && call->end_us != CALL_ENDLESS;
}

/*
 * TID, a thread of PID's process, has stopped: by us, or because SIGNAL is about to be delivered to
 * it (0: none). If its system call has ended only because it is traced, *REGS is changed so that it
 * is made again, or has timed out; if it is about to be made again, and SIGNAL ends it, so that it
 * has ended. CALL: what is known of TID's, kept up to date. True: the caller sets REGS.
 */
bool restart_interrupted(pid_t pid, pid_t tid, struct user_regs_struct *regs, int signal,
			 struct interrupted_call *call) MUST_USE;
/* TID, which is followed, has stopped at a system call's entry or exit. True: as above. */
bool restart_at_call(struct interrupted_call *call, struct user_regs_struct *regs) MUST_USE;
/* TID is let go, and not followed any more. True: as above. */
bool restart_forget(struct interrupted_call *call, struct user_regs_struct *regs) MUST_USE;
/*
 * Changes REGS, those of a thread that stopped anywhere, so that it can go on from them at any time
 * later: before its system call, if it was in one.
 */
void restart_whole(pid_t pid, pid_t tid, struct user_regs_struct *regs);

#endif
