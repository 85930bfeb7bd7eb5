// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/session_state.h"

#include <errno.h>

#include "base/array.h"
#include "base/outside.h"
#include "process/errors.h"
#include "process/sampling.h"
#include "session/credible.h"
#include "session/limit_enforce.h"
#include "session/recorder.h"
#include "transport/heartbeat.h"

/* processes.c - the records of threads and processes: how they begin, and how they end. */

/* ---- threads ------------------------------------------------------------- */

struct thread *thread_find(struct session *s, pid_t tid)
{
	for (size_t i = s->nthreads; i-- > 0;)
		if (s->thread[i].tid == tid)
			return &s->thread[i];
	return NULL;
}

struct thread *thread_add(struct session *s, pid_t tid, struct process *p, enum thread_state state)
{
	struct thread *t;

	if (array_room(&s->thread, s->nthreads, &s->room, sizeof(*s->thread)))
		return NULL;
	t = &s->thread[s->nthreads++];
	*t = (struct thread){ .tid = tid, .process = p, .state = state };
	return t;
}

void thread_remove(struct session *s, struct thread *t) { *t = s->thread[--s->nthreads]; }

/* ---- processes ----------------------------------------------------------- */

void process_drop(struct process *p)
{
	recorder_release(p);
	process_unref(p);
}

static void process_append(struct session *s, struct process *p)
{
	p->began_ms = p->recorded_ms = p->off_ms = heartbeat_ms();
	*s->last = p;
	s->last = &p->next;
	/* else it is the child that is still to exec the program */
	if (s->launched || s->options.npids)
		recorder_appeared(s, p);
}

struct process *process_start(struct session *s, pid_t pid, pid_t ppid, struct ledger *ledger)
{
	struct process *p = process_new(pid, ppid,
					s->options.count & (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP),
					ledger);

	if (!p)
		return NULL;
	if (ledger_compact(p->ledger, modes[s->options.mode].compact)) {
		process_drop(p);
		return NULL;
	}
	p->threads = 1;
	p->off = modes[s->options.mode].off;
	process_append(s, p);
	return p;
}

void process_let_go(struct session *s, pid_t pid, pid_t ppid, const char *why)
{
	struct process *p = process_start(s, pid, ppid, NULL);

	if (!p)
		return;
	process_describe(p);
	p->unsupervised = why;
	process_finish(s, p, PROCESS_DETACHED, 0);
}

void process_forget(struct session *s, struct process *p)
{
	struct process **at = &s->processes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (s->last == &p->next)
		s->last = at;
	process_drop(p);
}

int process_listen(struct session *s, struct process *p)
{
	if (p->off && !p->discarding)
		p->discarding = off_ledger(s);
	p->stream = p->off && !p->discarding
			    ? NULL
			    : stream_new(&p->shared, p->off ? p->discarding : p->ledger,
					 process_own_mapping, p);
	ledger_keep_freed(p->ledger, p->wire->free_stacks);
	errors_listen(p, s->options.errors != ERRORS_OFF, heartbeat_ms());
	if (!p->stream)
		return -ENOMEM;
	if (!p->off)
		sampling_begin(p, s->options.agent.sample);
	limit_enforce_begin(s, p);
	recorder_listen(s, p);
	return 0;
}

/*
 * Everything that P will ever tell is in its rings: takes it. That may fill several files of a log;
 * there is an end, as another process that shares the rings may go on writing.
 */
#define PORTIONS 1024

static void process_drain(struct session *s, struct process *p)
{
	size_t most = recorder_portion(s);

	if (!p->stream)
		return;
	for (int i = 0; most < CHUNK && i < PORTIONS; i++) {
		if (stream_take(p->stream, heartbeat_ms(), most) < most)
			break;
		recorder_turn(s);
	}
	stream_settle(p->stream, heartbeat_ms(), true);
}

void process_finish(struct session *s, struct process *p, enum process_state state, int status)
{
	session_capture_cancel(s, p);
	process_drain(s, p);
	if (state == PROCESS_HELD) /* its memory is still there, and still its own */
		credible_look(s, p);
	p->state = state;
	p->wait_status = status;
	p->ended_ms = heartbeat_ms();
	p->threads = 0;
	if (process_state_gone(state))
		outside_ended(p->outside);
	recorder_finished(s, p);
	limit_enforce_crossed(s, p);
	if (p == s->main && state != PROCESS_REPLACED)
		s->main_ended = true;
}

void process_close(struct session *s, struct process *p)
{
	s->some_ended = true;
	if (p->stream) {
		p->missing = stream_missing(p->stream);
		stream_stats(p->stream, &p->last_stats);
		stream_free(p->stream);
		p->stream = NULL;
	}
	recorder_closed(p);
	thread_ends_release(&p->ends);
	process_unshare(p);
	image_unref(p->image);
	p->image = NULL;
}

void process_unlend(struct session *s, struct process *p)
{
	p->lent = false;
	for (size_t i = 0; i < s->nthreads;)
		if (s->thread[i].process == p && s->thread[i].state == THREAD_LENT)
			thread_remove(s, &s->thread[i]);
		else
			i++;
}
