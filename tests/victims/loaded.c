// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * loaded.c BLOCKS STACKS FILE [SIZE [threads]] - BLOCKS live blocks of SIZE..2*SIZE bytes from STACKS stacks (at most 10^5); then one of them, chosen at
 * random, is replaced from another stack, as fast as that goes, until FILE is gone. `threads`: meanwhile another thread makes threads, one after the other.
 * FILE is shared memory with whoever asks how that goes; words of 8 bytes:
 *
 *	0  replacements so far			1  the longest time between two looks at the clock, in ns, since ...
 *	2  ... this number was changed from outside
 *	3  bytes live, those of this table of them too	4  1 when all blocks are there
 *	5  blocks live, the table too		6  threads made so far
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/small.h"

#define LOOK 8				/* replacements between two looks at the clock: some microseconds */

struct gauge {
	uint64_t replaced, gap_ns, epoch, bytes, ready, blocks, threads;
};

static volatile struct gauge *gauge;

/* ---- 10^5 ways to malloc: a hundred functions that do, each called from ten lines of ten functions, and so on three levels up ------------ */

#define KEEP __asm__ volatile("" ::: "memory")		/* no tail call: each of them is a frame */
#define SITE(n) static __attribute__((noinline)) void *site_##n(size_t size) { void *p = malloc(size); KEEP; return p; }
#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define HUNDRED(m) TEN(m, 0) TEN(m, 1) TEN(m, 2) TEN(m, 3) TEN(m, 4) TEN(m, 5) TEN(m, 6) TEN(m, 7) TEN(m, 8) TEN(m, 9)
#define NAME(n) site_##n,

HUNDRED(SITE)
static void *(*const site[100])(size_t) = { HUNDRED(NAME) };

#define CALL(n) case n: p = BELOW(way / 10, size); __asm__ volatile("# " #n ::: "memory"); break;	/* not merged with another */
#define CALLS CALL(0) CALL(1) CALL(2) CALL(3) CALL(4) CALL(5) CALL(6) CALL(7) CALL(8) CALL(9) default: __builtin_unreachable();
#define LEVEL(name) static __attribute__((noinline)) void *name(unsigned way, size_t size) { void *p; switch (way % 10) { CALLS } return p; }

static void *below_inner(unsigned way, size_t size) { return site[way % 100](size); }
#define BELOW(way, size) below_inner(way, size)
LEVEL(inner)
#undef BELOW
#define BELOW(way, size) inner(way, size)
LEVEL(middle)
#undef BELOW
#define BELOW(way, size) middle(way, size)
LEVEL(outer)

/* ---- the program ------------------------------------------------------------------------------------------------------------------- */

struct block {
	void *p;
	size_t size;
};

static void *pick(struct block *b, unsigned stacks, size_t size)
{
	b->size = size + rnd() % size;
	b->p = outer((unsigned)(rnd() % stacks), b->size);
	if (!b->p)
		_exit(4);
	return b->p;
}

static __attribute__((noinline)) void run(struct block *b, size_t count, unsigned stacks, size_t size, const char *file)
{
	uint64_t last = now_ns(), epoch = 0, bytes = count * sizeof(*b), gap = 0;

	for (size_t i = 0; i < count; i++) {
		pick(&b[i], i < stacks ? (unsigned)i + 1 : stacks, size);
		bytes += b[i].size;
	}
	gauge->bytes = bytes;
	gauge->blocks = count + 1;
	gauge->ready = 1;
	for (uint64_t n = 0; n % (1 << 16) || !access(file, F_OK); n += LOOK) {
		uint64_t now = now_ns();

		if (gauge->epoch != epoch) {
			epoch = gauge->epoch;
			gap = 0;
			last = now;
		}
		if (now - last > gap)
			gauge->gap_ns = gap = now - last;
		last = now;
		gauge->replaced = n;
		for (int k = 0; k < LOOK; k++) {
			struct block *which = &b[rnd() % count];

			bytes -= which->size;
			free(which->p);
			pick(which, stacks, size);
			bytes += which->size;
			gauge->bytes = bytes;
		}
	}
}

static __attribute__((noinline)) void deep(int left, struct block *b, size_t count, unsigned stacks, size_t size, const char *file)
{
	if (left)
		deep(left - 1, b, count, stacks, size, file);
	else
		run(b, count, stacks, size, file);
	KEEP;
}

static void *nothing(void *arg) { return arg; }

static void *make_threads(void *arg)
{
	pthread_t t;

	while (!gauge->ready)
		usleep(1000);
	while (pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0)
		gauge->threads++;
	return arg;
}

int main(int argc, char **argv)
{
	size_t count = argc > 3 ? strtoul(argv[1], NULL, 0) : 0, size = argc > 4 ? strtoul(argv[4], NULL, 0) : 32;
	unsigned stacks = argc > 3 ? (unsigned)strtoul(argv[2], NULL, 0) : 0;
	int fd = argc > 3 ? open(argv[3], O_RDWR) : -1;
	struct block *b = count ? calloc(count, sizeof(*b)) : NULL;
	pthread_t threads;

	if (!b || !stacks || stacks > 100000 || !size || fd < 0) {
		fprintf(stderr, "usage: loaded BLOCKS STACKS(..100000) FILE(4096 bytes) [SIZE [threads]]\n");
		return 2;
	}
	gauge = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (gauge == MAP_FAILED)
		return 3;
	if (argc > 5 && pthread_create(&threads, NULL, make_threads, NULL))
		return 3;
	deep(12, b, count, stacks, size, argv[3]);
	_exit(0);
}
