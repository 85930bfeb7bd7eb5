// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * churn.c DEPTH BLOCKS N - N times one of BLOCKS blocks, chosen at random, is freed and replaced by
 * one of another random size, allocated DEPTH frames deep by one of 64 ways. Prints the ns that one
 * replacement took, from inside.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../lib/small.h"

static void *left(int depth, unsigned way, size_t size);
static void *right(int depth, unsigned way, size_t size);

#define FRAME(name)                                                                              \
	static __attribute__((noinline)) void *name(int depth, unsigned way, size_t size)        \
	{                                                                                        \
		void *p = depth <= 1				  ? malloc(size)                 \
			  : depth <= 7 && way & 1u << (depth - 2) ? left(depth - 1, way, size)   \
								  : right(depth - 1, way, size); \
		__asm__ volatile("" : : "r"(p) : "memory"); /* no tail call */                   \
		return p;                                                                        \
	}
FRAME(left)
FRAME(right)

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 20;
	size_t blocks = argc > 2 ? strtoul(argv[2], NULL, 10) : 10000,
	       n = argc > 3 ? strtoul(argv[3], NULL, 10) : 1000000;
	void **block = calloc(blocks, sizeof(*block));
	uint64_t began;

	if (!block)
		return 1;
	began = now_ns();
	for (size_t i = 0; i < n; i++) {
		uint64_t r = rnd();
		void **at = &block[r % blocks];

		free(*at);
		*at = left(depth - 1, r >> 40 & 63, 16 + (r >> 48 & 1023));
	}
	printf("%.2f\n", (double)(now_ns() - began) / (double)n);
	return 0;
}
