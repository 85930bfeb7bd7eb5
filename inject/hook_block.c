// SPDX-License-Identifier: GPL-3.0-or-later
#include "counting.h"
#include "hint.h"
#include "large.h"
#include "sample.h"

/*
 * hook_block.c - what happens around each function that gives, resizes or takes blocks.
 *
 * A limit. What a call is about to be given is charged before the real function is called
 * (wire_mail.h, ASK_ROOM). If it is refused, the real function is called all the same, for so much
 * that no allocator and no kernel has it: so exceptions and new handlers are those of the real
 * thing.
 *
 * Sampling. Most blocks are not told of (wire_event.h): what a call is about to be given is counted
 * down before the real function is called. In malloc and free entry.S does that itself, and
 * comes here only with a block that is sampled, or that may be known.
 *
 * Errors. Each event says which kind of function was called (enum wire_family), and a release that
 * looks wrong says its stack (hint.h). Whether it is wrong the supervisor decides.
 */

/* Something is to be done that most programs never ask for. */
static inline bool unusual(void) { return unlikely(load(&PROC->either) | load(&PROC->sample)); }

/*
 * The family that the operator around this call has said (entry.S); FAMILY_HEAP: it is around none.
 * Of a release SAID has the address mixed in: the caller takes it out.
 */
static inline uint32_t family_said(uint64_t said)
{
	uint64_t family = said ^ GUARD->secret;

	return likely(family > FAMILY_ANY) ? FAMILY_HEAP : (uint32_t)family;
}

/* ---- sampling ------------------------------------------------------------ */

enum choice { WHOLE, SAMPLED, LEFT_OUT }; /* told of as one block, as a sample, not at all */

/* The countdown is used up, or was drawn for another period. */
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

/* The flags of the event of a block at ADDRESS, which is noted as known. The thread is busy. */
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

/* Whether the supervisor may know the block at ADDRESS. (For free(), entry.S asks that.) */
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

/* release_flags() of a FREE that is certain to be told of. */
static noinline uint32_t free_flags(struct scope s, uint64_t address)
{
	store(&PROC->released[wire_counter(address)], address);
	return release_flags(s, address);
}

/* ---- events of blocks ---------------------------------------------------- */

/*
 * Writes ALLOC or BECAME; their wide forms follow them in enum wire_kind. The number is taken as
 * late as possible: the fewer instructions between that and the store, the fewer events have to
 * wait for each other in the reader.
 */
static inline __attribute__((always_inline)) void emit_block(struct scope s, const struct entry *e,
							     enum wire_kind kind, uint64_t address,
							     uint64_t size, uint32_t family,
							     enum choice choice, bool charged)
{
	uint32_t stack = stack_of(s, e), flags;
	struct wire_signal_event *place = NULL;

	if (!begin_event(s, &place))
		return;
	flags = choice_flags(s, choice, address) | family << WIRE_FAMILY_SHIFT;
	if (charged)
		settles_next(s);
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

/*
 * The block at ADDRESS is released with the sequence number NUMBER, and the thread has written
 * events up to HEAD. If its last event is that block's ALLOC, the block's size is credited.
 */
static inline void credit(struct scope s, uint64_t address, uint32_t number, uint64_t head)
{
	struct wire_thread *t = s.t;
	struct wire_event last = *wire_event_at(t, BIGS, head - 1),
			  block = wire_pack(WIRE_ALLOC, address, number - 1, 0, 0);

	if (last.a != block.a || (uint16_t)last.b != (uint16_t)block.b || s.minimal ||
	    head <= t->asked || !load(&t->given))
		return;
	store(&t->credited, t->credited + wire_size(last));
}

/* USUAL: unusual() was false. */
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

/* False: the event is lost. */
static inline bool emit_plain(struct scope s, enum wire_kind kind, uint64_t address, uint32_t flags,
			      uint32_t stack)
{
	struct wire_signal_event *place = NULL;

	if (!begin_event(s, &place))
		return false;
	emit(s, place, wire_pack(kind, address, take_number(address), flags, stack));
	return true;
}

/* ---- the limit ----------------------------------------------------------- */

#define CHARGE_MOST (1ull << 62)

static noinline uint64_t charge_block_asking(struct scope s, const struct entry *e,
					     enum wire_room kind, uint64_t size, uint64_t old)
{
	return charge_asking(s, e, kind, (uint64_t[4]){ size, old });
}

/*
 * Charges SIZE bytes. Returns what was charged, or ROOM_NONE. The supervisor may take `given` back
 * at any time: the busy mark, which is set before it is read, says that the old value may be in
 * use.
 */
static inline __attribute__((always_inline)) uint64_t charge(struct scope s, const struct entry *e,
							     enum wire_room kind, uint64_t size,
							     uint64_t old)
{
	uint64_t charged;

	mark_busy(s, e); /* before reading `charged`: a handler that comes earlier charges, too */
	if (unlikely(s.minimal || size > CHARGE_MOST))
		return charge_block_asking(s, e, kind, size, old);
	charged = s.t->charged;
	charge_begin(s, charged + size);
	if (unlikely((int64_t)(load(&s.t->given) + s.t->credited - charged) < (int64_t)size))
		return charge_block_asking(s, e, kind, size, old);
	store(&s.t->charged, charged + size);
	return size;
}

/*
 * A refused call sets ENOMEM whatever the allocator set. Should it have given a block nevertheless,
 * that was not charged, and its release must not be credited: `asked`.
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

/* Which argument is the size, and where the result is. */
enum shape { SIZE_FIRST, SIZE_SECOND, SIZE_THIRD_RESULT_BEHIND_FIRST };

/* The block that the real function gave, 0: none. The thread is busy. */
static inline uint64_t given_block(enum shape shape, uint64_t ret, uint64_t a)
{
	if (shape != SIZE_THIRD_RESULT_BEHIND_FIRST)
		return ret;
	return (int)ret == 0 ? *(uint64_t *)a : 0;
}

#define LEFT_WORDS 128

/*
 * A sanitizer takes for reachable what any word of a stack points to. Our functions have left the
 * new block's address below this frame: it must not be there when a leak check runs on this stack.
 */
static noinline void stack_clear(void)
{
	uint64_t left[LEFT_WORDS], *at = left, n = LEFT_WORDS;

	/* compilers would call memset() for it, and there is none */
	__asm__ volatile("rep stosq" : "+D"(at), "+c"(n) : "a"(0) : "memory");
}

/*
 * Calls the real function, which gives one block of SIZE bytes. CHARGES: there is a limit, and then
 * every block is told of.
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
		emit_block(s, e, WIRE_ALLOC, p, size, family, choice, charges);
	if (refused)
		say_no_memory(s);
	else if (charges)
		settle(s, charged);
	mark_none(s);
	if (unlikely(h->arg & WIRE_FRAMED))
		stack_clear();
	return ret;
}

/* operator new(0) may be on its way to malloc(1), unless a hook is around both already. */
void hook_new_zero(void)
{
	struct wire_thread *t = thread_self();

	if (t && !t->mark)
		t->new_zero = 1;
}

/* How many bytes malloc(1) is asked for: operator new may have made 1 of 0. */
static noinline uint64_t one_or_zero(struct wire_thread *t)
{
	uint64_t size = !t->new_zero;

	t->new_zero = 0;
	return size;
}

/*
 * malloc and free are most of all calls. Their usual case (the thread is known at once, no hook is
 * around this one, no limit, no sampling) is compiled on its own, so that nothing in it asks which
 * case it is. The case with a limit is inlined, too: a function of its own would save all registers
 * anew.
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

	if (!s.t)
		leave_hook3(a, b, c, h, e);
	return malloc_counted(s, limited(LIMIT_BLOCKS), family, a, b, c, h, e);
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
		emit_block(s, e, WIRE_ALLOC, p, size, family_said(said), WHOLE, false);
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
	emit_free(s, e, wire_told(p), family, false);
	mark_call(s, e);
	ret = call_block(h, e, p, b, c);
	if (!orphaned())
		mark_none(s);
	return ret;
}

static noinline uint64_t free_any(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h,
				  const struct entry *e, uint32_t family)
{
	struct scope s = scope_enter(e);

	if (!s.t || !p)
		leave_hook3(p, b, c, h, e);
	return free_counted(s, family, p, b, c, h, e);
}

/* unusual() is asked while the thread is busy, so that whoever switches something on can wait. */
uint64_t hook_free(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h,
		   const struct entry *e, uint64_t said)
{
	uint32_t family = family_said(said ^ p);
	struct scope s;
	uint64_t ret;

	(void)b;
	(void)c;
	/* 0, or more bits than a block's address has */
	if (unlikely((p - 1) >> WIRE_ADDRESS_BITS || !enter_at_once(&s)))
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

/* Functions that give one block and are called seldom: which one it is is found out on the way. */
static inline __attribute__((always_inline)) uint64_t give_any(enum shape shape, uint64_t size,
							       uint64_t a, uint64_t b, uint64_t c,
							       const struct wire_hook *h,
							       const struct entry *e)
{
	struct scope s = scope_enter(e);

	if (unlikely(!s.t))
		leave_hook3(a, b, c, h, e);
	return give(s, shape, limited(LIMIT_BLOCKS), FAMILY_HEAP, size, a, b, c, h, e);
}

/* N * SIZE. IF_NONE: it overflows; the real function will see that and fail by itself. */
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

/* how many words below the pushed registers entry.S keeps the size for the real function */
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
		emit_block(s, e, WIRE_ALLOC, p, size, (uint8_t)h->arg, choice, charges);
	if (charges)
		settle(s, charged);
	mark_none(s);
	return p;
}

/* ---- realloc ------------------------------------------------------------- */

struct resize {
	bool charges, leaves; /* leaves: there was a LEAVE */
	bool large;	      /* LEAVE took the old block out of the large ones (large.h) */
	uint8_t hint;	      /* the old block's byte before that (hint.h) */
	uint32_t family;
	enum choice choice; /* about the new block */
	uint64_t charged;   /* charge()'s answer */
};

/* Writes LEAVE for the block OLD. False: the event is lost. */
static bool emit_leave(struct scope s, const struct entry *e, struct resize *r, uint64_t old)
{
	uint32_t flags = release_flags(s, old) | r->family << WIRE_FAMILY_SHIFT, stack;

	r->hint = load(&PROC->hint[wire_hint(old)]);
	/* realloc takes a block of any family */
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

/* The real function returned P. */
static uint64_t resize_done(struct scope s, const struct entry *e, const struct resize *r,
			    uint64_t old, uint64_t size, uint64_t p)
{
	if (orphaned())
		return p;
	mark_busy(s, e);
	if (r->charged == ROOM_NONE) { /* the old block is as it was */
		say_no_memory(s);
		mark_none(s);
		return p;
	}
	if (p && r->choice != LEFT_OUT)
		emit_block(s, e, r->leaves ? WIRE_BECAME : WIRE_ALLOC, p, size, r->family,
			   r->choice, r->charges);
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
		leave_hook3(old, size, c, h, e);
	if (!old)
		return give(s, SIZE_SECOND, charges, FAMILY_HEAP, size, old, size, c, h, e);
	r = resize_begin(s, e, charges, FAMILY_HEAP, wire_told(old), size);
	return resize_done(s, e, &r, wire_told(old), size,
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
		leave_hook3(old, n, size, h, e);
	if (!old)
		return give(s, SIZE_SECOND, charges, FAMILY_HEAP, product(n, size, 0), old, n, size,
			    h, e);
	total = product(n, size, UINT64_MAX); /* it will fail, and that is not realloc(p, 0) */
	charges &= total != UINT64_MAX;
	r = resize_begin(s, e, charges, FAMILY_HEAP, wire_told(old), total);
	return resize_done(s, e, &r, wire_told(old), total,
			   call_block(h, e, old, r.charged == ROOM_NONE ? IMPOSSIBLE : n, size));
}

/* ---- --hook -------------------------------------------------------------- */

/*
 * Functions that --hook names, of up to six arguments: argument `arg`, from 0, is the size or the
 * pointer.
 */
static uint64_t generic_free(struct scope s, uint64_t p, const uint64_t *a,
			     const struct wire_hook *h, const struct entry *e)
{
	uint64_t ret;

	if (p && may_be_known(p)) {
		mark_busy(s, e);
		emit_free(s, e, wire_told(p), FAMILY_ANY, false);
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
		emit_block(s, e, WIRE_ALLOC, p, size, FAMILY_ANY, choice, charges);
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
		leave_hook6(a, h, e);
	switch (h->kind) {
	case HOOK_GENERIC_FREE: return generic_free(s, *at, a, h, e);
	case HOOK_GENERIC_CALLOC: return generic_give(s, at, product(*at, *next, 0), a, h, e);
	case HOOK_GENERIC_REALLOC: break;
	/* posix_memalign: (out, alignment, size), ARG is the size's place */
	default: return generic_give(s, at, *at, a, h, e);
	}
	if (!*at)
		return generic_give(s, next, *next, a, h, e);
	old = wire_told(*at);
	size = *next;
	r = resize_begin(s, e, limited(LIMIT_BLOCKS), FAMILY_ANY, old, size);
	if (r.charged == ROOM_NONE)
		*next = IMPOSSIBLE;
	return resize_done(s, e, &r, old, size, call6(h, a));
}
