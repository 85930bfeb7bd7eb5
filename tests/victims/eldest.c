// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * eldest.c HOW [N] - N threads, 40, made one after the other, each of which makes others without end:
 * `threads` that end at once, `children` that do, `chain`: threads each of which makes the next; or
 * sends itself `signals`. The first thread makes them in a child, waits 50 ms, allocates some, and
 * ends all with status 3.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_attr_t small;
static const char *how;
static int makers = 40;

static void nothing(int sig) { (void)sig; }

static void *leaf(void *arg)
{
	free(malloc(10));
	return arg;
}

static void *link_of_chain(void *arg)
{
	pthread_t t;

	free(malloc(10));
	while (pthread_create(&t, &small, link_of_chain, arg))
		;
	return arg;
}

static void *make(void *arg)
{
	for (;;) {
		pthread_t t;
		pid_t pid;

		if (!strcmp(how, "signals")) {
			pthread_kill(pthread_self(), SIGUSR1);
		} else if (!strcmp(how, "threads")) {
			pthread_create(&t, &small, leaf, NULL);
		} else if ((pid = fork()) == 0) {
			_exit(0);
		} else if (pid > 0) {
			waitpid(pid, NULL, 0);
		}
	}
	return arg;
}

static void run(void)
{
	for (int i = 0; i < makers; i++) {
		pthread_t t;

		pthread_create(&t, &small, !strcmp(how, "chain") ? link_of_chain : make, NULL);
	}
	usleep(50000);
	for (int i = 0; i < 1000; i++)
		free(malloc(100));
	_exit(3);
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t pid;

	how = argc > 1 ? argv[1] : "threads";
	if (argc > 2)
		makers = atoi(argv[2]);
	signal(SIGUSR1, nothing);
	pthread_attr_init(&small);
	pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&small, 65536);
	if ((pid = fork()) == 0)
		run();
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}
