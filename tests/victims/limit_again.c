// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * limit_again.c - one thread allocates and frees a large block all the time, others have small
 * ones, so that the program has little more than half of its limit at once. At the end: how often
 * anything was refused. Arguments: the others, ms.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../lib/small.h"

#define SMALL  200
#define LARGE  (2500 << 10)
#define OTHERS 8

static uint64_t end; /* ns */
static unsigned long refused;

static void *take(size_t size)
{
	void *p = malloc(size);

	if (!p)
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
	return p;
}

static void *run(void *unused)
{
	void *volatile kept[SMALL] = { 0 };

	for (unsigned i = 0; now_ns() < end; i++)
		for (unsigned k = 0; k < SMALL; k++) {
			free(kept[k]);
			kept[k] = take(16 + (i * 37 + k * 101) % 1000);
		}
	for (unsigned k = 0; k < SMALL; k++)
		free(kept[k]);
	return unused;
}

int main(int argc, char **argv)
{
	int others = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread[OTHERS];

	end = now_ns() + (argc > 2 ? strtoul(argv[2], NULL, 10) : 1000) * 1000000;
	for (int i = 0; i < others && i < OTHERS; i++)
		pthread_create(&thread[i], NULL, run, NULL);
	while (now_ns() < end)
		for (int i = 0; i < 50; i++)
			free(take(LARGE));
	for (int i = 0; i < others && i < OTHERS; i++)
		pthread_join(thread[i], NULL);
	printf("%lu\n", refused);
	return 0;
}
