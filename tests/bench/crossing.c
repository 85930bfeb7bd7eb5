// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * crossing.c THREADS SECONDS - an allocator's stress: blocks are freed by other threads than those
 * that allocated them. Each thread replaces random blocks of a set; then it leaves the set to the
 * others and takes one that they have left, and nobody waits for anybody. Each block holds what
 * chooses the one after it, so a step waits for the memory of the last one. Prints how many blocks
 * a second all of them replaced, in thousands.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCKS = 5000, ROUND = 20000, MOST_BYTES = 1000, MOST_THREADS = 64 };

struct set {
	_Alignas(64) uint64_t *block[BLOCKS];
};
struct worker {
	_Alignas(256) long done;
	int number;
	char pad[256];
};
static struct set set[2 * MOST_THREADS];
static struct set *left[MOST_THREADS]; /* nobody's at the moment */
static int threads, turn, stop;

/* MINE for one that was left. */
static struct set *swap(struct set *mine)
{
	int i = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);

	return __atomic_exchange_n(&left[i % threads], mine, __ATOMIC_ACQ_REL);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct set *mine = &set[w->number];
	uint64_t x = 88172645463325252ull + (uint64_t)w->number;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < ROUND; i++) {
			uint64_t **block = &mine->block[x % BLOCKS];

			if (*block)
				x ^= **block;
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			free(*block);
			*block = malloc(8 + (x >> 16) % (MOST_BYTES - 8));
			**block = x;
		}
		w->done += ROUND;
		mine = swap(mine);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker worker[MOST_THREADS];
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	struct timespec nap = { (time_t)seconds,
				(long)((seconds - (double)(time_t)seconds) * 1e9) };
	pthread_t thread[MOST_THREADS];
	long sum = 0;

	threads = argc > 1 ? atoi(argv[1]) : 2;
	if (threads < 1 || threads > MOST_THREADS) {
		fprintf(stderr, "usage: crossing THREADS(1..%d) SECONDS\n", MOST_THREADS);
		return 2;
	}
	for (int i = 0; i < threads; i++)
		left[i] = &set[threads + i];
	for (int i = 0; i < threads; i++) {
		worker[i].number = i;
		pthread_create(&thread[i], NULL, work, &worker[i]);
	}
	nanosleep(&nap, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		sum += worker[i].done;
	}
	printf("%.1f\n", (double)sum / seconds / 1000);
	return 0;
}
