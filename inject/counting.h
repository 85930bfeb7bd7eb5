/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * counting.h - what all hooks have in common: whether a call counts, and how an event is written.
 *
 * Order. An event takes its number from the counter of its address: an allocation after the real
 * function has returned the address, a release before the real function may give it to somebody
 * else. So between two owners of one address the numbers are in the order of ownership, whatever
 * the threads do. realloc does both: LEAVE before, BECAME, STAYED or GONE after.
 *
 * Once. The outermost hook of a thread counts; what the real function calls inside (aligned_alloc
 * -> malloc -> mmap) does not: `mark` holds the outermost hook's frame meanwhile. Bit 0 of the mark
 * (WIRE_BUSY) says that the hook is keeping books, during which nothing of the program's runs but a
 * signal handler; a handler's events go to a place apart (wire_process.signal) and leave the
 * thread's state alone. A mark can also be stale, when a handler left by siglongjmp. nesting()
 * tells these apart.
 *
 * errno is not touched but for a refusal: nothing here calls libc, and the real function's value
 * stands.
 *
 * What malloc and free always need is inlined into them; the rest is in counting.c.
 */
#ifndef MTRUN_COUNTING_H
#define MTRUN_COUNTING_H

#include "hook.h"
#include "ring.h"

typedef uint64_t (*fn1)(uint64_t);
typedef uint64_t (*fn3)(uint64_t, uint64_t, uint64_t);
typedef uint64_t (*fn6)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef uint64_t (*fn7)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static inline uint64_t call3(const struct wire_hook *h, uint64_t a, uint64_t b, uint64_t c)
{
	return ((fn3)h->orig)(a, b, c);
}

/* entry.S: FN(A, B, C), which finds by rbp the frame of the hook's caller. */
uint64_t call_framed(fn3 fn, uint64_t a, uint64_t b, uint64_t c, const struct entry *e);

static inline uint64_t call_block(const struct wire_hook *h, const struct entry *e, uint64_t a,
				  uint64_t b, uint64_t c)
{
	return unlikely(h->arg & WIRE_FRAMED) ? call_framed((fn3)h->orig, a, b, c, e)
					      : call3(h, a, b, c);
}

static inline uint64_t call6(const struct wire_hook *h, const uint64_t *a)
{
	return ((fn6)h->orig)(a[0], a[1], a[2], a[3], a[4], a[5]);
}

/*
 * entry.S: a call that is not to be counted, or whose thread has no slot, goes on as if there were no
 * hook. The thread does not come back here, so it needs no mark.
 */
_Noreturn void leave_hook3(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h,
			   const struct entry *e);
_Noreturn void leave_hook6(const uint64_t *a, const struct wire_hook *h, const struct entry *e);

/* ---- who is counting ----------------------------------------------------- */

struct scope {
	struct wire_thread *t; /* NULL: not to be counted */
	/* in a signal handler that interrupted a hook: t's state is not ours to change */
	bool minimal;
};

/* The scope of a hook that finds T marked: see nesting(). */
struct scope scope_inner(struct wire_thread *t, const struct entry *e);

static inline struct scope scope_of(struct wire_thread *t, const struct entry *e)
{
	if (likely(t && !t->mark))
		return (struct scope){ t, false };
	return t ? scope_inner(t, e) : (struct scope){ NULL, false };
}

static inline struct scope scope_enter(const struct entry *e) { return scope_of(thread_self(), e); }

static inline struct scope scope_calling(const struct entry *e)
{
	return scope_of(thread_calling(), e);
}

/* Whether this thread's slot is found at once, and no hook is around this one. */
static inline bool enter_at_once(struct scope *s)
{
	uint64_t fs;

	*s = (struct scope){ NULL, false };
	if (unlikely(!PROC->tls_ready))
		return false;
	fs = thread_pointer();
	s->t = &PROC->thread[load(&PROC->finder[wire_finder_hash(fs)]) & (WIRE_THREADS - 1)];
	return load(&s->t->fs) == fs && !s->t->mark;
}

static inline void mark_call(struct scope s, const struct entry *e)
{
	if (!s.minimal)
		store(&s.t->mark, (uint64_t)&e->ra);
}

static inline void mark_busy(struct scope s, const struct entry *e)
{
	if (!s.minimal)
		store(&s.t->mark, (uint64_t)&e->ra | WIRE_BUSY);
	__asm__ volatile("" ::: "memory");
}

static inline void mark_none(struct scope s)
{
	__asm__ volatile("" ::: "memory");
	if (!s.minimal)
		store(&s.t->mark, 0);
}

/*
 * A real function is called around which there is something to do, but no event. Its thread is
 * marked all the same: whoever unmaps the trampoline must know that the thread will come back here.
 * False: it is marked already.
 */
static inline bool mark_plain(struct wire_thread *t, const struct entry *e)
{
	if (t->mark)
		return false;
	store(&t->mark, (uint64_t)&e->ra);
	return true;
}

static inline void unmark_plain(struct wire_thread *t, bool marked)
{
	__asm__ volatile("" ::: "memory");
	if (marked && !orphaned())
		store(&t->mark, 0);
}

/* ---- events -------------------------------------------------------------- */

/*
 * While a program has one thread the lock prefix costs 2 ns of 37 a pair: not worth having to know
 * of the second thread in time.
 */
static inline uint32_t take_number(uint64_t address)
{
	return __atomic_fetch_add(&PROC->counter[wire_counter(address)], 1, __ATOMIC_ACQ_REL);
}

static inline uint64_t take_ticket(void)
{
	return __atomic_fetch_add(&PROC->ticket, 1, __ATOMIC_ACQ_REL);
}

static inline uint32_t stack_of(struct scope s, const struct entry *e)
{
	return unlikely(s.minimal) ? walk_plain(e) : walk(s.t, e);
}

/* Counts an event of T's that cannot be written. Returns false. */
bool event_lost(struct wire_thread *t);

/*
 * Makes room for a time event and a wide one, and writes the time event if a millisecond has
 * passed. *PLACE: where the event goes if the scope is minimal; not set otherwise. False: the event
 * is lost, and must not take a number.
 */
static inline bool begin_event(struct scope s, struct wire_signal_event **place)
{
	struct wire_thread *t = s.t;
	uint32_t ms;

	if (unlikely(s.minimal)) {
		*place = signal_place(t);
		return *place || event_lost(t);
	}
	if (unlikely(!ring_room(t, 3)))
		return event_lost(t);
	ms = __atomic_load_n(&BEACON->ms, __ATOMIC_RELAXED);
	if (unlikely(ms != t->ms)) {
		t->ms = ms;
		ring_put(t, (struct wire_event){ (uint64_t)WIRE_TIME << WIRE_ADDRESS_BITS, ms });
	}
	return true;
}

static inline void emit(struct scope s, struct wire_signal_event *place, struct wire_event e)
{
	if (unlikely(s.minimal))
		signal_put(s.t, place, e, (struct wire_event){ 0, 0 });
	else
		ring_put(s.t, e);
}

/* emit() of an event with a second slot. */
void emit_wide(struct scope s, struct wire_signal_event *place, struct wire_event e, uint64_t size,
	       uint64_t ticket);

/* ---- the limit ----------------------------------------------------------- */

static inline bool limited(uint32_t what) { return unlikely(load(&PROC->limited) & what); }

#define IMPOSSIBLE (1ull << 63) /* for an allocator */
/* for the kernel: all addresses but two pages; of more it would say EINVAL */
#define IMPOSSIBLE_MAP ((1ull << 47) - 8192)
/* Asks the supervisor. Returns the bytes that were charged, or ROOM_NONE. The thread is busy. */
uint64_t charge_asking(struct scope s, const struct entry *e, enum wire_room kind,
		       const uint64_t arg[4]);

#define NOT_YET UINT64_MAX /* of wire_thread.settles */

/* `charged` is going to be CHARGED, if there is room for it. */
static inline void charge_begin(struct scope s, uint64_t charged)
{
	if (unlikely(s.minimal))
		return;
	store(&s.t->settles, NOT_YET);
	store(&s.t->charging, charged);
	__asm__ volatile("" ::: "memory");
}

/* The event that is stored next is that of the charged block or mapping. */
static inline void settles_next(struct scope s)
{
	if (likely(!s.minimal))
		store(&s.t->settles, s.t->head);
}

/* The event of the CHARGED bytes is stored, or there will be none. */
static inline void settle(struct scope s, uint64_t charged)
{
	if (unlikely(s.minimal))
		__atomic_add_fetch(&PROC->signal_settled, charged, __ATOMIC_RELEASE);
	else
		store(&s.t->settled, s.t->charged);
}

#endif
