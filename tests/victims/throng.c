// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * throng.c THREADS - THREADS threads that make and free a block, twice, and sleep for half a second,
 * again and again. To each line of input it says how many pairs they have made; it ends when its
 * standard input does.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../lib/small.h"

static long pairs;

static void *member(void *arg)
{
	(void)arg;
	for (;;) {
		for (int i = 0; i < 2; i++)
			free(allocated(100));
		__atomic_add_fetch(&pairs, 2, __ATOMIC_RELAXED);
		usleep(500000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? atol(argv[1]) : 0;
	pthread_attr_t attr;
	pthread_t thread;
	int c;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread, &attr, member, NULL))
			abort();
	while ((c = getchar()) != EOF)
		if (c == '\n') {
			printf("%ld\n", __atomic_load_n(&pairs, __ATOMIC_RELAXED));
			fflush(stdout);
		}
	return 0;
}
