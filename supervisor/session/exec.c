// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/session_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "arch/abi.h"
#include "base/message.h"
#include "base/outside.h"
#include "base/patient.h"
#include "base/proc.h"
#include "session/limit_enforce.h"
#include "tracee/agent.h"
#include "tracee/mail.h"
#include "tracee/program.h"
#include "tracee/stub.h"
#include "tracee/tracer.h"

/*
 * exec.c - a process has a new image: it gets a record, as its allocations start anew, and our part,
 * before its first instruction.
 */

/* Whether P is the program that was named, and nothing of it has run yet. */
static bool is_refused(const struct session *s, const struct process *p)
{
	return p == s->main && !s->started;
}

void session_cannot_supervise(struct session *s, struct process *p, const char *why)
{
	p->unsupervised = why;
	if (is_refused(s, p)) {
		message_error("cannot supervise '%s': %s",
			      p->exe	   ? p->exe
			      : p->command ? p->command
					   : "?",
			      why);
		s->refused = true;
		kill(p->pid, SIGKILL);
	} else
		message_error("%d ('%s') runs unsupervised: %s", p->pid,
			      p->command ? p->command : "?", why);
}

const char *session_stub_error(int err)
{
	switch (err) {
	case -ENOSPC: return "no room for the trampoline was found in it";
	case -E2BIG: return AGENT_NO_ADDRESSES;
	case -EFBIG: return AGENT_NO_FILES;
	case -ETIMEDOUT: return "it did not answer";
	default: return limits_error(err);
	}
}

/*
 * Whether TID is under seccomp filters that we are not under ourselves (in a container all
 * processes have the container's). They may do anything at the calls of the bootstrap stub and of
 * the hooks; often they kill.
 */
bool session_is_filtered(pid_t tid)
{
	int64_t filters = proc_status_field(tid, "Seccomp_filters"),
		ours = proc_status_field(getpid(), "Seccomp_filters");

	if (filters >= 0 && ours >= 0) /* Linux 5.9 */
		return filters > ours;
	return proc_status_field(tid, "Seccomp") > 0 && proc_status_field(getpid(), "Seccomp") <= 0;
}

#define REFILTER_MS 5000

int session_give_back_filters(struct session *s, pid_t tid, struct stub_run *l, int held)
{
	int signal, err = l ? stub_take_out(l, &signal) : tracer_halt(tid, &signal, REFILTER_MS);

	if (err)
		return err;
	session_filter(s, tid);
	return tracer_cont(tid, held ? held : signal);
}

int session_refresh_quietly(struct session *s, struct process *p, pid_t tid)
{
	struct stub_run l;
	int signal, err = tracer_halt(tid, &signal, REFILTER_MS), out;

	if (err)
		return err;
	err = session_unfilter(s, tid, true);
	if (!err)
		err = agent_send(p, tid, &l);
	if (err) {
		session_filter(s, tid);
		tracer_cont(tid, signal);
		return err;
	}
	err = agent_refresh(p, tid, &p->wire->mail, &s->options.agent);
	out = session_give_back_filters(s, tid, &l, signal);
	return err ? err : out;
}

/* Whether P, which failed with ERR, is to be killed: its thread waits until then. */
static bool waits_for_its_end(const struct session *s, const struct process *p, int err)
{
	return err && err != -ESRCH && is_refused(s, p);
}

static int land(struct session *s, struct process *p, pid_t tid)
{
	bool filtered = session_is_filtered(tid);
	struct user_regs_struct regs;
	struct stub_run l;
	int err = tracer_get_regs(tid, &regs);

	if (!err && regs.cs != CS_64) {
		session_cannot_supervise(s, p, "it is a 32-bit program");
		return tracer_cont(tid, 0);
	}
	if (!err && filtered && session_unfilter(s, tid, true) < 0) {
		session_cannot_supervise(s, p, SESSION_FILTERED);
		return tracer_cont(tid, 0);
	}
	if (!err)
		err = agent_land(p, tid, &s->options.agent, &l);
	if (waits_for_its_end(s, p, err))
		return err;
	if (err) {
		agent_give_up(p, tid);
		return filtered && session_give_back_filters(s, tid, NULL, 0) == -ESRCH ? -ESRCH
											: err;
	}
	if (filtered)
		p->wire->no_syscalls = 1;
	err = process_listen(s, p);
	if (!err)
		err = agent_refresh(p, tid, &p->wire->mail, &s->options.agent);
	if (!err)
		session_capture_reap(s, p, tid);
	/* -S: it is stopped while it still serves us, before its first instruction */
	if (!err && !limit_enforce_image(s, p) && s->options.start_stopped && p == s->main &&
	    !s->began) {
		p->stays = session_stop(s, p) == 0;
		if (!p->stays)
			message_error("cannot stop process %d", (int)p->pid);
	}
	if (!err && p->state == PROCESS_STOPPED)
		s->landed = l;
	s->began = true;
	if (waits_for_its_end(s, p, err))
		return err;
	if (filtered)
		return session_give_back_filters(s, tid, &l, 0) < 0 ? -ETIMEDOUT : err;
	mail_go(&p->wire->mail);
	return err;
}

/* Says it of the first such program only: a script may run one a thousand times. */
static void tell_lost_rights(struct session *s, const struct process *p)
{
	int fd = s->lost_rights_told
			 ? -1
			 : outside_reopen(p->pid, proc_open(p->pid, "exe", O_PATH), OUTSIDE_DEBUG);
	const char *lost = fd < 0 ? NULL : program_lost_rights(fd);

	if (lost)
		message_error(
			"%d (%s) has only the rights of its user: %s, which the kernel does not honour under a tracer; run mtrun as root (said once)",
			p->pid, p->command ? p->command : "?", lost);
	s->lost_rights_told |= lost != NULL;
	if (fd >= 0)
		close(fd);
}

void session_exec(struct session *s, const struct event *e)
{
	struct thread *t = thread_find(s, e->tid);
	struct process *old, *p;
	pid_t ppid;
	int err;

	if (e->value != (unsigned long)e->tid) {
		struct thread *former = thread_find(s, (pid_t)e->value);

		if (former)
			thread_remove(s, former);
		t = thread_find(s, e->tid);
	}
	if (!t || !t->process) {
		tracer_cont(e->tid, 0);
		return;
	}
	old = t->process;
	ppid = t->vfork_child ? old->pid : old->ppid;
	if (!t->vfork_child) {
		for (size_t i = 0; i < s->nthreads;)
			if (s->thread[i].process == old && s->thread[i].tid != e->tid &&
			    !s->thread[i].vfork_child)
				thread_remove(s, &s->thread[i]);
			else
				i++;
		t = thread_find(s, e->tid);
	}
	patient_fresh(e->tid); /* until it goes on */
	p = process_start(s, e->tid, ppid, NULL);
	if (!p) {
		patient_fresh(0);
		message_error("out of memory: %d runs unsupervised", e->tid);
		tracer_cont(e->tid, 0);
		return;
	}
	if (!t->vfork_child) {
		if (old == s->chosen)
			s->chosen = p;
		if (old == s->main)
			s->main = p;
		if (old->ledger_used) {
			process_finish(s, old, PROCESS_REPLACED, 0);
			process_close(s, old);
		} else
			process_forget(s, old);
	}
	t->process = p;
	t->vfork_child = false;
	t->state = THREAD_RUNNING;
	p->ledger_used = true;
	process_describe(p);
	tell_lost_rights(s, p);
	err = land(s, p, e->tid);
	patient_fresh(0);
	if (err && err != -ESRCH)
		session_cannot_supervise(s, p, session_stub_error(err));
}
