// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * hook.c - what happens around each allocator function.
 *
 * Order. An event takes its number from the counter of its address: an allocation after the real function has returned the address, a
 * release before the real function may give it to somebody else. So between two owners of one address the numbers are in the order of
 * ownership, whatever the threads do. realloc does both: LEAVE before, BECAME, STAYED or GONE after.
 *
 * Once. The outermost hook of a thread counts, what the real function calls inside (aligned_alloc -> malloc -> mmap) does not: `mark` holds the
 * outermost hook's frame meanwhile. Bit 0 of the mark says that the hook is keeping books, during which nothing of the program's runs but a
 * signal handler; such an event goes through the signal ring and leaves the thread's state alone. A mark can also be stale, when a handler
 * left by siglongjmp. nesting() tells these apart.
 *
 * errno is not touched: nothing here calls libc, and the real function's value stands.
 */
#include "hook.h"
#include "ring.h"

#define BUSY 1ull

typedef void *(*fn_malloc)(uint64_t, uint64_t, uint64_t);
typedef uint64_t (*fn3)(uint64_t, uint64_t, uint64_t);
typedef uint64_t (*fn6)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef uint64_t (*fn7)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static inline uint64_t call3(const struct wire_hook *h, uint64_t a, uint64_t b, uint64_t c)
{
	return ((fn3)h->orig)(a, b, c);
}

/* ---- who is counting ------------------------------------------------------------------------------------------------------------ */

struct scope {
	struct wire_thread *t;		/* NULL: not to be counted */
	bool minimal;			/* from a handler inside another hook: t's state is not ours */
};

static noinline struct scope scope_inner(struct wire_thread *t, const struct entry *e)
{
	switch (nesting(t, e)) {
	case SIGNALLED:
		return (struct scope){ t, true };
	case STALE:
		t->mark = 0;
		t->depth = 0;
		return (struct scope){ t, false };
	default:
		return (struct scope){ NULL, false };
	}
}

static inline struct scope scope_enter(const struct entry *e)
{
	struct wire_thread *t = thread_self();

	if (likely(t && !t->mark))
		return (struct scope){ t, false };
	return t ? scope_inner(t, e) : (struct scope){ NULL, false };
}

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

/* ---- events --------------------------------------------------------------------------------------------------------------------- */

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

/* Room for a time event and a wide one; the time event if a millisecond has passed. */
static inline bool begin_event(struct scope s)
{
	struct wire_thread *t = s.t;
	uint32_t ms;

	if (unlikely(s.minimal))
		return true;
	if (unlikely(!ring_room(t, 3)))
		return false;
	ms = __atomic_load_n(&BEACON->ms, __ATOMIC_RELAXED);
	if (unlikely(ms != t->ms)) {
		t->ms = ms;
		ring_put(t, (struct wire_event){ (uint64_t)WIRE_TIME << WIRE_ADDRESS_BITS, ms });
	}
	return true;
}

static inline void emit(struct scope s, struct wire_event e)
{
	if (unlikely(s.minimal))
		emit_from_signal(e, (struct wire_event){ 0, 0 }, false);
	else
		ring_put(s.t, e);
}

static noinline void emit_wide(struct scope s, struct wire_event e, uint64_t size, uint64_t ticket)
{
	struct wire_event more = { size, ticket };

	if (unlikely(s.minimal))
		emit_from_signal(e, more, true);
	else
		ring_put2(s.t, e, more);
}

/* ALLOC or BECAME, whose wide forms follow them in enum wire_kind. The number is taken as late as possible: the fewer instructions between
 * it and the store, the fewer events have to wait for each other in the reader. */
static inline __attribute__((always_inline)) void emit_block(struct scope s, const struct entry *e, enum wire_kind kind, uint64_t address, uint64_t size)
{
	uint32_t stack = stack_of(s, e);

	if (!begin_event(s))
		return;
	if (likely(size < WIRE_WIDE))
		emit(s, wire_pack(kind, address, take_number(address), (uint32_t)size, stack));
	else {
		PROC->large[wire_large_hash(address)] = 1;
		emit_wide(s, wire_pack(kind + 1, address, take_number(address), 0, stack), size, take_ticket());
	}
}

static noinline uint32_t release_stack(struct scope s, const struct entry *e)
{
	return stack_of(s, e);
}

static inline __attribute__((always_inline)) void emit_free(struct scope s, const struct entry *e, uint64_t address)
{
	struct wire_process *p = PROC;
	uint32_t from_libc = e->ra - p->libc_start < p->libc_end - p->libc_start ? WIRE_FROM_LIBC : 0;
	uint8_t *large = &p->large[wire_large_hash(address)];
	uint32_t stack = unlikely(p->free_stacks) ? release_stack(s, e) : 0;

	if (!begin_event(s))
		return;
	if (likely(!*large))
		emit(s, wire_pack(WIRE_FREE, address, take_number(address), from_libc, stack));
	else {
		*large = 0;
		emit_wide(s, wire_pack(WIRE_FREE_WIDE, address, take_number(address), from_libc, stack), 0, take_ticket());
	}
}

static inline void emit_plain(struct scope s, enum wire_kind kind, uint64_t address, uint32_t stack)
{
	if (begin_event(s))
		emit(s, wire_pack(kind, address, take_number(address), 0, stack));
}

static void emit_map(struct scope s, enum wire_kind kind, uint64_t address, uint64_t length, uint32_t flags, uint32_t stack)
{
	if (begin_event(s))
		emit_wide(s, wire_pack(kind, address, 0, flags, stack), length, take_ticket());
}

/* ---- blocks --------------------------------------------------------------------------------------------------------------------- */

/* Hooks that give one block: PTR is what the real function returned. */
static inline __attribute__((always_inline)) void granted(struct scope s, const struct entry *e, uint64_t ptr, uint64_t size)
{
	mark_busy(s, e);
	if (ptr)
		emit_block(s, e, WIRE_ALLOC, ptr, size);
	mark_none(s);
}

/* operator new(0) is on its way to malloc(1), unless a hook is around both already. */
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
 * malloc and free are most of all calls. Their usual case (no other hook around it) is compiled on its own, so that nothing in it asks which case
 * it is.
 */
#define usual_case static inline __attribute__((always_inline))

usual_case uint64_t malloc_counted(struct scope s, uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	uint64_t p;

	mark_call(s, e);
	p = call3(h, a, b, c);
	granted(s, e, p, unlikely(a == 1) ? one_or_zero(s.t) : a);
	return p;
}

static noinline uint64_t malloc_inner(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);

	return s.t ? malloc_counted(s, a, b, c, h, e) : call3(h, a, b, c);
}

uint64_t hook_malloc(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct wire_thread *t = thread_self();

	if (unlikely(!t || t->mark))
		return malloc_inner(a, b, c, h, e);
	return malloc_counted((struct scope){ t, false }, a, b, c, h, e);
}

usual_case uint64_t free_counted(struct scope s, uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	uint64_t ret;

	mark_busy(s, e);
	emit_free(s, e, p);
	mark_call(s, e);
	ret = call3(h, p, b, c);
	mark_none(s);
	return ret;
}

static noinline uint64_t free_inner(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = p ? scope_enter(e) : (struct scope){ NULL, false };

	return s.t ? free_counted(s, p, b, c, h, e) : call3(h, p, b, c);
}

uint64_t hook_free(uint64_t p, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct wire_thread *t = thread_self();

	if (unlikely(!p || !t || t->mark))
		return free_inner(p, b, c, h, e);
	return free_counted((struct scope){ t, false }, p, b, c, h, e);
}

uint64_t hook_calloc(uint64_t n, uint64_t size, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t p;

	if (unlikely(!s.t))
		return call3(h, n, size, c);
	mark_call(s, e);
	p = call3(h, n, size, c);
	granted(s, e, p, n * size);
	return p;
}

uint64_t hook_memalign(uint64_t alignment, uint64_t size, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t p;

	if (unlikely(!s.t))
		return call3(h, alignment, size, c);
	mark_call(s, e);
	p = call3(h, alignment, size, c);
	granted(s, e, p, size);
	return p;
}

uint64_t hook_posix_memalign(uint64_t out, uint64_t alignment, uint64_t size, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret;

	if (unlikely(!s.t))
		return call3(h, out, alignment, size);
	mark_call(s, e);
	ret = call3(h, out, alignment, size);
	granted(s, e, (int)ret == 0 ? *(uint64_t *)out : 0, size);
	return ret;
}

/* The nothrow form takes a tag argument after the size (and the alignment), which it does not look at. */
uint64_t hook_new(uint64_t size, uint64_t alignment, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t p;

	(void)c;
	if (!s.t)
		return 0;
	mark_call(s, e);
	p = ((fn3)h->nothrow)(size, alignment, 0);
	granted(s, e, p, size);
	return p;
}

/* OLD (not NULL) is resized to SIZE by the real function, called by CALL. */
static inline uint64_t moved(struct scope s, const struct entry *e, uint64_t old, uint64_t size, uint64_t p)
{
	mark_busy(s, e);
	if (p)
		emit_block(s, e, WIRE_BECAME, p, size);
	else if (size)
		emit_plain(s, WIRE_STAYED, old, 0);
	else
		emit_plain(s, WIRE_GONE, old, PROC->free_stacks ? release_stack(s, e) : 0);
	mark_none(s);
	return p;
}

static inline void leaving(struct scope s, const struct entry *e, uint64_t old)
{
	mark_busy(s, e);
	emit_plain(s, WIRE_LEAVE, old, 0);
	mark_call(s, e);
}

uint64_t hook_realloc(uint64_t old, uint64_t size, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t p;

	if (unlikely(!s.t))
		return call3(h, old, size, c);
	if (!old) {
		mark_call(s, e);
		p = call3(h, old, size, c);
		granted(s, e, p, size);
		return p;
	}
	leaving(s, e, old);
	return moved(s, e, old, size, call3(h, old, size, c));
}

uint64_t hook_reallocarray(uint64_t old, uint64_t n, uint64_t size, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t p, total;

	if (unlikely(!s.t))
		return call3(h, old, n, size);
	if (__builtin_mul_overflow(n, size, &total))
		total = UINT64_MAX;	/* it will fail, and that is not realloc(p, 0) */
	if (!old) {
		mark_call(s, e);
		p = call3(h, old, n, size);
		granted(s, e, p, total);
		return p;
	}
	leaving(s, e, old);
	return moved(s, e, old, total, call3(h, old, n, size));
}

/* --hook: the same for a function of the program's, with up to six arguments, of which `arg` is the size or the pointer. */
uint64_t hook_generic(const uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t at = a[h->arg < 6 ? h->arg : 0], next = a[h->arg < 5 ? h->arg + 1 : 5], p;
	fn6 orig = (fn6)h->orig;

	if (unlikely(!s.t))
		return orig(a[0], a[1], a[2], a[3], a[4], a[5]);
	if (h->kind == HOOK_GENERIC_FREE) {
		if (at) {
			mark_busy(s, e);
			emit_free(s, e, at);
		}
		mark_call(s, e);
		p = orig(a[0], a[1], a[2], a[3], a[4], a[5]);
		mark_none(s);
		return p;
	}
	if (h->kind == HOOK_GENERIC_REALLOC && at) {
		leaving(s, e, at);
		return moved(s, e, at, next, orig(a[0], a[1], a[2], a[3], a[4], a[5]));
	}
	mark_call(s, e);
	p = orig(a[0], a[1], a[2], a[3], a[4], a[5]);
	switch (h->kind) {
	case HOOK_GENERIC_CALLOC:
		granted(s, e, p, at * next);
		break;
	case HOOK_GENERIC_REALLOC:
		granted(s, e, p, next);
		break;
	case HOOK_GENERIC_POSIX_MEMALIGN:	/* (out, alignment, size): ARG is the size's place */
		granted(s, e, (int)p == 0 ? *(uint64_t *)a[0] : 0, at);
		break;
	default:
		granted(s, e, p, at);
	}
	return p;
}

/* ---- mappings ------------------------------------------------------------------------------------------------------------------- */

/* Arguments and results of mmap(2) and the kernel's constants, which are ABI. */
enum { K_MAP_SHARED = 1, K_MAP_ANONYMOUS = 0x20, K_MREMAP_DONTUNMAP = 4 };

static inline bool failed(uint64_t ret)
{
	return ret >= (uint64_t)-4095;
}

static inline uint64_t pages(uint64_t n)
{
	return (n + 4095) & ~4095ull;
}

/* The mark stands while the real function runs: where a program puts its own mmap before libc's, the inner one is not counted again. */
static uint64_t map_done(struct scope s, const struct entry *e, uint64_t ret, uint64_t length, uint64_t prot, uint64_t flags)
{
	uint32_t what = (uint32_t)prot & 7;

	if (failed(ret)) {
		mark_none(s);
		return ret;
	}
	if (flags & K_MAP_ANONYMOUS)
		what |= WIRE_MAP_ANON;
	if (flags & K_MAP_SHARED)
		what |= WIRE_MAP_SHARED;
	mark_busy(s, e);
	emit_map(s, WIRE_MAP, ret, pages(length), what, stack_of(s, e));
	mark_none(s);
	return ret;
}

static void unmap_begin(struct scope s, const struct entry *e, uint64_t addr, uint64_t length)
{
	mark_busy(s, e);
	stacks_forget(addr, addr + length);
	emit_map(s, WIRE_UNMAP, addr, pages(length), 0, 0);
	mark_call(s, e);
}

static uint64_t unmap_done(struct scope s, const struct entry *e, uint64_t ret, uint64_t addr, uint64_t length)
{
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
	return length && !(addr & 4095) && addr < 1ull << WIRE_ADDRESS_BITS && length <= 1ull << WIRE_ADDRESS_BITS;
}

static void remap_begin(struct scope s, const struct entry *e, uint64_t old, uint64_t old_length)
{
	mark_busy(s, e);
	stacks_forget(old, old + old_length);
	emit_map(s, WIRE_REMAP_LEAVE, old, pages(old_length), 0, 0);
	mark_call(s, e);
}

static uint64_t remap_done(struct scope s, const struct entry *e, uint64_t ret, uint64_t old, uint64_t length)
{
	mark_busy(s, e);
	if (failed(ret))
		emit_map(s, WIRE_REMAP_FAILED, old, pages(length), 0, 0);
	else
		emit_map(s, WIRE_REMAP, ret, pages(length), 0, stack_of(s, e));
	mark_none(s);
	return ret;
}

static uint64_t protect_done(struct scope s, const struct entry *e, uint64_t ret, uint64_t addr, uint64_t length, uint64_t prot)
{
	if ((int)ret) {
		mark_none(s);
		return ret;
	}
	mark_busy(s, e);
	if (!(prot & WIRE_PROT_READ))
		stacks_forget(addr, addr + length);
	emit_map(s, WIRE_PROTECT, addr, pages(length), (uint32_t)prot & 7, stack_of(s, e));
	mark_none(s);
	return ret;
}

static void break_done(struct scope s, const struct entry *e, uint64_t now, uint64_t old)
{
	if (now == old) {
		mark_none(s);
		return;
	}
	mark_busy(s, e);
	if (now < old)
		stacks_forget(now, old);
	emit_map(s, WIRE_BREAK, now, old, 0, stack_of(s, e));
	mark_none(s);
}

static uint64_t current_break(void)
{
	return PROC->no_syscalls ? 0 : (uint64_t)sys3(__NR_brk, 0, 0, 0);
}

uint64_t hook_mmap(const uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret;

	if (s.t)
		mark_call(s, e);
	ret = ((fn6)h->orig)(a[0], a[1], a[2], a[3], a[4], a[5]);
	return s.t ? map_done(s, e, ret, a[1], a[2], a[3]) : ret;
}

uint64_t hook_munmap(uint64_t addr, uint64_t length, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);

	if (!s.t || !valid_range(addr, length)) {
		if (valid_range(addr, length))
			stacks_forget(addr, addr + length);
		return call3(h, addr, length, c);
	}
	unmap_begin(s, e, addr, length);
	return unmap_done(s, e, call3(h, addr, length, c), addr, length);
}

uint64_t hook_mremap(const uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret;

	if (!s.t || !valid_range(a[0], a[1] ? a[1] : 1))
		return ((fn6)h->orig)(a[0], a[1], a[2], a[3], a[4], a[5]);
	remap_begin(s, e, a[0], a[3] & K_MREMAP_DONTUNMAP ? 0 : a[1]);
	ret = ((fn6)h->orig)(a[0], a[1], a[2], a[3], a[4], a[5]);
	return remap_done(s, e, ret, a[0], a[2]);
}

uint64_t hook_mprotect(uint64_t addr, uint64_t length, uint64_t prot, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret;

	if (s.t)
		mark_call(s, e);
	ret = call3(h, addr, length, prot);
	return s.t ? protect_done(s, e, ret, addr, length, prot) : ret;
}

uint64_t hook_brk(uint64_t addr, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret, old;

	if (!s.t)
		return call3(h, addr, b, c);
	old = current_break();
	mark_call(s, e);
	ret = call3(h, addr, b, c);
	break_done(s, e, (int)ret == 0 && old ? addr : old, old);
	return ret;
}

uint64_t hook_sbrk(uint64_t increment, uint64_t b, uint64_t c, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret;

	if (!s.t)
		return call3(h, increment, b, c);
	mark_call(s, e);		/* it calls brk */
	ret = call3(h, increment, b, c);
	break_done(s, e, failed(ret) ? ret : ret + increment, ret);
	return ret;
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------------- */

/* seccomp is coming: from here on no hook makes a system call, unless it was refused. */
static uint32_t seccomp_begin(bool applies)
{
	uint32_t was = PROC->no_syscalls;

	if (applies)
		PROC->no_syscalls = 1;
	return was;
}

static uint64_t seccomp_done(uint32_t was, uint64_t ret)
{
	if ((int64_t)ret < 0 || (int)ret < 0)
		PROC->no_syscalls = was;
	return ret;
}

/* prctl(PR_SET_SECCOMP, ..) and seccomp(SET_MODE_STRICT or FILTER, ..); `arg` 0 means prctl, 1 seccomp. */
uint64_t hook_prctl(const uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	bool applies = h->arg ? a[0] <= 1 : (int)a[0] == 22 /* PR_SET_SECCOMP */;
	uint32_t was;

	(void)e;
	thread_self();			/* its slot, while gettid may still be called */
	was = seccomp_begin(applies);
	return seccomp_done(was, ((fn6)h->orig)(a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* a[0] is the number; the sixth argument of the system call is on the caller's stack. errno is libc's business: the real syscall() is called. */
uint64_t hook_syscall(const uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct scope s = scope_enter(e);
	uint64_t ret, old = 0;
	uint32_t was = PROC->no_syscalls;

	if (s.t) {
		if (a[0] == __NR_munmap && valid_range(a[1], a[2]))
			unmap_begin(s, e, a[1], a[2]);
		else if (a[0] == __NR_mremap && valid_range(a[1], a[2] ? a[2] : 1))
			remap_begin(s, e, a[1], a[4] & K_MREMAP_DONTUNMAP ? 0 : a[2]);
		else if (a[0] == __NR_brk)
			old = current_break();
		if (a[0] == __NR_mmap || a[0] == __NR_mprotect || a[0] == __NR_brk)
			mark_call(s, e);
	}
	if (a[0] == __NR_seccomp || a[0] == __NR_prctl)
		was = seccomp_begin(a[0] == __NR_seccomp ? a[1] <= 1 : (int)a[1] == 22);
	ret = ((fn7)h->orig)(a[0], a[1], a[2], a[3], a[4], a[5], e->stack_arg);
	if (a[0] == __NR_seccomp || a[0] == __NR_prctl)
		return seccomp_done(was, ret);
	if (!s.t)
		return ret;
	switch (a[0]) {
	case __NR_mmap:
		return map_done(s, e, ret, a[2], a[3], a[4]);
	case __NR_munmap:
		return valid_range(a[1], a[2]) ? unmap_done(s, e, ret, a[1], a[2]) : ret;
	case __NR_mremap:
		return valid_range(a[1], a[2] ? a[2] : 1) ? remap_done(s, e, ret, a[1], a[3]) : ret;
	case __NR_mprotect:
		return protect_done(s, e, ret, a[1], a[2], a[3]);
	case __NR_brk:
		break_done(s, e, old && !failed(ret) && ret ? ret : old, old);
		return ret;
	default:
		return ret;
	}
}

/* ld.so tells a debugger that the list of objects has changed. The real function is empty. */
uint64_t hook_debug_state(const uint64_t *a, const struct wire_hook *h, const struct entry *e)
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
	ask(ASK_MODULES, t, 0, 0);
	store(&t->mark, mark);
	return 0;
}

_Static_assert(HOME_BEACON == 0x40000 && HOME_BLOB == 0x1000, "entry.S knows these");
_Static_assert(offsetof(struct wire_hook, orig) == 8, "entry.S knows this");
