// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_backtrace.c - stacks of a stopped child whose frames say themselves where they return to.
 *
 * The child runs a chain of functions, each of which notes its return address (a handler: the
 * interrupted pc) in shared memory, and stops itself at the innermost one. Then three unwinders
 * must agree: the child's own notes, backtrace.c (libunwind, from the FDEs), and a plain walk over
 * the rules that cfi.c makes, which is what the trampoline does.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/maps.h"
#include "base/proc.h"
#include "process/process.h"
#include "symbols/module.h"
#include "test.h"
#include "tracee/backtrace.h"
#include "unwind/cfi.h"

#define NOTES 64
struct notes {
	size_t count;
	uint64_t pc[NOTES]; /* innermost last; WIRE_PC_EXACT as in a stack */
};
static struct notes *notes;
static char alt_stack[65536];

static void note(const void *ra) { notes->pc[notes->count++] = (uint64_t)(uintptr_t)ra; }

#define NOTE_RETURN() note(__builtin_return_address(0))
#define KEEP()	      __asm__ volatile("" ::: "memory") /* no tail calls */

static NOINLINE void stop_here(void)
{
	NOTE_RETURN();
	raise(SIGSTOP);
	KEEP();
}

static NOINLINE int plain(int depth)
{
	NOTE_RETURN();
	if (depth)
		plain(depth - 1);
	else
		stop_here();
	KEEP();
	return depth;
}

static NOINLINE void realigned(size_t n)
{
	char wide[128] __attribute__((aligned(64)));
	char *some = __builtin_alloca(n);

	NOTE_RETURN();
	memset(wide, 0, sizeof(wide));
	memset(some, 1, n);
	__asm__ volatile("" ::"r"(wide), "r"(some) : "memory");
	plain(2);
	__asm__ volatile("" ::"r"(wide), "r"(some) : "memory", "rbx", "r12", "r13", "r14", "r15");
}

static NOINLINE int compare(const void *a, const void *b)
{
	(void)a, (void)b;
	NOTE_RETURN();
	realigned(100);
	KEEP();
	return 0;
}

static NOINLINE void through_libc(void)
{
	int two[2] = { 2, 1 };

	NOTE_RETURN();
	qsort(two, 2, sizeof(*two), compare);
	KEEP();
}

static void handler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig, (void)info;
	note((void *)(uintptr_t)((uint64_t)uc->uc_mcontext.gregs[REG_RIP] | WIRE_PC_EXACT));
	realigned(10);
	KEEP();
}

static NOINLINE void by_signal(int on_alt_stack)
{
	struct sigaction sa = { .sa_sigaction = handler,
				.sa_flags = SA_SIGINFO | (on_alt_stack ? SA_ONSTACK : 0) };
	stack_t ss = { .ss_sp = alt_stack, .ss_size = sizeof(alt_stack) };

	NOTE_RETURN();
	sigaltstack(&ss, NULL);
	sigaction(SIGTRAP, &sa, NULL);
	__asm__ volatile("int3" ::: "memory");
	KEEP();
}

static void run_plain(void)
{
	plain(5);
	KEEP();
}
static void run_realigned(void)
{
	realigned(300);
	KEEP();
}
static void run_through_libc(void)
{
	through_libc();
	KEEP();
}
static void run_signal(void)
{
	by_signal(0);
	KEEP();
}
static void run_signal_alt(void)
{
	by_signal(1);
	KEEP();
}

/* ---- a walk over the rules ----------------------------------------------- */

#define MODULES 64
struct tables {
	struct cfi cfi;
	struct wire_tables *tables;
	struct wire_module module[MODULES];
	size_t count;
};

static void tables_build(struct tables *t, const struct modules *modules)
{
	t->tables = mmap(NULL, sizeof(*t->tables), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	t->count = 0;
	CHECK_EQ(cfi_init(&t->cfi, t->tables, WIRE_POOL), 0);
	for (size_t i = 0; i < modules->count && t->count < MODULES; i++)
		if (!cfi_build(&t->cfi, modules->module[i], &t->module[t->count]))
			t->count++;
}

static void tables_release(struct tables *t)
{
	cfi_release(&t->cfi);
	munmap(t->tables, sizeof(*t->tables));
}

static uint64_t word(pid_t pid, uint64_t addr)
{
	uint64_t v = 0;

	if (remote_read(pid, addr, &v, 8) != 8)
		return 0;
	return v;
}

static size_t walk(const struct tables *t, pid_t pid, const struct user_regs_struct *regs,
		   uint64_t *pc, size_t max, bool *complete)
{
	uint64_t reg[WIRE_REGS] = {
		regs->rbp, regs->rbx, regs->r12, regs->r13, regs->r14, regs->r15
	};
	uint64_t rsp = regs->rsp, at = regs->rip, exact = WIRE_PC_EXACT;
	size_t n = 0;

	*complete = false;
	while (n < max) {
		const struct wire_rule *r = NULL;
		uint64_t cfa, old_rbp = reg[0];

		pc[n++] = at | exact;
		for (size_t i = 0; i < t->count && !r; i++)
			r = cfi_lookup(&t->cfi, &t->module[i], exact ? at : at - 1);
		if (!r)
			return n;
		exact = 0;
		switch (r->cfa) {
		case CFA_END: *complete = true; return n;
		case CFA_RSP: cfa = rsp + (uint64_t)(int64_t)r->cfa_off; break;
		case CFA_RBP: cfa = reg[0] + (uint64_t)(int64_t)r->cfa_off; break;
		case CFA_REG: cfa = reg[r->reg] + (uint64_t)(int64_t)r->cfa_off; break;
		case CFA_RBP_DEREF:
			cfa = word(pid, reg[0] + (uint64_t)(int64_t)r->cfa_off) +
			      (uint64_t)(int64_t)r->deref;
			break;
		case CFA_SIGNAL: {
			static const unsigned greg[WIRE_REGS] = { REG_RBP, REG_RBX, REG_R12,
								  REG_R13, REG_R14, REG_R15 };

			for (int i = 0; i < WIRE_REGS; i++)
				reg[i] = word(pid, rsp + 40 + 8 * greg[i]);
			at = word(pid, rsp + 40 + 8 * REG_RIP);
			rsp = word(pid, rsp + 40 + 8 * REG_RSP);
			exact = WIRE_PC_EXACT;
			continue;
		}
		default: return n;
		}
		for (int i = 0; i < WIRE_REGS; i++)
			if (r->off[i] > RULE_LOST)
				reg[i] = word(pid, (r->from_rbp & 1u << i ? old_rbp : cfa) +
							   (uint64_t)(int64_t)(r->off[i] * 8));
		at = word(pid, cfa - 8);
		rsp = cfa;
	}
	return n;
}

/* ---- a stop -------------------------------------------------------------- */

static pid_t spawn(void (*run)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		run();
		_exit(0);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (WSTOPSIG(status) == SIGSTOP)
			return pid;
		ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status));
	}
	return -1;
}

static void print_stack(const char *who, const uint64_t *pc, size_t n)
{
	printf("# %s:", who);
	for (size_t i = 0; i < n; i++)
		printf(" %llx%s", (unsigned long long)(pc[i] & WIRE_PC_MASK),
		       pc[i] & WIRE_PC_EXACT ? "!" : "");
	printf("\n");
}

/*
 * The notes, innermost first, must be the end of what raise() calls, in one piece but for libc's
 * frames between.
 */
static void check_notes(const uint64_t *pc, size_t n)
{
	size_t at = 0, found = 0;

	for (size_t k = notes->count; k-- > 0;) {
		while (at < n && pc[at] != notes->pc[k])
			at++;
		found += at < n;
	}
	CHECK_EQ(found, notes->count);
	if (found != notes->count)
		print_stack("notes ", notes->pc, notes->count);
}

static void check_run(void (*run)(void))
{
	struct process p = { .pid = 0 };
	struct user_regs_struct regs;
	struct maps maps;
	struct tables t;
	uint64_t ours[256], pc[256];
	bool complete = false, overlap, walked = false;
	struct unwind_frame frame[256];
	ssize_t frames;
	size_t n;
	int count;

	notes->count = 0;
	p.pid = p.via = spawn(run);
	CHECK(p.pid > 0);
	if (p.pid <= 0)
		return;
	CHECK_EQ(ptrace(PTRACE_GETREGS, p.pid, 0, &regs), 0);
	CHECK_EQ(maps_read(&maps, p.pid), 0);
	CHECK(modules_update(&p.modules, p.pid, NULL, &maps, 1, &overlap) > 0);
	maps_release(&maps);
	frames = unwind_frames(&p, NULL, &regs, frame, 256, &complete);
	CHECK(frames > 5);
	CHECK(complete);
	for (ssize_t i = 0; i + 1 < frames; i++)
		CHECK_EQ(word(p.pid, frame[i].cfa - 8) == frame[i + 1].pc || frame[i + 1].exact, 1);
	count = unwind_stack(&p, &regs, pc, 256);
	CHECK_EQ(count, frames);
	pc[0] |= WIRE_PC_EXACT;
	check_notes(pc, count > 0 ? (size_t)count : 0);
	tables_build(&t, &p.modules);
	n = walk(&t, p.pid, &regs, ours, 256, &walked);
	CHECK(walked);
	CHECK_EQ(n, count);
	CHECK(n == (size_t)count && !memcmp(ours, pc, n * sizeof(*pc)));
	if (test_bad) {
		print_stack("unwind", pc, count > 0 ? (size_t)count : 0);
		print_stack("rules ", ours, n);
	}
	CHECK_EQ(unwind_stack(&p, &regs, pc, 3), 3);
	tables_release(&t);
	modules_release(&p.modules);
	kill(p.pid, SIGKILL);
	waitpid(p.pid, NULL, 0);
}

static void test_plain(void) { check_run(run_plain); }
static void test_realigned(void) { check_run(run_realigned); }
static void test_through_libc(void) { check_run(run_through_libc); }
static void test_signal(void) { check_run(run_signal); }
static void test_signal_alt_stack(void) { check_run(run_signal_alt); }

int main(void)
{
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (notes == MAP_FAILED)
		return 1;
	RUN(test_plain);
	RUN(test_realigned);
	RUN(test_through_libc);
	RUN(test_signal);
	RUN(test_signal_alt_stack);
	backtrace_release();
	return test_status();
}
