// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * storm.c SECONDS - a timer of 1 ms whose handler makes system calls, beside a loop that allocates: at the end it tells how often the handler ran, and which
 * signals are blocked; its status is 0 if the timer still runs.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "../lib/small.h"

#define CALLS	200
#define WAIT_NS 1000000000ull

static volatile uint64_t handled;

static void on_alarm(int sig)
{
	(void)sig;
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	handled++;
}

int main(int argc, char **argv)
{
	const struct itimerval ms = { { 0, 1000 }, { 0, 1000 } };
	const struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	uint64_t end = now_ns() + (uint64_t)(argc > 1 ? atoi(argv[1]) : 5) * 1000000000, n = 0, before;
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &ms, NULL);
	puts("ready");
	fflush(stdout);
	for (; now_ns() < end; n++)
		free(malloc(n % 1000));
	before = handled;
	for (end = now_ns() + WAIT_NS; handled == before && now_ns() < end;)
		;
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	memcpy(&n, &blocked, sizeof(n));
	printf("storm handled %llu mask %llx\n", (unsigned long long)handled, (unsigned long long)n);
	return handled == before;
}
