// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * sample THREADS MB [step|fork]: in each thread functions that allocate MB megabytes each, in blocks of their own sizes. Prints what each of them must have
 * allocated: `site FUNCTION LIVE_BYTES LIVE_BLOCKS TOTAL_BYTES TOTAL_BLOCKS TEMPORARY KINDS`, and ends. KINDS is what the blocks are, SIZE:BLOCKS of all that
 * was allocated. step: waits for a byte on its stdin after the first function. fork: a child does it all once more.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define WINDOW 8
#define SLOTS 1024

static size_t bytes;
static int step;
static _Atomic(void *) shared[SLOTS];

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
		void *volatile p = NULL;

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

/* Each of C's functions in turn. */
NOINLINE static void family(void)
{
	for (size_t i = 0; i < bytes / 1400; i++) {
		void *p[7] = { malloc(200), calloc(2, 100), realloc(NULL, 200), reallocarray(NULL, 2, 100), memalign(64, 200), aligned_alloc(8, 200) };

		if (posix_memalign(&p[6], 16, 200))
			abort();
		for (int k = 0; k < 7; k++)
			free(p[k]);
	}
}

/* Blocks that another thread frees, or main() when all have ended: in the end there are none. */
NOINLINE static void passed(uint32_t seed)
{
	for (size_t i = 0; i < bytes / 64; i++) {
		seed = seed * 1664525 + 1013904223;
		free(atomic_exchange(&shared[seed >> 22], malloc(64)));
	}
}

/* An allocator of the program's own, for --hook: no caller may reckon with registers that it happens to leave alone. */
#ifdef __clang__
#define HOOKED __attribute__((noinline))
#else
#define HOOKED __attribute__((noipa))
#endif
struct arena {
	char at[1000][48];
};
HOOKED void *arena_take(struct arena *a, size_t size, size_t i);
HOOKED void arena_give(struct arena *a, void *p);

void *arena_take(struct arena *a, size_t size, size_t i)
{
	__asm__ volatile("" : : "r"(size) : "memory");
	return a->at[i];
}

void arena_give(struct arena *a, void *p)
{
	memset(p, 1, 48);
	a->at[999][47] = 0;
	__asm__ volatile("" : : : "memory");
}

NOINLINE static void pooled(struct arena *a)
{
	for (size_t i = 0; i < bytes / 40; i++) {
		void *p = arena_take(a, 40, i % 1000);

		arena_give(a, p);
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
	struct arena arena;

	small();
	pause_here();
	medium();
	grow();
	large();
	family();
	passed((uint32_t)(uintptr_t)&arena);
	pooled(&arena);
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
	n = bytes / 1400 * 7 * threads;
	printf("site family 0 0 %zu %zu * 200:%zu\n", n * 200, n, n);
	n = bytes / 64 * threads;
	printf("site passed 0 0 %zu %zu * 64:%zu\n", n * 64, n, n);
	n = bytes / 40 * threads;
	printf("site pooled 0 0 %zu %zu %zu 40:%zu\n", n * 40, n, n, n);
	fflush(stdout);
}

static int all(size_t threads)
{
	pthread_t thread[64];

	if (threads == 1)
		run(NULL);
	for (size_t i = 0; threads > 1 && i < threads && i < 64; i++)
		if (pthread_create(&thread[i], NULL, run, NULL))
			return 1;
	for (size_t i = 0; threads > 1 && i < threads && i < 64; i++)
		pthread_join(thread[i], NULL);
	for (size_t i = 0; i < SLOTS; i++)
		free(atomic_exchange(&shared[i], NULL));
	return 0;
}

int main(int argc, char **argv)
{
	size_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	int status = 0;

	bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 64) << 20;
	step = argc > 3 && !strcmp(argv[3], "step");
	if (argc > 3 && !strcmp(argv[3], "fork")) {
		pid_t child = fork();

		if (child == 0)
			_exit(all(threads));
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			return 1;
	}
	if (all(threads))
		return 1;
	tell(threads);
	return 0;
}
