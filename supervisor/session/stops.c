// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/session_state.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/proc.h"
#include "process/errors.h"
#include "tracee/agent.h"
#include "tracee/fault_fixup.h"
#include "tracee/restart.h"
#include "tracee/stub.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * stops.c - what a stop means for the records of threads and processes.
 *
 * Threads. Each traced thread has a record. A new one is announced by its parent's stop and reports
 * a first stop of its own; either may come first, so an unannounced tracee that stops waits until
 * it is announced, or nobody is left who could. kcmp(2), not the event, says whether it is a
 * thread, a child with memory of its own, or a vfork child that uses its parent's until exec.
 *
 * Processes. exec makes a new record (exec.c). What a thread's last instant means for its process:
 * last_instant.c.
 */

/* ---- new threads and children -------------------------------------------- */

/* (Both are stopped, so neither keeps us waiting.) OTHERWISE: the answer if one is gone. */
static bool same_memory(pid_t a, pid_t b, bool otherwise)
{
	long r = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);

	return r < 0 ? otherwise : r == 0;
}

/* Whether TID is a thread of PID; OTHERWISE: the answer if TID is gone. */
static bool same_process(pid_t pid, pid_t tid, bool otherwise)
{
	long group = proc_status_field(tid, "Tgid");

	return group > 0 ? group == pid : otherwise;
}

/*
 * A child with memory of its own, stopped at its beginning: it inherits the table that its parent
 * had at the fork.
 */
static void begin_child(struct session *s, struct thread *t)
{
	struct process *p = t->process;
	struct process *parent = p->parent;
	bool filtered = session_is_filtered(t->tid);
	pid_t tid = t->tid;
	struct stub_run l;
	int err = -ESRCH;

	t->state = THREAD_RUNNING;
	p->parent = NULL;
	/* we cannot know how much of our part it has inherited by now: we attach to it, too */
	if (parent && parent->attaching) {
		plant_release(&p->plant);
		p->preattach = parent->preattach;
		p->attaching = true;
	}
	if (p->attaching || !parent || !parent->agent || !parent->wire) {
		tracer_cont(t->tid, 0);
		return;
	}
	if (filtered && session_unfilter(s, tid, true) < 0) {
		tracer_cont(tid, 0);
		session_cannot_supervise(s, p, SESSION_FILTERED);
		return;
	}
	err = agent_inherit(p, parent, tid, filtered ? &l : NULL);
	if (filtered) {
		int out = session_give_back_filters(s, tid, err ? NULL : &l, 0);

		err = err ? err : out;
	}
	if (!err)
		err = process_listen(s, p);
	if (err && err != -ESRCH)
		session_cannot_supervise(s, p, session_stub_error(err));
}

static void begin(struct session *s, struct thread *t)
{
	if (t->process->parent && t->process->pid == t->tid && !t->vfork_child) {
		begin_child(s, t);
		return;
	}
	if (s->stopping == t->process && !t->vfork_child) {
		t->state = THREAD_STOPPED;
		return;
	}
	t->state = THREAD_RUNNING;
	tracer_cont(t->tid, 0);
}

/*
 * The record of TID, which OF has forked: it inherits the table, unless OF is off. NULL: out of
 * memory.
 */
static struct process *fork_record(struct session *s, struct process *of, pid_t tid)
{
	struct ledger *ledger = NULL;
	struct process *p;

	if (of->stream)
		stream_settle(of->stream, heartbeat_ms(), false);
	if (!of->off) {
		ledger = ledger_fork(of->ledger);
		if (!ledger)
			return NULL;
	}
	p = process_start(s, tid, of->pid, ledger);
	if (p)
		p->off = of->off;
	return p;
}

/* Whether there is a live thread TID, which may be another one by now. */
static bool is_alive(pid_t tid)
{
	char state = proc_state(tid);

	return state && state != 'Z' && state != 'X';
}

#define ORPHAN_MS   200	 /* if its parent is no live process of ours */
#define ANNOUNCE_MS 2000 /* if it is one, which may have become another program */

/* TID is no tracee any more, and was not announced yet. */
static void note_early(struct session *s, pid_t tid, bool let_go, int status)
{
	uint64_t now = heartbeat_ms();
	size_t kept = 0;

	/* drops what nobody will ask for any more */
	for (size_t i = 0; i < s->early_ends; i++)
		if (s->early_end[i].ms + 2 * ANNOUNCE_MS > now)
			s->early_end[kept++] = s->early_end[i];
	s->early_ends = kept;
	if (array_room(&s->early_end, s->early_ends, &s->early_room, sizeof(*s->early_end)))
		return;
	s->early_end[s->early_ends++] = (struct early){ tid, let_go, status, now };
}

/* Whether that was noted of TID: takes it out, into *E. */
static bool was_early(struct session *s, pid_t tid, bool let_go, struct early *e)
{
	for (size_t i = s->early_ends; i-- > 0;)
		if (s->early_end[i].tid == tid && s->early_end[i].let_go == let_go) {
			*e = s->early_end[i];
			s->early_end[i] = s->early_end[--s->early_ends];
			return true;
		}
	return false;
}

/* A child or a thread that was killed before its parent's stop told of it. */
static bool gone_before(struct session *s, pid_t tid, int *status)
{
	struct early e;

	if (!was_early(s, tid, false, &e))
		return false;
	*status = e.status;
	return !is_alive(tid);
}

bool session_gone(struct session *s, pid_t pid, int *status)
{
	const struct process *p = s->main;

	if (p && p->pid == pid && p->state == PROCESS_EXITED) {
		*status = p->wait_status;
		return true;
	}
	return gone_before(s, pid, status);
}

/* Whether TID is the only thread with P's memory. */
static bool is_alone(const struct session *s, const struct process *p, pid_t tid)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && s->thread[i].tid != tid)
			return false;
	return true;
}

/* ---- orphans ------------------------------------------------------------- */

/*
 * A thread can be killed between making a child and the stop that announces it, by exit_group(), a
 * signal or another thread's exec. The child is there, stopped, and will never be announced. The
 * hooks in its copy of the memory are inert, as in any child that we have not caught; it is let go,
 * and runs on unsupervised.
 */
static bool is_orphan(const struct session *s, const struct thread *t, pid_t *ppid)
{
	uint64_t waited = heartbeat_ms() - t->since_ms;

	if (waited < ORPHAN_MS)
		return false;
	*ppid = (pid_t)proc_status_field(t->tid, "PPid");
	/* a thread ends with the others */
	if (*ppid <= 0 || proc_status_field(t->tid, "Tgid") != t->tid)
		return false;
	for (const struct process *p = s->processes; p && waited < ANNOUNCE_MS; p = p->next)
		if (p->pid == *ppid && p->state <= PROCESS_STOPPED)
			return false;
	return true;
}

static void let_orphan_go(struct session *s, struct thread *t, pid_t ppid)
{
	static const char why[] = "its parent ended in the middle of making it";
	pid_t tid = t->tid;

	note_early(s, tid, true, 0);
	message_verbose(1, "%d runs unsupervised: %s", (int)tid, why);
	process_let_go(s, tid, ppid, why);
	tracer_detach(tid, 0);
	thread_remove(s, thread_find(s, tid));
}

/* Returns how many there were. */
static int let_orphans_go(struct session *s)
{
	bool more = false;
	int n = 0;

	for (size_t i = 0; s->unannounced && i < s->nthreads;) {
		struct thread *t = &s->thread[i];
		pid_t ppid;

		if (t->state != THREAD_UNANNOUNCED) {
			i++;
		} else if (!is_orphan(s, t, &ppid)) {
			more = true;
			i++;
		} else if (s->limit_killed) {
			kill(t->tid, SIGKILL);
			i++;
		} else {
			let_orphan_go(s, t, ppid);
			n++;
		}
	}
	s->unannounced = more;
	return n;
}

/* ---- announcements ------------------------------------------------------- */

static void on_new(struct session *s, const struct event *e, struct thread *parent)
{
	pid_t tid = (pid_t)e->value;
	struct process *of = parent->process, *p = of;
	/* a thread that is ending has no memory that could be compared */
	bool thread = same_process(of->pid, tid, e->kind == EVENT_CLONE),
	     shared = thread || same_memory(e->tid, tid, e->kind != EVENT_FORK);
	struct thread *t = thread_find(s, tid);
	bool waits = t && t->state == THREAD_UNANNOUNCED;
	bool ends = t && t->state == THREAD_EXITING;
	struct early early;
	int status;

	if (!t && was_early(s, tid, true, &early)) /* its parent was only late */
		return;
	if (shared && !waits && gone_before(s, tid, &status))
		return;
	if (!shared) {
		p = fork_record(s, of, tid);
		if (p) {
			p->ledger_used = true;
			p->parent = of;
			errors_inherit(p, of, is_alone(s, of, parent->tid), heartbeat_ms());
			p->command = of->command ? strdup(of->command) : NULL;
			p->command_line = of->command_line ? strdup(of->command_line) : NULL;
			p->exe = of->exe ? strdup(of->exe) : NULL;
			p->image_bytes = of->image_bytes;
			p->preattach = of->preattach; /* it has that heap, too */
			if (modules_copy(&p->modules, &of->modules) < 0 ||
			    plant_copy(&p->plant, &of->plant) < 0)
				p->parent = NULL;
		} else
			p = of;
	} else if (thread && !ends)
		of->threads++;
	if (t) {
		t->process = p;
		t->state = ends ? THREAD_EXITING : THREAD_NEW;
	} else
		t = thread_add(s, tid, p, THREAD_NEW);
	if (!t)
		return;
	if (!waits && !shared && p != of && gone_before(s, tid, &status)) {
		process_finish(s, p, PROCESS_EXITED, status);
		process_close(s, p);
		thread_remove(s, t);
		return;
	}
	if (s->limit_killed && !shared)
		kill(tid, SIGKILL);
	t->vfork_child = shared && !thread;
	if (waits)
		begin(s, t);
}

/* ---- ends ---------------------------------------------------------------- */

/* Our child, which we do not trace any more, has ended: drops the records of its threads. */
static void on_untraced_gone(struct session *s, struct process *p, int status)
{
	if (p->state == PROCESS_DETACHED) {
		p->state = PROCESS_EXITED;
		s->main_ended |= p == s->main;
	} else {
		process_finish(s, p, PROCESS_EXITED, status);
	}
	p->wait_status = status;
	process_close(s, p);
	process_unlend(s, p);
}

/*
 * The kernel tells of the first thread's end when all others have ended. A thread that was killed
 * in the middle of its exec has the first one's id by then, and its own end is never told.
 */
static void remove_threads(struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads;)
		if (s->thread[i].process == p && !s->thread[i].vfork_child)
			thread_remove(s, &s->thread[i]);
		else
			i++;
}

static void on_gone(struct session *s, struct thread *t, const struct event *e)
{
	struct process *p = t->process;
	bool whole = p && !t->vfork_child && t->tid == p->pid,
	     waits = p && (p->to_check || p->lingers || (s->held && p == s->main));

	if (t->state == THREAD_LENT && t->tid == p->pid) {
		on_untraced_gone(s, p, (int)e->value);
		return;
	}
	if (t->tid == s->held)
		s->held = 0;
	if (p && t->tid == p->lingers)
		p->lingers = 0;
	if (!p)
		note_early(s, t->tid, false, (int)e->value);
	if (p && !t->vfork_child) {
		if (t->state != THREAD_EXITING && p->threads)
			p->threads--;
		/* The last thread may be held while we hear of the end of those before it. */
		if (t->tid == p->pid || (!p->threads && !waits)) {
			if (p->state != PROCESS_HELD && p->state != PROCESS_EXITED)
				process_finish(s, p, PROCESS_EXITED, (int)e->value);
			p->state = PROCESS_EXITED;
			if (t->tid == p->pid) {
				p->wait_status = (int)e->value;
				process_close(s, p);
			}
		}
	}
	thread_remove(s, t);
	if (whole)
		remove_threads(s, p);
}

/* ---- events -------------------------------------------------------------- */

static void await_announcement(struct session *s, pid_t tid)
{
	struct thread *t = thread_add(s, tid, NULL, THREAD_UNANNOUNCED);

	if (!t)
		return;
	t->since_ms = heartbeat_ms();
	s->unannounced = true;
}

static void on_unannounced(struct session *s, const struct event *e)
{
	if (e->kind == EVENT_GONE) {
		note_early(s, e->tid, false, (int)e->value);
		return;
	}
	/* we could not detach from it with the others, as it did not stop */
	if (s->detached)
		tracer_detach(e->tid, e->kind == EVENT_SIGNAL ? e->signal : 0);
	else if (e->kind == EVENT_STOP)
		await_announcement(s, e->tid);
	else {
		/* it may be announced until it is gone, and is no thread to wait for by then */
		if (e->kind == EVENT_EXITING)
			thread_add(s, e->tid, NULL, THREAD_EXITING);
		tracer_cont(e->tid, e->kind == EVENT_SIGNAL ? e->signal : 0);
	}
}

/*
 * Job control: when the terminal stops the program, the shell that started mtrun must see mtrun
 * stop too.
 */
static void stop_with_it(const struct session *s, const struct thread *t, int signal)
{
	if (s->launched && t->tid == s->launched && signal != SIGSTOP && !s->terminal)
		kill(getpid(), SIGSTOP);
}

/* Whether T is to stay stopped: its process is being stopped, or is, and T was blocked or is new. */
static bool stops_with_all(const struct session *s, const struct thread *t)
{
	return t->process && !t->vfork_child &&
	       (s->stopping == t->process || t->process->state == PROCESS_STOPPED);
}

static bool is_to_stay(const struct session *s, const struct thread *t)
{
	return stops_with_all(s, t) || s->halting == t->tid;
}

static void go_on(const struct thread *t, int signal)
{
	if (restart_follows(&t->call))
		tracer_syscall(t->tid, signal);
	else
		tracer_cont(t->tid, signal);
}

static void resume(struct session *s, struct thread *t, int signal)
{
	if (stops_with_all(s, t)) {
		t->state = THREAD_STOPPED;
		t->between = false;
		t->signal = signal;
		return;
	}
	go_on(t, signal);
}

void thread_resume(struct thread *t)
{
	t->state = THREAD_RUNNING;
	if (t->group)
		tracer_listen(t->tid);
	else
		go_on(t, t->signal);
	t->group = false;
	t->signal = 0;
}

void thread_let_go(struct thread *t)
{
	struct user_regs_struct regs;

	if (t->call.state && tracer_get_regs(t->tid, &regs) == 0 &&
	    restart_forget(&t->call, &regs) && tracer_set_regs(t->tid, &regs) < 0)
		message_verbose(1, "%d: a system call's timeout may be shorter", t->tid);
	tracer_detach(t->tid, t->signal);
}

/* T's system call, interrupted by a stop of ours or by SIGNAL that it ignores, goes on. */
static void call_goes_on(struct thread *t, int signal)
{
	struct user_regs_struct regs;

	if (t->process && tracer_get_regs(t->tid, &regs) == 0 &&
	    restart_interrupted(t->process->via, t->tid, &regs, signal, &t->call) &&
	    tracer_set_regs(t->tid, &regs) < 0)
		message_verbose(1, "%d: a system call may have ended with EINTR", t->tid);
}

/*
 * T enters the system call that is followed, or leaves it. If it is to be stopped it is asked to
 * once more, as any stop counts for the one that was asked for.
 */
static void on_call(const struct session *s, struct thread *t)
{
	struct user_regs_struct regs;

	if (tracer_get_regs(t->tid, &regs) == 0 && restart_at_call(&t->call, &regs) &&
	    tracer_set_regs(t->tid, &regs) < 0)
		t->call.state = CALL_NONE;
	if (is_to_stay(s, t))
		tracer_interrupt(t->tid);
	go_on(t, 0);
}

static void on_stop(struct session *s, struct thread *t, bool group)
{
	if (t->process)
		__atomic_store_n(&t->process->paused, group, __ATOMIC_RELAXED);
	call_goes_on(t, 0);
	if (!is_to_stay(s, t)) {
		if (group)
			tracer_listen(t->tid);
		else
			go_on(t, 0);
		return;
	}
	t->state = THREAD_STOPPED;
	t->between = true;
	t->group = group;
}

/*
 * Whether askers are to be told of E, which T is stopped for, at once. What happens at each start
 * of a child they see some milliseconds later: otherwise they would be woken for each step of it,
 * and the loop would wait for them.
 */
static bool is_news(const struct session *s, const struct event *e, const struct thread *t)
{
	const struct process *p = t ? t->process : NULL;

	switch (e->kind) {
	case EVENT_SIGNAL:
	case EVENT_FORK:
	case EVENT_VFORK:
	case EVENT_CLONE: return false;
	case EVENT_STOP: return t && t->state != THREAD_NEW;
	case EVENT_EXEC: return p && p == s->main;
	default: return true;
	}
}

static void handle(struct session *s, const struct event *e)
{
	struct thread *t = thread_find(s, e->tid);

	s->asking.news += is_news(s, e, t);
	if (!t) {
		on_unannounced(s, e);
		return;
	}
	switch (e->kind) {
	case EVENT_GONE: on_gone(s, t, e); break;
	case EVENT_EXEC: session_exec(s, e); break;
	case EVENT_FORK:
	case EVENT_VFORK:
	case EVENT_CLONE:
		on_new(s, e, t);
		t = thread_find(s, e->tid);
		if (t && s->halting == t->tid) {
			/*
			 * Its system call has not returned, and its registers would not be what to
			 * put back later: on, to another stop.
			 */
			tracer_interrupt(t->tid);
			tracer_cont(t->tid, 0);
		} else if (t) {
			resume(s, t, 0);
		}
		break;
	case EVENT_EXITING: session_exiting(s, t, e); break;
	case EVENT_GROUP_STOP:
		if (t->state == THREAD_NEW)
			begin(s, t);
		else {
			bool stays = is_to_stay(s, t);

			on_stop(s, t, true);
			if (!stays)
				stop_with_it(s, t, e->signal);
		}
		break;
	case EVENT_STOP:
		if (t->state == THREAD_NEW)
			begin(s, t);
		else
			on_stop(s, t, false);
		break;
	case EVENT_SIGNAL:
		if (t->process && fault_fixup_end_fault(t->process, e->tid, e->signal)) {
			resume(s, t, 0);
			break;
		}
		call_goes_on(t, e->signal);
		resume(s, t, e->signal);
		break;
	case EVENT_SYSCALL: on_call(s, t); break;
	default: resume(s, t, 0);
	}
}

/*
 * There is neither child nor tracee any more: threads that are still listed have ended, and we were
 * not told, or not in an order that made sense. Those of another tracer are not ours to wait for.
 */
static void nobody_left(struct session *s)
{
	for (size_t i = 0; i < s->nthreads;) {
		struct process *p = s->thread[i].process;

		if (s->thread[i].state == THREAD_LENT) {
			i++;
			continue;
		}
		message_verbose(1, "%d: its end was not told", s->thread[i].tid);
		thread_remove(s, &s->thread[i]);
		if (p && p->state <= PROCESS_STOPPED)
			process_finish(s, p, PROCESS_EXITED, p->wait_status);
		if (p && p->state == PROCESS_HELD)
			p->state = PROCESS_EXITED;
		if (p && p->state == PROCESS_EXITED)
			process_close(s, p);
		i = 0;
	}
	s->held = 0;
}

/* Children that come as fast as they are served must not keep the rings from being read. */
#define STOPS_US 10000u

int session_serve_stops(struct session *s)
{
	uint64_t end = clock_us() + STOPS_US;
	bool nested = s->serving;
	struct event e;
	int n = 0, got = 1;

	s->serving = true;
	while ((!n || clock_us() < end) && (got = tracer_next(&e)) == 1) {
		handle(s, &e);
		n++;
	}
	if (got == -ECHILD && s->nthreads) {
		nobody_left(s);
		s->asking.news++;
	}
	if (s->unannounced)
		n += let_orphans_go(s);
	if (s->lingering)
		session_watch_lingerers(s);
	s->serving = nested;
	return n;
}
