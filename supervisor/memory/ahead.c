// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/space.h"

/*
 * A thread populates pages by madvise(2), at least one step ahead of the writer. It lives from
 * ahead_begin() to ahead_end(). Its CPU time, compared with the time that passed, tells whether a
 * core was free; it ends where it has to wait for one.
 *
 * It must not have a low priority instead. madvise(2) holds the lock of our mappings, which the
 * writer wants, too: with all cores busy the thread would be without one for seconds meanwhile, and
 * a process that stands still for the copy waits as long.
 */

#define WAIT_MOST_NS 4000000u /* beside half of what it has worked */

struct ahead {
	pthread_t thread;
	uint64_t passed; /* bytes; the writer's */
	uint64_t began;	 /* clock_ns() */
	bool ending;
	bool core_free;
	size_t count, size;
	char *piece[];
};

static bool has_core(const struct ahead *a)
{
	uint64_t worked = clock_thread_ns();

	return clock_ns() - a->began < worked + worked / 2 + WAIT_MOST_NS;
}

/* What the writer is at is its own. */
static void touch(const struct ahead *a)
{
	uint64_t at = 0, end = a->count * (uint64_t)a->size;

	while (!__atomic_load_n(&a->ending, __ATOMIC_RELAXED) && has_core(a)) {
		uint64_t passed = __atomic_load_n(&a->passed, __ATOMIC_RELAXED);

		if (passed >= at)
			at = passed - passed % AHEAD_STEP + AHEAD_STEP;
		if (at >= end ||
		    madvise(a->piece[at / a->size] + at % a->size, AHEAD_STEP, MADV_POPULATE_WRITE))
			return;
		at += AHEAD_STEP;
	}
}

static void *run(void *ctx)
{
	struct ahead *a = ctx;

	a->began = clock_ns();
	touch(a);
	a->core_free = has_core(a) && clock_thread_ns() > (clock_ns() - a->began) / 2;
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
