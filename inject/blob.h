/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * blob.h - inside the trampoline: where things are, the little that replaces a libc, and who calls
 * whom.
 *
 * The code runs in somebody else's process, in the middle of its malloc. It uses little stack, no
 * TLS, no errno, no SSE register, no memory but the agent. It is compiled for general registers
 * only, and the link fails if anything is undefined.
 */
#ifndef MTRUN_BLOB_H
#define MTRUN_BLOB_H

#include <asm/unistd.h>
#include <stdbool.h>

#include "wire.h"

/*
 * The blob's ELF header is at agent + AGENT_BLOB; the linker gives us its address relative to rip.
 */
extern const char blob_start[] __attribute__((visibility("hidden")));
#define AGENT  ((uintptr_t)blob_start - AGENT_BLOB)
#define GUARD  ((volatile struct wire_guard *)(AGENT + AGENT_GUARD))
#define BEACON ((struct wire_beacon *)(AGENT + AGENT_BEACON))
#define PROC   ((struct wire_process *)(AGENT + AGENT_PROCESS))
#define BIGS   ((struct wire_big *)(AGENT + AGENT_BIGS))
#define NODES  ((struct wire_node *)(AGENT + AGENT_NODES))
#define TABLES ((const struct wire_tables *)(AGENT + AGENT_TABLES))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define noinline    __attribute__((noinline))
#define load(p)	    __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

/* What entry.S leaves on the stack at a hook's entry, in the order of enum wire_reg. */
struct entry {
	uint64_t reg[WIRE_REGS];
	/* the hooked function's return address: its slot is where every walk begins */
	uint64_t ra;
	/* the caller's: seventh argument of a function that has one */
	uint64_t stack_arg;
};
_Static_assert(offsetof(struct entry, ra) == 48, "entry.S pushes six registers");

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
static inline long sys3(long nr, long a, long b, long c)
{
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

/* The word at %fs:0, which is the thread pointer once tls_ready is set. */
static inline uint64_t thread_word(void)
{
	uint64_t fs;

	__asm__ volatile("mov %%fs:0, %0" : "=r"(fs));
	return fs;
}

/*
 * A load that may fail. The supervisor ends the fault (supervisor/tracee/fault_fixup.c): an entry
 * of .loads is two distances, each from its own word: to the instruction, and to the one behind it.
 */
#define LISTED_LOAD(from) \
	"1: mov " from    \
	", %0\n2:\n\t.pushsection .loads, \"a\"\n\t.long 1b - ., 2b - .\n\t.popsection"

/* The word at ADDR, which may not be readable any more: WIRE_LOAD_FAILED then. */
static inline uint64_t peek(uint64_t addr)
{
	uint64_t word;

	__asm__(LISTED_LOAD("%1") : "=r"(word) : "m"(*(const uint64_t *)addr));
	return word;
}

/*
 * thread_word() around a system call, for which a program needs no thread pointer: %fs may point to
 * what cannot be read. LOAD_FAILED then.
 */
static inline uint64_t thread_word_calling(void)
{
	uint64_t fs;

	__asm__ volatile(LISTED_LOAD("%%fs:0") : "=r"(fs));
	return fs;
}

/* This thread's slot, if it has one that is found at once; else NULL. */
static inline struct wire_thread *thread_here(void)
{
	struct wire_thread *t;
	uint64_t fs, v;

	if (unlikely(!PROC->tls_ready))
		return NULL;
	fs = thread_word_calling();
	v = load(&PROC->finder[wire_finder_hash(fs)]);
	t = &PROC->thread[v & (WIRE_THREADS - 1)];
	return load(&t->fs) == fs ? t : NULL;
}

/*
 * System calls of ours. None is made any more once the program has entered seccomp. Before it does,
 * it waits for those that other threads are in, as its filter may be for all of them. Between
 * calls_begin(), if that is true, and calls_end() any may be made.
 */
struct calls {
	struct wire_thread *of; /* this thread, if that is known without a call */
};
static inline void calls_end(const struct calls *c)
{
	__atomic_fetch_sub(&PROC->calls, 1, __ATOMIC_SEQ_CST);
	if (c->of)
		c->of->calls--;
}
static inline bool calls_begin(struct calls *c)
{
	c->of = thread_here();
	if (c->of)
		/* first: a handler that comes in between does not wait for its own thread */
		c->of->calls++;
	__atomic_fetch_add(&PROC->calls, 1, __ATOMIC_SEQ_CST);
	if (likely(!__atomic_load_n(&PROC->no_syscalls, __ATOMIC_SEQ_CST)))
		return true;
	calls_end(c);
	return false;
}
static inline long own_call(long nr, long a, long b, long c, long d)
{
	long ret = -38 /* ENOSYS */;
	struct calls calls;

	if (calls_begin(&calls)) {
		ret = sys6(nr, a, b, c, d, 0, 0);
		calls_end(&calls);
	}
	return ret;
}

/* agent.c */
/* Map what is missing up to this slot, big one or node. False: it cannot be mapped. */
bool slots_reach(uint32_t slot);
bool bigs_reach(uint32_t big);
bool nodes_reach(uint32_t node);
/* The NODES_TOUCHED nodes (64 KB) from NODE on, a multiple of that, are about to be used. */
#define NODES_TOUCHED 2048u
void nodes_touch(uint32_t node);
/* Soon no system call can be made: what may be needed is mapped now. */
void agent_foresee(void);

/*
 * A fork has happened within the real function, and this is the child: the slots, and all else that
 * its parent shares with mtrun, are not mapped here.
 */
static inline bool orphaned(void) { return unlikely(!GUARD->here); }

/* ring.c */
bool mtrun_alive(void);
/* mtrun is gone: from now on every hook passes straight through */
void hooks_off(void);
/* wakes the supervisor if it sleeps */
void bell_ring(void);
/* waits until N events fit; false: mtrun is gone, or does not read */
bool ring_look(struct wire_thread *t, unsigned n);
/*
 * A place for an event of a signal handler that interrupted a hook of T's. NULL: mtrun is gone, or
 * none became free in time; the event is lost.
 */
struct wire_signal_event *signal_place(struct wire_thread *t);
void signal_put(struct wire_thread *t, struct wire_signal_event *place, struct wire_event first,
		struct wire_event second);
/* what T has taken will not be filled: its handlers were left by siglongjmp */
void signal_forget(struct wire_thread *t);

/* big.c */
void big_take(struct wire_thread *t); /* if there is one: from now on T's events go there */

/* walk.c */
uint32_t walk(struct wire_thread *t, const struct entry *e); /* stack id of the hook's caller */
uint32_t walk_plain(const struct entry *e); /* walk() that leaves the thread's memory alone */
/* T is marked: by a hook around this one, by one that a handler interrupted, or left by longjmp */
enum nesting { NESTED, SIGNALLED, STALE };
enum nesting nesting(const struct wire_thread *t, const struct entry *e);
/* [LO, HI) is about to be taken away: no thread reads there any more without a new proof */
void stacks_forget(uint64_t lo, uint64_t hi);

/* service.c */
bool mail_serve(struct wire_mail *mail); /* until MAIL_GO; false: mtrun is gone, or does nothing */
/* says MAIL_UNDONE and why, then waits as mail_serve() does */
void mail_undone(struct wire_mail *mail, long err);
/* blocks all, and single steps; returns the mask that was, and whether there were such */
uint64_t signals_block(void);
void signals_restore(uint64_t was);
#define QUESTION_ARGS 5
struct question {
	enum wire_what what;
	uint64_t arg[QUESTION_ARGS];
};
/* the answer; 0: mtrun is gone, or does nothing */
uint64_t ask(struct wire_thread *t, const struct question *q);
/* ask() by system calls alone; 0 also where none may be made */
uint64_t ask_loudly(struct wire_thread *t, const struct question *q);

#endif
