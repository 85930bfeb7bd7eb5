// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * crossing.c THREADS SECONDS - an allocator's stress: blocks are freed by other threads than those
 * that allocated them. Each thread replaces random blocks of a set of its own; then the sets move
 * on to the next thread. Each block holds what chooses the one after it, so a step waits for the
 * memory of the last one. Prints how many blocks a second all of them replaced, in thousands.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 5000, ROUND = 20000, MOST = 1000 };

struct set {
	_Alignas(64) uint64_t *block[BLOCKS];
};
struct worker {
	_Alignas(256) long done;
	int number;
	char pad[256];
};
static struct set set[64];
static int threads, stop;
static pthread_barrier_t barrier;

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t x = 88172645463325252ull + (uint64_t)w->number;

	for (int round = 0;; round++) {
		struct set *mine = &set[(w->number + round) % threads];

		/* all look at the same moment, so that they end together */
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD && stop == 1)
			stop = 2;
		pthread_barrier_wait(&barrier);
		if (stop == 2)
			return NULL;
		for (int i = 0; i < ROUND; i++) {
			size_t k = x % BLOCKS;

			if (mine->block[k])
				x ^= *mine->block[k];
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			free(mine->block[k]);
			mine->block[k] = malloc(8 + (x >> 16) % (MOST - 8));
			*mine->block[k] = x;
		}
		w->done += ROUND;
	}
}

int main(int argc, char **argv)
{
	static struct worker worker[64];
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	struct timespec nap = { (time_t)seconds,
				(long)((seconds - (double)(time_t)seconds) * 1e9) };
	pthread_t thread[64];
	long sum = 0;

	threads = argc > 1 ? atoi(argv[1]) : 2;
	if (threads < 1 || threads > 64) {
		fprintf(stderr, "usage: crossing THREADS(1..64) SECONDS\n");
		return 2;
	}
	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		worker[i].number = i;
		pthread_create(&thread[i], NULL, work, &worker[i]);
	}
	nanosleep(&nap, NULL);
	stop = 1;
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		sum += worker[i].done;
	}
	printf("%.1f\n", (double)sum / seconds / 1000);
	return 0;
}
