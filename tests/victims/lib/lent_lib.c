// SPDX-License-Identifier: GPL-3.0-or-later
/* lent_lib.c - loaded into ../lent.c: allocates, and has an allocator of its own (--hook valloc_of_mine). */
#include <stdlib.h>

static char pool[4096];

void *lent_make(size_t n);
void *valloc_of_mine(size_t n);

void *lent_make(size_t n)
{
	void *p = malloc(n);	/* line:make */

	__asm__ volatile("" ::: "memory");
	return p;
}

__attribute__((noinline)) void *valloc_of_mine(size_t n)
{
	return n < sizeof(pool) ? pool : NULL;
}
