// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * logs.c - does what it is told, a line each on its standard input, and after each line prints its books: live bytes, live blocks, bytes and blocks allocated ever.
 *
 *	r N		N times: one of 4000 blocks, chosen at random, is given back, and one of random size is taken from a random depth of calls
 *	c N		N children, one after the other, do `r 1000`
 *	x N, k N	exits with status N; dies of signal N
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "told.h"

#define BLOCKS 4000

static struct { void *p; size_t size; } taken[BLOCKS];
static size_t live, blocks, total, total_blocks;

static size_t number(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x >> 16;
}

__attribute__((noinline)) void *deep(size_t depth, size_t size)
{
	void *p = depth ? deep(depth - 1, size) : malloc(size);

	__asm__ volatile("" : : "r"(p));
	return p;
}

static void churn(long n)
{
	while (n-- > 0) {
		size_t i = number() % BLOCKS, size = number() % 1000 + 1;

		if (taken[i].p) {
			free(taken[i].p);
			live -= taken[i].size;
			blocks--;
		}
		taken[i].p = deep(number() % 20, size);
		taken[i].size = size;
		live += size;
		total += size;
		blocks++;
		total_blocks++;
	}
}

static void children(long n)
{
	while (n-- > 0) {
		pid_t pid = fork();

		if (!pid) {
			churn(1000);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

int main(void)
{
	char line[128], text[128];

	while (next_line(line, sizeof(line))) {
		long n = strtol(line + 1, NULL, 10);

		if (line[0] == 'x')
			return (int)n;
		if (line[0] == 'k')
			raise((int)n);
		if (line[0] == 'r')
			churn(n);
		if (line[0] == 'c')
			children(n);
		n = snprintf(text, sizeof(text), "%zu %zu %zu %zu\n", live, blocks, total, total_blocks);
		if (write(1, text, (size_t)n) != n)
			return 97;
	}
	return 0;
}
