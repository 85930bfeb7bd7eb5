// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mix.c - every function of the C family in a fixed pseudo-random order, one thread. Prints on stderr, from its own arithmetic:
 * allocs frees total live. Nothing else in it allocates (the text is written with write(2)).
 */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 1000

static struct { void *p; size_t size; } slot[SLOTS];
static uint64_t allocs, frees, total, live, seed = 42;

static unsigned rnd(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static void gave(int i, void *p, size_t size)
{
	if (!p)
		abort();
	memset(p, 0xa5, size);
	slot[i].p = p;
	slot[i].size = size;
	allocs++;
	total += size;
	live += size;
}

static void took(int i)
{
	slot[i].p = NULL;
	frees++;
	live -= slot[i].size;
}

static void resize(int i, size_t size)
{
	void *old = slot[i].p, *p = realloc(old, size);

	if (old)
		took(i);
	gave(i, p, size);
}

static void fill(int i, size_t size)
{
	void *p = NULL;
	size_t align = (size_t)16 << rnd(6);

	switch (rnd(6)) {
	case 0: gave(i, malloc(size), size); break;
	case 1: gave(i, calloc(size, 3), size * 3); break;
	case 2: gave(i, realloc(NULL, size), size); break;
	case 3: gave(i, memalign(align, size), size); break;
	case 4: gave(i, posix_memalign(&p, align, size) ? NULL : p, size); break;
	case 5: size = (size + align - 1) & ~(align - 1); gave(i, aligned_alloc(align, size), size); break;
	}
}

static char *number(char *to, uint64_t n)
{
	char text[24], *p = text;

	do
		*p++ = (char)('0' + n % 10);
	while (n /= 10);
	while (p > text)
		*to++ = *--p;
	*to++ = ' ';
	return to;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 100000;
	char line[128], *p = line;

	for (int k = 0; k < n; k++) {
		int i = (int)rnd(SLOTS);
		size_t size = rnd(50) ? 1 + rnd(500) : 1 + rnd(300000);

		if (!slot[i].p) {
			fill(i, size);
		} else if (rnd(4) == 0) {
			resize(i, size);
		} else {
			free(slot[i].p);
			took(i);
		}
	}
	p = number(number(number(number(p, allocs), frees), total), live);
	p[-1] = '\n';
	return write(2, line, (size_t)(p - line)) < 0;
}
