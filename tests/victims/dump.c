// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * dump.c - does what it is told, a line each on its standard input, and after each line prints its books: live bytes, live blocks, bytes and blocks allocated
 * ever, the most bytes that were live.
 *
 *	a N SIZE, b N SIZE, c N SIZE	takes N blocks of SIZE bytes, by a function of that name
 *	f N				gives the last N back
 *	p N SIZE USEC			as a, sleeping between two
 *	x N				exits with status N
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "told.h"

#define MOST 1000000

static struct { void *p; size_t size; } taken[MOST];
static size_t blocks, total_blocks;
static long long live, total, peak;

static void took(void *p, size_t size)
{
	if (!p || blocks == MOST)
		_exit(98);
	memset(p, 1, size);
	taken[blocks].p = p;
	taken[blocks++].size = size;
	total_blocks++;
	total += (long long)size;
	live += (long long)size;
	peak = live > peak ? live : peak;
}

__attribute__((noinline)) void a(size_t size) { took(malloc(size), size); }
__attribute__((noinline)) void b(size_t size) { took(calloc(1, size), size); }
__attribute__((noinline)) void c(size_t size) { took(malloc(size), size); }

static void give(void)
{
	blocks--;
	live -= (long long)taken[blocks].size;
	free(taken[blocks].p);
}

int main(void)
{
	char line[128], text[128];

	while (next_line(line, sizeof(line))) {
		char *at = line + 1;
		long n = strtol(at, &at, 10), size = strtol(at, &at, 10), usec = strtol(at, &at, 10);

		if (line[0] == 'x')
			return (int)n;
		for (long i = 0; i < n; i++) {
			if (line[0] == 'a' || line[0] == 'p')
				a((size_t)size);
			else if (line[0] == 'b')
				b((size_t)size);
			else if (line[0] == 'c')
				c((size_t)size);
			else if (line[0] == 'f' && blocks)
				give();
			if (usec)
				usleep((useconds_t)usec);
		}
		n = snprintf(text, sizeof(text), "%lld %zu %lld %zu %lld\n", live, blocks, total, total_blocks, peak);
		if (write(1, text, (size_t)n) != n)
			return 97;
	}
	return 0;
}
