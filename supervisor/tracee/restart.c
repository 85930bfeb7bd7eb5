// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/restart.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patient.h"
#include "base/proc.h"

/*
 * restart.c - system calls that are interrupted by our stops.
 *
 * A blocking call that a stop interrupts has returned one of four codes that no program ever sees,
 * with orig_rax still its number: on the way back to the program the kernel makes the call again,
 * or returns EINTR if a handler was run. Where a call has returned EINTR itself, the kernel does
 * neither.
 */

/* As in the kernel's include/linux/errno.h. */
enum {
	ERESTARTSYS_ = 512,
	ERESTARTNOINTR_ = 513,
	ERESTARTNOHAND_ = 514,
	ERESTART_RESTARTBLOCK_ = 516
};

#define SYSCALL_BYTES 2 /* of the instruction */

/*
 * Whether call NR returns EINTR after a stop: the socket calls if they have a timeout; ppoll(2) and
 * the select(2)s if the kernel cannot note what is left of it, as it is in read-only memory.
 */
static bool ends_at_stops(uint64_t nr)
{
	switch (nr) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_select:
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_sendfile:
	case SYS_splice:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect: return true;
	}
	return false;
}

#define BIT(sig)	   (1ull << ((sig)-1))
#define IGNORED_BY_DEFAULT (BIT(SIGCHLD) | BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGCONT))

/*
 * Whether SIGNAL (0: none), or one that is pending, would have ended the call without us: a tracee
 * also gets signals that it ignores.
 */
static bool is_for_it(pid_t pid, pid_t tid, int signal)
{
	uint64_t pending, ignored, caught;
	char file[48], *status;

	snprintf(file, sizeof(file), "task/%d/status", tid);
	if (proc_read(pid, file, &status) < 0)
		return true;
	pending = (status_mask(status, "SigPnd") | status_mask(status, "ShdPnd")) &
		  ~status_mask(status, "SigBlk");
	pending |= signal ? BIT(signal) : 0;
	ignored = status_mask(status, "SigIgn");
	caught = status_mask(status, "SigCgt");
	free(status);
	return pending & ~(ignored | (IGNORED_BY_DEFAULT & ~caught));
}

static void again(struct user_regs_struct *regs, uint64_t nr)
{
	regs->rax = nr;
	regs->rip -= SYSCALL_BYTES;
	regs->orig_rax = (unsigned long long)-1;
}

/* ---- calls that time out -------------------------------------------------- */

/*
 * The time at AT of PID's memory, in microseconds; 0: none, or it cannot be read. PARTS: in a
 * microsecond, of its second member: 1000 for a struct timespec, 1 for a struct timeval.
 */
static uint64_t time_us(pid_t pid, raddr_t at, int64_t parts)
{
	struct {
		int64_t seconds, rest;
	} t;

	if (!at || patient_read(pid, at, &t, sizeof(t)) != sizeof(t) || t.seconds < 0 ||
	    t.seconds > INT32_MAX || t.rest < 0 || t.rest >= 1000000 * parts)
		return 0;
	return (uint64_t)(t.seconds * 1000000 + t.rest / parts);
}

static uint64_t timespec_us(pid_t pid, raddr_t at) { return time_us(pid, at, 1000); }

/* The timeout of io_uring_enter(2), whose arguments are in REGS. */
static uint64_t uring_us(pid_t pid, const struct user_regs_struct *regs)
{
	struct io_uring_getevents_arg arg;

	if (!(regs->r10 & IORING_ENTER_EXT_ARG) || regs->r9 != sizeof(arg) ||
	    patient_read(pid, regs->r8, &arg, sizeof(arg)) != sizeof(arg))
		return 0;
	return timespec_us(pid, arg.ts);
}

/* Whether descriptor FD of process PID is a socket; LINK: what it is, as /proc names it. */
static bool is_socket(pid_t pid, int fd, char link[64])
{
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	n = readlink(path, link, 63);
	link[n > 0 ? n : 0] = 0;
	return strncmp(link, "socket:[", 8) == 0;
}

/*
 * The timeout OPTION of socket FD, as a struct timeval in T. To ask for it takes a descriptor of
 * ours, and to close that may take time (SO_LINGER), if it is the last one by then. What is no
 * socket any more, as it was replaced since we looked, may be a file that the program serves: it
 * stays open, and no other is asked for.
 */
static ssize_t socket_timeout(pid_t pid, int fd, int option, struct timeval *t)
{
	static bool never;
	char theirs[64], ours[64];
	socklen_t len = sizeof(*t);
	int pidfd, copy, got;

	if (__atomic_load_n(&never, __ATOMIC_RELAXED) || !is_socket(pid, fd, theirs))
		return -ENOTSOCK;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (pidfd >= 0)
		close(pidfd);
	if (copy < 0)
		return -EBADF;
	if (!is_socket(getpid(), copy, ours)) {
		__atomic_store_n(&never, true, __ATOMIC_RELAXED);
		return -ENOTSOCK;
	}
	got = strcmp(ours, theirs) ? -1 : getsockopt(copy, SOL_SOCKET, option, t, &len);
	close(copy);
	return got < 0 ? -ENOTSOCK : (ssize_t)sizeof(*t);
}

static ssize_t receive_timeout(pid_t pid, uint64_t fd, void *t, size_t len)
{
	return len == sizeof(struct timeval) ? socket_timeout(pid, (int)fd, SO_RCVTIMEO, t)
					     : -EINVAL;
}

static ssize_t send_timeout(pid_t pid, uint64_t fd, void *t, size_t len)
{
	return len == sizeof(struct timeval) ? socket_timeout(pid, (int)fd, SO_SNDTIMEO, t)
					     : -EINVAL;
}

/* What FN says of socket FD, in microseconds; 0: no timeout, or not known. */
static uint64_t socket_us(pid_t pid, uint64_t fd, patient_fn *fn)
{
	struct timeval t;

	if (patient_ask(pid, fn, "its descriptor", (uint32_t)fd, &t, sizeof(t)) != sizeof(t) ||
	    t.tv_sec < 0 || t.tv_sec > INT32_MAX)
		return 0;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

static bool takes_ms(uint64_t nr) { return nr == SYS_epoll_wait || nr == SYS_epoll_pwait; }

/* When the call of REGS times out, in microseconds from its beginning; 0: never, or not known. */
static uint64_t timeout_us(pid_t pid, const struct user_regs_struct *regs)
{
	switch (regs->orig_rax) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait: return (int32_t)regs->r10 > 0 ? (regs->r10 & INT32_MAX) * 1000 : 0;
	case SYS_epoll_pwait2:
	case SYS_semtimedop: return timespec_us(pid, regs->r10);
	case SYS_ppoll:
	case SYS_rt_sigtimedwait: return timespec_us(pid, regs->rdx);
	case SYS_pselect6:
	case SYS_io_getevents:
	case SYS_io_pgetevents: return timespec_us(pid, regs->r8);
	case SYS_select: return time_us(pid, regs->r8, 1);
	case SYS_io_uring_enter: return uring_us(pid, regs);
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_accept:
	case SYS_accept4: return socket_us(pid, regs->rdi, receive_timeout);
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg: return socket_us(pid, regs->rdi, send_timeout);
	}
	return 0;
}

/* What call NR returns when its time is over. */
static int64_t timed_out(uint64_t nr)
{
	switch (nr) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_select:
	case SYS_io_getevents:
	case SYS_io_pgetevents: return 0;
	case SYS_io_uring_enter: return -ETIME;
	}
	return -EAGAIN;
}

static bool is_it(const struct interrupted_call *c, const struct user_regs_struct *regs)
{
	return regs->orig_rax == c->nr && regs->rip == c->pc && regs->rsp == c->sp;
}

/* REGS are those before the instruction of C is run again. */
static bool is_before(const struct interrupted_call *c, const struct user_regs_struct *regs)
{
	return c->state == CALL_AGAIN && (int64_t)regs->orig_rax < 0 && regs->rax == c->nr &&
	       regs->rip == c->pc - SYSCALL_BYTES && regs->rsp == c->sp;
}

bool restart_forget(struct interrupted_call *c, struct user_regs_struct *regs)
{
	bool changes = c->state && c->timeout && (is_it(c, regs) || is_before(c, regs));

	if (changes)
		regs->r10 = c->timeout;
	c->state = CALL_NONE;
	return changes;
}

bool restart_at_call(struct interrupted_call *c, struct user_regs_struct *regs)
{
	bool entry = (int64_t)regs->rax == -ENOSYS;

	if (is_it(c, regs) && c->state == CALL_AGAIN && entry) {
		c->state = CALL_ENTERED;
		return false;
	}
	if (!is_it(c, regs) || c->state != CALL_ENTERED || (int64_t)regs->rax != -EINTR)
		return restart_forget(c, regs);
	c->state = CALL_INTERRUPTED;
	if (c->timeout)
		regs->r10 = c->timeout;
	return c->timeout != 0;
}

/* The call of REGS, which is C from now on, is to be made again, or its time is over. */
static void again_in_time(pid_t pid, struct user_regs_struct *regs, struct interrupted_call *c)
{
	uint64_t now = clock_us(), us;

	if (c->state != CALL_INTERRUPTED || !is_it(c, regs)) {
		us = timeout_us(pid, regs);
		*c = (struct interrupted_call){ .nr = regs->orig_rax,
						.pc = regs->rip,
						.sp = regs->rsp };
		if (us && takes_ms(c->nr))
			c->timeout = regs->r10;
		c->end_us = us ? now + us : CALL_ENDLESS;
	}
	if (now >= c->end_us) {
		c->state = CALL_NONE;
		regs->rax = (uint64_t)timed_out(c->nr);
		return;
	}
	c->state = CALL_AGAIN;
	if (c->timeout)
		regs->r10 = (c->end_us - now + 999) / 1000;
	again(regs, c->nr);
}

bool restart_interrupted(pid_t pid, pid_t tid, struct user_regs_struct *regs, int signal,
			 struct interrupted_call *c)
{
	bool ended = (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax == -EINTR &&
		     ends_at_stops(regs->orig_rax);

	if (ended && !is_for_it(pid, tid, signal)) {
		again_in_time(pid, regs, c);
		return true;
	}
	if (!is_before(c, regs))
		return restart_forget(c, regs);
	if (!signal || !is_for_it(pid, tid, signal))
		return false;
	/* it has come since the call was interrupted, and would have ended it */
	if (c->timeout)
		regs->r10 = c->timeout;
	regs->rip = c->pc;
	regs->rax = (uint64_t)-EINTR;
	c->state = CALL_NONE;
	return true;
}

void restart_whole(pid_t pid, pid_t tid, struct user_regs_struct *regs)
{
	if ((int64_t)regs->orig_rax >= 0) {
		switch (-(int64_t)regs->rax) {
		case ERESTARTSYS_:
		case ERESTARTNOINTR_:
		case ERESTARTNOHAND_: again(regs, regs->orig_rax); break;
		case ERESTART_RESTARTBLOCK_: again(regs, SYS_restart_syscall); break;
		case EINTR:
			if (ends_at_stops(regs->orig_rax) && !is_for_it(pid, tid, 0))
				again(regs, regs->orig_rax);
			break;
		}
	}
	regs->orig_rax = (unsigned long long)-1;
}
