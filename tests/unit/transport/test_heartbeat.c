// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/heartbeat.h"

static void nap(long us) { nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL); }

/* The clock of events against the system's: whole ms that have passed, wherever in a second. */
static void test_clock(void)
{
	uint64_t before = clock_ns(), after, from;
	int behind = 0, ahead = 0, looks = 0;
	int fd = heartbeat_start();

	after = clock_ns();
	CHECK(fd >= 0);
	do {
		uint64_t ms, to;

		from = clock_ns();
		ms = heartbeat_ms();
		to = clock_ns();
		behind += ms < (from - after) / 1000000;
		ahead += ms > (to - before) / 1000000;
		looks++;
		nap(300);
	} while (from < after + 1100000000);
	printf("# %d looks, behind in %d, ahead in %d\n", looks, behind, ahead);
	CHECK_EQ(behind, 0);
	CHECK_EQ(ahead, 0);
	heartbeat_stop();
}

#define MANY 1000

struct ringer {
	struct wire_beacon *beacon;
	bool stop;
	uint64_t own_ns; /* of a processor */
};

static void *ring_without_end(void *arg)
{
	struct ringer *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&r->beacon->bell, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &r->beacon->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	r->own_ns = clock_thread_ns();
	return NULL;
}

/*
 * BEACONS, at most MANY, that do nothing but ring: the clock goes on, is told of it, and takes little of
 * a processor.
 */
static void rung_by(size_t beacons)
{
	static struct wire_beacon *map[MANY];
	uint64_t began, us = 200000, others, ns;
	int bell = heartbeat_start(), fd = memfd_create("beacon", MFD_CLOEXEC);
	struct ringer r = { 0 };
	uint32_t ms;
	pthread_t t;
	eventfd_t rung = 0;

	CHECK(bell >= 0 && fd >= 0 && ftruncate(fd, 4096) == 0);
	for (size_t i = 0; i < beacons; i++)
		CHECK((map[i] = heartbeat_map(fd, 4096, 4096)) != NULL);
	r.beacon = map[0];
	others = clock_thread_ns();
	began = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	ms = __atomic_load_n(&r.beacon->ms, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_create(&t, NULL, ring_without_end, &r), 0);
	nap((long)us);
	ms = __atomic_load_n(&r.beacon->ms, __ATOMIC_RELAXED) - ms;
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	others = clock_thread_ns() - others + r.own_ns;
	ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - began;
	ns = ns > others ? ns - others : 0;
	CHECK(eventfd_read(bell, &rung) == 0);
	printf("# %" PRIu64 " us of %" PRIu64 ", %" PRIu32 " ms, told %d times\n", ns / 1000, us,
	       ms, (int)rung);
	CHECK_BELOW(ns / 1000, us / 2);
	CHECK(ms > 100 && rung > 0);
	for (size_t i = 0; i < beacons; i++)
		heartbeat_unmap(map[i], 4096);
	close(fd);
	heartbeat_stop();
}

static void test_rung(void) { rung_by(1); }
#if !TEST_SANITIZED
static void test_rung_by_many(void) { rung_by(MANY); }
#endif

int main(void)
{
	RUN(test_clock);
	RUN(test_rung);
#if TEST_SANITIZED
	SKIP(test_rung_by_many, "the thread sanitizer has no room for so many mappings");
#else
	RUN(test_rung_by_many);
#endif
	return test_status();
}
