/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * tracer.h - every ptrace(2) and wait4(2) call of mtrun. A stop is decoded into a struct event
 * first; what to do about it is stops.c's. All calls come from the thread that seized. Functions
 * return 0 or -errno; -ESRCH means that the thread was killed meanwhile.
 */
#ifndef MTRUN_TRACER_H
#define MTRUN_TRACER_H

#include <sys/user.h>

#include "base/types.h"

enum event_kind {
	EVENT_NONE,
	EVENT_SIGNAL,	  /* about to be delivered: pass `signal` on when resuming */
	EVENT_GROUP_STOP, /* stopped by a stop signal: tracer_listen() */
	EVENT_STOP,	  /* a new thread's first stop, or the answer to tracer_interrupt() */
	EVENT_EXEC,	  /* `value`: the thread id that it had before */
	EVENT_FORK,	  /* fork, vfork or clone: `value` is the new thread's id */
	/* as EVENT_FORK; the parent is suspended until the child execs or exits */
	EVENT_VFORK,
	EVENT_CLONE,
	EVENT_EXITING, /* last instant of a thread; `value`: its wait status */
	EVENT_SYSCALL, /* entry to or exit from a system call */
	EVENT_GONE,    /* the thread is no more; `value`: wait status */
};

struct event {
	enum event_kind kind;
	pid_t tid;
	int signal;
	unsigned long value;
};

#define TRACE_CHILDREN 1u /* follow fork, vfork, clone with memory of its own */
#define TRACE_EXITKILL 2u
/* suspends its seccomp filters: needs CAP_SYS_ADMIN, and that we have no filter ourselves */
#define TRACE_UNFILTERED 4u

/* -ETIMEDOUT: its process executes a program that does not come */
int tracer_seize(pid_t tid, unsigned flags) MUST_USE;

/* Other FLAGS for a stopped tracee. */
int tracer_flags(pid_t tid, unsigned flags) MUST_USE;

/*
 * The next event of any tracee, without waiting; one event of each that has stopped, before a
 * second one of any. 1: *EVENT is filled; 0: there is none; -ECHILD: no tracees are left.
 */
int tracer_next(struct event *event) MUST_USE;
/*
 * A SIGCHLD was taken: with thousands of tracees tracer_next() looks at all of them only after one,
 * and not too often.
 */
void tracer_told(void);
/* In how many microseconds it may look, if there may be events; UINT64_MAX: there are none. */
uint64_t tracer_owed_us(void);
/*
 * Waits for an event of TID, at most MS milliseconds: 1, or 0 on time-out, or -errno (-ESRCH: it
 * is a first thread that has ended before the others). EVENT_GONE is told by tracer_next() once
 * more, as the session's records depend on it.
 */
int tracer_wait(pid_t tid, struct event *event, int ms) MUST_USE;
/*
 * If EVENT, which tracer_wait() gave, tells of a new task, a new program or a last instant, the
 * session's records depend on it: tracer_next() tells it, the tracee stays at that stop until then,
 * and the answer is true.
 */
bool tracer_hand_on(const struct event *event) MUST_USE;

/*
 * Resumes TID. -ESRCH also if it has another event, which tracer_next() tells: it was killed, or
 * the event was handed on.
 */
int tracer_cont(pid_t tid, int signal);
int tracer_syscall(pid_t tid, int signal);
int tracer_listen(pid_t tid);
int tracer_interrupt(pid_t tid);
int tracer_detach(pid_t tid, int signal);
int tracer_get_regs(pid_t tid, struct user_regs_struct *regs) MUST_USE;
/*
 * The si_code of the signal that the tracee is about to get: greater than 0 if the kernel sends it
 * for what the thread did.
 */
int tracer_signal_code(pid_t tid, int *code) MUST_USE;
/* The processor's other registers (XSAVE's format) in BUF of *LEN bytes; *LEN: how many were written. */
#define TRACER_VECTOR 16384u /* bytes: more than any processor has */
int tracer_get_vector(pid_t tid, void *buf, size_t *len) MUST_USE;
int tracer_set_regs(pid_t tid, const struct user_regs_struct *regs) MUST_USE;
/* The signals that the tracee blocks, bit N - 1 for signal N. */
int tracer_get_mask(pid_t tid, uint64_t *mask) MUST_USE;
int tracer_set_mask(pid_t tid, uint64_t mask) MUST_USE;
/*
 * Whether and how the tracee has its own system calls told as SIGSYS (prctl(2),
 * PR_SET_SYSCALL_USER_DISPATCH), as Wine does: Linux 6.4's struct ptrace_sud_config.
 */
struct tracer_dispatch {
	uint64_t mode; /* 0: it has not */
	uint64_t selector, offset, len;
};
int tracer_get_dispatch(pid_t tid, struct tracer_dispatch *dispatch) MUST_USE;
int tracer_set_dispatch(pid_t tid, const struct tracer_dispatch *dispatch) MUST_USE;

/*
 * Stops the tracee, wherever it is, within MS milliseconds. *SIGNAL: what it was about to get, 0:
 * nothing. 0; -ETIMEDOUT; -ESRCH: it has ended, or is at a stop that tracer_next() tells.
 */
int tracer_halt(pid_t tid, int *signal, int ms) MUST_USE;

#endif
