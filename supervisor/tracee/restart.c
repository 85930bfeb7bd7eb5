// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/restart.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

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

/* Whether call NR returns EINTR after a stop; the socket calls do if they have a timeout. */
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

bool restart_interrupted(pid_t pid, pid_t tid, struct user_regs_struct *regs, int signal)
{
	if ((int64_t)regs->orig_rax < 0 || (int64_t)regs->rax != -EINTR ||
	    !ends_at_stops(regs->orig_rax) || is_for_it(pid, tid, signal))
		return false;
	again(regs, regs->orig_rax);
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
		default:
			if (restart_interrupted(pid, tid, regs, 0))
				break;
		}
	}
	regs->orig_rax = (unsigned long long)-1;
}
