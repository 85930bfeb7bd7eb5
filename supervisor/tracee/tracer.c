// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * tracer.c - the one file that knows ptrace.
 *
 * Always PTRACE_SEIZE: stops are then told apart by the kernel (PTRACE_EVENT_STOP), a group stop
 * can be waited in (LISTEN), and nothing is sent to the tracee. Every thread, child and exec is
 * reported through its event option.
 */
#include "tracee/tracer.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"

static long options(unsigned flags)
{
	long o = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT |
		 PTRACE_O_TRACESYSGOOD;

	if (flags & TRACE_CHILDREN)
		o |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	if (flags & TRACE_EXITKILL)
		o |= PTRACE_O_EXITKILL;
	if (flags & TRACE_UNFILTERED)
		o |= PTRACE_O_SUSPEND_SECCOMP;
	return o;
}

static int call(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	return ptrace(request, tid, addr, data) < 0 ? -errno : 0;
}

int tracer_seize(pid_t tid, unsigned flags)
{
	return call(PTRACE_SEIZE, tid, NULL, (void *)options(flags));
}

int tracer_flags(pid_t tid, unsigned flags)
{
	return call(PTRACE_SETOPTIONS, tid, NULL, (void *)options(flags));
}

int tracer_cont(pid_t tid, int signal)
{
	return call(PTRACE_CONT, tid, NULL, (void *)(long)signal);
}

int tracer_syscall(pid_t tid, int signal)
{
	return call(PTRACE_SYSCALL, tid, NULL, (void *)(long)signal);
}

int tracer_listen(pid_t tid) { return call(PTRACE_LISTEN, tid, NULL, NULL); }

int tracer_interrupt(pid_t tid) { return call(PTRACE_INTERRUPT, tid, NULL, NULL); }

int tracer_detach(pid_t tid, int signal)
{
	return call(PTRACE_DETACH, tid, NULL, (void *)(long)signal);
}

int tracer_get_regs(pid_t tid, struct user_regs_struct *regs)
{
	return call(PTRACE_GETREGS, tid, NULL, regs);
}

int tracer_get_vector(pid_t tid, void *buf, size_t *len)
{
	struct iovec v = { buf, *len };
	int err = call(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &v);

	if (!err)
		*len = v.iov_len;
	return err;
}

int tracer_set_regs(pid_t tid, const struct user_regs_struct *regs)
{
	return call(PTRACE_SETREGS, tid, NULL, (void *)(uintptr_t)regs);
}

int tracer_get_mask(pid_t tid, uint64_t *mask)
{
	return call(PTRACE_GETSIGMASK, tid, (void *)sizeof(*mask), mask);
}

int tracer_set_mask(pid_t tid, uint64_t mask)
{
	return call(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask);
}

int tracer_signal_code(pid_t tid, int *code)
{
	siginfo_t info;
	int err = call(PTRACE_GETSIGINFO, tid, NULL, &info);

	if (!err)
		*code = info.si_code;
	return err;
}

static unsigned long message(pid_t tid)
{
	unsigned long value = 0;

	return call(PTRACE_GETEVENTMSG, tid, NULL, &value) < 0 ? 0 : value;
}

static void decode(pid_t tid, int status, struct event *e)
{
	*e = (struct event){ .tid = tid };
	if (!WIFSTOPPED(status)) {
		e->kind = EVENT_GONE;
		e->value = (unsigned long)status;
		return;
	}
	e->signal = WSTOPSIG(status);
	switch (status >> 16) {
	case PTRACE_EVENT_STOP:
		e->kind = e->signal == SIGTRAP ? EVENT_STOP : EVENT_GROUP_STOP;
		break;
	case PTRACE_EVENT_EXEC: e->kind = EVENT_EXEC; break;
	case PTRACE_EVENT_FORK: e->kind = EVENT_FORK; break;
	case PTRACE_EVENT_VFORK: e->kind = EVENT_VFORK; break;
	case PTRACE_EVENT_CLONE: e->kind = EVENT_CLONE; break;
	case PTRACE_EVENT_EXIT: e->kind = EVENT_EXITING; break;
	default: e->kind = e->signal == (SIGTRAP | 0x80) ? EVENT_SYSCALL : EVENT_SIGNAL; return;
	}
	e->value = message(tid);
}

/* Ends that tracer_wait() has told to somebody who waited for something else. */
static struct event *ends;
static size_t nends, ends_room;

static void keep_end(const struct event *e)
{
	if (!array_room(&ends, nends, &ends_room, sizeof(*ends)))
		ends[nends++] = *e;
}

int tracer_next(struct event *event)
{
	int status;
	pid_t tid;

	if (nends) {
		*event = ends[--nends];
		return 1;
	}
	do
		/* not those of the shell, which another thread has started */
		tid = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);
	while (tid < 0 && errno == EINTR);
	if (tid <= 0)
		return tid < 0 ? -errno : 0;
	decode(tid, status, event);
	return 1;
}

/*
 * Most stops come within some ten microseconds, and the shortest nap takes about a hundred: so
 * others are let first on our processor for a while, and only then it is left.
 */
#define LOOKS	    64
#define NAP_NS	    20000
#define NAP_MOST_NS 200000

int tracer_wait(pid_t tid, struct event *event, int ms)
{
	uint64_t end = clock_ms() + (uint64_t)ms;
	struct timespec nap = { .tv_nsec = NAP_NS };
	int status, looks = 0;
	pid_t got;

	for (;;) {
		got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got > 0) {
			decode(got, status, event);
			if (event->kind == EVENT_GONE)
				keep_end(event);
			return 1;
		}
		if (clock_ms() >= end)
			return 0;
		if (looks++ < LOOKS) {
			sched_yield();
			continue;
		}
		nanosleep(&nap, NULL);
		nap.tv_nsec += nap.tv_nsec < NAP_MOST_NS ? nap.tv_nsec / 16 : 0;
	}
}

int tracer_halt(pid_t tid, int *signal, int ms)
{
	struct event e;
	int err = tracer_interrupt(tid);

	if (!err)
		err = tracer_wait(tid, &e, ms);
	if (err <= 0)
		return err ? err : -ETIMEDOUT;
	if (e.kind == EVENT_EXITING)
		tracer_cont(tid, 0);
	if (e.kind == EVENT_EXITING || e.kind == EVENT_GONE)
		return -ESRCH;
	*signal = e.kind == EVENT_SIGNAL ? e.signal : 0;
	return 0;
}
