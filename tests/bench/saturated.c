// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * saturated.c THREADS SECONDS - a server with no time to spare: each thread replaces one of 64
 * blocks, writes to it and works for some hundred ns, all the time. Prints how many allocations a
 * second all of them made, in thousands. With SECONDS 0 it runs until its input ends.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 64, WORK = 300 };

struct worker {
	_Alignas(256) long done;
	uint64_t seed;
	char pad[256];
};
static int stop;

static void *work(void *arg)
{
	struct worker *w = arg;
	void *block[BLOCKS] = { 0 };
	uint64_t x = w->seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		size_t i;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		i = x % BLOCKS;
		free(block[i]);
		block[i] = malloc(16 + (x >> 8 & 511));
		memset(block[i], 1, 16);
		for (int k = 0; k < WORK; k++)
			__asm__ volatile("");
		w->done++;
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(block[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker worker[64];
	int threads = argc > 1 ? atoi(argv[1]) : 6;
	double seconds = argc > 2 ? atof(argv[2]) : 3, took;
	struct timespec began, ended,
		nap = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	pthread_t thread[64];
	long sum = 0;

	if (threads < 1 || threads > 64) {
		fprintf(stderr, "usage: saturated THREADS(1..64) SECONDS\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < threads; i++) {
		worker[i].seed = 88172645463325252ull + (uint64_t)i;
		pthread_create(&thread[i], NULL, work, &worker[i]);
	}
	if (seconds > 0)
		nanosleep(&nap, NULL);
	else
		while (getchar() != EOF)
			;
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		sum += worker[i].done;
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	took = (double)(ended.tv_sec - began.tv_sec) +
	       (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
	printf("%.1f\n", (double)sum / took / 1000);
	return 0;
}
