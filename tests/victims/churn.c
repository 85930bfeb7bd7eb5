// SPDX-License-Identifier: GPL-3.0-or-later
/* churn.c - threads that come and go, each leaves something behind, also in a key's destructor and by pthread_exit. Argument: how many. */
#define VICTIM_MAIN
#include "victim.h"
#include <pthread.h>

static pthread_key_t key;

static void destroyed(void *p)
{
	free(GAVE(p));
	void *q = TOOK(malloc(17), 17);
	void *r = TOOK(malloc(19), 19);
	free(GAVE(q));
	(void)r;
}

static void *work(void *arg)
{
	uintptr_t n = (uintptr_t)arg;
	void *small[40];
	pthread_setspecific(key, TOOK(malloc(33), 33));
	for (int i = 0; i < 40; i++)
		small[i] = TOOK(malloc(16 + (size_t)i), 16 + (size_t)i);
	for (int i = 0; i < 40; i++)
		free(GAVE(small[i]));		/* these lie in the thread's cache when it ends */
	void *kept = TOOK(malloc(n % 100 + 1), n % 100 + 1);
	if (n % 3 == 0)
		ALSO, pthread_exit(kept);
	return kept;
}

int main(int argc, char **argv)
{
	uintptr_t n = argc > 1 ? (uintptr_t)atoi(argv[1]) : 1000;
	pthread_key_create(&key, destroyed);
	for (uintptr_t i = 0; i < n; i += 4) {
		pthread_t t[4];
		void *kept;
		for (uintptr_t j = 0; j < 4; j++)
			if (ALSO, pthread_create(&t[j], NULL, work, (void *)(i + j)))
				victim_die("pthread_create");
		for (uintptr_t j = 0; j < 4; j++) {
			pthread_join(t[j], &kept);
			if ((i + j) % 2)
				free(GAVE(kept));
		}
	}
	victim_say("expect status.mmap 0\n");	/* stacks are libc's mappings */
	return 0;
}
