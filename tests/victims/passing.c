/* SPDX-License-Identifier: GPL-3.0-or-later */
/* passing.c THREADS ROUNDS - threads pass blocks of 1 MB to each other, and keep their sum and its maximum: printed as `max BYTES` and `left BYTES`. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE  (1 << 20)
#define SLOTS 40

static _Atomic(void *) slot[SLOTS];
static atomic_long sum, most;
static int rounds = 1000;

static void more(void)
{
	long now = atomic_fetch_add(&sum, SIZE) + SIZE, m = atomic_load(&most);
	while (now > m && !atomic_compare_exchange_weak(&most, &m, now))
		;
}

static void *pass(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg * 7919 + 1;
	for (int i = 0; i < rounds; i++) {
		void *p = NULL;
		if (rand_r(&seed) % 2) {
			p = malloc(SIZE);
			if (!p)
				abort();
			more();
		}
		p = atomic_exchange(&slot[rand_r(&seed) % SLOTS], p);
		if (p) {
			atomic_fetch_sub(&sum, SIZE);
			free(p);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 8;
	pthread_t t[64];
	if (argc > 2)
		rounds = atoi(argv[2]);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, pass, (void *)(size_t)i))
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	printf("max %ld\nleft %ld\n", atomic_load(&most), atomic_load(&sum));
	return 0;
}
