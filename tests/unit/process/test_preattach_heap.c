// SPDX-License-Identifier: GPL-3.0-or-later
/* What preattach_heap.c finds in a child's heap against the child's own mallinfo2(). */
#include "test.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/maps.h"
#include "process/preattach_heap.h"
#include "process/process.h"

#define THREADS 12
#define BLOCKS	60000

static uint32_t seed;

static uint32_t chance(void) { return seed = seed * 1664525 + 1013904223, seed >> 8; }

/* N blocks up to MOST bytes; every HOLE-th (0: none) is freed again. */
static void fill(unsigned n, uint32_t most, unsigned hole)
{
	void *volatile *block = malloc(n * sizeof(*block));

	for (unsigned i = 0; i < n; i++)
		block[i] = malloc(chance() % most);
	for (unsigned i = 0; hole && i < n; i += hole)
		free(block[i]);
}

static void nothing(void) {}
static void one(void)
{
	free(malloc(100));
	if (!malloc(1000))
		_exit(1);
}
static void holes(void) { fill(BLOCKS, 700, 3); }
static void small_holes(void) { fill(BLOCKS, 120, 2); } /* in fast bins, mostly */
static void nearly_all_free(void)
{
	fill(BLOCKS, 3000, 0);
	fill(BLOCKS, 3000, 1);
}
static void large(void) { fill(2000, 300000, 4); }
static void mappings(void)
{
	mallopt(M_MMAP_THRESHOLD, 5000);
	fill(3000, 20000, 3);
}
static void few_mappings(void)
{
	mallopt(M_MMAP_MAX, 17);
	fill(300, 500000, 0);
}

/* Somebody else moves the break, too. */
static void foreign_break(void)
{
	for (int i = 0; i < 20; i++) {
		fill(3000, 500, 3);
		memset(sbrk(5008 * (i + 1)), i, 5008);
	}
}

static pthread_barrier_t filled;

static void *thread_fills(void *arg)
{
	seed = (uint32_t)(uintptr_t)arg;
	fill(BLOCKS, seed % 2 ? 400 : 6000, seed % 3);
	pthread_barrier_wait(&filled);
	pause();
	return NULL;
}

/* Several heaps of 64 MB in some of their arenas. */
static void threads(void)
{
	pthread_t t;

	pthread_barrier_init(&filled, NULL, THREADS + 1);
	mallopt(M_ARENA_MAX, THREADS / 2 + 1);
	for (uintptr_t i = 1; i <= THREADS; i++)
		pthread_create(&t, NULL, thread_fills, (void *)i);
	pthread_barrier_wait(&filled);
}

static void (*at_last)(void); /* what a child does when its heap has been measured by itself */

/*
 * A chunk in a list of free ones leads to itself, as one seems to where a list changes while it is
 * read.
 */
static void make_ring(void)
{
	enum { KEPT = 7, MORE = 3 }; /* a thread keeps so many for itself */
	volatile uintptr_t block[KEPT + MORE];

	for (unsigned i = 0; i < KEPT + MORE; i++)
		block[i] = (uintptr_t)malloc(60);
	for (unsigned i = 0; i < KEPT + MORE; i++)
		free((void *)block[i]);
	*(volatile uintptr_t *)block[KEPT] = (block[KEPT] - 16) ^ block[KEPT] >> 12;
}

static void ring(void) { at_last = make_ring; }

/* A child that has done PREPARE: measured; *TRUTH: what it says of itself. */
static struct process *measured(void (*prepare)(void), uint64_t *truth)
{
	struct process *p;
	struct maps maps;
	bool overlap;
	int tell[2];
	pid_t pid;

	CHECK_EQ(pipe(tell), 0);
	pid = fork();
	if (!pid) {
		struct mallinfo2 info;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prepare();
		info = mallinfo2();
		*truth = info.uordblks + info.hblkhd;
		if (at_last)
			at_last();
		if (write(tell[1], truth, sizeof(*truth)) > 0)
			pause();
		_exit(1);
	}
	CHECK_EQ(read(tell[0], truth, sizeof(*truth)), sizeof(*truth));
	p = process_new(pid, getpid(), 0, NULL);
	CHECK_EQ(maps_read(&maps, pid), 0);
	CHECK(modules_update(&p->modules, pid, NULL, &maps, 0, &overlap) > 0);
	maps_release(&maps);
	preattach_heap_measure(&p->preattach, p, NULL, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(tell[0]);
	close(tell[1]);
	return p;
}

static void check(void (*prepare)(void))
{
	uint64_t truth;
	struct process *p = measured(prepare, &truth);

	CHECK_STR(p->preattach.why, "");
	CHECK_EQ(p->preattach.state, PREATTACH_KNOWN);
	CHECK_EQ(p->preattach.bytes, truth);
	printf("# %lu bytes in %lu blocks, %lu by mallinfo2\n", (unsigned long)p->preattach.bytes,
	       (unsigned long)p->preattach.blocks, (unsigned long)truth);
	process_unref(p);
}

/* It takes no seconds. */
static void check_ring(void)
{
	uint64_t truth, began = clock_thread_ns();
	struct process *p = measured(ring, &truth);

	CHECK_STR(p->preattach.why, "its heap changed too fast");
	CHECK_EQ(p->preattach.state, PREATTACH_UNKNOWN);
	CHECK(clock_thread_ns() - began < 200000000);
	process_unref(p);
}

#define ONE(name) \
	static void check_##name(void) { check(name); }
ONE(nothing)
ONE(one)
ONE(holes)
ONE(small_holes)
ONE(nearly_all_free)
ONE(large)
ONE(mappings)
ONE(few_mappings)
ONE(foreign_break)
ONE(threads)

int main(void)
{
	RUN(check_nothing);
	RUN(check_one);
	RUN(check_holes);
	RUN(check_small_holes);
	RUN(check_nearly_all_free);
	RUN(check_large);
	RUN(check_mappings);
	/* the thread sanitizer maps memory for malloc by itself */
	if (TEST_SANITIZED)
		printf("skip check_few_mappings: a sanitizer has the allocator\n");
	else
		RUN(check_few_mappings);
	if (TEST_SANITIZED)
		printf("skip check_ring: a sanitizer has the allocator\n");
	else
		RUN(check_ring);
	RUN(check_foreign_break);
	RUN(check_threads);
	return test_status();
}
