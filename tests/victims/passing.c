// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * passing.c THREADS ROUNDS - threads pass blocks of 1 MB to each other, and keep two sums of them: `held`, added to after the call of malloc and subtracted from
 * before that of free, and `asked`, added to before and subtracted from after. What is allocated is never less than the one, nor more than the other. Prints the
 * highest that each has been, what is left, and what was allocated before the first of these blocks, by mtrun: `base`. Nothing else is allocated after that.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../inject/mtrun.h"

#define SIZE  (1 << 20)
#define SLOTS 40

struct sum {
	atomic_long now, most;
};

static _Atomic(void *) slot[SLOTS];
static struct sum held, asked;
static int rounds = 1000;
static pthread_barrier_t phase;

static void add(struct sum *s)
{
	long now = atomic_fetch_add(&s->now, SIZE) + SIZE, m = atomic_load(&s->most);
	while (now > m && !atomic_compare_exchange_weak(&s->most, &m, now))
		;
}

static void pass(unsigned seed)
{
	for (int i = 0; i < rounds; i++) {
		void *p = NULL;
		if (rand_r(&seed) % 2) {
			add(&asked);
			p = malloc(SIZE);
			if (!p)
				abort();
			add(&held);
		}
		p = atomic_exchange(&slot[rand_r(&seed) % SLOTS], p);
		if (p) {
			atomic_fetch_sub(&held.now, SIZE);
			free(p);
			atomic_fetch_sub(&asked.now, SIZE);
		}
	}
}

/* All threads are there before the first block, and after the last. */
static void *thread(void *arg)
{
	pthread_barrier_wait(&phase);
	pthread_barrier_wait(&phase);
	pass((unsigned)(size_t)arg * 7919 + 1);
	pthread_barrier_wait(&phase);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 8;
	char said[200];
	pthread_t t;
	long base;

	if (argc > 2)
		rounds = atoi(argv[2]);
	pthread_barrier_init(&phase, NULL, (unsigned)threads);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&t, NULL, thread, (void *)(size_t)i))
			return 1;
	pthread_barrier_wait(&phase);
	base = (long)mtrun_allocated_memory();
	pthread_barrier_wait(&phase);
	pass(1);
	pthread_barrier_wait(&phase);
	/* not by stdio, which would allocate */
	if (write(1, said, (size_t)snprintf(said, sizeof(said), "base %ld\nheld %ld\nasked %ld\nleft %ld\n", base, atomic_load(&held.most),
					    atomic_load(&asked.most), atomic_load(&held.now))) < 0)
		return 1;
	_exit(0);
}
