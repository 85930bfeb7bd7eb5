// SPDX-License-Identifier: GPL-3.0-or-later
#include "blob.h"

/*
 * big.c - a thread's memory is sized by what it does.
 *
 * In a program with a thousand threads most allocate a little and wait. What such a thread needs is
 * in its slot: a ring of WIRE_SMALL events, and room for a walk that remembers nothing. When the
 * small ring has been filled once the thread takes one of the big ones (struct wire_big): a longer
 * ring, and room for what its walks remember. (1000 threads with a few blocks each take 10 MB of
 * memory and 30 MB of addresses so; 25 and 370 MB if every slot had all of it.)
 *
 *	slot 0  [ hot | small ring | pcs ]         big 0  [ ring .... | remembered stacks .. ]
 *	slot 1  [ hot | small ring | pcs ]  big=1  big 1  [ ring .... | remembered stacks .. ]
 *	...                                        ...
 *
 * big_owner says whose each big one is. A thread takes the lowest that is free, by one compare and
 * exchange, and keeps it to its end. The supervisor gives it back then, with the slot
 * (shared_slot_free()): the owner may have been killed anywhere in here. More are mapped when all
 * are taken (agent.c). Where that fails, because no system call may be made or RLIMIT_AS is met,
 * the thread goes on in its small ring: slower, and as exact.
 *
 * The order of events. A thread's events are numbered by `head` through both rings. `moved` is the
 * number of the first one in the big ring: earlier ones stay where they are in the small one, which
 * is not written any more before the slot has another owner, and the supervisor has taken them all
 * by then. `moved` is stored before `big`, and `big` before the `head` that counts the first event
 * there, so a reader that looks at `head` first, then at `big`, then at `moved`, finds each event
 * that it counts, whether it comes before, in between or after; and it takes them by their numbers,
 * those of the small ring first. Both rings together hold no more events that were not taken than
 * the big one alone (wire_ring_size()).
 *
 * What can interrupt this:
 *
 *	a handler	It writes nothing into the rings (counting.h).
 *	a siglongjmp	out of a handler. `until` is `head` meanwhile, so no event is written before
 *			the next ring_look(), which comes here again and finds what was done: the
 *			big one that is its own, `big`, `moved`.
 *	a fork		in a handler. The child has a process part of its own, of zeros, with as
 *			many big ones mapped (supervisor/tracee/agent.c). So whoever follows
 *			`memory` loads it once and checks that it is not 0; and `ring` is a
 *			distance, so that 0 leads into the slot.
 *	the end		of the thread, or of the process. What `head` does not count is not there.
 *
 * A walk need not look at any of this: wire_thread.flush is 0, which wire_process.flush never is,
 * until a walk has been remembered in the big one.
 */

/* Of those that are mapped one that is OWNER's or free, which it takes. From 1; 0: none. */
static uint32_t big_mapped(uint32_t owner)
{
	uint32_t n = load(&PROC->bigs);

	for (uint32_t i = 0; i < n && i < WIRE_BIGS; i++) {
		uint32_t free = 0;

		if (load(&PROC->big_owner[i]) == owner ||
		    __atomic_compare_exchange_n(&PROC->big_owner[i], &free, owner, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return i + 1;
	}
	return 0;
}

static uint32_t big_find(const struct wire_thread *t)
{
	uint32_t owner = (uint32_t)(t - PROC->thread) + 1, n, big;

	while (!(big = big_mapped(owner))) {
		n = load(&PROC->bigs);
		/* another thread may have mapped more meanwhile, and others taken them */
		if (n >= WIRE_BIGS || (!bigs_reach(n) && load(&PROC->bigs) == n))
			return 0;
	}
	return big;
}

noinline void big_take(struct wire_thread *t)
{
	struct wire_big *b;

	store(&t->until, t->head);
	if (!t->big) {
		uint32_t big = big_find(t);

		if (!big)
			return;
		store(&t->moved, t->head);
		store(&t->big, big);
	}
	b = &BIGS[t->big - 1];
	t->depth = 0;
	store(&t->ring, (uintptr_t)b->ring - (uintptr_t)t->small);
	store(&t->memory, (uintptr_t)b);
	store(&t->mask, wire_ring_size(t->big) - 1);
}
