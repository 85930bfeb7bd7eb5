// SPDX-License-Identifier: GPL-3.0-or-later
/* threads.c - threads that hand blocks to each other: what one took another gives back, reallocs, or keeps. Arguments: threads, rounds. */
#define VICTIM_MAIN
#include "victim.h"
#include <malloc.h>
#include <pthread.h>

#define SLOTS 512
static void *slot[SLOTS];
static int rounds;

VICTIM_NOINLINE static void *make(unsigned n)
{
	switch (n % 5) {
	case 0: return TOOK(malloc(n), n);
	case 1: return TOOK(calloc(1, n), n);
	case 2: return TOOK(realloc(NULL, n), n);
	case 3: return TOOK(memalign(64, n), n);
	default: return TOOK(malloc(n + 3000), n + 3000);
	}
}

static void *work(void *arg)
{
	unsigned r = (unsigned)(uintptr_t)arg * 7919 + 1;
	for (int i = 0; i < rounds; i++) {
		r = r * 1103515245 + 12345;
		unsigned n = (r >> 16) % 500 + 1;
		void *p = make(n);
		void *old = __atomic_exchange_n(&slot[(r >> 8) % SLOTS], p, __ATOMIC_ACQ_REL);
		if (!old)
			continue;
		if (r >> 30 == 0) {
			old = MOVED(realloc(GAVE(old), n * 3), n * 3);
			old = __atomic_exchange_n(&slot[r % SLOTS], old, __ATOMIC_ACQ_REL);
		}
		free(GAVE(old));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[64];
	int n = argc > 1 ? atoi(argv[1]) : 4;
	rounds = argc > 2 ? atoi(argv[2]) : 20000;
	for (int i = 0; i < n; i++)
		if (ALSO, pthread_create(&t[i], NULL, work, (void *)(uintptr_t)i))
			victim_die("pthread_create");
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	victim_say("expect status.mmap 0\n");	/* stacks are libc's mappings */
	return 0;
}
