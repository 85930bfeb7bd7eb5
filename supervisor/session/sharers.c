// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/session_state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/patient.h"
#include "base/proc.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * sharers.c - processes that have the memory of one that we trace: its vfork children, and what
 * else clone(2) makes with CLONE_VM.
 *
 * Nothing may be written into a program's text, or unmapped, where one of them is. So they are
 * traced as the threads are, and stopped with them while hooks are put in or taken out. Those that
 * are made while their parent is traced are announced (stops.c), unless children are not followed.
 * The others are found here, among the children of its threads.
 *
 * A thread that waits for its vfork child cannot be stopped, and need not be: it executes nothing
 * before it reports. But its child must be known. It may itself wait for one of its own.
 */

#define HALT_MS 100

/* Seizes PID, if it has P's memory. Whether it has, and all of it is ours. */
static bool adopt(struct session *s, struct process *p, pid_t pid)
{
	return patient_same_memory(pid, p->via) &&
	       (thread_find(s, pid) || session_seize_threads(s, p, pid, true) == 0);
}

/* Adopts those among the children that thread TID has made. Returns how many there are. */
static unsigned adopt_children(struct session *s, struct process *p, pid_t tid)
{
	unsigned adopted = 0;
	pid_t *child;
	int n = proc_children(tid, tid, &child);

	for (int i = 0; i < n; i++)
		adopted += adopt(s, p, child[i]);
	if (n >= 0)
		free(child);
	return adopted;
}

/* (Those that are adopted come to the end of the list, and are looked at, too.) */
void session_adopt_sharers(struct session *s, struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p)
			adopt_children(s, p, s->thread[i].tid);
}

/* Whether each thread that waits for a vfork child has one that is ours by now. */
static bool adopt_awaited(struct session *s, struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++) {
		const struct thread *t = &s->thread[i];

		if (t->process == p && t->state != THREAD_STOPPED && t->state != THREAD_EXITING &&
		    thread_awaits_child(t) && !adopt_children(s, p, t->tid))
			return false;
	}
	return true;
}

/* Whether T runs, also after it was asked to stop. */
static bool runs_on(const struct thread *t)
{
	if (t->state == THREAD_NEW)
		return true;
	if (t->state != THREAD_RUNNING)
		return false;
	if (!thread_blocked(t))
		return true;
	tracer_interrupt(t->tid); /* it may just have been woken */
	return !thread_blocked(t);
}

static struct thread *next_running(struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && s->thread[i].vfork_child && runs_on(&s->thread[i]))
			return &s->thread[i];
	return NULL;
}

/* Those that make more and more of them are not followed for ever. */
int session_halt_sharers(struct session *s, struct process *p)
{
	uint64_t end = heartbeat_ms() + session_moment(p);
	struct thread *t;

	if (!adopt_awaited(s, p))
		return -EAGAIN;
	while ((t = next_running(s, p))) {
		int err = heartbeat_ms() < end ? session_halt(s, t, HALT_MS) : -EAGAIN;

		if (err && err != -ESRCH)
			return -EAGAIN;
		if (err) /* it has ended, or is another program by now: a stop tells */
			session_serve_stops(s);
	}
	return p->state == PROCESS_STOPPED && adopt_awaited(s, p) ? 0 : -EAGAIN;
}
