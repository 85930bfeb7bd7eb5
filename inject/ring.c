// SPDX-License-Identifier: GPL-3.0-or-later
#include "ring.h"

#include "patience.h"

#include <linux/futex.h>
#include <linux/time_types.h>

/*
 * ring.c - finds a thread's slot by its thread pointer, and waits for room in its ring.
 *
 * A slot belongs to the thread whose %fs base it holds. Only that thread writes events into it, so
 * a ring needs no lock: the event is stored, then `head`. The supervisor frees the slot at the
 * thread's end (it holds the thread in its exit stop meanwhile, so that no other thread can come
 * with the same %fs before).
 *
 * The finder is a hash table with open addressing. Each slot in use is in it, but for the moment
 * after it was taken; a handler that comes then looks at all slots. An entry is never emptied, so a
 * search may end at an empty one; one whose slot has another owner is passed by, and taken by the
 * next who needs one. A thread for which no slot is left costs the program no more than a search in
 * the finder for each call: `full` says that there is none, until the supervisor sets one free.
 *
 * Up to `until` a thread writes without a look at `tail`. There it looks again: it rings the bell
 * if its ring is more than half full, so that the reader has the other half's time to wake up. A
 * thread whose small ring was filled once takes a big one (big.c).
 *
 * When the ring is full the thread waits, asleep on a futex; where system calls are forbidden it
 * spins. In both cases it looks whether mtrun is alive: if not, the hooks are switched off for
 * good. A reader that does not move is not waited for for ever (patience.c): the event is lost.
 */

bool mtrun_alive(void)
{
	uint32_t alive = load(&BEACON->alive);

	return alive != 0 && !(alive & WIRE_OWNER_DIED);
}

void hooks_off(void) { GUARD->armed = ARMED_NOT; }

/* Whoever rings clears `sleeping`, so that each sleep of the supervisor costs one system call. */
void bell_ring(void)
{
	struct wire_beacon *b = BEACON;

	if (PROC->no_syscalls || !load(&b->sleeping) ||
	    !__atomic_exchange_n(&b->sleeping, 0, __ATOMIC_ACQ_REL))
		return;
	__atomic_add_fetch(&b->bell, 1, __ATOMIC_RELEASE);
	own_call(__NR_futex, (long)&b->bell, FUTEX_WAKE, 1, 0);
}

/* Waits until N events fit into T's ring of SIZE. False: they will not. */
static bool ring_wait(struct wire_thread *t, unsigned n, uint64_t size)
{
	struct patience patience = { 0 };
	bool room = true;

	while (t->head + n - load(&t->tail) > size) {
		struct __kernel_timespec nap = { .tv_nsec = 50 * 1000 * 1000 };

		if (!mtrun_alive()) {
			hooks_off();
			room = false;
			break;
		}
		if (!reader_left(t, &patience)) {
			room = false;
			break;
		}
		if (PROC->no_syscalls)
			continue;
		__atomic_store_n(&t->waiting, 1, __ATOMIC_SEQ_CST);
		if (t->head + n - load(&t->tail) <= size)
			continue;
		bell_ring();
		own_call(__NR_futex, (long)&t->waiting, FUTEX_WAIT, 1, (long)&nap);
	}
	store(&t->waiting, 0);
	store(&t->waited, t->waited + patience.all);
	return room;
}

/* The base of %fs; 0: there is none, or no system call may be made to ask. */
static uint64_t fs_base(void)
{
	uint64_t fs = 0;

	if (PROC->fsgsbase)
		__asm__("rdfsbase %0" : "=r"(fs));
	else if (own_call(__NR_arch_prctl, 0x1003 /* ARCH_GET_FS */, (long)&fs, 0, 0))
		return 0;
	return fs;
}

/*
 * `mask` 0: the slot was not begun in this process. A handler that interrupted one of its hooks has
 * forked, and the hook goes on in the child.
 */
noinline bool ring_look(struct wire_thread *t, unsigned n)
{
	uint64_t size, tail;

	if (!t->mask)
		t->mask = WIRE_SMALL - 1;
	else if (t->mask == WIRE_SMALL - 1)
		big_take(t);
	size = t->mask + 1ull;
	tail = load(&t->tail);
	if (t->head + n - tail > size / 2) {
		bell_ring();
		if (t->head + n - tail > size && !ring_wait(t, n, size))
			return false;
		t->until = load(&t->tail) + size;
	} else {
		t->until = tail + size / 2;
	}
	return true;
}

/*
 * The thread pointer while tls_ready is 0: a static program calls brk before it has one. Programs
 * without a libc may never have one, or (Go) one where %fs:0 is not the thread pointer itself: they
 * come here each time. So does a thread that has changed its %fs for a while.
 */
noinline uint64_t thread_pointer_early(void)
{
	uint64_t fs = fs_base();

	if (!fs)
		return 2;
	/* readable? see walk.c */
	if (own_call(__NR_rt_sigprocmask, -1, (long)fs, 0, 8) == -22 /* EINVAL */ &&
	    *(volatile uint64_t *)fs == fs)
		PROC->tls_ready = 1;
	return fs;
}

/* This thread's id; 0: not known. */
static uint32_t own_tid(void)
{
	long tid = own_call(__NR_gettid, 0, 0, 0, 0);

	return tid > 0 ? (uint32_t)tid : 0;
}

static void slot_begin(struct wire_thread *t)
{
	t->tid = own_tid();
	store(&t->mark, 0);
	t->ring = 0;
	t->mask = WIRE_SMALL - 1;
	t->until = load(&t->tail) + WIRE_SMALL;
	t->memory = 0;
	t->flush = 0;
	t->new_zero = 0;
	t->asked = t->head;
	t->depth = 0;
	t->places = 0;
	t->calls = 0;
	t->gave_up = 0;
	t->ms = UINT32_MAX;
	for (int i = 0; i < WIRE_RANGES; i++)
		t->range[i] = (struct wire_range){ 0, 0 };
	if (ring_room(t, 1))
		ring_put(t, wire_pack(WIRE_THREAD, t->tid, 0, 0, 0));
}

static bool slot_take(struct wire_thread *t, uint64_t fs)
{
	uint64_t owner = load(&t->fs);

	return owner <= 1 && __atomic_compare_exchange_n(&t->fs, &owner, fs, false,
							 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Takes the lowest free slot for FS. NULL: none is left (*ALL), or no more can be mapped. */
static struct wire_thread *slot_free(uint64_t fs, bool *all)
{
	struct wire_process *p = PROC;

	*all = false;
	for (uint32_t i = 0; i < WIRE_THREADS; i++) {
		struct wire_thread *t = &p->thread[i];
		uint32_t high;

		if (i >= load(&p->slots) && !slots_reach(i))
			return NULL;
		if (!slot_take(t, fs))
			continue;
		high = load(&p->threads_high);
		while (high < i + 1 &&
		       !__atomic_compare_exchange_n(&p->threads_high, &high, i + 1, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			;
		slot_begin(t);
		return t;
	}
	*all = true;
	return NULL;
}

/* The slot of FS, or else a free one. NULL: none is left. */
static struct wire_thread *slot_of(uint64_t fs)
{
	struct wire_process *p = PROC;
	uint32_t high = load(&p->threads_high);
	struct wire_thread *t;
	bool all;

	for (uint32_t i = 0; i < high && i < WIRE_THREADS; i++)
		if (load(&p->thread[i].fs) == fs)
			return &p->thread[i];
	t = slot_free(fs, &all);
	if (t || !all)
		return t;
	/* one that was set free since we looked is found now, or `full` is cleared after this */
	__atomic_store_n(&p->full, 1, __ATOMIC_SEQ_CST);
	t = slot_free(fs, &all);
	if (t)
		__atomic_store_n(&p->full, 0, __ATOMIC_SEQ_CST);
	return t;
}

/* Whether an entry of the finder names a slot of the thread that it names. */
static bool is_right(uint64_t v)
{
	return load(&PROC->thread[v & (WIRE_THREADS - 1)].fs) == v >> 16;
}

static void finder_add(uint64_t fs, uint32_t at, const struct wire_thread *t)
{
	uint64_t ours = fs << 16 | (uint64_t)(t - PROC->thread);

	for (uint32_t i = 0; i < WIRE_FINDER; i++) {
		uint64_t *e = &PROC->finder[(at + i) & (WIRE_FINDER - 1)], v = load(e);

		if ((!v || !is_right(v)) &&
		    __atomic_compare_exchange_n(e, &v, ours, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return;
	}
}

noinline struct wire_thread *slot_find(uint64_t fs, uint32_t at)
{
	struct wire_process *p = PROC;
	struct wire_thread *t = NULL;

	for (uint32_t i = 0; i < WIRE_FINDER; i++) {
		uint64_t v = load(&p->finder[(at + i) & (WIRE_FINDER - 1)]);

		if (!v)
			break;
		if (v >> 16 == fs && is_right(v))
			return &p->thread[v & (WIRE_THREADS - 1)];
	}
	if (!load(&p->full))
		t = slot_of(fs);
	if (t)
		finder_add(fs, at, t);
	else
		__atomic_add_fetch(&p->no_slot, 1, __ATOMIC_RELAXED);
	return t;
}

static uint32_t place_state(const struct wire_thread *t, enum wire_place state)
{
	return (uint32_t)(t - PROC->thread) << 2 | state;
}

static struct wire_signal_event *place_take(const struct wire_thread *t)
{
	struct wire_process *p = PROC;
	uint64_t at = load(&p->signal_head);

	for (uint32_t i = 0; i < WIRE_SIGNAL_PLACES; i++) {
		struct wire_signal_event *s = &p->signal[(at + i) % WIRE_SIGNAL_PLACES];
		uint32_t free = PLACE_FREE;

		if (__atomic_compare_exchange_n(&s->state, &free, place_state(t, PLACE_TAKEN),
						false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return s;
	}
	return NULL;
}

struct wire_signal_event *signal_place(struct wire_thread *t)
{
	const struct __kernel_timespec nap = { .tv_nsec = 1000 * 1000 };
	struct patience patience = { 0 };
	struct wire_signal_event *s;

	while (!(s = place_take(t))) {
		if (!mtrun_alive()) {
			hooks_off();
			return NULL;
		}
		if (!reader_left(t, &patience))
			return NULL;
		bell_ring();
		own_call(__NR_nanosleep, (long)&nap, 0, 0, 0);
	}
	__atomic_add_fetch(&t->places, 1, __ATOMIC_RELAXED);
	return s;
}

/* The order is drawn when the event is complete: a thread's earlier event has the lower order. */
void signal_put(struct wire_thread *t, struct wire_signal_event *s, struct wire_event first,
		struct wire_event second)
{
	s->tid = t->tid;
	s->ms = load(&BEACON->ms);
	s->event[0] = first;
	s->event[1] = second;
	s->order = __atomic_fetch_add(&PROC->signal_head, 1, __ATOMIC_ACQ_REL);
	store(&s->state, place_state(t, PLACE_READY));
	__atomic_sub_fetch(&t->places, 1, __ATOMIC_RELAXED);
}

void signal_forget(struct wire_thread *t)
{
	if (!t->places)
		return;
	t->places = 0;
	for (uint32_t i = 0; i < WIRE_SIGNAL_PLACES; i++) {
		uint32_t taken = place_state(t, PLACE_TAKEN);

		__atomic_compare_exchange_n(&PROC->signal[i].state, &taken, PLACE_FREE, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
}
