// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rises to a peak in steps, falls, and rises again; says of each step what is live in it, in bytes, and
 * when the middle of it was: at least and at most so many ms after the first allocation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 10000, MOST = 1000 };

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(void)
{
	static const int steps[] = { 100, 250, 250, 800, 1000, 400, 150, 150, 300, 450 };
	static void *block[MOST];
	double before = now_ms(), after;
	int n = 1;

	block[0] = malloc(SIZE);
	after = now_ms();

	for (unsigned i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		double since, middle;

		while (n < steps[i])
			block[n++] = malloc(SIZE);
		while (n > steps[i])
			free(block[--n]);
		since = now_ms();
		usleep(300000);
		middle = (since + now_ms()) / 2;
		printf("%d %.0f %.0f\n", n * SIZE, middle - after, middle - before);
		fflush(stdout);
	}
	return 0;
}
