/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * clock.h - a clock for how long something takes, and until when to wait: it never goes back.
 * (Milliseconds since tracing began, by which events are dated: transport/heartbeat.h.)
 */
#ifndef MTRUN_CLOCK_H
#define MTRUN_CLOCK_H

#include <time.h>

#include "base/types.h"

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ns(void) { return clock_read_ns(CLOCK_MONOTONIC); }

static inline uint64_t clock_us(void) { return clock_ns() / 1000; }
static inline uint64_t clock_ms(void) { return clock_ns() / 1000000; }

/* A time of these clocks, for calls that wait until then. */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
				  .tv_nsec = (long)(ns % 1000000000) };
}

/* The calling thread's CPU time: as a limit, a busy machine makes no answer poorer. */
static inline uint64_t clock_thread_ns(void) { return clock_read_ns(CLOCK_THREAD_CPUTIME_ID); }
static inline uint64_t clock_thread_us(void) { return clock_thread_ns() / 1000; }

#endif
