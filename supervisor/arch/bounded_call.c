// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/bounded_call.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * A timer sends this thread a signal, again and again from MS on. Where the handler finds the
 * thread at the instruction of the call, the call was interrupted and is to begin anew, or has not
 * begun: it is passed over, with -ETIMEDOUT for its result. One that has returned is behind that
 * instruction, and keeps its result. So nothing is lost between the two.
 */

#define SIGNAL (SIGRTMAX - 1)
#define AGAIN  (10 * 1000000) /* nanoseconds */

long bounded_raw(long nr, long a, long b, long c, long d);
extern const char bounded_at[], bounded_behind[];

__asm__(".text\n"
	".type bounded_raw, @function\n"
	"bounded_raw:\n"
	"	.cfi_startproc\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	mov %r8, %r10\n"
	"bounded_at:\n"
	"	syscall\n"
	"bounded_behind:\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size bounded_raw, . - bounded_raw\n");

static void pass_over(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)signal;
	if (info->si_code != SI_TIMER || u->uc_mcontext.gregs[REG_RIP] != (greg_t)bounded_at)
		return;
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)bounded_behind;
	u->uc_mcontext.gregs[REG_RAX] = -ETIMEDOUT;
}

long bounded_call(unsigned ms, long nr, long a, long b, long c, long d)
{
	struct itimerspec when = { .it_value = { ms / 1000, (long)(ms % 1000) * 1000000 },
				   .it_interval = { .tv_nsec = AGAIN } };
	struct sigaction handler = { .sa_sigaction = pass_over, .sa_flags = SA_SIGINFO }, was;
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL };
	sigset_t set, mask;
	timer_t timer;
	long ret;

	event._sigev_un._tid = (int)gettid();
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		return -errno;
	sigaction(SIGNAL, &handler, &was);
	pthread_sigmask(SIG_UNBLOCK, &set, &mask);
	timer_settime(timer, 0, &when, NULL);
	ret = bounded_raw(nr, a, b, c, d);
	timer_delete(timer); /* a signal of its that is pending goes with it */
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	sigaction(SIGNAL, &was, NULL);
	return ret;
}
