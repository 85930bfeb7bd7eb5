// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * unheard.c SECONDS [dl FILE | jail]: two threads that allocate, resize and free, or load and unload
 * FILE, for so long; all that they have had is freed at the end. `jail`: after strict checks of every
 * system call. It prints `waited` when a call has taken longer than four seconds for the first time,
 * and at the end the longest pause of a thread in ms, and how many calls gave no memory.
 */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
#define KEPT    100
#define LONG    4000 /* ms */

static double seconds;
static const char *lib;
static _Atomic long longest, refused;
static atomic_bool told;
void *volatile last;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void paused(double since)
{
	long ms = (long)((now() - since) * 1000), was = longest;

	while (ms > was && !atomic_compare_exchange_weak(&longest, &was, ms))
		;
	if (ms > LONG && !atomic_exchange(&told, true) && write(STDOUT_FILENO, "waited\n", 7) < 0)
		abort();
}

static void turn(void *kept[KEPT], unsigned i)
{
	void *p;

	if (lib && i % 4 == 0) {
		p = dlopen(lib, RTLD_NOW);
		if (!p || dlclose(p))
			abort();
	}
	p = kept[i % KEPT] ? realloc(kept[i % KEPT], 20 + i % 5000) : malloc(10 + i % 6000);
	if (p)
		kept[i % KEPT] = p;
	else
		refused++;
	if (i % 3)
		return;
	free(kept[i * 7 % KEPT]);
	kept[i * 7 % KEPT] = NULL;
}

static void *run(void *arg)
{
	void *kept[KEPT] = { NULL };
	double end = now() + seconds, began = now();

	for (unsigned i = 0; began < end; i++) {
		turn(kept, i);
		paused(began);
		began = now();
		if (i % 64 == 0)
			usleep(300);
	}
	for (unsigned i = 0; i < KEPT; i++)
		free(kept[i]);
	return arg;
}

static void jail(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &all };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		abort();
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];

	seconds = argc > 1 ? atof(argv[1]) : 1;
	lib = argc > 3 ? argv[3] : NULL;
	if (argc == 3)
		jail();
	last = malloc(777);
	printf("began\n");
	fflush(stdout);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("longest %ld refused %ld\n", longest, refused);
	return 0;
}
