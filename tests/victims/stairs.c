/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rises to a peak in steps, falls, and rises again; says what is live after each step, in bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 10000, MOST = 1000 };

int main(void)
{
	static const int steps[] = { 100, 250, 250, 800, 1000, 400, 150, 150, 300, 450 };
	static void *block[MOST];
	int n = 0;

	for (unsigned i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		while (n < steps[i])
			block[n++] = malloc(SIZE);
		while (n > steps[i])
			free(block[--n]);
		printf("%d\n", n * SIZE);
		fflush(stdout);
		usleep(300000);
	}
	return 0;
}
