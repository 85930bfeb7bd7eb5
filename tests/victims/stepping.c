// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * stepping.c ROUNDS - a program that single-steps itself (TF in its flags, with a handler of
 * SIGTRAP) through all that is hooked, and through nothing. Says "there", then what came of it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* the stack pointer goes below the red zone */
#define FLAGS(change)                                                                     \
	__asm__ volatile("sub $256, %%rsp; pushfq; " change "; popfq; add $256, %%rsp" :: \
				 : "memory", "cc")
#define STEP_BEGIN() FLAGS("orq $0x100, (%%rsp)")
#define STEP_END()   FLAGS("andq $~0x100, (%%rsp)")

static volatile unsigned long steps;

static void on_trap(int sig)
{
	(void)sig;
	steps++;
}

static int heap(size_t size)
{
	void *volatile p = malloc(size);
	int good = p != NULL;

	free(p);
	return good;
}

static int map(void)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED && munmap(p, 4096) == 0;
}

static int map_by_hand(void)
{
	long p = syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p > 0 && syscall(SYS_munmap, p, 4096) == 0;
}

static int spin(void)
{
	for (volatile int i = 0; i < 200; i++)
		;
	return 1;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1, good = 0, i;
	unsigned long seen;

	signal(SIGTRAP, on_trap);
	puts("there");
	fflush(stdout);
	for (i = 0; i < rounds; i++) {
		seen = steps;
		STEP_BEGIN();
		good += heap(100) + heap(10000000) + map() + map_by_hand() + spin();
		STEP_END();
		good += steps - seen > 500; /* it was stepped through to the end */
	}
	printf("%s of %ld rounds\n", good == 6 * rounds ? "all" : "not all", rounds);
	return 3;
}
