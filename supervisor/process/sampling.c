// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/sampling.h"

#include <linux/membarrier.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/large.h"
#include "process/process.h"

/*
 * sampling.c - sampling switched on and off while the threads of the target are wherever they are.
 *
 * On. The period is set: from then on hooks count each block that they tell of in `known`
 * (wire_event.h), and still tell of every release. A hook may have read the period just before, so
 * every thread is made to pass a memory barrier, and then we wait until each was seen once not to
 * keep books: what it tells of after that is counted. What was told before is taken out of the
 * rings into the ledger, whose blocks are counted now. Then every block that the ledger has or will
 * get is counted, and releases of others need not be told: `filter`. The program does not wait for
 * any of this.
 *
 * Anew. While nothing is recorded (off.c) hooks count nothing. Then all counts are cleared; a hook
 * that is just counting may leave one too many, and then some releases are told in vain. Recording
 * begins as above.
 *
 * Off. `filter` is cleared before the period: so a hook that no longer counts what it tells of also
 * sees that every release is to be told. Blocks stay counted until they are released, so that
 * sampling can be on again at any time.
 */

/* looks at a thread, some 50 us: one that allocates is busy often, and never for long */
#define LOOKS 1000

uint64_t sampling_seed(void)
{
	static uint64_t seed;

	if (!seed && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint64_t)getpid();
	return seed += 0x9e3779b97f4a7c15ull;
}

/* Every block that is told of is counted: releases of others need not be told. */
static void filter(struct process *p)
{
	/* blocks that were told of when nobody looked after that */
	for (uint32_t i = 0; i < WIRE_COUNTERS; i++)
		__atomic_store_n(&p->wire->released[i], 0, __ATOMIC_RELAXED);
	ledger_know_all(p->ledger, true);
	__atomic_store_n(&p->wire->filter, 1, __ATOMIC_SEQ_CST);
	p->sampling.pending = false;
}

/* The period was there before the first hook. */
void sampling_begin(struct process *p, uint64_t period)
{
	ledger_known(p->ledger, p->wire->known);
	if (p->wire->sample) {
		ledger_sampled(p->ledger, period);
		filter(p);
	}
	sampling_switch(p, period);
}

void sampling_switch(struct process *p, uint64_t period)
{
	uint64_t was;

	if (!p->wire || !p->stream || p->off)
		return;
	was = __atomic_load_n(&p->wire->sample, __ATOMIC_RELAXED);
	if (!period) {
		__atomic_store_n(&p->wire->filter, 0, __ATOMIC_SEQ_CST);
		p->sampling.pending = false;
		ledger_know_all(p->ledger, false);
	}
	__atomic_store_n(&p->wire->sample, period, __ATOMIC_SEQ_CST);
	if (period)
		ledger_sampled(p->ledger, period);
	if (!period || was)
		return;
	p->sampling = (struct sampling){ .pending = true };
}

/* Every thread passes a memory barrier: running ones are interrupted; or the kernel waits for them. */
static bool fence(const struct process *p)
{
	return (p->fences && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0) ||
	       syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

/* Whether each thread was seen not to keep books. */
static bool seen_idle(struct process *p)
{
	uint32_t high = shared_slots(&p->shared);
	bool all = true;

	for (uint32_t i = 0; i < high; i++) {
		const struct wire_thread *t = &p->wire->thread[i];

		if (__atomic_load_n(&t->fs, __ATOMIC_ACQUIRE) <= 1 ||
		    !(__atomic_load_n(&t->mark, __ATOMIC_ACQUIRE) & WIRE_BUSY))
			p->sampling.idle[i / 64] |= 1ull << i % 64;
		all &= p->sampling.idle[i / 64] >> i % 64 & 1;
	}
	return all;
}

/* seen_idle(), after a fence: before it, a thread may be at work that looks idle. */
static bool all_idle(struct process *p)
{
	if (!p->sampling.fenced) {
		p->sampling.fenced = fence(p);
		if (!p->sampling.fenced)
			return false;
	}
	for (int i = 0; !seen_idle(p); i++) {
		if (i == LOOKS)
			return false;
		__builtin_ia32_pause();
	}
	return true;
}

void sampling_anew(struct process *p, uint64_t period)
{
	__atomic_store_n(&p->wire->filter, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&p->wire->sample, period, __ATOMIC_SEQ_CST);
	p->sampling = (struct sampling){ 0 };
	if (all_idle(p)) {
		memset(p->wire->known, 0, sizeof(p->wire->known));
		large_clear(p->wire);
	}
	ledger_known(p->ledger, p->wire->known);
	if (period)
		ledger_sampled(p->ledger, period);
	p->sampling = (struct sampling){ .pending = period != 0 };
}

void sampling_turn(struct process *p, uint64_t ms)
{
	uint64_t bytes;

	if (!p->sampling.pending || p->discarding || !p->wire || !p->stream || !all_idle(p))
		return;
	stream_settle(p->stream, ms, false);
	if (!stream_held(p->stream, &bytes))
		filter(p);
}
