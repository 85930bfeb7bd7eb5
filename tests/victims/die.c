// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * die.c - ends at once in the middle of things: everything up to that instant must be in the report. Argument: kill, abort, segv, _exit (from a
 * thread, others busy), exit_group, thread_kill (SIGKILL of itself from a thread), last (main thread leaves first, a thread ends the process), pthread
 * (main leaves by pthread_exit, the last thread's end is the end), tgkill.
 */
#define VICTIM_MAIN
#include "victim.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

static const char *how;
static volatile int never;

VICTIM_NOINLINE static void leave(void)
{
	void *p = TOOK(malloc(111), 111);
	void *q = TOOK(malloc(112), 112);
	free(GAVE(q));
	victim_report();
	(void)p;
	if (!strcmp(how, "tgkill"))
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGTERM);
	else if (strstr(how, "kill"))
		kill(getpid(), SIGKILL);
	else if (!strcmp(how, "abort"))
		abort();
	else if (!strcmp(how, "segv"))
		*(volatile int *)(uintptr_t)never = 1;
	else if (!strcmp(how, "_exit"))
		_exit(41);
	else if (!strcmp(how, "exit_group"))
		syscall(SYS_exit_group, 42);
	else if (!strcmp(how, "last"))
		_exit(43);
	for (;;)
		pause();
}
static void *in_thread(void *arg)
{
	(void)arg;
	if (!strcmp(how, "pthread")) {
		victim_report();
		return NULL;
	}
	leave();
	return NULL;
}
static void *busy(void *arg)
{
	(void)arg;
	for (;;)
		(void)never;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	how = argc > 1 ? argv[1] : "kill";
	for (int i = 0; i < 1234; i++)
		if (i % 2)
			free(GAVE(TOOK(malloc(113), 113)));
		else
			TOOK(malloc(114), 114);
	if (!strcmp(how, "kill") || !strcmp(how, "abort") || !strcmp(how, "segv"))
		leave();
	if (strcmp(how, "pthread"))
		ALSO, pthread_create(&t, NULL, busy, NULL);
	victim_also(__FILE__, __LINE__ + 3);	/* pthread_exit's: the thread may report before */
	ALSO, pthread_create(&t, NULL, in_thread, NULL);
	if (!strcmp(how, "last") || !strcmp(how, "pthread"))
		pthread_exit(NULL);
	for (;;)
		pause();
}
