// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * limit_handler.c - maps and unmaps pages in a timer's handler, while the program itself allocates and frees, well below any limit. It has at most 3 MB at once (2.5 of
 * them in one block) and 16 pages for each thread. At the end: `HANDLED REFUSED`, how often a handler was run and how often anything was refused. Arguments: threads, ms.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../lib/small.h"

#define SMALL 200
#define LARGE (2500 << 10)
#define PAGES (16 * 4096)

static unsigned long handled, refused;
static uint64_t end; /* ns */

static void handler(int sig)
{
	void *p = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)sig;
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	if (p == MAP_FAILED)
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
	else
		munmap(p, PAGES);
}

/* A timer of this thread's own, each millisecond of its processor time. */
static void set_timer(void)
{
	struct sigevent e = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	struct itimerspec ms = { { 0, 1000000 }, { 0, 1000000 } };
	timer_t timer;

	e._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &e, &timer) || timer_settime(timer, 0, &ms, NULL))
		exit(3);
}

static void *take(size_t size)
{
	void *p = malloc(size);

	if (!p)
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
	return p;
}

static void *run(void *large)
{
	void *volatile kept[SMALL] = { 0 };

	set_timer();
	for (unsigned i = 0; now_ns() < end; i++) {
		for (unsigned k = 0; k < SMALL; k++) {
			free(kept[k]);
			kept[k] = take(16 + (i * 37 + k * 101) % 1000);
		}
		if (large)
			free(take(LARGE));
	}
	for (unsigned k = 0; k < SMALL; k++)
		free(kept[k]);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread[8];

	signal(SIGUSR1, handler);
	end = now_ns() + (argc > 2 ? strtoul(argv[2], NULL, 10) : 1000) * 1000000;
	for (int i = 1; i < threads; i++)
		pthread_create(&thread[i], NULL, run, NULL);
	run(thread);
	for (int i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%lu %lu\n", handled, refused);
	return 0;
}
