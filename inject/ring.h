/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ring.h - the few instructions of writing an event that every hook inlines. */
#ifndef MTRUN_RING_H
#define MTRUN_RING_H

#include "blob.h"

uint64_t thread_pointer_early(void);
struct wire_thread *slot_find(uint64_t fs, uint32_t at);

/*
 * The thread pointer names the thread. While tls_ready is 0 %fs:0 must not be read; 2 stands for a
 * missing one, as 0 and 1 mean free slots.
 */
static inline uint64_t thread_pointer(void)
{
	uint64_t fs;

	if (unlikely(!PROC->tls_ready))
		return thread_pointer_early();
	__asm__ volatile("mov %%fs:0, %0" : "=r"(fs));
	return fs;
}

/* This thread's slot. NULL: none is left, or mtrun is gone. */
static inline struct wire_thread *thread_self(void)
{
	uint64_t fs = thread_pointer();
	uint32_t at = wire_finder_hash(fs);
	uint64_t v = load(&PROC->finder[at]);
	struct wire_thread *t = &PROC->thread[v & (WIRE_THREADS - 1)];

	if (likely(load(&t->fs) == fs))
		return t;
	return slot_find(fs, at);
}

/*
 * Makes sure that N more events fit. False: mtrun is gone, or does not take them out: nothing is to
 * be written.
 */
static inline bool ring_room(struct wire_thread *t, unsigned n)
{
	return likely(t->head + n - t->tail_seen <= WIRE_RING) || ring_wait(t, n);
}

/*
 * The reader has had every line of the ring in its cache, so each first store to one is a miss, and
 * the next locked instruction would wait for it. The lines are asked for early: a third off the
 * cost of a pair.
 */
#define RING_AHEAD 16u
static inline void ring_prepare(const struct wire_thread *t, uint64_t head)
{
	__asm__ volatile("prefetchw %0" : : "m"(t->ring[(head + RING_AHEAD) & (WIRE_RING - 1)]));
}

/*
 * The bell rings when a ring becomes half full: the reader then has the other half's time to wake
 * up.
 */
static inline void ring_advance(struct wire_thread *t, unsigned n)
{
	uint64_t head = t->head + n;
	bool half = (head ^ t->head) & (WIRE_RING / 2);

	store(&t->head, head);
	ring_prepare(t, head);
	if (unlikely(half))
		bell_ring();
}

static inline void ring_put(struct wire_thread *t, struct wire_event e)
{
	t->ring[t->head & (WIRE_RING - 1)] = e;
	ring_advance(t, 1);
}

static inline void ring_put2(struct wire_thread *t, struct wire_event e, struct wire_event more)
{
	t->ring[t->head & (WIRE_RING - 1)] = e;
	t->ring[(t->head + 1) & (WIRE_RING - 1)] = more;
	ring_advance(t, 2);
}

#endif
