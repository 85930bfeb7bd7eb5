// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * dispatch.c SECONDS - a program that has its own system calls told as SIGSYS (prctl(2),
 * PR_SET_SYSCALL_USER_DISPATCH), as Wine does for a Windows program's. Says "there", runs, most of
 * the time with its calls told, and says whether it was told of those that it made, and no other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
static volatile long told;

static void on_call(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	selector = SYSCALL_DISPATCH_FILTER_ALLOW; /* sigreturn(2) is a call, too */
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4711;
	told++;
}

/* getppid(2) with calls told: by hand, as libc may be hooked. */
static long call(void)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(SYS_getppid) : "rcx", "r11", "memory");
	return ret;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER };
	time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
	long made = 0, good = 0;

	sigaction(SIGSYS, &action, NULL);
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector)) {
		puts("no such thing");
		return 77;
	}
	puts("there");
	fflush(stdout);
	while (time(NULL) < end) {
		free(malloc(100));
		selector = SYSCALL_DISPATCH_FILTER_BLOCK;
		for (volatile int i = 0; i < 1000000; i++)
			;
		made++;
		good += call() == 4711;
	}
	puts(good == made && told == made ? "good" : "not good");
	return 3;
}
