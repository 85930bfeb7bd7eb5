// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * served.c - for each line of its standard input, `N`, it allocates N blocks of 1000 bytes that it
 * keeps and N of 300 that it frees, and says how many bytes are live by its own count and how many
 * were ever requested. `quit` or the end of the input ends it with status 3.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 1000000
static void *kept[KEPT];
static long count;
static long requested;

__attribute__((noinline)) static void *keep_block(void)
{
	void *p;

	requested += 1000;
	p = malloc(1000);
	__asm__ volatile("" : "+r"(p)); /* the call is no jump */
	return p;
}

__attribute__((noinline)) static void *pass_block(void)
{
	void *p;

	requested += 300;
	p = malloc(300);
	__asm__ volatile("" : "+r"(p)); /* the call is no jump */
	return p;
}

int main(void)
{
	static char in[64], out[256];

	setvbuf(stdin, in, _IOLBF, sizeof(in));
	setvbuf(stdout, out, _IOLBF, sizeof(out));
	printf("live 0 requested 0\n");
	for (char line[64]; fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n");) {
		for (long n = atol(line); n > 0 && count < KEPT; n--) {
			void *p = pass_block();

			kept[count++] = keep_block();
			__asm__ volatile("" : : "r"(p) : "memory");
			free(p);
		}
		printf("live %ld requested %ld\n", count * 1000, requested);
	}
	return 3;
}
