/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sample THREADS MB [STEP]: in each thread four functions that allocate MB megabytes each, in blocks of their own sizes. Prints what each of them must have
 * allocated: `site FUNCTION LIVE_BYTES LIVE_BLOCKS TOTAL_BYTES TOTAL_BLOCKS TEMPORARY VARIANCES`, and ends. VARIANCES is what the numbers of blocks
 * are made of, SIZE:BLOCKS of all that was allocated. STEP: waits for a byte on its stdin after each function.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define WINDOW 8

static size_t bytes;
static int step;

/* Blocks that are freed at once, and one in four that stays. */
NOINLINE static void small(void)
{
	for (size_t i = 0; i < bytes / 100; i++) {
		char *volatile p = malloc(100);

		if (i % 4)
			free(p);
	}
}

/* Each is freed when WINDOW others have come. */
NOINLINE static void medium(void)
{
	void *window[WINDOW] = { 0 };

	for (size_t i = 0; i < bytes / 1000; i++) {
		free(window[i % WINDOW]);
		window[i % WINDOW] = calloc(10, 100);
	}
}

/* 64, 128 ... 4096 bytes; the last is freed, or stays. */
NOINLINE static void grow(void)
{
	for (size_t i = 0; i < bytes / 8128; i++) {
		void *p = NULL;

		for (size_t n = 64; n <= 4096; n *= 2)
			p = realloc(p, n);
		if (i % 2)
			free(p);
	}
}

NOINLINE static void large(void)
{
	for (size_t i = 0; i < bytes / 300000; i++) {
		void *volatile p = NULL, *old = NULL;

		if (posix_memalign((void **)&p, 64, 300000))
			abort();
		old = p;
		if (i % 8)
			free(old);
	}
}

static void pause_here(void)
{
	char c;

	if (step && (write(1, "next\n", 5) != 5 || read(0, &c, 1) != 1))
		_exit(1);
}

static void *run(void *arg)
{
	small();
	pause_here();
	medium();
	pause_here();
	grow();
	pause_here();
	large();
	return arg;
}

static void tell(size_t threads)
{
	size_t n = bytes / 100 * threads, m = bytes / 1000 * threads, g = bytes / 8128, l = bytes / 300000, kept = (bytes / 100 + 3) / 4;

	printf("site small %zu %zu %zu %zu %zu 100:%zu\n", kept * threads * 100, kept * threads, n * 100, n, n - kept * threads, n);
	printf("site medium %zu %zu %zu %zu 0 1000:%zu\n", WINDOW * threads * (size_t)1000, WINDOW * threads, m * 1000, m, m);
	printf("site grow %zu %zu %zu %zu %zu", (g + 1) / 2 * threads * 4096, (g + 1) / 2 * threads, g * threads * 8128, g * threads * 7, g * threads * 6 + g / 2 * threads);
	for (size_t size = 64; size <= 4096; size *= 2)
		printf("%c%zu:%zu", size == 64 ? ' ' : ',', size, g * threads);
	kept = (l + 7) / 8;
	printf("\nsite large %zu %zu %zu %zu %zu 300000:%zu\n", kept * threads * 300000, kept * threads, l * threads * 300000, l * threads,
	       (l - kept) * threads, l * threads);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	pthread_t thread[64];

	bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 64) << 20;
	step = argc > 3;
	if (threads == 1)
		run(NULL);
	else {
		for (size_t i = 0; i < threads && i < 64; i++)
			if (pthread_create(&thread[i], NULL, run, NULL))
				return 1;
		for (size_t i = 0; i < threads && i < 64; i++)
			pthread_join(thread[i], NULL);
	}
	tell(threads);
	return 0;
}
