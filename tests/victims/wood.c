// SPDX-License-Identifier: GPL-3.0-or-later
/* wood.c LEVELS BLOCKS - BLOCKS live blocks from 2^LEVELS stacks; then, after the file descriptor 3 or standard output is told, at full speed for ever. */
#include <stdio.h>
#include <stdlib.h>

#include "../lib/small.h"

static void *left(unsigned long path, int depth);
static void *right(unsigned long path, int depth);

static inline void *branch(unsigned long path, int depth)
{
	return depth == 0 ? malloc(16 + path % 100) : path & 1 ? left(path >> 1, depth - 1) : right(path >> 1, depth - 1);
}

__attribute__((noinline)) static void *left(unsigned long path, int depth)
{
	void *p = branch(path, depth);
	__asm__ volatile("" ::: "memory");
	return p;
}

__attribute__((noinline)) static void *right(unsigned long path, int depth)
{
	void *p = branch(path, depth);
	__asm__ volatile("" ::: "memory");
	return p;
}

int main(int argc, char **argv)
{
	int levels = argc > 1 ? atoi(argv[1]) : 17;
	long n = argc > 2 ? atol(argv[2]) : 1000000;
	void **block = calloc((size_t)n, sizeof(*block));
	for (long i = 0; i < n; i++)
		block[i] = left((unsigned long)i, levels);
	puts("ready");
	fflush(stdout);
	for (;;) {
		long i = (long)(rnd() % (unsigned long)n);
		free(block[i]);
		block[i] = left(rnd(), levels);
	}
}
