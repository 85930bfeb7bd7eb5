// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * maplock - maplock FILE [fast]: makes and frees blocks, one in a millisecond, or as many as it can.
 * Prints `ready`, and for each line of its standard input `turns N away MS`: how many it has made,
 * and the longest time from one to the next since that was last told; what the thread, or that of
 * mtrun, was ready meanwhile and others had the processors is not in it. After the line `hold` one
 * thread reads FILE, which it has mapped, and half a second later another one opens it once more and
 * maps it: where the first one's page is never served, and the second one's FILE is not to be
 * cached, the kernel waits for that page with the lock of the mappings held.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "queued.h"

#define LONG   100000000 /* ns: what takes longer is looked at */
#define SAMPLE 50000000	 /* ns: how often it is looked who waits for a processor */

static unsigned long turns;
static uint64_t away; /* ns */
static void *volatile kept;
static char *page;
static const char *file;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static char *map_file(void)
{
	int fd = open(file, O_RDONLY);
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void *touch(void *arg)
{
	int to[2];

	/* not by the processor: where the page never comes, that is no SIGBUS */
	if (pipe(to) == 0 && write(to[1], (const void *)page, 1) < 0)
		usleep(1);
	return arg;
}

static void *map_again(void *arg)
{
	usleep(500000);
	map_file();
	return arg;
}

static void *answer(void *arg)
{
	char line[80];
	pthread_t a, b;

	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "hold\n") && (pthread_create(&a, NULL, touch, NULL) ||
						pthread_create(&b, NULL, map_again, NULL)))
			exit(1);
		printf("turns %lu away %.0f\n", __atomic_load_n(&turns, __ATOMIC_RELAXED),
		       (double)__atomic_exchange_n(&away, 0, __ATOMIC_RELAXED) / 1e6);
		fflush(stdout);
	}
	exit(0);
	return arg;
}

/* ns until now in which this thread or mtrun's was ready and had no processor. */
static uint64_t queued_ns(void)
{
	static int own = -1, its = -1, tracer;

	if (own < 0)
		own = open_queued();
	if (tracer != queued_tracer()) {
		if (its >= 0)
			close(its);
		tracer = queued_tracer();
		its = tracer ? open_queued_tracer() : -1;
	}
	return (uint64_t)((queued_waited(own) + queued(its).ms) * 1e6);
}

/* A turn has taken FROM to TO. */
static void tell(uint64_t from, uint64_t to)
{
	static uint64_t sampled, queue;
	uint64_t ns = to - from, before = queue;

	if (ns > LONG || to - sampled > SAMPLE) {
		queue = queued_ns();
		sampled = to;
	}
	if (ns > LONG && queue > before)
		ns -= queue - before < ns ? queue - before : ns;
	if (ns > __atomic_load_n(&away, __ATOMIC_RELAXED))
		__atomic_store_n(&away, ns, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2)
		return 2;
	file = argv[1];
	page = map_file();
	if (!page || pthread_create(&thread, NULL, answer, NULL))
		return 1;
	printf("ready\n");
	fflush(stdout);
	for (uint64_t last = now();;) {
		void *p = malloc(100);
		uint64_t then = last;

		last = now();
		tell(then, last);
		__atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
		kept = p;
		free(p);
		if (argc < 3)
			usleep(1000);
	}
}
