// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/clock.h"
#include "base/patient.h"
#include "process/preattach_heap.h"
#include "session/session_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/message.h"
#include "base/proc.h"
#include "session/limit_enforce.h"
#include "tracee/agent.h"
#include "tracee/attach_check.h"
#include "tracee/journal.h"
#include "tracee/sigframe.h"
#include "tracee/stub.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * attach.c - getting into a program that runs.
 *
 * Its threads are seized; none of them stops for that. What a former mtrun may have left is taken
 * away first. Then one thread is stopped, wherever it is, and sent through the bootstrap stub
 * (stub.c): a millisecond or so, then it is back where it was. Everything slow happens while the
 * program runs: reading its objects, unwind tables, moving instructions; now and then a thread is
 * borrowed again, to map an island. Last of all threads are stopped once, for as long as it takes
 * to see that none stands in the bytes to be overwritten and to write the jumps.
 *
 * A child that is forked meanwhile is followed in any case, also with --no-follow: it may have
 * inherited what we share with its parent.
 *
 * Other stops are served meanwhile as usual (stops.c): threads come and go, children are forked,
 * the program ends or becomes another by exec.
 */

/* a thread that waits for its vfork child cannot stop: another one is asked */
#define WORKER_HALT_MS 50
/* to find all threads outside of the bytes to be overwritten */
#define PLANT_MS 30000
#define PAUSE_MS 64 /* between two tries, at most */

/* ---- one thread that works for us ---------------------------------------- */

/*
 * The Nth of P's running threads; P's first thread comes last, as it takes the signals to the
 * process (session_stop()). NULL: there are fewer.
 */
static struct thread *nth_running(struct session *s, const struct process *p, size_t n)
{
	struct thread *first = NULL, *found = NULL;
	size_t count = 0;

	for (size_t i = 0; i < s->nthreads; i++) {
		struct thread *t = &s->thread[i];

		if (t->process != p || t->vfork_child || t->state != THREAD_RUNNING)
			continue;
		if (t->tid == p->pid)
			first = t;
		else if (count++ == n)
			found = t;
	}
	if (found || (first && n == count))
		return found ? found : first;
	count += first != NULL;
	return count ? nth_running(s, p, n % count) : NULL;
}

pid_t session_borrow(struct session *s, struct process *p)
{
	uint64_t end = heartbeat_ms() + HALT_MOST;

	for (size_t n = 0; p->state == PROCESS_RUNNING && heartbeat_ms() < end; n++) {
		struct thread *t = nth_running(s, p, n);
		pid_t tid;
		int err;

		if (!t)
			return -ESRCH;
		tid = t->tid;
		if (thread_blocked(t)) {
			session_serve_stops(s);
			usleep(1000);
			continue;
		}
		err = session_halt(s, t, WORKER_HALT_MS);
		t = thread_find(s, tid);
		/* it has become another program meanwhile */
		if (!err && t->process != p) {
			thread_resume(t);
			return -ESRCH;
		}
		if (!err)
			err = session_unfilter(s, tid, true);
		if (!err)
			return tid;
		if (err == -EPERM) {
			thread_resume(thread_find(s, tid));
			return err;
		}
		/* it has ended, or has another number by exec: a stop tells, without which it stays */
		session_serve_stops(s);
	}
	return p->state == PROCESS_RUNNING ? -ETIMEDOUT : -ESRCH;
}

void session_give_back(struct session *s, pid_t tid)
{
	struct thread *t = thread_find(s, tid);

	if (!t)
		return;
	t->state = THREAD_RUNNING;
	t->group = false;
	session_refilter(s, t);
}

static int call_in(void *ctx, struct process *p, struct wire_call *calls, uint32_t n)
{
	struct session *s = ctx;
	pid_t tid;
	int err;

	if (!n)
		return session_serve_stops(s);
	session_hurry(true);
	tid = session_borrow(s, p);
	err = tid < 0 ? (int)tid : agent_call(p, tid, calls, n);
	if (tid > 0)
		session_give_back(s, tid);
	session_serve_stops(s);
	session_hurry(false);
	return err;
}

static int land(struct session *s, struct process *p)
{
	pid_t tid;
	int err;

	session_hurry(true);
	tid = session_borrow(s, p);
	err = tid < 0 ? (int)tid : agent_attach(p, tid, &s->options.agent);
	if (tid > 0)
		session_give_back(s, tid);
	session_serve_stops(s);
	session_hurry(false);
	return err;
}

/* ---- planting ------------------------------------------------------------ */

static bool within(const void *plant, raddr_t pc) { return plant_within(plant, pc); }

/* REGS are those of a blocked thread, whose system call may be made once more. */
static bool returns_within(const struct plant *plant, const struct user_regs_struct *regs)
{
	enum { SYSCALL_BYTES = 2 };

	return plant_covers(plant, regs->rip) || plant_covers(plant, regs->rip - SYSCALL_BYTES);
}

/*
 * All are stopped, or blocked. Moves those within the bytes to be overwritten to the moved
 * instructions. -EAGAIN: a handler will return into those bytes, or the like.
 */
static int step_aside(struct session *s, struct process *p)
{
	bool handlers = sigframe_possible(p->via);

	for (size_t i = 0; i < s->nthreads; i++) {
		const struct thread *t = &s->thread[i];
		struct user_regs_struct regs;

		if (t->process != p || t->state == THREAD_EXITING)
			continue;
		if (thread_regs(t, &regs) < 0)
			return -EAGAIN;
		if (t->state != THREAD_STOPPED && returns_within(&p->plant, &regs))
			return -EAGAIN;
		if (handlers && sigframe_any(p->via, regs.rsp, within, &p->plant))
			return -EAGAIN;
		if (plant_covers(&p->plant, regs.rip) && !plant_moved_pc(&p->plant, regs.rip))
			return -EAGAIN;
	}
	for (size_t i = 0; i < s->nthreads; i++) {
		struct user_regs_struct regs;

		if (s->thread[i].process != p || s->thread[i].state != THREAD_STOPPED ||
		    tracer_get_regs(s->thread[i].tid, &regs) < 0 ||
		    !plant_covers(&p->plant, regs.rip))
			continue;
		regs.rip = plant_moved_pc(&p->plant, regs.rip);
		if (tracer_set_regs(s->thread[i].tid, &regs) < 0)
			return -EAGAIN;
	}
	return 0;
}

/*
 * All are stopped. Children that are forked from now on inherit nothing that we share with P. Those
 * that have its memory go on alone, and are stopped no more before we leave it.
 */
static void leave_children_alone(struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads;) {
		struct thread *t = &s->thread[i];
		bool ours = t->process == p && t->state == THREAD_STOPPED;

		if (ours && t->vfork_child) {
			thread_let_go(t);
			thread_remove(s, t);
			continue;
		}
		if (ours && tracer_flags(t->tid, 0) < 0)
			message_verbose(1, "%d: its children are followed", p->pid);
		i++;
	}
}

static int plant_once(struct session *s, struct process *p)
{
	uint64_t began;
	int err, cont;

	session_hurry(true);
	began = clock_us();
	err = session_stop_within(s, p, session_moment(p));
	if (!err && p->state != PROCESS_STOPPED)
		err = -ESRCH;
	if (err == -ETIMEDOUT)
		err = -EAGAIN;
	if (!err)
		err = session_halt_sharers(s, p);
	if (!err)
		err = step_aside(s, p);
	if (!err)
		err = agent_plant(p);
	if (!err)
		err = agent_arm(p, true);
	if (!err && !s->options.follow)
		leave_children_alone(s, p);
	cont = session_cont(s, p);
	session_paused(p, began);
	session_hurry(false);
	return err ? err : cont;
}

static int plant(struct session *s, struct process *p)
{
	uint64_t end = heartbeat_ms() + PLANT_MS, pause = 1;
	int err = -EAGAIN;

	p->paused_us = 0;
	while (err == -EAGAIN && heartbeat_ms() < end && p->state <= PROCESS_STOPPED) {
		err = plant_once(s, p);
		for (uint64_t until = heartbeat_ms() + pause;
		     err == -EAGAIN && heartbeat_ms() < until;)
			if (session_turn(s, (int)pause) < 0)
				return -ESRCH;
		pause = pause < PAUSE_MS ? 2 * pause : pause;
	}
	if (!err)
		message_verbose(1, "%d: stopped for %.1f ms to plant", p->pid,
				(double)p->paused_us / 1000);
	return err;
}

static bool some_left(const struct plant *plant)
{
	for (size_t i = 0; i < plant->count; i++)
		if (plant->planted[i].later)
			return true;
	return false;
}

/* Looks once more, for libraries that were loaded meanwhile. */
static int plant_all(struct session *s, struct process *p)
{
	int err = 0;

	for (int i = 0; i < 10 && !err && p->state <= PROCESS_STOPPED; i++) {
		err = agent_plan(p, call_in, s, &s->options.agent);
		if (err == -ENOSPC || err == -EBUSY) {
			message_verbose(1, "%d: not everything is supervised: %s", p->pid,
					strerror(-err));
			err = 0;
		}
		if (err || (i && !some_left(&p->plant)))
			break;
		session_adopt_sharers(s, p);
		err = plant(s, p);
	}
	return err;
}

/* ---- one process --------------------------------------------------------- */

/* Takes away what a former mtrun that was killed has left. */
static int take_over(struct session *s, struct process *p)
{
	struct code_cave stray[CAVE_MOST];
	struct leftover left;
	int err = journal_find(p->via, &left);

	if (err == 0 && !cave_find(p->via, stray))
		return 0;
	if (err < 0)
		return err;
	p->agent = left.agent;
	p->plant = left.plant;
	err = session_withdraw(s, p);
	if (session_cont(s, p) < 0)
		err = -ESRCH;
	plant_release(&p->plant);
	p->agent = 0;
	p->left = false;
	if (!err)
		message_verbose(1, "%d: what a former mtrun had left in it is taken away", p->pid);
	return err;
}

/*
 * 0, or -ESRCH: P has ended, or become another program by exec, which is supervised from its start.
 */
static int still(const struct process *p, bool with_agent)
{
	return p->state <= PROCESS_STOPPED && (!with_agent || p->wire) ? 0 : -ESRCH;
}

/*
 * Registers P for membarrier(2). With several threads that takes the kernel some milliseconds: the
 * borrowed thread waits, and the others run.
 */
static void register_fences(struct session *s, struct process *p)
{
	struct wire_call call = { .nr = SYS_membarrier,
				  .arg = { MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED } };
	uint64_t began = clock_us();

	p->fences = call_in(s, p, &call, 1) == 0 && call.ret == 0;
	message_verbose(2, "%d: registered for memory barriers in %.1f ms", p->pid,
			(double)(clock_us() - began) / 1000);
}

static int enter(struct session *s, struct process *p)
{
	int err = take_over(s, p);

	if (!err)
		err = still(p, false);
	if (!err)
		err = land(s, p);
	if (!err)
		err = still(p, true);
	if (!err && session_is_filtered(p->via))
		p->wire->no_syscalls = 1;
	if (!err)
		err = process_listen(s, p);
	if (!err)
		err = plant_all(s, p);
	if (!err)
		err = still(p, true);
	if (!err)
		register_fences(s, p);
	p->attaching = false;
	if (!err)
		limit_enforce_image(s, p);
	if (!err)
		process_describe(p);
	return err;
}

static const char *reason(int err)
{
	switch (err) {
	case -EBUSY: return "a former mtrun's hooks are still in use in it: try again";
	case -EPROTO:
		return "another version of mtrun was killed while it was attached, and left its hooks: use that one once more";
	case -EPERM:
		return "it has a seccomp filter, which only root may set aside for the calls that mtrun needs made in it";
	case -ENOSPC: return "no room for the trampoline was found in it";
	case -E2BIG: return AGENT_NO_ADDRESSES;
	case -EFBIG: return AGENT_NO_FILES;
	case -ETIMEDOUT:
	case -EAGAIN:
		return "some of its threads do not stop, or wait in the kernel, for a vfork child or a device";
	case -ESRCH: return "it has ended";
	default: return strerror(-err);
	}
}

/* False: PID is a child that we have found by ourselves, and it has ended. */
static bool worth_saying(const struct session *s, pid_t pid, int err)
{
	for (size_t i = 0; i < s->options.npids; i++)
		if (s->options.pid[i] == pid)
			return true;
	return err != -ESRCH;
}

/* Takes out what is in P already, and lets it go on alone. */
static void give_up(struct session *s, struct process *p, int err)
{
	if (worth_saying(s, p->pid, err))
		message_error("cannot attach to %d ('%s'): %s", p->pid,
			      p->command ? p->command : "?", reason(err));
	p->unsupervised = reason(err);
	if (!p->agent || p->state > PROCESS_STOPPED)
		return;
	err = session_withdraw(s, p);
	if (session_cont(s, p) < 0 || err)
		message_verbose(1, "%d: it is not left as it was found", p->pid);
}

/* The thread by which /proc is to be read: the process' first, unless that has ended. */
static pid_t thread_to_read(pid_t pid)
{
	char link[4096];
	pid_t *tid, found = pid;
	int n;

	if (patient_link(pid, "exe", link, sizeof(link)) >= 0)
		return pid;
	n = proc_threads(pid, &tid);
	if (n > 0)
		found = tid[n - 1];
	if (n >= 0)
		free(tid);
	return found;
}

static struct process *begin(struct session *s, pid_t pid)
{
	char why[1024];
	struct process *p;
	int err = attach_check(pid, s->options.agent.nhooks > 0, why, sizeof(why));
	pid_t parent = (pid_t)proc_status_field(pid, "PPid");

	if (err) {
		if (worth_saying(s, pid, err))
			message_error("%s", why);
		return NULL;
	}
	if (patient_same_memory(pid, parent)) {
		message_error("cannot attach to %d: it has the memory of %d, its parent: try that",
			      pid, parent);
		return NULL;
	}
	p = process_start(s, pid, parent, NULL);
	if (!p) {
		message_error("out of memory");
		return NULL;
	}
	p->threads = 0;
	p->via = thread_to_read(pid);
	p->ledger_used = p->attached = p->attaching = true;
	process_describe(p);
	err = agent_prepare(p, &s->options.agent);
	if (!err) {
		preattach_heap_measure(&p->preattach, p, NULL, NULL);
		err = session_seize(s, p);
	}
	if (err) {
		err = attach_refused(pid, err, why, sizeof(why));
		if (worth_saying(s, pid, err))
			message_error("%s", why);
		p->unsupervised = "it could not be traced";
		process_finish(s, p, PROCESS_DETACHED, 0);
		return NULL;
	}
	return p;
}

/* ---- several ------------------------------------------------------------- */

static bool is_known(const struct session *s, pid_t pid)
{
	for (const struct process *p = s->processes; p; p = p->next)
		if (p->pid == pid)
			return true;
	return false;
}

/* Begins with the children of processes that we have. True: there were some. */
static bool begin_children(struct session *s)
{
	int fd = proc_open(getpid(), "..", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool more = false;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while ((entry = readdir(dir))) {
		pid_t pid = (pid_t)atoi(entry->d_name), parent;

		if (pid <= 0 || is_known(s, pid))
			continue;
		parent = (pid_t)proc_status_field(pid, "PPid");
		/* one with its parent's memory counts as that (sharers.c) */
		if (!is_known(s, parent) || patient_same_memory(pid, parent))
			continue;
		/* forked just now: its parent's stop will tell */
		if (proc_status_field(pid, "TracerPid") == getpid())
			continue;
		more |= begin(s, pid) != NULL;
	}
	closedir(dir);
	return more;
}

/*
 * Completes all that were begun, also children forked meanwhile. Returns how many are supervised,
 * including those that have become another program by exec.
 */
static size_t enter_all(struct session *s)
{
	size_t n = 0;

	for (struct process *p = s->processes; p; p = p->next) {
		int err;

		if (!p->attaching || p->state > PROCESS_STOPPED)
			continue;
		p->attached = true;
		err = enter(s, p);
		if (err && p->state <= PROCESS_STOPPED)
			give_up(s, p, err);
	}
	for (const struct process *p = s->processes; p; p = p->next)
		n += still(p, true) == 0 && !p->unsupervised;
	return n;
}

static int attach_now(struct session *s)
{
	size_t n = 0;

	if (session_begin_log(s))
		return -EIO;
	s->began = s->started = true;
	for (size_t i = 0; i < s->options.npids; i++) {
		struct process *p = begin(s, s->options.pid[i]);

		if (!p) {
			session_detach(s);
			return -EINVAL;
		}
		if (!s->main)
			s->main = s->chosen = p;
	}
	while (s->options.tree && begin_children(s))
		;
	n = enter_all(s);
	heartbeat_prompt();
	if (n)
		return 0;
	if (s->main && !s->main->unsupervised)
		message_error("cannot attach to %d ('%s'): %s", s->main->pid,
			      s->main->command ? s->main->command : "?", reason(-ESRCH));
	session_detach(s);
	return -EINVAL;
}

static void ask_attach(struct asked *a) { a->ret = attach_now(a->s); }

int session_attach(struct session *s)
{
	return asking_do(s, ask_attach, &(struct asked){ .ret = 0 });
}
