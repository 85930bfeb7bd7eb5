// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * handled.c SECONDS: a thread that allocates and is signalled all the time, by handlers that map, unmap and remap (and are interrupted by another one that does);
 * a thread that asks mtrun_allocated_memory() all the time. It prints how much more is allocated at the end than at the beginning: 0, and how many
 * handlers have run.
 */
#define _GNU_SOURCE
#include "mtrun.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop, go;
static atomic_long handled;
void *volatile last;

static void on_signal(int sig)
{
	int saved = errno;
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	(void)sig;
	q = p == MAP_FAILED ? p : mremap(p, 4096, 12288, MREMAP_MAYMOVE);
	if (q == MAP_FAILED || munmap(q, 12288))
		abort();
	handled++;
	errno = saved;
}

static void *work(void *arg)
{
	while (!go)
		usleep(100);
	while (!stop) {
		last = malloc(32);
		free(last);
	}
	return arg;
}

static void *ask(void *arg)
{
	while (!go)
		usleep(100);
	while (!stop)
		mtrun_allocated_memory();
	return arg;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 1);
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t worker, asker;
	size_t before;

	sigaction(SIGUSR1, &a, NULL);
	sigaction(SIGUSR2, &a, NULL);
	printf("began\n");
	fflush(stdout);
	pthread_create(&worker, NULL, work, NULL);
	pthread_create(&asker, NULL, ask, NULL);
	before = mtrun_allocated_memory();
	go = 1;
	for (unsigned i = 0; now() < end; i++) {
		pthread_kill(worker, i % 3 ? SIGUSR1 : SIGUSR2);
		for (volatile int k = 0; k < 300; k++)
			;
	}
	stop = 1;
	pthread_join(worker, NULL);
	pthread_join(asker, NULL);
	printf("more %ld handled %ld\n", (long)(mtrun_allocated_memory() - before), (long)handled);
	return 0;
}
