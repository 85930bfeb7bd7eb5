/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * small.h - what small programs that are measured share: numbers at random, the clock, and a block
 * that is allocated whatever the compiler thinks of it.
 */
#ifndef SMALL_H
#define SMALL_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Xorshift (Marsaglia, 2003): the same numbers in each run. */
static inline uint64_t rnd(void)
{
	static uint64_t seed = 88172645463325252ull;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline void *allocated(size_t n)
{
	void *p = malloc(n);

	__asm__ volatile("" : : "r"(p) : "memory");
	if (!p)
		abort();
	return p;
}

#endif
