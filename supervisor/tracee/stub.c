// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/stub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "arch/abi.h"
#include "base/maps.h"
#include "base/patient.h"
#include "base/proc.h"
#include "tracee/restart.h"
#include "tracee/tracer.h"

/*
 * stub.c - sending a stopped thread through a routine of ours.
 *
 * The thread gets another pc and a lower stack pointer with one PTRACE_SETREGS. The routine saves
 * and restores everything by itself, so there is no instant at which our death would leave the
 * thread with wrong registers. If the thread was in a system call, the registers that the routine
 * returns to are those before the call, so that it is made again.
 *
 * Then all its signals are blocked. A signal that came before the routine's own first call would
 * run a handler first, each system call of which stops for us; with a timer that is shorter than
 * that takes, it would never end. The mask to be restored is on the stack by then, so our death
 * does no harm here either.
 *
 * If we die the thread returns from the routine by itself. Otherwise it is recalled: at the exit
 * from the routine's last call, which restores its signal mask, it gets the very registers that it
 * stopped with, and is interrupted once more, so that the kernel handles the interrupted call as it
 * would have at first: if a signal came meanwhile, a handler runs and the call ends as it should;
 * else it is restarted.
 */

#define CALLS_MOST 10000 /* system call stops until a routine must have ended */
/* a thread that makes no progress for so long is given up */
#define PATIENCE_MS 5000
#define ALL_SIGNALS (~0ull)

/* ---- places -------------------------------------------------------------- */

#define CAVE_MAGIC 0x316b6c73746d0000ull /* "\0\0mtslk1" */
#define TAIL	   1024u
struct cave_head {
	uint64_t magic;
	uint64_t len; /* of what follows */
};

static bool read_tail(pid_t pid, const struct map *m, uint8_t tail[TAIL])
{
	if (!m->exec || !m->read || m->shared || m->end - m->start < TAIL)
		return false;
	return patient_read(pid, m->end - TAIL, tail, TAIL) == (ssize_t)TAIL;
}

/*
 * Whether M stays mapped: it is a file's or the vdso. Anonymous code is a compiler's, which may
 * unmap it, or our own, which is unmapped while the code in the cave runs.
 */
static bool stays(const struct map *m)
{
	return !strcmp(m->path, "[vdso]") || (m->inode && strncmp(m->path, "/memfd:", 7));
}

/* Zero bytes at the end of an executable mapping: the linker's padding, which nothing uses. */
static raddr_t find_room(pid_t pid, size_t need)
{
	struct maps maps;
	raddr_t found = 0;

	if (maps_read(&maps, pid) < 0)
		return 0;
	for (size_t i = 0; i < maps.count && !found; i++) {
		uint8_t tail[TAIL];
		size_t zero = 0;

		if (!stays(&maps.map[i]) || !read_tail(pid, &maps.map[i], tail))
			continue;
		while (zero < sizeof(tail) && tail[sizeof(tail) - 1 - zero] == 0)
			zero++;
		if (zero >= need + 32)
			found = (maps.map[i].end - need) & ~15ull;
	}
	maps_release(&maps);
	return found;
}

int cave_use(pid_t pid, const void *code, size_t len, struct code_cave *cave)
{
	const struct cave_head head = { CAVE_MAGIC, len };
	size_t need = sizeof(head) + len;
	raddr_t at = find_room(pid, need);
	uint8_t *bytes = at ? malloc(need) : NULL;
	int err;

	if (!at)
		return -ENOSPC;
	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + sizeof(head), code, len);
	err = patient_write(pid, at, bytes, need);
	free(bytes);
	*cave = (struct code_cave){ at, at + sizeof(head), at + need };
	return err;
}

int cave_clear(pid_t pid, const struct code_cave *cave)
{
	static const uint8_t zero[TAIL];
	size_t len = cave->end - cave->start;

	return len > sizeof(zero) ? -EINVAL : patient_write(pid, cave->start, zero, len);
}

size_t cave_find(pid_t pid, struct code_cave found[CAVE_MOST])
{
	struct maps maps;
	size_t n = 0;

	if (maps_read(&maps, pid) < 0)
		return 0;
	for (size_t i = 0; i < maps.count && n < CAVE_MOST; i++) {
		struct cave_head head;
		uint8_t tail[TAIL];

		if (!read_tail(pid, &maps.map[i], tail))
			continue;
		for (size_t at = 0; at + sizeof(head) < sizeof(tail); at += 16) {
			raddr_t start = maps.map[i].end - TAIL + at;

			memcpy(&head, tail + at, sizeof(head));
			if (head.magic != CAVE_MAGIC || head.len > sizeof(tail) - at - sizeof(head))
				continue;
			found[n++] = (struct code_cave){ start, start + sizeof(head),
							 start + sizeof(head) + head.len };
			break;
		}
	}
	maps_release(&maps);
	return n;
}

/* ---- there and back ------------------------------------------------------ */

/* What the routine finds on its stack: see `errand` in inject/entry.S. */
struct way_back {
	uint64_t pc, mask;
};

static int divert(struct stub_run *l, struct user_regs_struct regs, raddr_t pc)
{
	const struct way_back back = { regs.rip, l->mask };
	int err;

	regs.rsp -= RED_ZONE + sizeof(back);
	err = patient_write(l->tid, regs.rsp, &back, sizeof(back));
	if (err)
		return err;
	regs.rip = pc;
	regs.orig_rax = (unsigned long long)-1;
	/* one that single-steps itself would end by its trap, as SIGTRAP is blocked */
	regs.eflags &= ~FLAG_TRAP;
	err = tracer_set_regs(l->tid, &regs);
	return err ? err : tracer_set_mask(l->tid, ALL_SIGNALS);
}

/* The routine's calls are its own; SIGSYS for one of them, which it blocks, would be the end. */
static int no_dispatch(struct stub_run *l)
{
	if (tracer_get_dispatch(l->tid, &l->dispatch))
		l->dispatch.mode = 0; /* an older kernel */
	return l->dispatch.mode ? tracer_set_dispatch(l->tid, &(struct tracer_dispatch){ 0 }) : 0;
}

/* The thread is as it was sent, but for its mask. */
static int put_back(struct stub_run *l)
{
	int err = tracer_set_regs(l->tid, &l->was);

	return err || !l->dispatch.mode ? err : tracer_set_dispatch(l->tid, &l->dispatch);
}

int stub_send(struct stub_run *l, pid_t pid, pid_t tid, raddr_t pc, raddr_t lo, raddr_t hi)
{
	struct user_regs_struct regs;
	int err = tracer_get_regs(tid, &regs);

	if (err)
		return err;
	*l = (struct stub_run){ .pid = pid, .tid = tid, .was = regs, .lo = lo, .hi = hi };
	err = tracer_get_mask(tid, &l->mask);
	if (err)
		return err;
	restart_whole(pid, tid, &regs);
	err = no_dispatch(l);
	return err ? err : divert(l, regs, pc);
}

static bool is_within(const struct stub_run *l, raddr_t pc)
{
	return (pc >= l->lo && pc < l->hi) || (pc >= l->more_lo && pc < l->more_hi);
}

/* Runs to the next system call stop; MADE not NULL: or to a new task, *MADE, which is 0 otherwise. */
static int next_stop(struct stub_run *l, struct user_regs_struct *regs, pid_t *made)
{
	struct event e;
	int signal = 0, err;

	for (;;) {
		err = tracer_syscall(l->tid, signal);
		if (err)
			return err;
		err = tracer_wait(l->tid, &e, PATIENCE_MS);
		if (err <= 0)
			return err ? err : -ETIMEDOUT;
		signal = 0;
		if (made)
			*made = e.kind == EVENT_CLONE ? (pid_t)e.value : 0;
		if (made && *made)
			return 0;
		if (e.kind == EVENT_SYSCALL) {
			err = tracer_get_regs(l->tid, regs);
			if (err || is_within(l, regs->rip))
				return err;
		} else if (e.kind == EVENT_SIGNAL)
			signal = e.signal;
		else if (e.kind == EVENT_GONE || tracer_hand_on(&e))
			return -ESRCH;
	}
}

int stub_stop(struct stub_run *l, struct user_regs_struct *regs)
{
	return next_stop(l, regs, NULL);
}

static bool is_entry(const struct user_regs_struct *regs)
{
	return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax == -ENOSYS;
}

int stub_call(struct stub_run *l, int64_t *ret)
{
	struct user_regs_struct regs;
	int err;

	do
		err = stub_stop(l, &regs);
	while (!err && !is_entry(&regs));
	if (!err)
		err = stub_stop(l, &regs); /* exit */
	if (!err)
		*ret = (int64_t)regs.rax;
	return err;
}

int stub_thread(struct stub_run *l, pid_t *made)
{
	struct user_regs_struct regs = { .rax = 0 };
	struct event e;
	int err;

	*made = 0;
	do
		err = next_stop(l, &regs, made);
	while (!err && !*made && (regs.orig_rax != SYS_clone || is_entry(&regs)));
	if (err || !*made)
		return err ? err : (int64_t)regs.rax < 0 ? (int)regs.rax : -EIO;
	err = tracer_wait(*made, &e, PATIENCE_MS);
	if (err <= 0)
		return err ? err : -ETIMEDOUT;
	return e.kind == EVENT_STOP || e.kind == EVENT_GROUP_STOP ? 0 : -ESRCH;
}

/* At rt_sigprocmask that has set a mask and was not asked for the old one: the routines' last. */
static bool is_last_call(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_rt_sigprocmask && regs->rax == 0 && regs->rdx == 0;
}

int stub_recall(struct stub_run *l)
{
	struct user_regs_struct regs;
	int err, calls = 0;

	do
		err = calls++ < CALLS_MOST ? stub_stop(l, &regs) : -ETIMEDOUT;
	while (!err && !is_last_call(&regs));
	if (!err)
		err = tracer_interrupt(l->tid);
	if (!err)
		err = put_back(l);
	if (!err)
		err = tracer_cont(l->tid, 0);
	return err;
}

int stub_take_out(struct stub_run *l, int *signal)
{
	struct user_regs_struct regs;
	int err = tracer_get_regs(l->tid, &regs); /* of a thread that is stopped */

	*signal = 0;
	if (err) {
		err = tracer_halt(l->tid, signal, PATIENCE_MS);
		if (!err)
			err = tracer_get_regs(l->tid, &regs);
	}
	if (!err && !is_within(l, regs.rip)) {
		tracer_cont(l->tid, *signal);
		return -ETIMEDOUT;
	}
	if (!err)
		err = put_back(l);
	return err ? err : tracer_set_mask(l->tid, l->mask);
}

int stub_force(struct stub_run *l)
{
	int signal, err = stub_take_out(l, &signal);

	if (!err)
		err = tracer_interrupt(l->tid);
	return err ? err : tracer_cont(l->tid, signal);
}

int stub_none(pid_t tid, int err)
{
	tracer_interrupt(tid);
	tracer_cont(tid, 0);
	return err;
}
