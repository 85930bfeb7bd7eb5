// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/session_state.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/message.h"
#include "base/proc.h"
#include "tracee/agent.h"
#include "tracee/mail.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * handover.c - programs that trace processes themselves. A process has one tracer: if a program
 * wants to trace one of ours, we let go of it.
 *
 * LeakSanitizer traces its own process for a moment, from a thread that it makes for that. The hook
 * around its check asks for the process to be lent (session_lend()): its hooks go on, and when the
 * check returns it is taken back. Often the check ends the program. Then wait(2) tells of our
 * child's end, and a pidfd of others'.
 *
 * strace, gdb, mtrun: the hook of ptrace() asks before the call that makes a process traced. That
 * process is let go for good: its hooks are switched off and taken out; the trampoline stays, as a
 * thread may be in it. We do not learn what becomes of it. The asking process must be allowed to
 * trace it, or one user's process could end the supervision of another's.
 *
 * If the program that was named calls PTRACE_TRACEME its tracer would be mtrun, which it already
 * is. The call returns 0, and the process stays ours.
 */

/* a thread may wait for its vfork child, and cannot be stopped then */
#define STOP_MS 1000

static const char traced[] = "another program traces it";

/* ---- lent for a leak check ----------------------------------------------- */

static int lend(struct session *s, struct process *p)
{
	int err = session_stop_within(s, p, STOP_MS);

	if (!err)
		err = session_lend(s, p);
	if (err) {
		if (p->state == PROCESS_STOPPED && session_cont(s, p) < 0)
			return err;
		message_error("%d ('%s'): LeakSanitizer's check is left out: %s", p->pid,
			      p->command ? p->command : "?", strerror(-err));
		return err;
	}
	p->pidfd = p->pid == s->launched ? -1 : (int)syscall(SYS_pidfd_open, p->pid, 0);
	return 0;
}

static void close_pidfd(struct process *p)
{
	if (p->pidfd > 0)
		close(p->pidfd);
	p->pidfd = 0;
}

static void take_back(struct session *s, struct process *p)
{
	int err = session_take_back(s, p);

	close_pidfd(p);
	if (err && err != -ESRCH)
		message_error(
			"cannot take process %d back from LeakSanitizer: %s (it is recorded, but can be neither stopped nor followed)",
			p->pid, strerror(-err));
}

/* As <linux/pidfd.h> has it from Linux 6.15 on. */
struct pidfd_exit {
	uint64_t mask, cgroup;
	uint32_t id[11];
	int32_t exit_code;
};
#define PIDFD_GET_EXIT	    _IOWR(0xff, 11, struct pidfd_exit)
#define PIDFD_HAS_EXIT_CODE 8u
_Static_assert(sizeof(struct pidfd_exit) == 64, "the first version's size");

/*
 * P's wait status: from its pidfd once somebody has waited for it, from /proc/PID/stat before that.
 * 0 if neither tells.
 */
static int ended_status(const struct process *p)
{
	struct pidfd_exit info = { .mask = PIDFD_HAS_EXIT_CODE };
	char *text, *at;
	int status = 0;

	if (proc_read(p->pid, "stat", &text) >= 0) {
		at = strrchr(text, ' ');
		status = at && strstr(text, ") Z ") ? atoi(at + 1) : 0;
		free(text);
	}
	if (!status && ioctl(p->pidfd, PIDFD_GET_EXIT, &info) == 0 &&
	    info.mask & PIDFD_HAS_EXIT_CODE)
		status = info.exit_code;
	return status;
}

/* Looks for the ends of lent processes that are not our children. */
static void serve_lent(struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next) {
		struct pollfd fd = { .fd = p->pidfd, .events = POLLIN };

		if (!p->lent || p->pidfd <= 0 || poll(&fd, 1, 0) <= 0)
			continue;
		process_finish(s, p, PROCESS_EXITED, ended_status(p));
		close_pidfd(p);
		process_close(s, p);
		process_unlend(s, p);
	}
}

/* ---- let go for good ----------------------------------------------------- */

/* False: a thread of P has just been made, and must be seen first. */
static bool is_settled(const struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && s->thread[i].state <= THREAD_UNANNOUNCED)
			return false;
	return true;
}

/* P has asked itself, or SELF is NULL. It is running, and is ours no longer. */
static int let_go(struct session *s, struct process *p, const struct shared_question *self)
{
	int err = session_stop_within(s, p, STOP_MS);

	if (err || p->state != PROCESS_STOPPED)
		goto stays;
	if (p->agent) {
		err = agent_arm(p, false);
		if (err)
			goto stays;
		(void)!agent_uproot(p); /* one that stays leads straight on */
	}
	p->unsupervised = traced;
	process_finish(s, p, PROCESS_DETACHED, 0);
	if (p->pid == s->launched) /* we hear of its end */
		s->main_ended = false;
	session_release_threads(s, p);
	if (self)
		mail_answer(self->mail, self->asked);
	process_close(s, p);
	return 0;
stays:
	if (p->state == PROCESS_STOPPED && session_cont(s, p) < 0)
		err = -ESRCH;
	return err ? err : -ESRCH;
}

/* A vfork child of PARENT has no memory of its own, so nothing is to be taken out. It gets a record. */
static int let_go_vfork_child(struct session *s, struct thread *t, const struct process *parent)
{
	pid_t tid = t->tid;
	int err = session_halt(s, t, MOMENT_MS);

	t = thread_find(s, tid);
	if (err || !t)
		return err ? err : -ESRCH;
	process_let_go(s, tid, parent->pid, traced);
	thread_let_go(t);
	thread_remove(s, t);
	return 0;
}

struct users {
	unsigned real, effective, saved, fs;
};

static bool users_of(pid_t tid, struct users *u)
{
	char *status;
	unsigned id[4];
	bool found;

	if (proc_read(tid, "status", &status) < 0)
		return false;
	found = status_ids(status, "Uid", id);
	free(status);
	if (found)
		*u = (struct users){ id[0], id[1], id[2], id[3] };
	return found;
}

/* Whether TID may trace OTHER by their user ids; the kernel makes its other checks by itself. */
static bool may_trace(pid_t tid, pid_t other)
{
	struct users a, b;

	if (!users_of(tid, &a) || !users_of(other, &b))
		return false;
	return a.effective == 0 || (b.real == a.fs && b.effective == a.fs && b.saved == a.fs);
}

static void tell(struct process *tracer)
{
	if (tracer->traces)
		return;
	tracer->traces = true;
	message_say("%d ('%s') traces processes: these run unsupervised", tracer->pid,
		    tracer->command ? tracer->command : "?");
}

/* False: not yet, the question is to be looked at again. */
static bool hand_over(struct session *s, struct process *p, const struct shared_question *a)
{
	bool traceme = a->arg[0] == PTRACE_TRACEME, vfork_child;
	struct thread *asks = thread_find(s, (pid_t)a->arg[2]),
		      *t = traceme ? asks : thread_find(s, (pid_t)a->arg[1]);
	struct process *q, *tracer = p;
	int err;

	a->mail->answer = TRACE_GO;
	if (!asks || asks->process != p || !t || !t->process || t->state == THREAD_LENT ||
	    (!traceme && !may_trace(asks->tid, t->tid)))
		goto go;
	if (traceme && t->tid == s->launched) {
		a->mail->answer = TRACE_DONE;
		goto go;
	}
	q = t->process;
	if (q->state > PROCESS_STOPPED)
		goto go;
	if (q->state == PROCESS_STOPPED || q->attaching || !is_settled(s, q))
		return false;
	if (traceme && !t->vfork_child)
		for (tracer = s->processes;
		     tracer && (tracer->pid != q->ppid || tracer->state > PROCESS_STOPPED);
		     tracer = tracer->next)
			;
	if (tracer)
		tell(tracer);
	vfork_child = t->vfork_child;
	err = vfork_child ? let_go_vfork_child(s, t, q) : let_go(s, q, q == p ? a : NULL);
	if (err && err != -ESRCH)
		message_verbose(1, "%d cannot be let go for its other tracer: %s", q->pid,
				strerror(-err));
	if (!err && q == p && !vfork_child)
		return true; /* it is on its way */
go:
	if (p->wire)
		mail_answer(a->mail, a->asked);
	return true;
}

/* ---- questions ----------------------------------------------------------- */

static bool serve(struct session *s, struct process *p, const struct shared_question *a)
{
	int err;

	if (p->attaching || p->state == PROCESS_STOPPED)
		return false;
	switch (a->what) {
	case ASK_TRACE: return hand_over(s, p, a);
	case ASK_LEND:
		err = lend(s, p);
		if (!p->wire) /* it has ended meanwhile, and the mailbox is gone */
			return true;
		a->mail->answer = err ? LENT_NOT : LENT;
		/* it does without */
		if (!mail_answer(a->mail, a->asked) && p->lent)
			take_back(s, p);
		return true;
	case ASK_BACK:
		if (p->lent)
			take_back(s, p);
		if (p->wire)
			mail_answer(a->mail, a->asked);
		return true;
	default: return false;
	}
}

/* True: one was served, and the list of processes may have changed. */
static bool serve_one(struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next) {
		struct shared_question q;
		uint32_t slot = 0;

		if (!p->wire || p->state > PROCESS_STOPPED)
			continue;
		while (shared_question(&p->shared, &slot, &q))
			if (serve(s, p, &q))
				return true;
	}
	return false;
}

void session_serve_handovers(struct session *s)
{
	serve_lent(s);
	while (serve_one(s))
		;
}
