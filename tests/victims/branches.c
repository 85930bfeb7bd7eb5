// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * branches.c - 100000 stacks: five levels of ten functions, each of which calls all of the next level; each e0 ... e9 allocates, and nothing is freed. It says how
 * many bytes there are below each of a0 ... a9, and ends by _exit(2), so that they stay.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile unsigned sink;
static void *volatile last;
static unsigned long bytes;

#define ALLOCATES(n)                                                                                                                                                   \
	static __attribute__((noinline)) void n(unsigned k)                                                                                                            \
	{                                                                                                                                                              \
		last = malloc(1 + k % 97);                                                                                                                             \
		bytes += 1 + k % 97;                                                                                                                                   \
	}
#define CALLS(n, next)                                                                                                                                                 \
	static __attribute__((noinline)) void n(unsigned k)                                                                                                            \
	{                                                                                                                                                              \
		next##0(k * 10);                                                                                                                                       \
		next##1(k * 10 + 1);                                                                                                                                   \
		next##2(k * 10 + 2);                                                                                                                                   \
		next##3(k * 10 + 3);                                                                                                                                   \
		next##4(k * 10 + 4);                                                                                                                                   \
		next##5(k * 10 + 5);                                                                                                                                   \
		next##6(k * 10 + 6);                                                                                                                                   \
		next##7(k * 10 + 7);                                                                                                                                   \
		next##8(k * 10 + 8);                                                                                                                                   \
		next##9(k * 10 + 9);                                                                                                                                   \
		sink = k;                                                                                                                                              \
	}
#define LEVEL(n, next)                                                                                                                                                 \
	CALLS(n##0, next) CALLS(n##1, next) CALLS(n##2, next) CALLS(n##3, next) CALLS(n##4, next) CALLS(n##5, next) CALLS(n##6, next) CALLS(n##7, next) CALLS(n##8, next) \
	CALLS(n##9, next)

ALLOCATES(e0) ALLOCATES(e1) ALLOCATES(e2) ALLOCATES(e3) ALLOCATES(e4) ALLOCATES(e5) ALLOCATES(e6) ALLOCATES(e7) ALLOCATES(e8) ALLOCATES(e9)
LEVEL(d, e)
LEVEL(c, d)
LEVEL(b, c)
LEVEL(a, b)

int main(void)
{
	static void (*const first[])(unsigned) = { a0, a1, a2, a3, a4, a5, a6, a7, a8, a9 };

	for (unsigned i = 0; i < 10; i++) {
		bytes = 0;
		first[i](i);
		printf("a%u %lu\n", i, bytes);
	}
	fflush(stdout);
	_exit(0);
}
