// SPDX-License-Identifier: GPL-3.0-or-later
/* wrapped.c - 30 blocks of 100 bytes and 20 of 50 by wrappers with well-known names. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void *xmalloc(size_t size)
{
	void *volatile p = malloc(size);

	return p;
}

__attribute__((noinline)) void *zmalloc_usable(size_t size)
{
	void *volatile p = xmalloc(size);

	return p;
}

static __attribute__((noinline)) void *table_new(void)
{
	void *volatile p = xmalloc(100);

	return p;
}

static __attribute__((noinline)) void *key_new(void)
{
	void *volatile p = zmalloc_usable(50);

	return p;
}

static void *volatile held[50];

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int i = 0; i < 30; i++)
		held[i] = table_new();
	for (int i = 30; i < 50; i++)
		held[i] = key_new();
	puts("expect site table_new 3000 30");
	puts("expect site key_new 1000 20");
	return 0;
}
