/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ring.h - the few instructions of writing an event that every hook inlines. */
#ifndef MTRUN_RING_H
#define MTRUN_RING_H

#include "blob.h"

uint64_t thread_pointer_early(void);
struct wire_thread *slot_find(uint64_t fs, uint32_t at);

/*
 * The thread pointer names the thread. While tls_ready is 0 %fs:0 must not be read. Returns 2 if
 * there is no thread pointer, as 0 and 1 mean free slots.
 */
static inline uint64_t thread_pointer(void)
{
	return unlikely(!PROC->tls_ready) ? thread_pointer_early() : thread_word();
}

static inline uint64_t thread_pointer_calling(void)
{
	uint64_t fs = PROC->tls_ready ? thread_word_calling() : WIRE_LOAD_FAILED;

	return likely(fs != WIRE_LOAD_FAILED) ? fs : thread_pointer_early();
}

/* The slot of the thread whose pointer is FS. NULL: none is left, or mtrun is gone. */
static inline struct wire_thread *thread_of(uint64_t fs)
{
	uint32_t at = wire_finder_hash(fs);
	uint64_t v = load(&PROC->finder[at]);
	struct wire_thread *t = &PROC->thread[v & (WIRE_THREADS - 1)];

	if (likely(load(&t->fs) == fs))
		return t;
	return slot_find(fs, at);
}

/* This thread's slot. */
static inline struct wire_thread *thread_self(void) { return thread_of(thread_pointer()); }

/* This thread's slot, around a system call: see thread_word_calling(). */
static inline struct wire_thread *thread_calling(void)
{
	return thread_of(thread_pointer_calling());
}

/*
 * Makes sure that N more slots of the ring are free. False: mtrun is gone, or does not read:
 * nothing may be written.
 */
static inline bool ring_room(struct wire_thread *t, unsigned n)
{
	return likely(t->head + n <= t->until) || ring_look(t, n);
}

/*
 * Every line of the ring was last in the reader's cache, so the first store to one is a miss, and
 * the next locked instruction would wait for it. Lines are prefetched: a pair costs a third less.
 */
#define RING_AHEAD 16u

/* The ring that T's events go to now. */
struct ring {
	struct wire_event *event;
	uint32_t mask;
};
static inline struct ring ring_of(struct wire_thread *t)
{
	return (struct ring){ (struct wire_event *)((uintptr_t)t->small + t->ring), t->mask };
}

static inline void ring_advance(struct wire_thread *t, struct ring r, uint64_t head)
{
	store(&t->head, head);
	__asm__ volatile("prefetchw %0" : : "m"(r.event[(head + RING_AHEAD) & r.mask]));
}

static inline void ring_put(struct wire_thread *t, struct wire_event e)
{
	struct ring r = ring_of(t);
	uint64_t head = t->head;

	r.event[head & r.mask] = e;
	ring_advance(t, r, head + 1);
}

static inline void ring_put2(struct wire_thread *t, struct wire_event e, struct wire_event more)
{
	struct ring r = ring_of(t);
	uint64_t head = t->head;

	r.event[head & r.mask] = e;
	r.event[(head + 1) & r.mask] = more;
	ring_advance(t, r, head + 2);
}

#endif
