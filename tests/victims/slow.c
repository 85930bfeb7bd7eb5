// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * slow.c - seven busy threads and one that allocates now and then; it says when by its own clock: `when ADDRESS SIZE BEFORE AFTER LATE`. BEFORE, AFTER: ms of
 * CLOCK_MONOTONIC around the call. LATE: ms that the thread of the tracer that keeps the time (`mtrun-heartbeat`) may have been late then without being able to help it: ready, but
 * without a processor or the machine without its host's (queued.h). At its end: `end MS`.
 * Arguments: ms between two, how many.
 */
#define VICTIM_MAIN
#include "victim.h"
#include "queued.h"
#include <pthread.h>

#define EARLY_MS 20

static volatile int stop;

static void *busy(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	void *p[16] = {0};
	for (unsigned i = 0; !stop; i++) {
		free(p[i % 16]);
		p[i % 16] = malloc(16 + (i * n) % 200);
		if (i % 64 == 0)
			usleep(50);
	}
	for (int i = 0; i < 16; i++)
		free(p[i]);
	return NULL;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	int ms = argc > 1 ? atoi(argv[1]) : 1000, n = argc > 2 ? atoi(argv[2]) : 6;
	pthread_t t[7];
	int clock_fd = open_queued_of("mtrun-heartbeat");
	for (uintptr_t i = 0; i < 7; i++)
		pthread_create(&t[i], NULL, busy, (void *)(i + 1));
	for (int i = 0; i < n; i++) {
		usleep((useconds_t)(ms - EARLY_MS) * 1000);
		double late = queued_waited(clock_fd);
		usleep(EARLY_MS * 1000);
		double before = now();
		void *p = malloc(777);
		double after = now();
		late = queued_waited_again(clock_fd) - late;
		victim_say("when %p 777 %.3f %.3f %.3f\n", p, before, after, late);
	}
	usleep((useconds_t)ms * 1000);
	stop = 1;
	for (int i = 0; i < 7; i++)
		pthread_join(t[i], NULL);
	victim_say("end %.3f\n", now());
	victim_flush();
	victim_is_quiet = 1;
	return 0;
}
