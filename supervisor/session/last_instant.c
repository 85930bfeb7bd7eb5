// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/session_state.h"

#include <stdio.h>
#include <sys/syscall.h>

#include "base/message.h"
#include "base/proc.h"
#include "process/limit.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * last_instant.c - the last instant of a thread (EVENT_EXITING), and of its process.
 *
 * At the last instant of a process' last thread its rings are complete, and its memory is still
 * there: the leak check is made then. It can be held at that point.
 *
 * Which one is the last? Not every thread tells of its last instant: one that was ending by itself
 * when all were ended (exit_group(2), a signal) is killed out of that stop, or passes it by, and is
 * found dead later, perhaps behind all others. So of threads that are ended together the newest at
 * its last instant lingers there, until another one comes to its own, or all others are dead: then
 * it was the last.
 *
 * Threads are also ended together by an exec, whose thread waits for the end of all others, and
 * would wait for the one that lingers. It sleeps meanwhile, and a thread that was killed does not:
 * where one of the others sleeps, nobody lingers. Nor for longer than LINGER_MS, as a thread that a
 * seccomp filter has killed alone looks the same.
 */
#define LINGER_MS 1000

/* /proc tells nothing of a thread that has ended: another one becomes P's `via`. */
static void move_via(const struct session *s, struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && !s->thread[i].vfork_child &&
		    s->thread[i].state != THREAD_EXITING) {
			p->via = s->thread[i].tid;
			return;
		}
}

/*
 * One of P's threads, not the last, is at its last instant. If it ends because all threads do, its
 * registers are kept, as a capture counts them as if it still ran.
 */
static void note_end(struct process *p, pid_t tid, const struct user_regs_struct *regs)
{
	static uint64_t vector[TRACER_VECTOR / 8];
	size_t len = sizeof(vector);

	if (regs->orig_rax == SYS_exit)
		thread_ends_add(&p->ends, regs->fs_base, regs->rsp);
	else if (tracer_get_vector(tid, vector, &len) ||
		 thread_ends_last(&p->ends, tid, regs, vector, len))
		message_verbose(1, "%d: the registers of thread %d are not known", (int)p->pid,
				(int)tid);
}

/*
 * How P ends, as its last thread tells with VALUE: where that one ends by itself, and others were
 * ended together, it is these who know.
 */
static int end_status(struct process *p, bool alone, int value)
{
	if (!alone) {
		p->ends_together = true;
		p->wait_status = value;
	}
	return p->ends_together ? p->wait_status : value;
}

/*
 * Nothing more is to be known of T, which is at its last instant, and whose process lives on. If it
 * were traced to its end it would stay in its process until we had waited for it: after
 * pthread_join(3) unshare(2) would fail in a program of one thread, and RLIMIT_NPROC would count
 * it. So the kernel may release it at once, as it does natively. False: it is traced still.
 */
static bool let_end(struct session *s, struct thread *t)
{
	if (tracer_detach(t->tid, 0))
		return false;
	thread_remove(s, t);
	return true;
}

static void leave_stop(struct session *s, struct thread *t)
{
	if (t->tid == t->process->pid || !let_end(s, t))
		tracer_cont(t->tid, 0);
}

/* T is the last thread of its process, which ends with STATUS. */
static void process_ends(struct session *s, struct thread *t, int status)
{
	struct process *p = t->process;

	process_finish(s, p, PROCESS_HELD, status);
	p->via = t->tid;
	p->to_check = s->options.leak_check && p->stream && p->ledger_used && !p->unsupervised &&
		      !(s->restarting && p == s->main);
	if (s->hold && p == s->main && p->ledger_used && !s->refused)
		s->held = t->tid;
	if (!p->to_check && s->held != t->tid)
		tracer_cont(t->tid, 0);
}

/* ---- those that linger --------------------------------------------------- */

static void linger_no_more(struct session *s, struct process *p)
{
	struct thread *t = p->lingers ? thread_find(s, p->lingers) : NULL;

	p->lingers = 0;
	if (t)
		leave_stop(s, t);
}

static void linger(struct session *s, struct process *p, pid_t tid)
{
	linger_no_more(s, p);
	p->lingers = tid;
	p->lingers_ms = heartbeat_ms();
	s->lingering = true;
}

enum others {
	OTHERS_DEAD,
	OTHERS_END,  /* as far as can be seen */
	OTHERS_SLEEP /* at least one */
};

static enum others others_of(const struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++) {
		const struct thread *t = &s->thread[i];

		if (t->process != p || t->vfork_child || t->state == THREAD_EXITING)
			continue;
		switch (proc_state(t->tid)) {
		case 0:
		case 'X':
		case 'Z': break;
		case 'S':
		case 'D':
		case 'I': return OTHERS_SLEEP;
		default: return OTHERS_END;
		}
	}
	return OTHERS_DEAD;
}

/* All threads of P but one are dead: what they tell from now on does not count. */
static void bury_others(struct session *s, struct process *p)
{
	p->threads = 0;
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && !s->thread[i].vfork_child)
			s->thread[i].state = THREAD_EXITING;
}

void session_watch_lingerers(struct session *s)
{
	s->lingering = false;
	for (struct process *p = s->processes; p; p = p->next) {
		struct thread *t = p->lingers ? thread_find(s, p->lingers) : NULL;
		enum others others;

		if (!t)
			continue;
		others = others_of(s, p);
		if (others == OTHERS_DEAD) {
			p->lingers = 0;
			bury_others(s, p);
			process_ends(s, t, p->wait_status);
		} else if (others == OTHERS_SLEEP || heartbeat_ms() - p->lingers_ms > LINGER_MS) {
			linger_no_more(s, p);
		} else {
			s->lingering = true;
		}
	}
}

/* ---- the event ----------------------------------------------------------- */

void session_exiting(struct session *s, struct thread *t, const struct event *e)
{
	struct process *p = t->process;
	struct user_regs_struct regs;
	pid_t tid = t->tid;
	bool last, known;
	int status;

	if (t->vfork_child || !p) {
		t->state = THREAD_EXITING;
		tracer_cont(tid, 0);
		return;
	}
	last = p->threads <= 1;
	known = tracer_get_regs(tid, &regs) == 0;
	status = end_status(p, known && regs.orig_rax == SYS_exit, (int)e->value);
	if (t->state != THREAD_EXITING && p->threads)
		p->threads--;
	t->state = THREAD_EXITING;
	if (last) {
		linger_no_more(s, p);
		process_ends(s, thread_find(s, tid), status);
		return;
	}
	if (p->via == tid)
		move_via(s, p);
	if (p->stream && known) {
		limit_thread_gone(p, regs.fs_base);
		stream_thread_gone(p->stream, heartbeat_ms(), regs.fs_base);
		note_end(p, tid, &regs);
	}
	if (p->ends_together)
		linger(s, p, tid);
	else
		leave_stop(s, t);
}
