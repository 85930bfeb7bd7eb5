// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * linked.c BLOCKS SIZE RATE FILE - a heap to be searched for leaks: BLOCKS live blocks of SIZE
 * bytes from a thousand stacks, each with eight pointers to others at random, one in a hundred held
 * by the table of roots, and one in fifty by nothing. Then words of blocks at random are written,
 * at most RATE million bytes of pages a second (0: as fast as that goes), until FILE is gone. FILE
 * is shared memory, as of tests/victims/loaded.c; its first word counts writes.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../lib/small.h"

#define LOOK	 16 /* writes between two looks at the clock */
#define POINTERS 8
#define LOST	 50 /* one in so many */
#define ROOT	 100

struct gauge {
	uint64_t writes, gap_ns, epoch, bytes, ready, blocks;
};

static volatile struct gauge *gauge;
static uint64_t **roots, **block; /* the latter is given back before anybody looks */
static uint64_t *hidden;

#define KEEP __asm__ volatile("" ::: "memory")
#define CALL(n)                                         \
	case n:                                         \
		p = BELOW(way / 10, size);              \
		__asm__ volatile("# " #n ::: "memory"); \
		break;
#define LEVEL(name)                                                            \
	static __attribute__((noinline)) void *name(unsigned way, size_t size) \
	{                                                                      \
		void *p;                                                       \
		switch (way % 10) {                                            \
			CALL(0)                                                \
			CALL(1)                                                \
			CALL(2)                                                \
			CALL(3)                                                \
			CALL(4)                                                \
			CALL(5)                                                \
			CALL(6)                                                \
			CALL(7)                                                \
			CALL(8)                                                \
			CALL(9)                                                \
		default: __builtin_unreachable();                              \
		}                                                              \
		return p;                                                      \
	}

static void *get(unsigned way, size_t size)
{
	(void)way;
	return malloc(size);
}
#define BELOW(way, size) get(way, size)
LEVEL(inner)
#undef BELOW
#define BELOW(way, size) inner(way, size)
LEVEL(middle)
#undef BELOW
#define BELOW(way, size) middle(way, size)
LEVEL(outer)

static __attribute__((noinline)) void build(size_t blocks, size_t size)
{
	size_t words = size / 8;

	block = mmap(NULL, blocks * sizeof(*block), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	hidden = malloc(blocks * sizeof(*hidden));
	roots = calloc(blocks / ROOT + 1, sizeof(*roots));
	if (block == MAP_FAILED || !roots || !hidden)
		_exit(3);
	for (size_t i = 0; i < blocks; i++) {
		block[i] = outer((unsigned)(rnd() % 1000), size);
		if (!block[i])
			_exit(4);
		for (size_t k = 0; k < words; k++)
			block[i][k] = k % 3 ? k : 0x4142434445464748ull + i;
		hidden[i] = ~(uint64_t)block[i];
	}
	for (size_t i = 0; i < blocks; i++)
		for (int k = 0; k < POINTERS; k++) {
			size_t to = rnd() % blocks;

			if (to % LOST)
				block[i][1 + rnd() % (words - 1)] = (uint64_t)block[to];
		}
	for (size_t i = 0; i < blocks / ROOT; i++)
		roots[i] = block[i * ROOT + 1];
	munmap(block, blocks * sizeof(*block));
}

/* Those that are held alone: the first word of each, which is no pointer. */
static __attribute__((noinline)) void write_words(size_t blocks, uint64_t rate, const char *file)
{
	uint64_t last = now_ns(), began = last, epoch = 0, gap = 0;

	for (uint64_t n = 0; n % (1 << 12) || !access(file, F_OK); n += LOOK) {
		uint64_t now = now_ns();

		while (rate && n * 4096 > rate * (now - began) / 1000) {
			struct timespec nap = { 0, 20000 };

			nanosleep(&nap, NULL);
			last = now = now_ns();
		}
		if (gauge->epoch != epoch) {
			epoch = gauge->epoch;
			gap = 0;
			last = now;
		}
		if (now - last > gap)
			gauge->gap_ns = gap = now - last;
		last = now;
		gauge->writes = n;
		for (int k = 0; k < LOOK; k++)
			*(volatile uint64_t *)~hidden[rnd() % blocks] = n;
	}
}

int main(int argc, char **argv)
{
	size_t blocks = argc == 5 ? strtoul(argv[1], NULL, 0) : 0,
	       size = argc == 5 ? strtoul(argv[2], NULL, 0) : 0;
	int fd = argc == 5 ? open(argv[4], O_RDWR) : -1;

	if (!blocks || size < 32 || fd < 0) {
		fprintf(stderr, "usage: linked BLOCKS SIZE(32..) MB/S FILE(4096 bytes)\n");
		return 2;
	}
	gauge = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (gauge == MAP_FAILED)
		return 3;
	build(blocks, size);
	gauge->blocks = blocks;
	gauge->bytes = blocks * size;
	gauge->ready = 1;
	write_words(blocks, strtoul(argv[3], NULL, 0), argv[4]);
	_exit(0);
}
