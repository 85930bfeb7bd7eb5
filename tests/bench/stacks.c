// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * stacks.c STACKS LIVE PAIRS - allocations from many call stacks, at random. Prints the ns that one
 * free+malloc pair took.
 *
 * STACKS (a power of four, at most 65536) stacks of 10 to 13 frames below main; LIVE blocks are
 * kept. Each pair frees one of them and allocates another one in its place from a stack of its own.
 * Which block and which stack comes next is read from the block that is being freed: the native
 * run cannot begin the next step before the memory of this one is there, as in a program that
 * follows pointers.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A call of its own: without it the compiler makes one call of two that differ in the size alone. */
#define SITE(n) __asm__ volatile("" : : "i"(n) : "memory")

/* Four call sites, which the lowest two bits of PATH choose from. */
static __attribute__((noinline)) void *turn(uint32_t path, int left, size_t size)
{
	volatile char room[40];
	void *p;

	room[0] = (char)left;
	if (left <= 1)
		p = malloc(size);
	else
		switch (path & 3) {
		case 0:
			p = turn(path >> 2, left - 1, size);
			SITE(0);
			break;
		case 1:
			p = turn(path >> 2, left - 1, size + 8);
			SITE(1);
			break;
		case 2:
			p = turn(path >> 2, left - 1, size + 16);
			SITE(2);
			break;
		default: p = turn(path >> 2, left - 1, size + 24); SITE(3);
		}
	__asm__ volatile("" : : "r"(room[0]) : "memory");
	return p;
}

static uint64_t next(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	uint32_t stacks = argc > 1 ? (uint32_t)atol(argv[1]) : 1024;
	uint32_t live = argc > 2 ? (uint32_t)atol(argv[2]) : 100000;
	long pairs = argc > 3 ? atol(argv[3]) : 1000000;
	uint64_t **block = calloc(live, sizeof(*block)), x = 88172645463325252ull;
	double began = 0;

	if (!stacks || stacks > 65536 || stacks & (stacks - 1) || !live || !block) {
		fprintf(stderr, "usage: stacks STACKS LIVE PAIRS\n");
		return 2;
	}
	for (long i = -(long)live; i < pairs; i++) {
		uint32_t k, path;

		if (i == 0)
			began = now();
		if (i < 0)
			k = (uint32_t)(i + live);
		else {
			k = (uint32_t)((x >> 32) * live >> 32);
			x ^= *block[k]; /* the next step waits for this line */
			free(block[k]);
		}
		x = next(x);
		path = (uint32_t)x & (stacks - 1);
		block[k] = turn(path, 10 + (int)(path & 3), 16 + (x >> 20 & 63));
		if (!block[k])
			return 1;
		*block[k] = x;
	}
	printf("%.2f\n", (now() - began) / (double)pairs);
	return 0;
}
