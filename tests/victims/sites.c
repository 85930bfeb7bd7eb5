// SPDX-License-Identifier: GPL-3.0-or-later
/* sites.c - many sites, known sizes and counts, at several depths of the call tree; every third block given back. Argument: rounds. */
#define VICTIM_MAIN
#include "victim.h"

VICTIM_NOINLINE static void *leaf_a(size_t n)
{
	void *p = TOOK(malloc(n), n);
	memset(p, 1, n);
	return p;
}
VICTIM_NOINLINE static void *leaf_b(size_t n)
{
	char *p = TOOK(malloc(n + 1), n + 1);
	p[n] = 0;
	return p;
}
VICTIM_NOINLINE static void *branch(int depth, size_t n)
{
	if (depth > 0) {
		void *volatile p = branch(depth - 1, n);
		return p;
	}
	void *volatile p = n & 1 ? leaf_a(n) : leaf_b(n);
	return p;
}
static inline __attribute__((always_inline)) void *inlined(size_t n)
{
	return TOOK(calloc(n, 3), n * 3);
}
static void *twice[2];

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100;
	victim_is_exact = 1;
	for (int i = 0; i < rounds; i++) {
		void *a = TOOK(malloc(24), 24); void *b = TOOK(malloc(100), 100);
		void *c = TOOK(malloc(4096), 4096);
		void *d = TOOK(malloc(200000), 200000);
		void *e = TOOK(malloc(13), 13);
		void *f = inlined(7);
		void *g = branch(i % 50, (size_t)(i + 1));
		void *h = branch(3, 64);
		if (i % 3 == 0) {
			free(GAVE(a));
			free(GAVE(h));
		}
		if (i % 2 == 0) {
			free(GAVE(b));
			free(GAVE(c));
		}
		free(GAVE(d));
		if (i % 5)
			free(GAVE(e));
		if (i % 7)
			free(GAVE(f));
		if (i % 11)
			free(GAVE(g));
	}
	for (int i = 0; i < 1000 * rounds; i++)
		free(GAVE(TOOK(malloc(48), 48)));
	for (int i = 0; i < 2; i++)
		twice[i] = TOOK(malloc(5 << 20), 5 << 20);
	return 0;
}
