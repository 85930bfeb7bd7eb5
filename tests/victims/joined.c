// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * joined.c ROUNDS - after pthread_join(3) a thread is gone: in ROUNDS children it is tried whether a
 * process with a thread less may unshare(2) its user namespace, which wants one of a single thread;
 * and ROUNDS times /proc/self/task is counted. Says how many children failed, and how often there
 * was another thread.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *ctx)
{
	void *volatile p = malloc(100);

	free(p);
	return ctx;
}

static void make_and_join(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, thread, NULL) || pthread_join(t, NULL))
		_exit(2);
	usleep(20); /* natively it takes some microseconds, too */
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1, failed = 0, more = 0, status;

	for (int i = 0; i < rounds; i++) {
		pid_t child = fork();

		if (child == 0) {
			make_and_join();
			_exit(unshare(CLONE_NEWUSER) != 0);
		}
		waitpid(child, &status, 0);
		failed += status != 0;
	}
	for (int i = 0; i < rounds; i++) {
		make_and_join();
		more += threads() > 1;
	}
	printf("%d %d\n", failed, more);
	return 0;
}
