// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/clock.h"
#include "base/patient.h"
#include "process/sampling.h"
#include "session/limit_enforce.h"
#include "session/recorder.h"
#include "session/session_state.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/message.h"
#include "base/proc.h"
#include "tracee/agent.h"
#include "tracee/backtrace.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * control.c - acting on targets: stops and resumes all threads of a process, lends it to another
 * tracer, lets it go, reads its stacks.
 *
 * A thread that is to stop is interrupted and stays wherever it next reports a stop; a signal that
 * came with it is delivered when the thread goes on. Rings and questions are served meanwhile: a
 * thread that waits for us would never come to its stop.
 *
 * A thread that waits in the kernel uninterruptibly (for its vfork child's exec, for a device)
 * reports only when that is over. It counts as stopped: once interrupted it cannot execute anything
 * before it has reported, and if its process is still stopped then, it stays (stops.c).
 */

/* ---- acting on the target ------------------------------------------------ */

bool thread_blocked(const struct thread *t) { return proc_state(t->tid) == 'D'; }

bool thread_awaits_child(const struct thread *t)
{
	raddr_t rsp, pc;
	long nr;

	return thread_blocked(t) && patient_sleeping(t->tid, &nr, &rsp, &pc) &&
	       (nr == SYS_vfork || nr == SYS_clone || nr == SYS_clone3);
}

/*
 * Whether all of P's threads but BUT, which were interrupted, are stopped; or IS_STILL, unless that
 * is NULL.
 */
static bool all_stopped(const struct session *s, const struct process *p, pid_t but,
			bool (*is_still)(const struct thread *t))
{
	for (size_t i = 0; i < s->nthreads; i++) {
		const struct thread *t = &s->thread[i];

		if (t->process == p && t->tid != but && !t->vfork_child &&
		    t->state != THREAD_STOPPED && t->state != THREAD_EXITING &&
		    !(is_still && is_still(t)))
			return false;
	}
	return true;
}

#define STOP_MS	   5000
#define SHORT_US   2000
#define BLOCKED_US 50000 /* a page is read from a disk, or the like: that is waited for, */
#define AWAITS_US  2000	 /* but no vfork child */

/* Where so many threads are to stop, they need the processors more than mtrun does. */
#define CROWD	 100
#define CROWD_US 5 /* for so many of them mtrun sleeps a microsecond between two looks */

/*
 * Waits a moment for stops; the waiting began at BEGAN. Threads that have stopped wait, too, so
 * rings are read only if it takes long.
 */
static void await_stop(struct session *s, uint64_t began)
{
	unsigned threads = s->stopping ? s->stopping->threads : 0;

	if (session_serve_stops(s)) {
		if (threads > CROWD)
			usleep(threads / CROWD_US);
		return;
	}
	if (clock_us() - began > SHORT_US) {
		session_serve_questions(s);
		session_serve_rings(s);
	}
	usleep(20);
}

static void await_stopped(struct session *s, const struct process *p, pid_t but, uint64_t end)
{
	bool (*is_still)(const struct thread *t) = NULL;
	uint64_t began = clock_us();

	while (!all_stopped(s, p, but, is_still) && heartbeat_ms() < end) {
		uint64_t us = clock_us() - began;

		is_still = us > BLOCKED_US  ? thread_blocked
			   : us > AWAITS_US ? thread_awaits_child
					    : NULL;
		await_stop(s, began);
	}
}

/*
 * The kernel gives a signal to the process to its first thread if that can take it, else to any,
 * whose system call then ends with EINTR as it never would have. So the first thread is stopped
 * last, and resumed first: it runs alone until it has taken the signals that have come meanwhile.
 */
int session_stop_most(struct session *s, struct process *p, unsigned ms)
{
	uint64_t end = heartbeat_ms() + ms;
	const struct thread *first;

	if (p->state == PROCESS_STOPPED || p->state == PROCESS_HELD)
		return 0;
	if (p->state != PROCESS_RUNNING)
		return -ESRCH;
	if (p->lent)
		return -EUSERS;
	s->stopping = p;
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && !s->thread[i].vfork_child &&
		    s->thread[i].state == THREAD_RUNNING && s->thread[i].tid != p->pid)
			tracer_interrupt(s->thread[i].tid);
	await_stopped(s, p, p->pid, end);
	first = thread_find(s, p->pid);
	if (first && first->process == p && first->state == THREAD_RUNNING)
		tracer_interrupt(first->tid);
	await_stopped(s, p, 0, end);
	s->stopping = NULL;
	if (p->state == PROCESS_RUNNING)
		p->state = PROCESS_STOPPED;
	if (p->state > PROCESS_HELD)
		return -ESRCH;
	return all_stopped(s, p, 0, thread_blocked) ? 0 : -ETIMEDOUT;
}

#define STOPS_IN_MS 4 /* threads that stop in a millisecond, at least: mostly it is 40 */

unsigned session_moment(const struct process *p) { return MOMENT_MS + p->threads / STOPS_IN_MS; }

int session_stop_within(struct session *s, struct process *p, unsigned ms)
{
	int err = session_stop_most(s, p, ms);

	if (err == -ETIMEDOUT && session_cont(s, p) < 0)
		return -ESRCH;
	return err;
}

const char *session_stop_error(int err)
{
	switch (err) {
	case -ETIMEDOUT: return "some of its threads do not stop; it runs on";
	case -EUSERS: return "LeakSanitizer looks at it just now: ask again when it has done";
	default: return strerror(-err);
	}
}

int session_halt(struct session *s, struct thread *t, int ms)
{
	uint64_t end = heartbeat_ms() + (uint64_t)ms, began = clock_us();
	pid_t tid = t->tid;
	int err = tracer_interrupt(tid);

	s->halting = tid;
	while (!err) {
		t = thread_find(s, tid);
		if (!t || t->state == THREAD_EXITING)
			err = -ESRCH;
		else if (t->state == THREAD_STOPPED)
			break;
		else if (heartbeat_ms() >= end)
			err = -EAGAIN;
		else
			await_stop(s, began);
	}
	s->halting = 0;
	return err;
}

/* While it is attached to, also the children are followed that are not afterwards. */
static unsigned child_flags(const struct session *s, const struct process *p)
{
	return s->options.follow || (p && p->attaching) ? TRACE_CHILDREN : 0;
}

int session_unfilter(struct session *s, pid_t tid, bool on)
{
	const struct thread *t = thread_find(s, tid);
	unsigned flags = child_flags(s, t ? t->process : NULL);

	if (!session_is_filtered(tid))
		return 0;
	return tracer_flags(tid, on ? flags | TRACE_UNFILTERED : flags) < 0 ? -EPERM : 0;
}

void session_filter(struct session *s, pid_t tid)
{
	if (session_unfilter(s, tid, false) < 0)
		message_verbose(1, "%d: its seccomp filters come back when mtrun leaves", tid);
}

void session_refilter(struct session *s, struct thread *t)
{
	pid_t tid = t->tid;

	if (!session_is_filtered(tid) || session_halt(s, t, HALT_MOST) < 0)
		return;
	session_filter(s, tid);
	thread_resume(thread_find(s, tid));
}

void session_hurry(bool on)
{
	static struct sched_param before;
	static int policy = -1, nice_before;
	struct sched_param first = { .sched_priority = 1 };

	if (on && policy < 0) {
		policy = sched_getscheduler(0);
		nice_before = getpriority(PRIO_PROCESS, 0);
		if (sched_getparam(0, &before) < 0 ||
		    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) < 0)
			setpriority(PRIO_PROCESS, 0, -20);
	} else if (!on && policy >= 0) {
		sched_setscheduler(0, policy, &before);
		setpriority(PRIO_PROCESS, 0, nice_before);
		heartbeat_prompt();
		policy = -1;
	}
}

static int stop_now(struct session *s, struct process *p)
{
	return session_stop_within(s, p, STOP_MS);
}

static void ask_stop(struct asked *a) { a->ret = stop_now(a->s, a->p); }

int session_stop(struct session *s, struct process *p)
{
	return asking_do(s, ask_stop, &(struct asked){ .p = p });
}

#define SIGNALS_US 2000

/* Whether signals to the process are pending that its first thread does not block. */
static bool signals_for(pid_t pid)
{
	char *status;
	bool some;

	if (proc_read(pid, "status", &status) < 0)
		return false;
	some = status_mask(status, "ShdPnd") & ~status_mask(status, "SigBlk");
	free(status);
	return some;
}

static int cont_now(struct session *s, struct process *p)
{
	struct thread *first;

	if (p->state != PROCESS_STOPPED)
		return 0;
	p->state = PROCESS_RUNNING;
	p->resumed++;
	p->stays = false;
	first = thread_find(s, p->pid);
	if (first && first->process == p && first->state == THREAD_STOPPED) {
		uint64_t end = clock_us() + SIGNALS_US;

		thread_resume(first);
		while (signals_for(p->pid) && clock_us() < end && p->state == PROCESS_RUNNING)
			if (!session_serve_stops(s))
				usleep(20);
	}
	for (size_t i = 0; i < s->nthreads; i++) {
		struct thread *t = &s->thread[i];

		if (t->process == p && t->state == THREAD_STOPPED)
			thread_resume(t);
	}
	return 0;
}

static void ask_cont(struct asked *a) { a->ret = cont_now(a->s, a->p); }

int session_cont(struct session *s, struct process *p)
{
	limit_await_told(s, p);
	return asking_do(s, ask_cont, &(struct asked){ .p = p });
}

/*
 * Sends SIG to P and lets it run. SIGKILL ends each stop by itself: a thread must not be resumed
 * after it, as it may be at its last instant by then.
 */
static int kill_process(struct session *s, struct process *p, int sig)
{
	if (kill(p->pid, sig) < 0)
		return -errno;
	if (sig != SIGKILL)
		return session_cont(s, p);
	if (p->state == PROCESS_STOPPED) {
		p->state = PROCESS_RUNNING;
		p->resumed++;
		p->stays = false;
	}
	for (size_t i = 0; i < s->nthreads; i++) {
		struct thread *t = &s->thread[i];

		if (t->process == p && t->state == THREAD_STOPPED)
			*t = (struct thread){ .tid = t->tid,
					      .process = p,
					      .state = THREAD_RUNNING,
					      .vfork_child = t->vfork_child };
	}
	return 0;
}

static int kill_now(struct session *s, int sig)
{
	struct process *p = s->chosen;

	return !p || p->state > PROCESS_STOPPED ? -ESRCH : kill_process(s, p, sig);
}

static void ask_kill(struct asked *a) { a->ret = kill_now(a->s, (int)a->number); }

int session_kill(struct session *s, int sig)
{
	limit_await_told(s, s->chosen);
	return asking_do(s, ask_kill, &(struct asked){ .number = (uint64_t)sig });
}

static void kill_all(struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next) {
		if (p->state > PROCESS_STOPPED)
			continue;
		if (kill_process(s, p, SIGKILL))
			message_verbose(1, "%d: it is not killed", p->pid);
	}
}

static void ask_kill_all(struct asked *a) { kill_all(a->s); }

void session_kill_all(struct session *s)
{
	asking_do(s, ask_kill_all, &(struct asked){ .ret = 0 });
}

static void ask_limit_kill(struct asked *a)
{
	a->s->limit_killed = true;
	kill_all(a->s);
}

void session_limit_kill(struct session *s)
{
	asking_do(s, ask_limit_kill, &(struct asked){ .ret = 0 });
}

/* Kills the program named, unless it has ended; its children live on, as they would without us. */
static int restart_now(struct session *s)
{
	struct process *p = s->main;
	uint64_t end = heartbeat_ms() + 5000;

	int err = 0;

	session_hold(s, false);
	s->restarting = true;
	if (p)
		session_checked(s, p);
	if (p && p->state <= PROCESS_STOPPED)
		err = kill_process(s, p, SIGKILL);
	while (p && p->state <= PROCESS_HELD && !err)
		err = heartbeat_ms() < end ? session_turn(s, 20) : -ETIMEDOUT;
	s->restarting = false;
	if (err)
		return err;
	s->main_ended = s->detached = s->began = s->started = s->refused = s->limit_killed = false;
	s->launched = 0;
	return 0;
}

static void ask_restart(struct asked *a) { a->ret = restart_now(a->s); }

int session_restart(struct session *s)
{
	limit_await_told(s, NULL);
	return asking_do(s, ask_restart, &(struct asked){ .ret = 0 });
}

static int lend_now(struct session *s, struct process *p)
{
	bool was_running = p->state == PROCESS_RUNNING;
	int err = session_stop(s, p);

	/* we cannot detach from a blocked thread, so another tracer could not have it */
	if (!err && !all_stopped(s, p, 0, NULL))
		err = was_running && session_cont(s, p) < 0 ? -ESRCH : -ETIMEDOUT;
	if (err)
		return err;
	for (size_t i = 0; i < s->nthreads; i++) {
		struct thread *t = &s->thread[i];

		if (t->process != p || t->vfork_child)
			continue;
		thread_let_go(t);
		t->signal = 0;
		t->group = false;
		t->state = THREAD_LENT;
	}
	p->state = PROCESS_RUNNING;
	p->lent = true;
	p->lent_loaded = false;
	return 0;
}

static void ask_lend(struct asked *a) { a->ret = lend_now(a->s, a->p); }

int session_lend(struct session *s, struct process *p)
{
	limit_await_told(s, p);
	return asking_do(s, ask_lend, &(struct asked){ .p = p });
}

#define CATCH_UP_TRIES 50

/*
 * Threads may start while we look: so it looks again until there is no new one. None can be seized
 * while one of them executes a program that does not come.
 */
int session_seize_threads(struct session *s, struct process *p, pid_t pid, bool sharer)
{
	unsigned flags = child_flags(s, p);
	bool more = true;
	int n = 0, err = 0;
	pid_t *tid;

	while (more && err != -ETIMEDOUT) {
		more = false;
		n = proc_threads(pid, &tid);
		for (int i = 0; i < n && err != -ETIMEDOUT; i++) {
			struct thread *t;
			int got = thread_find(s, tid[i]) ? -EBUSY : tracer_seize(tid[i], flags);

			if (got == -ETIMEDOUT || (got && got != -EBUSY && !err))
				err = got;
			t = got ? NULL : thread_add(s, tid[i], p, THREAD_RUNNING);
			if (t)
				t->vfork_child = sharer;
			more |= t != NULL;
			p->threads += !got && !sharer;
		}
		if (n >= 0)
			free(tid);
	}
	return n < 0 ? n : err;
}

int session_seize(struct session *s, struct process *p)
{
	int err = session_seize_threads(s, p, p->pid, false);

	if (p->threads && !thread_find(s, p->pid)) /* its first thread has ended already */
		p->via = s->thread[s->nthreads - 1].tid;
	if (err == -ETIMEDOUT)
		return -EINPROGRESS;
	return p->threads ? 0 : err ? err : -ESRCH;
}

static int refresh_stopped(struct session *s, struct process *p)
{
	raddr_t *pc = calloc(s->nthreads + 1, sizeof(*pc));
	struct user_regs_struct regs;
	size_t n = 0;
	int err = pc ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->nthreads && !err; i++) {
		if (s->thread[i].process != p)
			continue;
		if (s->thread[i].vfork_child || tracer_get_regs(s->thread[i].tid, &regs) < 0)
			err = -EBUSY;
		else
			pc[n++] = regs.rip;
	}
	if (!err)
		err = agent_refresh_stopped(p, pc, n, &s->options.agent);
	free(pc);
	return err;
}

/* Plants hooks in libraries that were loaded while another tracer had P. */
static void catch_up(struct session *s, struct process *p)
{
	int err = -EBUSY;

	for (unsigned tries = 0;
	     tries < CATCH_UP_TRIES && err == -EBUSY && p->wire && session_stop(s, p) == 0;
	     tries++) {
		err = refresh_stopped(s, p);
		if (session_cont(s, p) < 0)
			return;
		if (err == -EBUSY && session_turn(s, 1) < 0)
			return;
	}
	if (err)
		message_verbose(
			1,
			"%d: libraries loaded meanwhile are not supervised before the next ones: %s",
			p->pid, strerror(-err));
}

static int take_back_now(struct session *s, struct process *p)
{
	bool alive = p->state == PROCESS_RUNNING;

	process_unlend(s, p);
	p->threads = 0;
	if (!alive)
		return -ESRCH;
	if (session_seize(s, p) == 0) {
		if (p->lent_loaded)
			catch_up(s, p);
		return 0;
	}
	session_serve_stops(s);
	if (kill(p->pid, 0) < 0 || proc_status_field(p->pid, "Tgid") != p->pid) {
		process_finish(s, p, PROCESS_EXITED, 0);
		process_close(s, p);
		return -ESRCH;
	}
	return -EPERM;
}

static void ask_take_back(struct asked *a) { a->ret = take_back_now(a->s, a->p); }

int session_take_back(struct session *s, struct process *p)
{
	return asking_do(s, ask_take_back, &(struct asked){ .p = p });
}

/* Of a blocked thread the kernel tells only its stack pointer and pc. 0 or -errno. */
static int blocked_regs(const struct thread *t, struct user_regs_struct *regs)
{
	raddr_t rsp, pc;
	long nr;

	if (!patient_sleeping(t->tid, &nr, &rsp, &pc))
		return -EBUSY;
	*regs = (struct user_regs_struct){ .rsp = rsp, .rip = pc };
	return 0;
}

int thread_regs(const struct thread *t, struct user_regs_struct *regs)
{
	int err = tracer_get_regs(t->tid, regs);

	return err && t->state == THREAD_RUNNING ? blocked_regs(t, regs) : err;
}

static bool is_landing(const struct session *s, const struct thread *t)
{
	return t->tid == s->landed.tid && t->process->pid == s->landed.pid && !t->process->resumed;
}

static int regs_of(const struct session *s, const struct thread *t, struct user_regs_struct *regs)
{
	int err = thread_regs(t, regs);

	if (is_landing(s, t))
		*regs = s->landed.was;
	return err;
}

#define BT_FRAMES 1024

static int bt_now(struct session *s, struct process *p, pid_t tid,
		  void (*fn)(void *ctx, const struct bt_thread *t), void *ctx)
{
	bool was_running = p->state == PROCESS_RUNNING;
	uint64_t pc[BT_FRAMES];
	int err = session_stop(s, p), found = 0;

	if (err)
		return err;
	patient_hurry(was_running);
	for (size_t i = 0; i < s->nthreads; i++) {
		const struct thread *t = &s->thread[i];
		struct bt_thread b = { .tid = t->tid, .pc = pc };
		struct user_regs_struct regs;
		int n;

		if (t->process != p || t->vfork_child || (tid && t->tid != tid) ||
		    regs_of(s, t, &regs) < 0)
			continue;
		n = unwind_stack(p, &regs, pc, BT_FRAMES);
		b.count = n > 0 ? (size_t)n : 0;
		proc_name(p->pid, t->tid, b.name);
		fn(ctx, &b);
		found++;
	}
	patient_hurry(false);
	err = was_running ? session_cont(s, p) : 0;
	return err ? err : found || !tid ? 0 : -ESRCH;
}

static void ask_bt(struct asked *a)
{
	a->ret = bt_now(a->s, a->p, (pid_t)a->number, a->each, a->ctx);
}

int session_bt(struct session *s, struct process *p, pid_t tid,
	       void (*fn)(void *ctx, const struct bt_thread *t), void *ctx)
{
	return asking_do(s, ask_bt,
			 &(struct asked){
				 .p = p, .number = (uint64_t)tid, .each = fn, .ctx = ctx });
}

static void sample_now(struct session *s, uint64_t period)
{
	s->options.agent.sample = period;
	if (period)
		s->options.sampled = period;
	for (struct process *p = s->processes; p; p = p->next)
		sampling_switch(p, period);
}

static void ask_sample(struct asked *a) { sample_now(a->s, a->number); }

void session_sample(struct session *s, uint64_t period)
{
	asking_do(s, ask_sample, &(struct asked){ .number = period });
}

static int record_now(struct session *s, enum mode mode, char *why, size_t len)
{
	int err = modes[mode].logged ? recorder_on(s, why, len) : 0;

	if (err)
		return err;
	if (!modes[mode].logged)
		recorder_off(s);
	s->options.mode = mode;
	s->was_off |= modes[mode].off;
	err = modes[mode].off ? off_begin(s) : off_end(s);
	for (struct process *p = s->processes; p; p = p->next)
		if (!modes[mode].off && ledger_compact(p->ledger, modes[mode].compact))
			err = -ENOMEM;
	if (err)
		snprintf(why, len, "%s", strerror(-err));
	return err;
}

static void ask_record(struct asked *a)
{
	a->ret = record_now(a->s, (enum mode)a->number, a->why, a->len);
}

/*
 * A file ends with the symbols of all its stacks. What of them is still missing is looked up while
 * the loop turns, so that it is little when the file is completed.
 */
static void await_symbols(struct session *s)
{
	uint64_t n = recorder_hurry(s);

	while (asking_is_asker(s) && !recorder_told(s, n) && session_turn(s, 20) == 0)
		;
}

int session_record(struct session *s, enum mode mode, char *why, size_t len)
{
	if (!modes[mode].logged)
		await_symbols(s);
	return asking_do(s, ask_record, &(struct asked){ .number = mode, .why = why, .len = len });
}

int session_rotate_log(struct session *s, char *why, size_t len)
{
	int err;

	await_symbols(s);
	if (!recorder_is_on(s)) {
		snprintf(why, len, "an error has ended it");
		return -EIO;
	}
	err = recorder_rotate(s, why, len);
	if (err)
		session_log_ended(s);
	return err;
}

int session_log_dir(struct session *s, const char *dir, char *why, size_t len)
{
	char *copy = strdup(dir), *before;
	struct stat st;
	int err = 0;

	if (!copy || stat(dir, &st) < 0)
		err = errno;
	else if (!S_ISDIR(st.st_mode))
		err = ENOTDIR;
	else if (access(dir, W_OK | X_OK) < 0)
		err = errno;
	if (err) {
		snprintf(why, len, "no files can be made in '%s': %s", dir, strerror(err));
		free(copy);
		return -err;
	}
	before = s->log_dir;
	s->options.log_dir = s->log_dir = copy;
	err = recorder_is_on(s) ? session_rotate_log(s, why, len) : 0;
	if (err) {
		copy = before;
		before = s->log_dir;
		s->options.log_dir = s->log_dir = copy;
	}
	free(before);
	return err;
}

void session_each_log(struct session *s, void (*fn)(void *ctx, const char *path, uint64_t bytes),
		      void *ctx)
{
	recorder_files(s, fn, ctx);
}

void session_log_size(struct session *s, uint64_t size) { s->options.log_size = size; }

void session_log_files(struct session *s, uint32_t files)
{
	s->options.log_files = files;
	recorder_keep(s);
}

void session_log_ended(struct session *s) { s->options.mode = mode_logged(s->options.mode, false); }

bool session_log_failed(const struct session *s) { return s->log_failed; }

static void close_log_now(struct session *s) { recorder_off(s); }

static void ask_close_log(struct asked *a) { close_log_now(a->s); }

void session_close_log(struct session *s)
{
	asking_do(s, ask_close_log, &(struct asked){ .ret = 0 });
}

static void free_stacks_now(struct session *s, bool on)
{
	s->options.agent.free_stacks = on;
	for (struct process *p = s->processes; p; p = p->next)
		if (p->wire) {
			__atomic_store_n(&p->wire->free_stacks, on, __ATOMIC_RELAXED);
			ledger_keep_freed(p->ledger, on);
		}
}

static void ask_free_stacks(struct asked *a) { free_stacks_now(a->s, a->number); }

void session_free_stacks(struct session *s, bool on)
{
	asking_do(s, ask_free_stacks, &(struct asked){ .number = on });
}
