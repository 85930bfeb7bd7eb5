// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * shapes.c - a few functions that hold different amounts at different moments: at a snapshot called "one", at the peak, at the end. For each moment
 * it prints what each function holds: `MOMENT FUNCTION BYTES BLOCKS`, largest first; `total`: what it allocated ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../inject/mtrun.h"

#define NOINLINE __attribute__((noinline, noclone))
#define MOST 4000

enum { ALPHA, BETA, TUCKED, DELTA, EPSILON, KINDS };
static const char *const name[KINDS] = { "alpha", "beta", "tucked", "delta", "epsilon" };
static const size_t each[KINDS] = { 300, 200, 1000, 70000, 40 };
static void *volatile held[KINDS][MOST];
static long count[KINDS], ever[KINDS], at_one[KINDS];

static void keep(int kind, void *p)
{
	held[kind][count[kind]++] = p;
	ever[kind]++;
}

NOINLINE static void alpha(void) { keep(ALPHA, malloc(300)); }
NOINLINE static void beta(void) { keep(BETA, calloc(10, 20)); }
static inline __attribute__((always_inline)) void tucked(void) { keep(TUCKED, malloc(1000)); }
NOINLINE static void gamma_(void) { tucked(); __asm__ volatile(""); }
NOINLINE static void delta(void) { keep(DELTA, malloc(70000)); }
NOINLINE static void epsilon(int depth)
{
	if (depth > 0)
		epsilon(depth - 1);
	else
		keep(EPSILON, malloc(40));
	__asm__ volatile("");
}

NOINLINE static void drop(int kind, long n)
{
	while (n-- > 0)
		free(held[kind][--count[kind]]);
}

NOINLINE static void work(long a, long b, long t, long d, long e)
{
	while (a-- > 0)
		alpha();
	while (b-- > 0)
		beta();
	while (t-- > 0)
		gamma_();
	while (d-- > 0)
		delta();
	while (e-- > 0)
		epsilon(5);
}

static void say(FILE *out, const char *moment, const long *n)
{
	for (int i = 0; i < KINDS; i++)
		if (n[i])
			fprintf(out, "%s %s %ld %ld\n", moment, name[i], n[i] * (long)each[i], n[i]);
}

int main(void)
{
	struct timespec pause = { .tv_nsec = 350000000 };
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	long since[KINDS];

	work(1000, 900, 100, 0, 25);
	memcpy(at_one, count, sizeof(count));
	mtrun_snapshot("one");
	work(100, 0, 0, 50, 0);
	say(out, "peak", count);
	nanosleep(&pause, NULL);
	drop(DELTA, 45);
	drop(BETA, 300);
	nanosleep(&pause, NULL);
	work(100, 0, 80, 0, 75);
	say(out, "live", count);
	say(out, "total", ever);
	for (int i = 0; i < KINDS; i++)
		since[i] = count[i] > at_one[i] ? count[i] - at_one[i] : 0;
	say(out, "since", since);
	fclose(out);
	fwrite(text, 1, len, stdout);
	return 0;
}
