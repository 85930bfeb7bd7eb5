// SPDX-License-Identifier: GPL-3.0-or-later
#include "patience.h"

#include <linux/time_types.h>

/*
 * patience.c - how long a hook waits for mtrun: a wait has an end, also if mtrun is stopped, or
 * hangs.
 *
 * mtrun's death is seen at once (mtrun_alive()), and ends a wait. While mtrun runs, a thread of its
 * own stores the time in the beacon every few milliseconds. If that clock stands still for five
 * seconds, or the wait lasts for a minute in all, the hook goes on without mtrun: an event is
 * dropped before it takes a number, and counted; a question is answered as by mtrun's death. As
 * long as the clock has not moved since, no thread waits for anything. A thread that has waited for
 * a minute for room in its ring waits again only after its reader has moved.
 *
 * The time between two looks counts for at most STEP_US: if this thread was itself stopped
 * meanwhile, mtrun may have been, too, and both run again. Where no system calls may be made pause
 * instructions are counted; mtrun has measured how many take a millisecond. (Strict seccomp forbids
 * rdtsc.)
 */

#define STILL_US  5000000u
#define ALL_US	  60000000u
#define STEP_US	  100000u /* longer than any nap */
#define PAUSES	  64u
#define PAUSES_MS 20000u /* pauses a millisecond, if mtrun has not said */

static bool clock_us(const struct patience *p, uint64_t *us)
{
	const long monotonic = 1;
	struct __kernel_timespec ts;
	long err;

	if (p->calls)
		err = sys3(__NR_clock_gettime, monotonic, (long)&ts, 0);
	else
		err = own_call(__NR_clock_gettime, monotonic, (long)&ts, 0, 0);
	if (err)
		return false;
	*us = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
	return true;
}

/* Microseconds since the last look. */
static uint64_t step(struct patience *p)
{
	uint32_t per_ms = load(&PROC->pauses);
	uint64_t now, was = p->clock;

	if (clock_us(p, &now)) {
		p->clock = now;
		return !was ? 0 : now - was < STEP_US ? now - was : STEP_US;
	}
	for (uint32_t i = 0; i < PAUSES; i++)
		__builtin_ia32_pause();
	p->pauses += PAUSES;
	if (p->pauses < (per_ms ? per_ms : PAUSES_MS))
		return 0;
	p->pauses = 0;
	return 1000;
}

bool patience_left(struct patience *p)
{
	uint32_t ms = load(&BEACON->ms);
	uint64_t us;

	if (load(&PROC->stood) == ms + 1ull)
		return false;
	us = step(p);
	p->all += us;
	p->still = ms == p->ms ? p->still + us : 0;
	p->ms = ms;
	if (p->still >= STILL_US)
		store(&PROC->stood, ms + 1ull);
	return p->still < STILL_US && p->all < ALL_US;
}

bool reader_left(struct wire_thread *t, struct patience *p)
{
	uint64_t tail = load(&t->tail);

	if (t->gave_up && t->gave_up_tail == tail)
		return false;
	t->gave_up = 0;
	if (patience_left(p))
		return true;
	if (p->all >= ALL_US) {
		t->gave_up = 1;
		t->gave_up_tail = tail;
	}
	return false;
}
