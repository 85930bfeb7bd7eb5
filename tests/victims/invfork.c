// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * invfork.c MS N: waits for a line on standard input. Then one thread is in a vfork for so many milliseconds, until its child runs true(1), and says so ("vfork");
 * another gets N blocks of 1000 bytes meanwhile, one each millisecond, and keeps them. It prints the longest that one of these took, in ms, how many were
 * refused, and the child's status.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "told.h"

static struct timespec span;
static long most, refused, blocks;
static int status = -1;
void *volatile last;

static void *wait_for_child(void *arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		nanosleep(&span, NULL);
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return arg;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *work(void *arg)
{
	for (long i = 0; i < blocks; i++) {
		long began = now_ms(), took;

		last = malloc(1000);
		refused += !last;
		took = now_ms() - began;
		most = took > most ? took : most;
		usleep(1000);
	}
	return arg;
}

int main(int argc, char **argv)
{
	long ms = argc > 1 ? atol(argv[1]) : 100;
	pthread_t a, b;
	char line[16];

	blocks = argc > 2 ? atol(argv[2]) : 100;
	span = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
	printf("ready\n");
	fflush(stdout);
	next_line(line, sizeof(line));
	pthread_create(&a, NULL, wait_for_child, NULL);
	usleep(20000);
	printf("vfork\n");
	fflush(stdout);
	pthread_create(&b, NULL, work, NULL);
	pthread_join(b, NULL);
	pthread_join(a, NULL);
	printf("most %ld refused %ld status %d\n", most, refused, status);
	return 0;
}
