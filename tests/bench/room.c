// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * room.c HELD THREADS PAIRS SIZE RUN - holds HELD bytes, and then each thread allocates RUN blocks
 * of SIZE bytes, frees them last in first out, and again, until it has made PAIRS of both. With RUN
 * 1 each is also resized in between, by a byte, so that its hook does not know what its release
 * gives back. Prints the microseconds that one pair took, from inside: wall time of the slowest
 * thread. With SIZE 0 each thread asks mtrun_allocated_memory() PAIRS times instead.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../inject/mtrun.h"
#include "../lib/small.h"

#define MOST 4096

static long pairs, run;
static size_t size;
static double took[64];
static pthread_barrier_t start;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void *work(void *arg)
{
	void *block[MOST];
	double began;

	pthread_barrier_wait(&start);
	began = now();
	for (long i = 0; !size && i < pairs; i++)
		mtrun_allocated_memory();
	for (long i = 0; size && i < pairs; i += run) {
		for (long k = 0; k < run; k++)
			block[k] = run == 1 ? realloc(allocated(size), size + 1) : allocated(size);
		for (long k = run; k-- > 0;)
			free(block[k]);
	}
	*(double *)arg = (now() - began) / (double)pairs;
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 5 ? atoi(argv[2]) : 0;
	pthread_t id[64];
	double worst = 0;

	if (threads < 1 || threads > 64 || atol(argv[5]) > MOST)
		return 2;
	pairs = atol(argv[3]);
	size = strtoul(argv[4], NULL, 10);
	run = atol(argv[5]);
	allocated(strtoul(argv[1], NULL, 10));
	pthread_barrier_init(&start, NULL, (unsigned)threads);
	for (int i = 1; i < threads; i++)
		pthread_create(&id[i], NULL, work, &took[i]);
	work(&took[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(id[i], NULL);
	for (int i = 0; i < threads; i++)
		worst = took[i] > worst ? took[i] : worst;
	printf("%.3f\n", worst);
	return 0;
}
