// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * blocks.c COUNT LOW HIGH [FREED%] - COUNT live blocks of LOW..HIGH bytes (log-uniform), from
 * a few call sites. With FREED, so many blocks in a hundred more are made and freed again among
 * them. Says "base" and waits for a byte before it starts, says "ready" and waits for one when it
 * is done.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t seed = 1;

static unsigned rnd(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33);
}

static size_t pick(size_t low, size_t high)
{
	size_t top = low;

	/* two in three double it: wide ranges are filled at every scale */
	while (top < high && rnd() % 3)
		top *= 2;
	top = top > high ? high : top;
	return low + rnd() % (top - low + 1);
}

static __attribute__((noinline)) void *site_a(size_t n)
{
	void *p = malloc(n);
	__asm__ volatile("" ::: "memory");
	return p;
}
static __attribute__((noinline)) void *site_b(size_t n)
{
	void *p = calloc(1, n);
	__asm__ volatile("" ::: "memory");
	return p;
}

static void meet(const char *word)
{
	char byte;

	if (write(1, word, strlen(word)) < 0 || read(0, &byte, 1) != 1)
		_exit(3);
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;
	size_t low = argc > 2 ? strtoul(argv[2], NULL, 0) : 16,
	       high = argc > 3 ? strtoul(argv[3], NULL, 0) : 64;
	unsigned freed = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
	void *pending[64] = { 0 };

	meet("base\n");
	for (size_t i = 0; i < count; i++) {
		if (!(i & 1 ? site_a : site_b)(pick(low, high)))
			return 4;
		if (rnd() % 100 < freed) {
			unsigned k = rnd() % 64;

			free(pending[k]);
			pending[k] = site_a(pick(low, high));
		}
	}
	for (int k = 0; k < 64; k++)
		free(pending[k]);
	meet("ready\n");
	_exit(0);
}
