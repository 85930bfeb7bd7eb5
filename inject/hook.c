// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * hook.c - what happens around each allocator function.
 *
 * Order. An event takes its number from the counter of its address: an allocation after the real
 * function has returned the address, a release before the real function may give it to somebody
 * else. So between two owners of one address the numbers are in the order of ownership, whatever
 * the threads do. realloc does both: LEAVE before, BECAME, STAYED or GONE after.
 *
 * Once. The outermost hook of a thread counts, what the real function calls inside (aligned_alloc
 * -> malloc -> mmap) does not: `mark` holds the outermost hook's frame meanwhile. Bit 0 of the mark
 * says that the hook is keeping books, during which nothing of the program's runs but a signal
 * handler; such an event goes to a place apart (wire_process.signal) and leaves the thread's state
 * alone. A mark can also be stale, when a handler left by siglongjmp. nesting() tells these apart.
 *
 * A limit. What a call is about to be given is charged before the real function is called (wire.h,
 * ASK_ROOM). If it is refused, the real function is called all the same, for so much that no
 * allocator and no kernel has it: so exceptions and new handlers are those of the real thing.
 *
 * Sampling. Most blocks are not told of (wire.h): what a call is about to be given is counted down
 * before the real function is called. In malloc and free entry.S does that itself, and comes here
 * only with a block that is sampled, or that may be known.
 *
 * Errors. Each event says which kind of function was called (enum wire_family), and a release that
 * looks wrong says its stack (hint.h). Whether it is wrong the supervisor decides.
 *
 * errno is not touched but for a refusal: nothing here calls libc, and the real function's value
 * stands.
 */
#include "hook.h"
#include "hint.h"
#include "large.h"
#include "patience.h"
#include "ring.h"
#include "sample.h"

#define BUSY 1ull

typedef uint64_t (*fn1)(uint64_t);
typedef uint64_t (*fn3)(uint64_t, uint64_t, uint64_t);
typedef uint64_t (*fn6)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef uint64_t (*fn7)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static inline uint64_t call3(const struct wire_hook *h, uint64_t a, uint64_t b, uint64_t c)
{
	return ((fn3)h->orig)(a, b, c);
}

/* entry.S: the real function finds the frame of the hook's caller behind ours. */
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

/* ---- who is counting ----------------------------------------------------- */

struct scope {
	struct wire_thread *t; /* NULL: not to be counted */
	/* from a handler inside another hook: t's state is not ours */
	bool minimal;
};

static noinline struct scope scope_inner(struct wire_thread *t, const struct entry *e)
{
	switch (nesting(t, e)) {
	case SIGNALLED: return (struct scope){ t, true };
	case STALE:
		t->mark = 0;
		t->depth = 0;
		signal_forget(t);
		/* it may have been left in the middle of a change of its ranges */
		store(&t->stale, 1);
		return (struct scope){ t, false };
	default: return (struct scope){ NULL, false };
	}
}

static inline struct scope scope_enter(const struct entry *e)
{
	struct wire_thread *t = thread_self();

	if (likely(t && !t->mark))
		return (struct scope){ t, false };
	return t ? scope_inner(t, e) : (struct scope){ NULL, false };
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

/* Something is to be done that most programs never ask for. */
static inline bool unusual(void) { return unlikely(load(&PROC->either) | load(&PROC->sample)); }

static inline void mark_call(struct scope s, const struct entry *e)
{
	if (!s.minimal)
		store(&s.t->mark, (uint64_t)&e->ra);
}

static inline void mark_busy(struct scope s, const struct entry *e)
{
	if (!s.minimal)
		store(&s.t->mark, (uint64_t)&e->ra | BUSY);
	__asm__ volatile("" ::: "memory");
}

static inline void mark_none(struct scope s)
{
	__asm__ volatile("" ::: "memory");
	if (!s.minimal)
		store(&s.t->mark, 0);
}

/*
 * A real function that is called without an event. Its thread is marked all the same: whoever takes
 * our part away has to know that it will come back here. False: it is marked already (or has no
 * slot).
 */
static inline bool mark_plain(struct wire_thread *t, const struct entry *e)
{
	if (!t || t->mark)
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

static noinline bool event_lost(struct wire_thread *t)
{
	__atomic_add_fetch(&t->lost, 1, __ATOMIC_RELAXED);
	return false;
}

/*
 * Room for a time event and a wide one; the time event if a millisecond has passed. *PLACE: where
 * an event goes from a handler inside another hook; not set otherwise. False: the event is lost,
 * and must not take a number.
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

static noinline void emit_wide(struct scope s, struct wire_signal_event *place, struct wire_event e,
			       uint64_t size, uint64_t ticket)
{
	struct wire_event more = { size, ticket };

	if (unlikely(s.minimal))
		signal_put(s.t, place, e, more);
	else
		ring_put2(s.t, e, more);
}

/*
 * What the operator around this call has said that it is (entry.S), of a release with its address
 * mixed in.
 */
static inline uint32_t family_said(uint64_t said)
{
	uint64_t family = said ^ GUARD->secret;

	return likely(family > FAMILY_ANY) ? FAMILY_HEAP : (uint32_t)family;
}

/* ---- sampling ------------------------------------------------------------ */

enum choice { WHOLE, SAMPLED, LEFT_OUT }; /* told of as one block, as a sample, not at all */

/* The countdown is used up, or of another period. */
static noinline enum choice choose_anew(struct scope s, const struct entry *e, uint64_t size,
					uint64_t period)
{
	struct wire_thread *t = s.t;
	uint64_t was = t->sample;

	mark_busy(s, e);
	if (!t->random)
		t->random = PROC->seed + (uint64_t)(t - PROC->thread) * 0xd1342543de82ef95ull;
	t->countdown = sample_distance(&t->random, period);
	if (was != period) {
		if (!ring_room(t, 1))
			return WHOLE;
		ring_put(t,
			 (struct wire_event){ (uint64_t)WIRE_PERIOD << WIRE_ADDRESS_BITS, period });
		t->sample = period;
		t->drawn = 0;
		if (size < t->countdown) {
			t->countdown -= size;
			return LEFT_OUT;
		}
		t->countdown = sample_distance(&t->random, period);
	}
	t->drawn = t->countdown;
	return SAMPLED;
}

/*
 * What is to be said of a block of SIZE bytes that the thread is about to ask for. One instruction
 * counts down: a handler may come at any time.
 */
static inline __attribute__((always_inline)) enum choice choose(struct scope s,
								const struct entry *e,
								uint64_t size)
{
	uint64_t period = load(&PROC->sample);
	bool used_up;

	if (likely(!period) || s.minimal)
		return WHOLE;
	size += !size;
	if (unlikely(s.t->sample != period))
		return choose_anew(s, e, size, period);
	__asm__("sub %2, %0" : "+m"(s.t->countdown), "=@ccbe"(used_up) : "r"(size));
	return unlikely(used_up) ? choose_anew(s, e, size, period) : LEFT_OUT;
}

/* To be told of a block that is about to be told of. The thread is busy. */
static inline uint32_t choice_flags(struct scope s, enum choice choice, uint64_t address)
{
	if (likely(!load(&PROC->sample) && choice == WHOLE && !s.minimal))
		return 0;
	wire_known_add(PROC->known, address);
	store(&PROC->released[wire_counter(address)], 0);
	if (!s.minimal)
		s.t->told = address;
	return WIRE_COUNTED | (choice == SAMPLED ? WIRE_SAMPLED : 0);
}

/* Whether the supervisor may know the block at ADDRESS. (Of free's entry.S asks that.) */
static inline bool may_be_known(uint64_t address)
{
	const struct wire_process *p = PROC;

	return likely(!load(&p->filter)) || (load(&p->known[wire_known(address)]) &&
					     load(&p->released[wire_counter(address)]) != address);
}

static inline uint32_t release_flags(struct scope s, uint64_t address)
{
	if (likely(!load(&PROC->sample)) || s.minimal)
		return 0;
	return s.t->told != address || s.t->countdown != s.t->drawn ? WIRE_LATER : 0;
}

/* The same for a FREE, from the moment when it is certain to be told of. */
static noinline uint32_t free_flags(struct scope s, uint64_t address)
{
	store(&PROC->released[wire_counter(address)], address);
	return release_flags(s, address);
}

/* ---- events of blocks ---------------------------------------------------- */

/*
 * ALLOC or BECAME, whose wide forms follow them in enum wire_kind. Its number is taken as late as
 * possible: the fewer instructions between it and the store, the fewer events have to wait for each
 * other in the reader.
 */
static inline __attribute__((always_inline)) void emit_block(struct scope s, const struct entry *e,
							     enum wire_kind kind, uint64_t address,
							     uint64_t size, uint32_t family,
							     enum choice choice)
{
	uint32_t stack = stack_of(s, e), flags;
	struct wire_signal_event *place = NULL;

	if (!begin_event(s, &place))
		return;
	flags = choice_flags(s, choice, address) | family << WIRE_FAMILY_SHIFT;
	if (likely(size < WIRE_WIDE)) {
		emit(s, place,
		     wire_pack(kind, address, take_number(address), (uint32_t)size | flags, stack));
	} else {
		uint32_t number;

		large_add(PROC, address);
		number = take_number(address);
		emit_wide(s, place, wire_pack(kind + 1, address, number, flags, stack), size,
			  take_ticket());
	}
	hint_given(PROC, address, family);
}

static noinline uint32_t release_stack(struct scope s, const struct entry *e)
{
	return stack_of(s, e);
}

static inline bool limited(uint32_t what) { return unlikely(load(&PROC->limited) & what); }

/*
 * The block at ADDRESS is released, by NUMBER, and the thread's events end at HEAD: if the last one
 * gave it the block, its size is known.
 */
static inline void credit(struct scope s, uint64_t address, uint32_t number, uint64_t head)
{
	struct wire_thread *t = s.t;
	struct wire_event last = t->ring[(head - 1) & (WIRE_RING - 1)],
			  block = wire_pack(WIRE_ALLOC, address, number - 1, 0, 0);

	if (last.a != block.a || (uint16_t)last.b != (uint16_t)block.b || s.minimal ||
	    head <= t->asked || !load(&t->given))
		return;
	store(&t->credited, t->credited + wire_size(last));
}

/* USUAL: nothing is to be looked at that unusual() has excluded. */
static inline __attribute__((always_inline)) void emit_free(struct scope s, const struct entry *e,
							    uint64_t address, uint32_t family,
							    bool usual)
{
	struct wire_process *p = PROC;
	uint32_t flags = e->ra - p->libc_start < p->libc_size ? WIRE_FROM_LIBC : 0;
	uint32_t stack = 0, number;
	uint64_t head = s.t->head;
	struct wire_signal_event *place = NULL;

	if (!usual && p->free_stacks)
		stack = release_stack(s, e);
	if (!begin_event(s, &place))
		return;
	flags |= family << WIRE_FAMILY_SHIFT;
	if (!usual && load(&p->sample))
		flags |= free_flags(s, address);
	number = take_number(address);
	if (unlikely(hint_taken(p, address, family)) && !stack)
		stack = release_stack(s, e);
	if (!usual && limited(LIMIT_BLOCKS))
		credit(s, address, number, head);
	if (likely(!large_take(p, address)))
		emit(s, place, wire_pack(WIRE_FREE, address, number, flags, stack));
	else
		emit_wide(s, place, wire_pack(WIRE_FREE_WIDE, address, number, flags, stack), 0,
			  take_ticket());
}

/* False: it was lost. */
static inline bool emit_plain(struct scope s, enum wire_kind kind, uint64_t address, uint32_t flags,
			      uint32_t stack)
{
	struct wire_signal_event *place = NULL;

	if (!begin_event(s, &place))
		return false;
	emit(s, place, wire_pack(kind, address, take_number(address), flags, stack));
	return true;
}

static void emit_map(struct scope s, enum wire_kind kind, uint64_t address, uint64_t length,
		     uint32_t flags, uint32_t stack)
{
	struct wire_signal_event *place = NULL;

	if (begin_event(s, &place))
		emit_wide(s, place, wire_pack(kind, address, 0, flags, stack), length,
			  take_ticket());
}

/* ---- the limit ----------------------------------------------------------- */

#define IMPOSSIBLE (1ull << 63) /* for an allocator */
/* for the kernel: all addresses but two pages; of more it would say EINVAL */
#define IMPOSSIBLE_MAP ((1ull << 47) - 8192)
#define CHARGE_MOST    (1ull << 62)

/* The answer: what is to be charged, and has been; or ROOM_NONE. The thread is busy. */
static noinline uint64_t charge_asking(struct scope s, const struct entry *e, enum wire_room kind,
				       const uint64_t arg[4])
{
	uint32_t truncated = s.t->truncated;
	uint64_t stack = stack_of(s, e), answer;

	s.t->truncated = truncated; /* the event's walk counts it */
	if (!s.minimal)
		s.t->asked = s.t->head;
	answer = ask(s.t, &(struct question){ ASK_ROOM,
					      { kind | (s.minimal ? ROOM_HANDLER : 0) | stack << 32,
						arg[0], arg[1], arg[2], arg[3] } });
	if (!s.minimal && answer != ROOM_NONE)
		store(&s.t->charged, s.t->charged + answer);
	return answer;
}

static noinline uint64_t charge_block_asking(struct scope s, const struct entry *e,
					     enum wire_room kind, uint64_t size, uint64_t old)
{
	return charge_asking(s, e, kind, (uint64_t[4]){ size, old });
}

/*
 * `given` may be taken back at any time: the busy mark, set before it is read, tells that it may
 * have been seen just before.
 */
static inline __attribute__((always_inline)) uint64_t charge(struct scope s, const struct entry *e,
							     enum wire_room kind, uint64_t size,
							     uint64_t old)
{
	uint64_t charged = s.t->charged;

	mark_busy(s, e);
	if (unlikely(s.minimal || size > CHARGE_MOST ||
		     (int64_t)(load(&s.t->given) + s.t->credited - charged) < (int64_t)size))
		return charge_block_asking(s, e, kind, size, old);
	store(&s.t->charged, charged + size);
	return size;
}

/* Its event is stored, or there will be none. */
static inline void settle(struct scope s, uint64_t charged)
{
	if (unlikely(s.minimal))
		__atomic_add_fetch(&PROC->signal_settled, charged, __ATOMIC_RELEASE);
	else
		store(&s.t->settled, s.t->charged);
}

/*
 * A refused call says ENOMEM whatever the allocator says. Should it have given something
 * nevertheless, that was not charged.
 */
static noinline void say_no_memory(struct scope s)
{
	int *(*location)(void) = (int *(*)(void))load(&PROC->errno_location);

	if (!s.minimal)
		s.t->asked = s.t->head;
	if (location)
		*location() = 12 /* ENOMEM */;
}

/* ---- blocks -------------------------------------------------------------- */

#define usual_case static inline __attribute__((always_inline))

/* Where a function has its size, and its result. */
enum shape { SIZE_FIRST, SIZE_SECOND, SIZE_THIRD_RESULT_BEHIND_FIRST };

/* What the real function gave, with the thread busy. */
static inline uint64_t given_block(enum shape shape, uint64_t ret, uint64_t a)
{
	if (shape != SIZE_THIRD_RESULT_BEHIND_FIRST)
		return ret;
	return (int)ret == 0 ? *(uint64_t *)a : 0;
}

/*
 * A function that gives one block of SIZE bytes. CHARGES: a limit counts it, and then every block
 * is told of.
 */
usual_case uint64_t give(struct scope s, enum shape shape, bool charges, uint32_t family,
			 uint64_t size, uint64_t a, uint64_t b, uint64_t c,
			 const struct wire_hook *h, const struct entry *e)
{
	uint64_t charged = charges ? charge(s, e, ROOM_BLOCK, size, 0) : 0, ret, p;
	bool refused = charges && unlikely(charged == ROOM_NONE);
	enum choice choice = charges ? WHOLE : choose(s, e, size);

	mark_call(s, e);
	if (refused)
		ret = call_block(h, e, shape == SIZE_FIRST ? IMPOSSIBLE : a,
				 shape == SIZE_SECOND ? IMPOSSIBLE : b,
				 shape == SIZE_THIRD_RESULT_BEHIND_FIRST ? IMPOSSIBLE : c);
	else
		ret = call_block(h, e, a, b, c);
	if (orphaned())
		return ret;
	if (choice == LEFT_OUT) {
		mark_none(s);
		return ret;
	}
	mark_busy(s, e);
	p = given_block(shape, ret, a);
	if (p)
		emit_block(s, e, WIRE_ALLOC, p, size, family, choice);
	if (refused)
		say_no_memory(s);
	else if (charges)
		settle(s, charged);
	mark_none(s);
	return ret;
}

/* operator new(0) may be on its way to malloc(1), unless a hook is around both already. */
void hook_new_zero(void)
{
	struct wire_thread *t = thread_self();

	if (t && !t->mark)
		t->new_zero = 1;
}

/* What was asked for when malloc is called for one byte. */
static noinline uint64_t one_or_zero(struct wire_thread *t)
{
	uint64_t size = !t->new_zero;

	t->new_zero = 0;
	return size;
}

/*
 * malloc and free are most of all calls. Their usual case (the thread is known at once, no hook is
 * around this one, no limit, no sampling) is compiled on its own, so that nothing in it asks which
 * case it is; and the one with a limit, as it would save all registers anew in a function of its
 * own.
 */
static inline __attribute__((always_inline)) uint64_t malloc_counted(struct scope s, bool charges,
								     uint32_t family, uint64_t a,
								     uint64_t b, uint64_t c,
								     const struct wire_hook *h,
								     const struct entry *e)
{
	return give(s, SIZE_FIRST, charges, family, unlikely(a == 1) ? one_or_zero(s.t) : a, a, b,
		    c, h, e);
}

static noinline uint64_t malloc_any(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h,
				    const struct entry *e, uint32_t family)
{
	struct scope s = scope_enter(e);

	return s.t ? malloc_counted(s, limited(LIMIT_BLOCKS), family, a, b, c, h, e)
		   : call3(h, a, b, c);
}

uint64_t hook_malloc(uint64_t size, uint64_t b, uint64_t c, const struct wire_hook *h,
		     const struct entry *e, uint64_t said)
{
	struct scope s;
	uint64_t p;

	(void)b;
	(void)c;
	if (unlikely(!enter_at_once(&s) || size == 1))
		return malloc_any(size, 0, 0, h, e, family_said(said));
	if (unusual()) {
		if (limited(LIMIT_BLOCKS))
			return malloc_counted(s, true, family_said(said), size, 0, 0, h, e);
		return malloc_any(size, 0, 0, h, e, family_said(said));
	}
	mark_call(s, e);
	p = ((fn1)h->orig)(size);
	if (orphaned())
		return p;
	mark_busy(s, e);
	if (likely(p))
		emit_block(s, e, WIRE_ALLOC, p, size, family_said(said), WHOLE);
	mark_none(s);
	return p;
}

uint64_t hook_malloc_as(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h,
			const struct entry *e)
{
	return malloc_any(a, b, c, h, e, (uint8_t)h->arg);
}

static inline __attribute__((always_inline)) uint64_t free_counted(struct scope s, uint32_t family,
								   uint64_t p, uint64_t b,
								   uint64_t c,
								   const struct wire_hook *h,
								   const struct entry *e)
{
	uint64_t ret;

	mark_busy(s, e);
	emit_free(s, e, p, family, false);
	mark_call(s, e);
	ret = call_block(h, e, p, b, c);
	if (!orphaned())
		mark_none(s);
	return ret;
}

static noinline uint64_t free_unseen(struct wire_thread *t, uint64_t p, uint64_t b, uint64_t c,
				     const struct wire_hook *h, const struct entry *e)
{
	bool marked = mark_plain(t, e);
	uint64_t ret = call3(h, p, b, c);

	unmark_plain(t, marked);
	return ret;
}

static noinline uint64_t free_any(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h,
				  const struct entry *e, uint32_t family)
{
	struct scope s = scope_enter(e);

	return s.t && p ? free_counted(s, family, p, b, c, h, e) : free_unseen(s.t, p, b, c, h, e);
}

/* What is unusual is looked for where the thread is busy, so that whoever switches it on can know. */
uint64_t hook_free(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h,
		   const struct entry *e, uint64_t said)
{
	uint32_t family = family_said(said ^ p);
	struct scope s;
	uint64_t ret;

	(void)b;
	(void)c;
	if (unlikely(!p || !enter_at_once(&s)))
		return free_any(p, 0, 0, h, e, family);
	mark_busy(s, e);
	if (unusual())
		return free_counted(s, family, p, 0, 0, h, e);
	emit_free(s, e, p, family, true);
	mark_call(s, e);
	ret = ((fn1)h->orig)(p);
	if (!orphaned())
		mark_none(s);
	return ret;
}

uint64_t hook_free_as(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h,
		      const struct entry *e)
{
	return free_any(p, b, c, h, e, (uint8_t)h->arg);
}

/* The others of one block: rarer, so the case is found out on the way. */
static inline __attribute__((always_inline)) uint64_t give_any(enum shape shape, uint64_t size,
							       uint64_t a, uint64_t b, uint64_t c,
							       const struct wire_hook *h,
							       const struct entry *e)
{
	struct scope s = scope_enter(e);

	return likely(s.t) ? give(s, shape, limited(LIMIT_BLOCKS), FAMILY_HEAP, size, a, b, c, h, e)
			   : call3(h, a, b, c);
}

/* More than there are numbers for: the real function will see that and fail by itself. */
static inline uint64_t product(uint64_t n, uint64_t size, uint64_t if_none)
{
	uint64_t total;

	return unlikely(__builtin_mul_overflow(n, size, &total)) ? if_none : total;
}

uint64_t hook_calloc(uint64_t n, uint64_t size, uint64_t c, const struct wire_hook *h,
		     const struct entry *e)
{
	return give_any(SIZE_FIRST, product(n, size, 0), n, size, c, h, e);
}

uint64_t hook_memalign(uint64_t alignment, uint64_t size, uint64_t c, const struct wire_hook *h,
		       const struct entry *e)
{
	return give_any(SIZE_SECOND, size, alignment, size, c, h, e);
}

uint64_t hook_posix_memalign(uint64_t out, uint64_t alignment, uint64_t size,
			     const struct wire_hook *h, const struct entry *e)
{
	return give_any(SIZE_THIRD_RESULT_BEHIND_FIRST, size, out, alignment, size, h, e);
}

/* words below the registers: where entry.S has the size that the real function gets */
#define NEW_SAVED_SIZE 5

/*
 * The nothrow form takes a tag argument after the size (and the alignment), which it does not look
 * at. When the request is refused the real one is asked for the impossible.
 */
uint64_t hook_new(uint64_t size, uint64_t alignment, uint64_t c, const struct wire_hook *h,
		  const struct entry *e)
{
	struct scope s = scope_enter(e);
	const struct wire_hook nothrow = { .orig = h->nothrow, .arg = h->arg };
	bool charges = limited(LIMIT_BLOCKS);
	uint64_t charged = 0, p;
	enum choice choice;

	(void)c;
	if (!s.t)
		return 0;
	if (charges) {
		charged = charge(s, e, ROOM_BLOCK, size, 0);
		if (unlikely(charged == ROOM_NONE)) {
			((uint64_t *)e)[-NEW_SAVED_SIZE] = IMPOSSIBLE;
			mark_none(s);
			return 0;
		}
	}
	choice = charges ? WHOLE : choose(s, e, size);
	mark_call(s, e);
	p = call_block(&nothrow, e, size, alignment, 0);
	if (orphaned())
		return p;
	mark_busy(s, e);
	if (p && choice != LEFT_OUT)
		emit_block(s, e, WIRE_ALLOC, p, size, (uint8_t)h->arg, choice);
	if (charges)
		settle(s, charged);
	mark_none(s);
	return p;
}

/* ---- realloc ------------------------------------------------------------- */

struct resize {
	bool charges, leaves; /* leaves: there was a LEAVE */
	bool large;	      /* and its release took it out of the large ones */
	uint8_t hint;	      /* the old block's byte, as it was */
	uint32_t family;
	enum choice choice; /* about the new block */
	uint64_t charged;   /* charge()'s answer */
};

/* OLD is about to leave: false if that is lost. */
static bool emit_leave(struct scope s, const struct entry *e, struct resize *r, uint64_t old)
{
	uint32_t flags = release_flags(s, old) | r->family << WIRE_FAMILY_SHIFT, stack;

	r->hint = load(&PROC->hint[wire_hint(old)]);
	/* it resizes whatever lives */
	stack = hint_taken(PROC, old, FAMILY_ANY) ? release_stack(s, e) : 0;
	return emit_plain(s, WIRE_LEAVE, old, flags, stack);
}

/* OLD (not NULL) is about to be resized to SIZE. */
static struct resize resize_begin(struct scope s, const struct entry *e, bool charges,
				  uint32_t family, uint64_t old, uint64_t size)
{
	struct resize r = { .charges = charges,
			    .family = family,
			    .charged = charges ? charge(s, e, ROOM_RESIZE, size, old) : 0 };

	mark_busy(s, e);
	r.leaves = r.charged != ROOM_NONE && may_be_known(old) && emit_leave(s, e, &r, old);
	if (r.leaves)
		r.large = large_take(PROC, old);
	if (!charges)
		r.choice = choose(s, e, size);
	mark_call(s, e);
	return r;
}

/* The real function gave P. */
static uint64_t resize_done(struct scope s, const struct entry *e, const struct resize *r,
			    uint64_t old, uint64_t size, uint64_t p)
{
	if (orphaned())
		return p;
	mark_busy(s, e);
	if (r->charged == ROOM_NONE) { /* it is as it was */
		say_no_memory(s);
		mark_none(s);
		return p;
	}
	if (p && r->choice != LEFT_OUT)
		emit_block(s, e, r->leaves ? WIRE_BECAME : WIRE_ALLOC, p, size, r->family,
			   r->choice);
	else if (r->leaves && !p && size) {
		if (r->large)
			large_add(PROC, old);
		hint_store(PROC, old, r->hint);
		emit_plain(s, WIRE_STAYED, old, 0, 0);
	} else if (r->leaves)
		emit_plain(s, WIRE_GONE, old, 0, PROC->free_stacks ? release_stack(s, e) : 0);
	if (r->charges)
		settle(s, r->charged);
	mark_none(s);
	return p;
}

uint64_t hook_realloc(uint64_t old, uint64_t size, uint64_t c, const struct wire_hook *h,
		      const struct entry *e)
{
	struct scope s = scope_enter(e);
	bool charges = limited(LIMIT_BLOCKS);
	struct resize r;

	if (unlikely(!s.t))
		return call3(h, old, size, c);
	if (!old)
		return give(s, SIZE_SECOND, charges, FAMILY_HEAP, size, old, size, c, h, e);
	r = resize_begin(s, e, charges, FAMILY_HEAP, old, size);
	return resize_done(s, e, &r, old, size,
			   call_block(h, e, old, r.charged == ROOM_NONE ? IMPOSSIBLE : size, c));
}

uint64_t hook_reallocarray(uint64_t old, uint64_t n, uint64_t size, const struct wire_hook *h,
			   const struct entry *e)
{
	struct scope s = scope_enter(e);
	bool charges = limited(LIMIT_BLOCKS);
	struct resize r;
	uint64_t total;

	if (unlikely(!s.t))
		return call3(h, old, n, size);
	if (!old)
		return give(s, SIZE_SECOND, charges, FAMILY_HEAP, product(n, size, 0), old, n, size,
			    h, e);
	total = product(n, size, UINT64_MAX); /* it will fail, and that is not realloc(p, 0) */
	charges &= total != UINT64_MAX;
	r = resize_begin(s, e, charges, FAMILY_HEAP, old, total);
	return resize_done(s, e, &r, old, total,
			   call_block(h, e, old, r.charged == ROOM_NONE ? IMPOSSIBLE : n, size));
}

/* ---- --hook -------------------------------------------------------------- */

/*
 * The same for a function of the program's, with up to six arguments, of which `arg` is the size or
 * the pointer.
 */
static uint64_t generic_free(struct scope s, uint64_t p, const uint64_t *a,
			     const struct wire_hook *h, const struct entry *e)
{
	uint64_t ret;

	if (p && may_be_known(p)) {
		mark_busy(s, e);
		emit_free(s, e, p, FAMILY_ANY, false);
	}
	mark_call(s, e);
	ret = call6(h, a);
	if (!orphaned())
		mark_none(s);
	return ret;
}

static uint64_t generic_give(struct scope s, uint64_t *size_arg, uint64_t size, const uint64_t *a,
			     const struct wire_hook *h, const struct entry *e)
{
	bool charges = limited(LIMIT_BLOCKS);
	uint64_t charged = charges ? charge(s, e, ROOM_BLOCK, size, 0) : 0, ret, p;
	enum choice choice = charges ? WHOLE : choose(s, e, size);

	if (charged == ROOM_NONE)
		*size_arg = IMPOSSIBLE;
	mark_call(s, e);
	ret = call6(h, a);
	if (orphaned())
		return ret;
	mark_busy(s, e);
	p = given_block(h->kind == HOOK_GENERIC_POSIX_MEMALIGN ? SIZE_THIRD_RESULT_BEHIND_FIRST
							       : SIZE_FIRST,
			ret, a[0]);
	if (p && choice != LEFT_OUT)
		emit_block(s, e, WIRE_ALLOC, p, size, FAMILY_ANY, choice);
	if (charged == ROOM_NONE)
		say_no_memory(s);
	else if (charges)
		settle(s, charged);
	mark_none(s);
	return ret;
}

uint64_t hook_generic(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t *at = &a[h->arg < 6 ? h->arg : 0], *next = &a[h->arg < 5 ? h->arg + 1 : 5];
	uint64_t old, size;
	struct resize r;

	if (unlikely(!s.t))
		return call6(h, a);
	switch (h->kind) {
	case HOOK_GENERIC_FREE: return generic_free(s, *at, a, h, e);
	case HOOK_GENERIC_CALLOC: return generic_give(s, at, product(*at, *next, 0), a, h, e);
	case HOOK_GENERIC_REALLOC: break;
	/* posix_memalign: (out, alignment, size), ARG is the size's place */
	default: return generic_give(s, at, *at, a, h, e);
	}
	if (!*at)
		return generic_give(s, next, *next, a, h, e);
	old = *at;
	size = *next;
	r = resize_begin(s, e, limited(LIMIT_BLOCKS), FAMILY_ANY, old, size);
	if (r.charged == ROOM_NONE)
		*next = IMPOSSIBLE;
	return resize_done(s, e, &r, old, size, call6(h, a));
}

/* ---- mappings ------------------------------------------------------------ */

/* Arguments and results of mmap(2) and the kernel's constants, which are ABI. */
enum {
	K_MAP_SHARED = 1,
	K_MAP_FIXED = 0x10,
	K_MAP_ANONYMOUS = 0x20,
	K_MREMAP_FIXED = 2,
	K_MREMAP_DONTUNMAP = 4,
	K_PR_SET_SECCOMP = 22
};

static inline bool failed(uint64_t ret) { return ret >= (uint64_t)-4095; }

static inline uint64_t pages(uint64_t n) { return (n + 4095) & ~4095ull; }

/* 0: not known, and then nothing is said of what becomes of it. */
static uint64_t current_break(void)
{
	long now = own_call(__NR_brk, 0, 0, 0, 0);

	return now > 0 ? (uint64_t)now : 0;
}

static void forget(uint64_t addr, uint64_t length)
{
	uint64_t end;

	if (length && addr < 1ull << WIRE_ADDRESS_BITS)
		stacks_forget(addr,
			      __builtin_add_overflow(addr, pages(length), &end) ? UINT64_MAX : end);
}

/* The break is about to be ADDR, and was OLD. */
static void forget_break(uint64_t addr, uint64_t old)
{
	if (addr && (!old || addr < old))
		forget(addr, old ? old - addr : 1ull << WIRE_ADDRESS_BITS);
}

void memory_leaves(uint64_t nr, const uint64_t *a)
{
	switch (nr) {
	case __NR_mmap:
		if (a[3] & K_MAP_FIXED)
			forget(a[0], a[1]);
		break;
	case __NR_mremap:
		/*
		 * also what stays mapped: it is empty then, and may wait for whom userfaultfd has
		 * put in charge of it
		 */
		forget(a[0], a[1]);
		if (a[3] & K_MREMAP_FIXED)
			forget(a[4], a[2]);
		break;
	case __NR_munmap: forget(a[0], a[1]); break;
	case __NR_mprotect:
	case __NR_pkey_mprotect:
		if (!(a[2] & WIRE_PROT_READ))
			forget(a[0], a[1]);
		break;
	case __NR_brk:
		if (a[0])
			forget_break(a[0], current_break());
		break;
	case __NR_shmdt:
		forget(a[0], 1ull << WIRE_ADDRESS_BITS); /* how long it is is not said */
		break;
	}
}

/*
 * What a call that may make bytes accessible is charged; ROOM_NONE: refused. Only the supervisor
 * knows what is there already, and whose it is.
 */
static uint64_t charge_map(struct scope s, const struct entry *e, enum wire_room kind,
			   uint64_t length, uint64_t address, uint64_t old_length, uint64_t to)
{
	if (!limited(LIMIT_MAPS))
		return 0;
	mark_busy(s, e);
	return charge_asking(s, e, kind, (uint64_t[4]){ length, address, old_length, to });
}

/* The end of a call that began with charge_map(). */
static void map_end(struct scope s, const struct entry *e, uint64_t charged)
{
	if (unlikely(charged && charged != ROOM_NONE)) {
		mark_busy(s, e);
		settle(s, charged);
	}
	mark_none(s);
}

/* Pages are protected for a capture. */
static inline bool are_protected(void) { return unlikely(load(&PROC->protecting)); }

static void tell(struct scope s, const struct entry *e, uint32_t what, uint64_t start, uint64_t end)
{
	mark_busy(s, e);
	ask(s.t, &(struct question){ what, { start, end - start } });
}

/*
 * Each has a first half before the real function, which charges and, if that is refused, makes the
 * call impossible in its arguments; and a second half with what the real function returned. The
 * mark stands meanwhile: where a program puts its own mmap before libc's, the inner one is not
 * counted again.
 */
static uint64_t map_begin(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t charged = 0;

	if (a[2] & 7 && a[3] & K_MAP_ANONYMOUS)
		charged = charge_map(s, e, ROOM_MAP, pages(a[1]), a[3] & K_MAP_FIXED ? a[0] : 0, 0,
				     0);
	if (charged == ROOM_NONE)
		a[1] = IMPOSSIBLE_MAP;
	mark_call(s, e);
	return charged;
}

static uint64_t map_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
			 const uint64_t *a)
{
	uint32_t what = (uint32_t)a[2] & 7;

	if (orphaned())
		return ret;
	if (!failed(ret)) {
		if (a[3] & K_MAP_ANONYMOUS)
			what |= WIRE_MAP_ANON;
		if (a[3] & K_MAP_SHARED)
			what |= WIRE_MAP_SHARED;
		if (are_protected() && a[2] & WIRE_PROT_WRITE)
			tell(s, e, ASK_MAPPED, ret, ret + pages(a[1]));
		mark_busy(s, e);
		emit_map(s, WIRE_MAP, ret, pages(a[1]), what, stack_of(s, e));
	}
	map_end(s, e, charged);
	return ret;
}

static void unmap_begin(struct scope s, const struct entry *e, uint64_t addr, uint64_t length)
{
	mark_busy(s, e);
	emit_map(s, WIRE_UNMAP, addr, pages(length), 0, 0);
	mark_call(s, e);
}

static uint64_t unmap_done(struct scope s, const struct entry *e, uint64_t ret, uint64_t addr,
			   uint64_t length)
{
	if (orphaned())
		return ret;
	if ((int)ret) {
		mark_busy(s, e);
		emit_map(s, WIRE_UNMAP_FAILED, addr, pages(length), 0, 0);
	}
	mark_none(s);
	return ret;
}

/* What munmap and mremap refuse without looking; no event then. */
static bool valid_range(uint64_t addr, uint64_t length)
{
	return length && !(addr & 4095) && addr < 1ull << WIRE_ADDRESS_BITS &&
	       length <= 1ull << WIRE_ADDRESS_BITS;
}

/* A is mremap's (old, old length, new length, flags, new address). */
static uint64_t remap_begin(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t leaves = a[3] & K_MREMAP_DONTUNMAP ? 0 : a[1], charged;

	if (are_protected())
		tell(s, e, ASK_WHOLE, a[0], a[0] + pages(a[1]));
	charged = charge_map(s, e, ROOM_REMAP, pages(a[2]), a[0], pages(leaves),
			     a[3] & K_MREMAP_FIXED ? a[4] : 0);
	if (charged == ROOM_NONE) {
		a[2] = IMPOSSIBLE_MAP;
		a[3] = 0;
	} else {
		mark_busy(s, e);
		emit_map(s, WIRE_REMAP_LEAVE, a[0], pages(leaves), 0, 0);
	}
	mark_call(s, e);
	return charged;
}

static uint64_t remap_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
			   const uint64_t *a)
{
	if (orphaned())
		return ret;
	mark_busy(s, e);
	if (charged == ROOM_NONE)
		; /* it is as it was */
	else if (failed(ret))
		emit_map(s, WIRE_REMAP_FAILED, a[0], pages(a[2]), 0, 0);
	else
		emit_map(s, WIRE_REMAP, ret, pages(a[2]), 0, stack_of(s, e));
	if (are_protected()) {
		tell(s, e, ASK_MOVED, a[0], a[0] + pages(a[1]));
		if (!failed(ret))
			tell(s, e, ASK_MAPPED, ret, ret + pages(a[2]));
	}
	map_end(s, e, charged);
	return ret;
}

/* A is mprotect's (address, length, protection). */
static uint64_t protect_begin(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t charged = a[2] & 7 ? charge_map(s, e, ROOM_PROTECT, pages(a[1]), a[0], 0, 0) : 0;

	if (charged == ROOM_NONE)
		a[1] = -4096ull; /* past the end of all addresses: ENOMEM */
	mark_call(s, e);
	return charged;
}

static uint64_t protect_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t ret,
			     const uint64_t *a)
{
	if (orphaned())
		return ret;
	if (!(int)ret) {
		if (are_protected() && a[2] & WIRE_PROT_WRITE)
			tell(s, e, ASK_MAPPED, a[0], a[0] + pages(a[1]));
		mark_busy(s, e);
		emit_map(s, WIRE_PROTECT, a[0], pages(a[1]), (uint32_t)a[2] & 7, stack_of(s, e));
	}
	map_end(s, e, charged);
	return ret;
}

/* The break is to grow by GROWTH bytes, if that is positive. */
static uint64_t break_begin(struct scope s, const struct entry *e, int64_t growth)
{
	uint64_t charged = growth > 0 ? charge_map(s, e, ROOM_BREAK, (uint64_t)growth, 0, 0, 0) : 0;

	mark_call(s, e);
	return charged;
}

static void break_done(struct scope s, const struct entry *e, uint64_t charged, uint64_t now,
		       uint64_t old)
{
	if (orphaned())
		return;
	if (now != old) {
		if (are_protected() && now > old)
			tell(s, e, ASK_MAPPED, pages(old), pages(now));
		mark_busy(s, e);
		emit_map(s, WIRE_BREAK, now, old, 0, stack_of(s, e));
	}
	map_end(s, e, charged);
}

uint64_t hook_mmap(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t charged;

	memory_leaves(__NR_mmap, a);
	if (!s.t)
		return call6(h, a);
	charged = map_begin(s, e, a);
	return map_done(s, e, charged, call6(h, a), a);
}

uint64_t hook_munmap(uint64_t addr, uint64_t length, uint64_t c, const struct wire_hook *h,
		     const struct entry *e)
{
	struct scope s = scope_enter(e);

	forget(addr, length);
	if (!s.t || !valid_range(addr, length)) {
		bool marked = mark_plain(s.t, e);
		uint64_t ret = call3(h, addr, length, c);

		unmark_plain(s.t, marked);
		return ret;
	}
	unmap_begin(s, e, addr, length);
	return unmap_done(s, e, call3(h, addr, length, c), addr, length);
}

uint64_t hook_mremap(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t charged;

	memory_leaves(__NR_mremap, a);
	if (!s.t || !valid_range(a[0], a[1] ? a[1] : 1)) {
		bool marked = mark_plain(s.t, e);
		uint64_t ret = call6(h, a);

		unmark_plain(s.t, marked);
		return ret;
	}
	charged = remap_begin(s, e, a);
	return remap_done(s, e, charged, call6(h, a), a);
}

uint64_t hook_mprotect(uint64_t addr, uint64_t length, uint64_t prot, const struct wire_hook *h,
		       const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t a[3] = { addr, length, prot }, charged;

	memory_leaves(__NR_mprotect, a);
	if (!s.t)
		return call3(h, addr, length, prot);
	charged = protect_begin(s, e, a);
	return protect_done(s, e, charged, call3(h, a[0], a[1], a[2]), a);
}

uint64_t hook_brk(uint64_t addr, uint64_t b, uint64_t c, const struct wire_hook *h,
		  const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret, old = current_break(), charged;

	forget_break(addr, old);
	if (!s.t)
		return call3(h, addr, b, c);
	charged = break_begin(s, e, old ? (int64_t)(addr - old) : 0);
	ret = call3(h, charged == ROOM_NONE ? IMPOSSIBLE_MAP : addr, b, c);
	break_done(s, e, charged, (int)ret == 0 && old ? addr : old, old);
	return ret;
}

uint64_t hook_sbrk(uint64_t increment, uint64_t b, uint64_t c, const struct wire_hook *h,
		   const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret, charged, old;

	if ((int64_t)increment < 0) {
		old = current_break();
		forget_break(old ? old + increment : 4096, old);
	}
	if (!s.t)
		return call3(h, increment, b, c);
	charged = break_begin(s, e, (int64_t)increment);
	/* it calls brk */
	ret = call3(h, charged == ROOM_NONE ? IMPOSSIBLE_MAP : increment, b, c);
	break_done(s, e, charged, failed(ret) ? ret : ret + increment, ret);
	return ret;
}

/* ---- the rest ------------------------------------------------------------ */

/*
 * seccomp is coming: from here on no hook makes a system call, unless it was refused. It may be for
 * all threads: what others are in the middle of comes to its end first. What this thread T itself
 * is in the middle of, if this is a handler, comes to its end only after it.
 */
#define CALLS_US 2000000 /* one that a handler has left for good */

static bool others_call(const struct wire_thread *t)
{
	return (int32_t)(__atomic_load_n(&PROC->calls, __ATOMIC_SEQ_CST) - (t ? t->calls : 0)) > 0;
}

/*
 * Whether such a call asks for what exists: one that is refused for its numbers alone changes
 * nothing. ARG: its arguments.
 */
static bool seccomp_applies(uint64_t number, const uint64_t *arg)
{
	if (number == __NR_seccomp)
		return (uint32_t)arg[0] <= 1; /* SECCOMP_SET_MODE_STRICT, _FILTER */
	return (int)arg[0] == K_PR_SET_SECCOMP && (arg[1] == 1 || arg[1] == 2);
}

static uint32_t seccomp_begin(const struct wire_thread *t, bool applies)
{
	struct patience patience = { .calls = true };
	uint32_t was = PROC->no_syscalls;

	if (!applies || was)
		return was;
	agent_foresee();
	__atomic_store_n(&PROC->no_syscalls, 1, __ATOMIC_SEQ_CST);
	while (others_call(t) && patience_left(&patience) && patience.all < CALLS_US)
		sys3(__NR_sched_yield, 0, 0, 0);
	return was;
}

static uint64_t seccomp_done(uint32_t was, uint64_t ret)
{
	if (!orphaned() && ((int64_t)ret < 0 || (int)ret < 0))
		PROC->no_syscalls = was;
	return ret;
}

/*
 * prctl(PR_SET_SECCOMP, ..) and seccomp(SET_MODE_STRICT or FILTER, ..); `arg` 0 means prctl, 1
 * seccomp.
 */
uint64_t hook_prctl(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	bool applies = seccomp_applies(h->arg ? __NR_seccomp : __NR_prctl, a);
	struct wire_thread *t = thread_self(); /* its slot, while gettid may still be called */
	bool marked = mark_plain(t, e);
	uint32_t was = seccomp_begin(t, applies);
	uint64_t ret = seccomp_done(was, call6(h, a));

	unmark_plain(t, marked);
	return ret;
}

/*
 * A process has one tracer. A call that makes a process traced waits until mtrun has let go of that
 * process, if it had it. In a child by vfork the slot is its parent's, which waits.
 */
enum { K_PTRACE_TRACEME = 0, K_PTRACE_ATTACH = 16, K_PTRACE_SEIZE = 0x4206 };

static uint64_t trace_begin(struct wire_thread *t, uint64_t request, uint64_t pid)
{
	if (!t || ((int)request != K_PTRACE_TRACEME && (int)request != K_PTRACE_ATTACH &&
		   (int)request != K_PTRACE_SEIZE))
		return TRACE_GO;
	return ask(t, &(struct question){ ASK_TRACE,
					  { (uint32_t)request, (uint32_t)pid,
					    (uint64_t)own_call(__NR_gettid, 0, 0, 0, 0) } });
}

uint64_t hook_ptrace(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct wire_thread *t = thread_self();
	bool marked = mark_plain(t, e);
	uint64_t ret = trace_begin(t, a[0], a[1]) == TRACE_DONE ? 0 : call6(h, a);

	unmark_plain(t, marked);
	return ret;
}

/*
 * LeakSanitizer's checks stop all threads of their process by ptrace, so mtrun lets go of it
 * meanwhile. What they allocate is not the program's. Often they end the program.
 */
uint64_t hook_leak_check(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h,
			 const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t answer, ret = 0;

	/* __lsan_do_leak_check has asked, and calls the other */
	if (!s.t || s.minimal)
		return call3(h, a, b, c);
	mark_call(s, e);
	answer = ask(s.t, &(struct question){ ASK_LEND, { 0 } });
	if (answer != LENT_NOT)
		ret = call3(h, a, b, c);
	if (orphaned())
		return ret;
	if (answer == LENT)
		ask(s.t, &(struct question){ ASK_BACK, { 0 } });
	mark_none(s);
	return ret;
}

/*
 * A[0] is the number; the sixth argument of the system call is on the caller's stack. errno is
 * libc's business: the real syscall() is called.
 */
static uint64_t call_syscall(const struct wire_hook *h, const struct entry *e, const uint64_t *a)
{
	return ((fn7)h->orig)(a[0], a[1], a[2], a[3], a[4], a[5], e->stack_arg);
}

static uint64_t syscall_plain(struct wire_thread *t, const struct wire_hook *h,
			      const struct entry *e, const uint64_t *a)
{
	bool marked = mark_plain(t, e);
	uint64_t ret = call_syscall(h, e, a);

	unmark_plain(t, marked);
	return ret;
}

static uint64_t syscall_break(struct scope s, const struct wire_hook *h, const struct entry *e,
			      uint64_t *a)
{
	uint64_t old = current_break(), charged, ret;

	charged = break_begin(s, e, old && a[1] ? (int64_t)(a[1] - old) : 0);
	if (charged == ROOM_NONE)
		a[1] = IMPOSSIBLE_MAP;
	ret = call_syscall(h, e, a);
	break_done(s, e, charged, old && !failed(ret) && ret ? ret : old, old);
	return ret;
}

uint64_t hook_syscall(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s;
	uint64_t charged;
	uint32_t was;

	if (a[0] == __NR_seccomp || a[0] == __NR_prctl) {
		/* its slot, while gettid may still be called */
		struct wire_thread *self = thread_self();

		was = seccomp_begin(self, seccomp_applies(a[0], a + 1));
		return seccomp_done(was, syscall_plain(self, h, e, a));
	}
	if (a[0] == __NR_ptrace) {
		struct wire_thread *self = thread_self();

		return trace_begin(self, a[1], a[2]) == TRACE_DONE ? 0
								   : syscall_plain(self, h, e, a);
	}
	s = scope_enter(e);
	memory_leaves(a[0], a + 1);
	if (!s.t)
		return call_syscall(h, e, a);
	switch (a[0]) {
	case __NR_mmap:
		charged = map_begin(s, e, a + 1);
		return map_done(s, e, charged, call_syscall(h, e, a), a + 1);
	case __NR_munmap:
		if (!valid_range(a[1], a[2]))
			break;
		unmap_begin(s, e, a[1], a[2]);
		return unmap_done(s, e, call_syscall(h, e, a), a[1], a[2]);
	case __NR_mremap:
		if (!valid_range(a[1], a[2] ? a[2] : 1))
			break;
		charged = remap_begin(s, e, a + 1);
		return remap_done(s, e, charged, call_syscall(h, e, a), a + 1);
	case __NR_mprotect:
		charged = protect_begin(s, e, a + 1);
		return protect_done(s, e, charged, call_syscall(h, e, a), a + 1);
	case __NR_brk: return syscall_break(s, h, e, a);
	}
	return syscall_plain(s.t, h, e, a);
}

/* ---- system calls by the program's own instruction ----------------------- */

enum { RAW_NUMBER = 6, RAW_ARGS };
#define RAW_FRAMES 8192ull /* what ours take below the entry, and more */

static uint64_t call_raw(const uint64_t a[RAW_ARGS])
{
	return (uint64_t)sys6((long)a[RAW_NUMBER], (long)a[0], (long)a[1], (long)a[2], (long)a[3],
			      (long)a[4], (long)a[5]);
}

/*
 * The stack that we are on would not be there when the call returns, as at the end of threads that
 * are not libc's.
 */
static bool takes_stack(const struct entry *e, uint64_t addr, uint64_t length)
{
	return addr < (uint64_t)(e + 1) && (uint64_t)e - RAW_FRAMES < addr + length;
}

static bool raw_unmaps(struct scope s, const struct entry *e, uint64_t *a)
{
	if (!valid_range(a[0], a[1]))
		return false;
	unmap_begin(s, e, a[0], a[1]);
	if (takes_stack(e, a[0], a[1])) {
		mark_none(s);
		return false;
	}
	a[RAW_NUMBER] = unmap_done(s, e, call_raw(a), a[0], a[1]);
	return true;
}

static bool raw_remaps(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t charged;

	if (!valid_range(a[0], a[1] ? a[1] : 1) || takes_stack(e, a[0], a[1]) ||
	    (a[3] & K_MREMAP_FIXED && takes_stack(e, a[4], a[2])))
		return false;
	charged = remap_begin(s, e, a);
	a[RAW_NUMBER] = remap_done(s, e, charged, call_raw(a), a);
	return true;
}

static uint64_t raw_break(struct scope s, const struct entry *e, uint64_t *a)
{
	uint64_t old = current_break(),
		 charged = break_begin(s, e, old && a[0] ? (int64_t)(a[0] - old) : 0), ret;

	if (charged == ROOM_NONE)
		a[0] = IMPOSSIBLE_MAP;
	ret = call_raw(a);
	break_done(s, e, charged, old && !failed(ret) && ret ? ret : old, old);
	return ret;
}

static void raw_forbids(const struct entry *e, uint64_t *a)
{
	struct wire_thread *t = thread_self(); /* its slot, while gettid may still be called */
	bool marked = mark_plain(t, e);
	uint32_t was = seccomp_begin(t, seccomp_applies(a[RAW_NUMBER], a));

	a[RAW_NUMBER] = seccomp_done(was, call_raw(a));
	unmark_plain(t, marked);
}

/*
 * Only those numbers come here that entry.S lets through. What is not dealt with is left to the
 * program's own instruction.
 */
bool hook_raw(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	uint32_t nr = (uint32_t)a[RAW_NUMBER];
	struct scope s;
	uint64_t charged;

	(void)h;
	a[RAW_NUMBER] = nr;
	if (nr == __NR_prctl || nr == __NR_seccomp) {
		raw_forbids(e, a);
		return true;
	}
	if (GUARD->armed != ARMED_ON)
		return false;
	s = scope_enter(e);
	memory_leaves(nr, a);
	if (!s.t)
		return false;
	switch (nr) {
	case __NR_mmap:
		if (a[3] & K_MAP_FIXED && takes_stack(e, a[0], a[1]))
			return false;
		charged = map_begin(s, e, a);
		a[RAW_NUMBER] = map_done(s, e, charged, call_raw(a), a);
		return true;
	case __NR_munmap: return raw_unmaps(s, e, a);
	case __NR_mremap: return raw_remaps(s, e, a);
	case __NR_mprotect:
		if (!(a[2] & WIRE_PROT_WRITE) && takes_stack(e, a[0], a[1]))
			return false;
		charged = protect_begin(s, e, a);
		a[RAW_NUMBER] = protect_done(s, e, charged, call_raw(a), a);
		return true;
	case __NR_brk: a[RAW_NUMBER] = raw_break(s, e, a); return true;
	}
	return false;
}

/* ld.so tells a debugger that the list of objects has changed. The real function is empty. */
uint64_t hook_debug_state(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct wire_thread *t = thread_self();
	uint64_t mark;

	(void)a;
	(void)h;
	(void)e;
	if (!t)
		return 0;
	mark = t->mark;
	store(&t->mark, (uint64_t)&e->ra | BUSY);
	ask(t, &(struct question){ ASK_MODULES, { 0 } });
	store(&t->mark, mark);
	return 0;
}

/* What entry.S knows by name. */
#define NUMBER(name, value)                                                             \
	__asm__ volatile(".globl " #name "\n\t.hidden " #name "\n\t.set " #name ", %c0" \
			 :                                                              \
			 : "i"(value))
static __attribute__((used)) void numbers(void)
{
	NUMBER(process_tls_ready, offsetof(struct wire_process, tls_ready));
	NUMBER(process_sample, offsetof(struct wire_process, sample));
	NUMBER(process_filter, offsetof(struct wire_process, filter));
	NUMBER(process_finder, offsetof(struct wire_process, finder));
	NUMBER(process_known, offsetof(struct wire_process, known));
	NUMBER(process_thread, offsetof(struct wire_process, thread));
	NUMBER(thread_fs, offsetof(struct wire_thread, fs));
	NUMBER(thread_mark, offsetof(struct wire_thread, mark));
	NUMBER(thread_sample, offsetof(struct wire_thread, sample));
	NUMBER(thread_countdown, offsetof(struct wire_thread, countdown));
	NUMBER(thread_size, sizeof(struct wire_thread));
	NUMBER(finder_mask, WIRE_FINDER - 1);
	NUMBER(slot_mask, WIRE_THREADS - 1);
	NUMBER(process_released, offsetof(struct wire_process, released));
	NUMBER(counter_mask, WIRE_COUNTERS - 1);
	NUMBER(known_mask, WIRE_KNOWN - 1);
	NUMBER(process_stacks_taken, offsetof(struct wire_process, stacks_taken));
	NUMBER(process_stack, offsetof(struct wire_process, stack));
	NUMBER(stacks, WIRE_STACKS);
	NUMBER(stack_size, WIRE_STACK_SIZE);
}

_Static_assert(AGENT_PROCESS - AGENT_BLOB == 0x100000, "entry.S knows this");
_Static_assert(ARMED_NOT == 0 && ARMED_OFF == 1, "entry.S knows these");
_Static_assert(AGENT_BEACON == 0x100000 && AGENT_BLOB == 0x1000 &&
		       offsetof(struct wire_guard, here) == 4 &&
		       offsetof(struct wire_guard, secret) == 40 && FAMILY_ANY == 3,
	       "entry.S knows these");
_Static_assert(offsetof(struct wire_hook, orig) == 8 && offsetof(struct wire_hook, nothrow) == 16 &&
		       offsetof(struct wire_hook, arg) == 28,
	       "entry.S knows this");
