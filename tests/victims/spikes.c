// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * spikes.c N FILE [ASK [MS]] - each 250 ms 50 MB for 5 ms, N times. Into FILE go commands that ask
 * what was live in the middle of each (ASK: a command with %s for the clock time and %d for the spike's
 * number; with MS also for so much earlier, with N added to the number). On stdout, if FILE is given:
 * of each spike the ms that the tracer's clock may have been late around it without being able to help
 * it (queued.h), and the ms that it lasted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "queued.h"

#define SIZE 50000000
#define EARLY_MS 20

static void *sink;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void nap(double ms)
{
	struct timespec t = { 0, (long)(ms * 1e6) };
	nanosleep(&t, NULL);
}

__attribute__((noinline)) static void *spike(void)
{
	void *p = malloc(SIZE);
	__asm__ volatile("" ::: "memory");	/* not a tail call */
	return p;
}

/* Into F, the command ASK with number I, for MS before T: with the day or without. */
static void write_command(FILE *f, const char *ask, struct timespec t, int ms, int i)
{
	char text[64], date[32];
	struct tm tm;

	t.tv_nsec -= ms * 1000000L;
	if (t.tv_nsec < 0) {
		t.tv_sec--;
		t.tv_nsec += 1000000000;
	}
	localtime_r(&t.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03ld", i % 2 ? date : date + 11, t.tv_nsec / 1000000);
	fprintf(f, ask, text, i);
	fputc('\n', f);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 4;
	FILE *f = argc > 2 ? fopen(argv[2], "w") : stdout;
	const char *ask = argc > 3 ? argv[3] : "report --at %s --json > %d";
	int earlier = argc > 4 ? atoi(argv[4]) : 0;
	char *keep = malloc(1000);
	int clock_fd = open_queued_of("mtrun-heartbeat");
	if (!f)
		return 1;
	setvbuf(f, NULL, _IONBF, 0);
	for (int i = 0; i < n; i++) {
		struct timespec now;
		double late, began, lasted;

		nap(245 - EARLY_MS);	/* also before the first: what is asked at the start is asked before it */
		late = queued_waited(clock_fd);
		nap(EARLY_MS);
		began = now_ms();
		sink = spike();
		nap(2.5);
		clock_gettime(CLOCK_REALTIME, &now);
		nap(2.5);
		free(sink);
		lasted = now_ms() - began;
		write_command(f, ask, now, 0, i);
		if (earlier)
			write_command(f, ask, now, earlier, n + i);
		late = queued_waited_again(clock_fd) - late;
		if (f != stdout)
			dprintf(STDOUT_FILENO, "%.3f %.3f\n", late, lasted);
	}
	return keep == NULL;
}
