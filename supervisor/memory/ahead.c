// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/space.h"

/*
 * A thread with the lowest priority populates pages by madvise(2), at least one step ahead of the
 * writer. It lives from ahead_begin() to ahead_end(). Its CPU time, compared with the time that
 * passed, tells whether a core was free.
 */

#define NICE_MOST 19

struct ahead {
	pthread_t thread;
	uint64_t passed; /* bytes; the writer's */
	bool ending;
	bool core_free;
	size_t count, size;
	char *piece[];
};

/* What the writer is at is its own. */
static void touch(const struct ahead *a)
{
	uint64_t at = 0, end = a->count * (uint64_t)a->size;

	while (!__atomic_load_n(&a->ending, __ATOMIC_RELAXED)) {
		uint64_t passed = __atomic_load_n(&a->passed, __ATOMIC_RELAXED);

		if (passed >= at)
			at = passed - passed % AHEAD_STEP + AHEAD_STEP;
		if (at >= end ||
		    madvise(a->piece[at / a->size] + at % a->size, AHEAD_STEP, MADV_POPULATE_WRITE))
			return;
		at += AHEAD_STEP;
	}
}

/* Where no core is free for long it runs one hundredth of the time. */
static void *run(void *ctx)
{
	struct ahead *a = ctx;
	uint64_t began = clock_ns();

	if (setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE_MOST))
		return NULL;
	touch(a);
	a->core_free = clock_thread_ns() > (clock_ns() - began) / 2;
	return NULL;
}

struct ahead *ahead_begin(char *const *piece, size_t count, size_t size, uint64_t passed)
{
	struct ahead *a = calloc(1, sizeof(*a) + count * sizeof(*piece));
	sigset_t all, was;
	int err;

	if (!a)
		return NULL;
	a->count = count;
	a->size = size;
	a->passed = passed;
	memcpy(a->piece, piece, count * sizeof(*piece));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	err = pthread_create(&a->thread, NULL, run, a);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!err)
		return a;
	free(a);
	return NULL;
}

void ahead_pass(struct ahead *a, uint64_t bytes)
{
	__atomic_store_n(&a->passed, bytes, __ATOMIC_RELAXED);
}

void ahead_stop(struct ahead *a) { __atomic_store_n(&a->ending, true, __ATOMIC_RELAXED); }

bool ahead_end(struct ahead *a)
{
	bool core_free;

	ahead_stop(a);
	pthread_join(a->thread, NULL);
	core_free = a->core_free;
	free(a);
	return core_free;
}
