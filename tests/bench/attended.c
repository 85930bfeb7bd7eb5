// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * attended.c THREADS - is attached to while all its threads allocate. For each line on standard
 * input it prints the longest time, in microseconds since the last line, in which none of them got
 * on: that is for how long the program stood still. Its main thread waits in read(2). Ends with the
 * input.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t last, longest;

static uint64_t us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A thread may lose its processor between its look at the clock and here: LAST never goes back. */
static void get_on(void)
{
	uint64_t now = us(), before = __atomic_load_n(&last, __ATOMIC_RELAXED),
		 most = __atomic_load_n(&longest, __ATOMIC_RELAXED);

	while (now > before && !__atomic_compare_exchange_n(&last, &before, now, 1,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	while (now > before && now - before > most &&
	       !__atomic_compare_exchange_n(&longest, &most, now - before, 1, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

static void *work(void *unused)
{
	for (;;) {
		void *block[16];

		for (size_t i = 0; i < 16; i++) {
			block[i] = malloc(100 * i + 1);
			memset(block[i], 1, 100 * i + 1);
		}
		for (size_t i = 0; i < 16; i++)
			free(block[i]);
		get_on();
	}
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread;
	char line[100];

	last = us();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, work, NULL))
			return 1;
	while (fgets(line, sizeof(line), stdin)) {
		printf("%lu\n", __atomic_exchange_n(&longest, 0, __ATOMIC_RELAXED));
		fflush(stdout);
	}
	return 0;
}
