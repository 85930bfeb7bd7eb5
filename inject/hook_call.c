// SPDX-License-Identifier: GPL-3.0-or-later
#include "hook_map.h"
#include "patience.h"

#include <linux/time_types.h>

/*
 * hook_call.c - what happens around calls that concern mtrun itself (seccomp, ptrace, a leak check,
 * ld.so's _dl_debug_state), around syscall(), and in place of the program's own `syscall`
 * instructions.
 */

enum { K_PR_SET_SECCOMP = 22 };

/* ---- seccomp, ptrace, modules -------------------------------------------- */

/* A thread that is in a call of ours for longer has left it by longjmp: it is not waited for. */
#define CALLS_US 2000000

static bool others_call(const struct wire_thread *t)
{
	return (int32_t)(__atomic_load_n(&PROC->calls, __ATOMIC_SEQ_CST) - (t ? t->calls : 0)) > 0;
}

/*
 * Whether system call NUMBER, prctl or seccomp, with the arguments ARG may change what is allowed.
 */
static bool seccomp_applies(uint64_t number, const uint64_t *arg)
{
	if (number == __NR_seccomp)
		return (uint32_t)arg[0] <= 1; /* SECCOMP_SET_MODE_STRICT, _FILTER */
	return (int)arg[0] == K_PR_SET_SECCOMP && (arg[1] == 1 || arg[1] == 2);
}

/*
 * seccomp is about to begin: from now on no hook makes a system call, unless this one fails. The
 * filter may be for all threads, so the calls of ours that other threads are in are waited for.
 * T's, this thread's own, are not: if this is a signal handler, they go on only after it. Returns
 * the old no_syscalls, for seccomp_done(). A thread without a slot does not come back for that: then
 * no hook makes a system call any more, whatever comes of this one.
 */
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

/* prctl() and seccomp(): `arg` 0 is prctl, 1 is seccomp. */
uint64_t hook_prctl(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	bool applies = seccomp_applies(h->arg ? __NR_seccomp : __NR_prctl, a);
	struct wire_thread *t = thread_calling(); /* its slot, while gettid may still be called */
	bool marked = t && mark_plain(t, e);
	uint32_t was = seccomp_begin(t, applies);
	uint64_t ret;

	if (!t)
		leave_hook6(a, h, e);
	ret = seccomp_done(was, call6(h, a));
	unmark_plain(t, marked);
	return ret;
}

/*
 * A process has one tracer. A call that makes a process traced waits until mtrun has let go of that
 * process, if it traced it. A vfork child uses its parent's slot; the parent is suspended.
 */
enum { K_PTRACE_TRACEME = 0, K_PTRACE_ATTACH = 16, K_PTRACE_SEIZE = 0x4206 };

static uint64_t trace_begin(struct wire_thread *t, uint64_t request, uint64_t pid)
{
	if ((int)request != K_PTRACE_TRACEME && (int)request != K_PTRACE_ATTACH &&
	    (int)request != K_PTRACE_SEIZE)
		return TRACE_GO;
	return ask(t, &(struct question){ ASK_TRACE,
					  { (uint32_t)request, (uint32_t)pid,
					    (uint64_t)own_call(__NR_gettid, 0, 0, 0, 0) } });
}

uint64_t hook_ptrace(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	struct wire_thread *t = thread_calling();
	uint64_t ret;
	bool marked;

	if (!t)
		leave_hook6(a, h, e);
	marked = mark_plain(t, e);
	ret = trace_begin(t, a[0], a[1]) == TRACE_DONE ? 0 : call6(h, a);
	unmark_plain(t, marked);
	return ret;
}

/*
 * LeakSanitizer's checks stop all threads of their process by ptrace, so mtrun lets go of it
 * meanwhile. What they allocate is not the program's and is not counted. Often they end the
 * program.
 */
uint64_t hook_leak_check(uint64_t a, uint64_t b, uint64_t c, const struct wire_hook *h,
			 const struct entry *e)
{
	struct scope s = scope_calling(e);
	uint64_t answer, ret = 0;

	/* one check calls the other: the outer one has asked */
	if (!s.t || s.minimal)
		leave_hook3(a, b, c, h, e);
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
 * ld.so tells a debugger that the list of objects has changed, or is about to: then it tells once
 * more when that is done. The real function is empty.
 */
uint64_t hook_debug_state(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	const uint32_t *loading = (const uint32_t *)load(&PROC->loading);
	struct wire_thread *t;
	uint64_t mark;

	(void)a;
	(void)h;
	(void)e;
	if (loading && load(loading))
		return 0;
	t = thread_calling();
	if (!t)
		return 0;
	mark = t->mark;
	store(&t->mark, (uint64_t)&e->ra | WIRE_BUSY);
	ask(t, &(struct question){ ASK_MODULES, { 0 } });
	store(&t->mark, mark);
	return 0;
}

/* ---- syscall() ----------------------------------------------------------- */

/*
 * A[0] is the number; the system call's sixth argument is on the caller's stack. The real syscall()
 * is called, so that libc sets errno.
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
		struct wire_thread *self = thread_calling();

		was = seccomp_begin(self, seccomp_applies(a[0], a + 1));
		if (!self)
			leave_hook6(a, h, e);
		return seccomp_done(was, syscall_plain(self, h, e, a));
	}
	if (a[0] == __NR_ptrace) {
		struct wire_thread *self = thread_calling();

		if (!self)
			leave_hook6(a, h, e);
		return trace_begin(self, a[1], a[2]) == TRACE_DONE ? 0
								   : syscall_plain(self, h, e, a);
	}
	s = scope_calling(e);
	if (spares_ours(s, e, a[0], a + 1))
		return 0;
	memory_leaves(a[0], a + 1);
	if (!s.t)
		leave_hook6(a, h, e);
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
	leave_hook6(a, h, e);
}

/* ---- system calls by the program's own instruction ----------------------- */

enum { RAW_NUMBER = 6, RAW_ARGS };
/*
 * All stacks for hooks are taken. entry.S calls this where the thread's own has little room: so it
 * uses some dozen bytes of it.
 */
void stack_nap(void)
{
	static const struct __kernel_timespec nap = { .tv_nsec = 50 * 1000 };

	if (own_call(__NR_nanosleep, (long)&nap, 0, 0, 0) == -38 /* ENOSYS */)
		for (uint32_t left = load(&PROC->pauses) / 20; left; left--)
			__builtin_ia32_pause();
}

#define RAW_FRAMES 8192ull /* what ours take below the entry, and more */

static uint64_t call_raw(const uint64_t a[RAW_ARGS])
{
	return (uint64_t)sys6((long)a[RAW_NUMBER], (long)a[0], (long)a[1], (long)a[2], (long)a[3],
			      (long)a[4], (long)a[5]);
}

/*
 * Whether the call takes away the stack that we are on, as threads that are not libc's do at their
 * end.
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

static bool raw_forbids(const struct entry *e, uint64_t *a)
{
	struct wire_thread *t = thread_calling(); /* its slot, while gettid may still be called */
	bool marked = t && mark_plain(t, e);
	uint32_t was = seccomp_begin(t, seccomp_applies(a[RAW_NUMBER], a));

	if (!t)
		return false;
	a[RAW_NUMBER] = seccomp_done(was, call_raw(a));
	unmark_plain(t, marked);
	return true;
}

static bool raw_traces(const struct entry *e, uint64_t *a)
{
	struct wire_thread *t = thread_calling();
	bool marked;

	if (!t)
		return false;
	marked = mark_plain(t, e);
	a[RAW_NUMBER] = trace_begin(t, a[0], a[1]) == TRACE_DONE ? 0 : call_raw(a);
	unmark_plain(t, marked);
	return true;
}

/* Only the numbers that entry.S lets through come here. See hook.h for the result. */
bool hook_raw(uint64_t *a, const struct wire_hook *h, const struct entry *e)
{
	uint32_t nr = (uint32_t)a[RAW_NUMBER];
	struct scope s;
	uint64_t charged;

	(void)h;
	a[RAW_NUMBER] = nr;
	if (nr == __NR_prctl || nr == __NR_seccomp)
		return raw_forbids(e, a);
	if (nr == __NR_ptrace)
		return raw_traces(e, a);
	if (GUARD->armed != ARMED_ON)
		return false;
	s = scope_calling(e);
	if (spares_ours(s, e, nr, a)) {
		a[RAW_NUMBER] = 0;
		return true;
	}
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
