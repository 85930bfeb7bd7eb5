// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/clock.h"
#include "session/limit_enforce.h"
#include "session/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/maps.h"
#include "base/message.h"
#include "base/patient.h"
#include "base/proc.h"
#include "tracee/agent.h"
#include "tracee/own_thread.h"
#include "tracee/sigframe.h"
#include "tracee/stub.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * detach.c - getting out of a program, so that nothing of ours is left in it.
 *
 * With all threads stopped the hooks are switched off and the functions' own bytes restored: no
 * thread enters any more. One can still be inside: by its pc; in a real function that a hook has
 * called, as the hook's mark says (wire_thread.mark; a thread that has no slot, and so no mark, has
 * left the hook by then); or in a handler that will return to such a place. A thread at an
 * instruction that was moved goes on at the original. If others are inside, all run for a moment
 * and are looked at again, for four seconds at most. When all are out one of them unmaps what was
 * ours (agent_leave()).
 *
 * A mark holds the stack pointer at the hook's entry. If the thread is on the same stack above it,
 * it has left the hook by longjmp or the like.
 */

#define OUT_MS 4000

/* ---- who is inside ------------------------------------------------------- */

struct hook_mark {
	uint64_t fs, mark;
};

struct inside { /* what it takes to tell */
	const struct process *p;
	struct code_cave cave[CAVE_MOST];
	size_t ncaves;
	bool handlers;
	struct hook_mark *mark;
	uint32_t *tid; /* as the thread itself has it */
	size_t nmarks;
	struct maps maps;
};

static bool is_ours(const void *ctx, raddr_t pc)
{
	const struct inside *in = ctx;

	if (process_in_agent(in->p, pc))
		return true;
	for (size_t i = 0; i < in->p->plant.nislands; i++)
		if (pc >= in->p->plant.island[i].start && pc < in->p->plant.island[i].end)
			return true;
	for (size_t i = 0; i < in->ncaves; i++)
		if (pc >= in->cave[i].start && pc < in->cave[i].end)
			return true;
	return false;
}

static uint32_t read_u32(const struct process *p, size_t offset)
{
	uint32_t value;

	return patient_read(p->via, p->agent + AGENT_PROCESS + offset, &value, sizeof(value)) ==
			       sizeof(value)
		       ? value
		       : 0;
}

_Static_assert(offsetof(struct wire_thread, mark) == 8, "fs and mark are read together");

/* Reads SIZE bytes at OFFSET of each of the first N slots to TO. */
static int read_slots(const struct process *p, size_t n, size_t offset, size_t size, void *to)
{
	struct remote_span *span = calloc(n + 1, sizeof(*span));

	if (!span)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		span[i] = (struct remote_span){ p->agent + AGENT_PROCESS +
							offsetof(struct wire_process, thread) +
							i * sizeof(struct wire_thread) + offset,
						size };
	patient_read_spans(p->via, span, n, to);
	free(span);
	return 0;
}

static int read_marks(struct inside *in)
{
	const struct process *p = in->p;
	uint32_t high = p->agent ? read_u32(p, offsetof(struct wire_process, threads_high)) : 0;

	in->nmarks = high < WIRE_THREADS ? high : WIRE_THREADS;
	in->mark = calloc(in->nmarks + 1, sizeof(*in->mark));
	in->tid = calloc(in->nmarks + 1, sizeof(*in->tid));
	if (!in->mark || !in->tid ||
	    read_slots(p, in->nmarks, 0, sizeof(*in->mark), in->mark) < 0 ||
	    read_slots(p, in->nmarks, offsetof(struct wire_thread, tid), sizeof(*in->tid),
		       in->tid) < 0)
		return -ENOMEM;
	return 0;
}

static int inside_init(struct inside *in, const struct process *p)
{
	int err;

	*in = (struct inside){ .p = p, .handlers = sigframe_possible(p->via) };
	err = maps_read(&in->maps, p->via);
	if (err)
		return err;
	err = read_marks(in);
	in->ncaves = cave_find(p->via, in->cave);
	return err;
}

static void inside_release(struct inside *in)
{
	free(in->mark);
	free(in->tid);
	maps_release(&in->maps);
}

/* The thread pointer of TID, which is blocked, if it has been in a hook. */
static uint64_t fs_of(const struct inside *in, pid_t tid)
{
	uint32_t own = (uint32_t)proc_own_tid(tid);

	for (size_t i = 0; i < in->nmarks; i++)
		if (in->tid[i] == own && in->mark[i].fs > 1)
			return in->mark[i].fs;
	return 0;
}

static bool is_marked(const struct inside *in, const struct user_regs_struct *regs, bool in_handler)
{
	for (size_t i = 0; i < in->nmarks; i++) {
		raddr_t mark = in->mark[i].mark & ~7ull;

		if (in->mark[i].fs != regs->fs_base || !mark)
			continue;
		return in_handler || regs->rsp <= mark ||
		       maps_find(&in->maps, regs->rsp) != maps_find(&in->maps, mark);
	}
	return false;
}

static bool any(const void *ctx, raddr_t pc)
{
	(void)ctx;
	(void)pc;
	return true;
}

static bool is_inside(const struct inside *in, const struct user_regs_struct *regs)
{
	pid_t pid = in->p->via;

	if (is_ours(in, regs->rip) || (in->handlers && sigframe_any(pid, regs->rsp, is_ours, in)))
		return true;
	return is_marked(in, regs, in->handlers && sigframe_any(pid, regs->rsp, any, NULL));
}

/*
 * How many threads are still inside. All are stopped, or blocked, and the entries are restored.
 */
static size_t count_inside(struct session *s, const struct inside *in)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nthreads; i++) {
		const struct thread *t = &s->thread[i];
		struct user_regs_struct regs;
		bool blind = false; /* of a blocked one, whose mark is not known */
		raddr_t original;

		if (t->process != in->p || t->state == THREAD_EXITING)
			continue;
		if (thread_regs(t, &regs) < 0) {
			n++;
			continue;
		}
		if (t->state != THREAD_STOPPED) {
			regs.fs_base = fs_of(in, t->tid);
			blind = !regs.fs_base;
		}
		original = plant_exact_pc(&in->p->plant, regs.rip);
		if (original) {
			regs.rip = original;
			if (tracer_set_regs(t->tid, &regs) < 0)
				n++;
		}
		n += is_inside(in, &regs) ||
		     (blind && stack_any(in->p->via, regs.rsp, is_ours, in));
	}
	return n;
}

/* ---- out ----------------------------------------------------------------- */

void session_paused(struct process *p, uint64_t began)
{
	uint64_t us = clock_us() - began;

	if (us > p->paused_us)
		p->paused_us = us;
}

struct thread *session_one_stopped(struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && s->thread[i].state == THREAD_STOPPED &&
		    s->thread[i].between)
			return &s->thread[i];
	return NULL;
}

static bool has_agent(const struct process *p) { return p->agent && !p->left; }

/* Unmaps what is ours. No thread is inside; all are stopped, before and after. */
static int unmap(struct session *s, struct process *p, const struct inside *in)
{
	int err = 0;

	for (size_t i = 0; i < in->ncaves && !err; i++)
		err = cave_clear(p->via, &in->cave[i]);
	while (!err && has_agent(p)) {
		struct thread *t = session_one_stopped(s, p);
		pid_t tid = t ? t->tid : 0;

		if (!t)
			return -EAGAIN;
		err = session_unfilter(s, tid, true);
		if (err)
			return err;
		err = agent_leave(p, tid);
		t->state = THREAD_RUNNING;
		t->group = false;
		if (!err)
			err = session_halt(s, t, OUT_MS);
		if (!err)
			err = session_unfilter(s, tid, false);
	}
	return err;
}

/*
 * Stops P and gets out of it, if no thread is inside. -EAGAIN: one is, or they did not all stop
 * within MS milliseconds, and P runs. Else all threads are stopped.
 */
static int try_out(struct session *s, struct process *p, uint64_t ms)
{
	struct inside in;
	uint64_t began;
	int err;

	session_hurry(true);
	began = clock_us();
	err = session_stop_within(s, p, ms);
	if (!err && p->state != PROCESS_STOPPED)
		err = -ESRCH;
	if (err == -ETIMEDOUT)
		err = -EAGAIN;
	if (!err)
		err = session_halt_sharers(s, p);
	if (!err && has_agent(p))
		err = agent_arm(p, false);
	if (!err)
		err = agent_uproot(p);
	if (!err) {
		err = inside_init(&in, p);
		if (!err)
			err = own_thread_there(p) || count_inside(s, &in) ? -EAGAIN
									  : unmap(s, p, &in);
		inside_release(&in);
	}
	session_paused(p, began);
	session_hurry(false);
	return err;
}

/* Lets P run for MS milliseconds. */
static int let_run(struct session *s, struct process *p, uint64_t ms)
{
	uint64_t until = heartbeat_ms() + ms;
	int err = session_cont(s, p);

	while (!err && heartbeat_ms() < until)
		err = session_turn(s, (int)ms);
	return err;
}

/*
 * Many threads that share a processor have their turns only now and then: so they run longer before
 * each try.
 */
int session_withdraw(struct session *s, struct process *p)
{
	uint64_t ran = 0, ms = 1;
	int err;

	/* first of all: what follows may fail */
	limit_lift(p);
	session_adopt_sharers(s, p);
	if (has_agent(p) && agent_arm(p, false) < 0)
		message_verbose(1, "%d: its hooks were not switched off", p->pid);
	while ((err = try_out(s, p, session_moment(p) + ms)) == -EAGAIN && ran < OUT_MS) {
		if (let_run(s, p, ms) < 0)
			return -ESRCH;
		ran += ms;
		ms += ms;
	}
	return err == -EAGAIN ? -EBUSY : err;
}

static bool some_blocked(const struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && thread_blocked(&s->thread[i]))
			return true;
	return false;
}

static void leave(struct session *s, struct process *p)
{
	int err;

	session_capture_cancel(s, p);
	p->paused_us = 0;
	err = has_agent(p) ? 0 : session_stop_most(s, p, OUT_MS);
	/* also in a child that was forked just now, and has come to its own while it was stopped */
	if (has_agent(p) && p->state <= PROCESS_STOPPED)
		err = session_withdraw(s, p);
	/* only stopped threads can be detached now; the others are when mtrun ends */
	if (p->state == PROCESS_RUNNING && session_stop_most(s, p, session_moment(p)) == -ETIMEDOUT)
		message_verbose(1, "%d: some of its threads do not stop", p->pid);
	if (p->state > PROCESS_STOPPED)
		return;
	if (err == -EBUSY)
		message_say(
			"%d: some of its threads %s: these stay, and do nothing; the next `mtrun -p %d` takes them away",
			p->pid,
			some_blocked(s, p) ? "wait in the kernel, perhaps in hooks"
					   : "are still in hooks",
			p->pid);
	else if (err)
		message_verbose(1, "%d: its hooks stay, and do nothing: %s", p->pid,
				strerror(-err));
	else if (p->agent)
		message_verbose(1, "%d: stopped for %.1f ms to leave it", p->pid,
				(double)p->paused_us / 1000);
	if (!err && agent_remains(p))
		message_say("%d: memory of mtrun's stays in it, unused: it cannot be unmapped",
			    p->pid);
}

/* Its first thread goes first, see session_stop(). */
void session_release_threads(struct session *s, struct process *p)
{
	struct thread *first = thread_find(s, p->pid);
	bool child = p->pid == s->launched && first && first->process == p;

	if (first && first->process == p)
		thread_let_go(first);
	for (size_t i = 0; i < s->nthreads;) {
		if (s->thread[i].process != p) {
			i++;
			continue;
		}
		if (s->thread[i].tid != p->pid)
			thread_let_go(&s->thread[i]);
		thread_remove(s, &s->thread[i]);
	}
	if (child && thread_add(s, p->pid, p, THREAD_LENT) == NULL)
		p->state = PROCESS_DETACHED;
}

/* Detaches before the rings are drained, so that the pause stays short. */
static void let_go(struct session *s, struct process *p)
{
	session_release_threads(s, p);
	p->state = PROCESS_DETACHED;
	p->ended_ms = heartbeat_ms();
}

/* Every process is left as it was, then let go. */
static void detach_now(struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next) {
		if (p->state > PROCESS_STOPPED)
			continue;
		leave(s, p);
		if (p->state <= PROCESS_STOPPED)
			let_go(s, p);
	}
	session_settle(s);
	/* unannounced tracees, and threads at their last instant */
	for (size_t i = 0; i < s->nthreads; i++)
		thread_let_go(&s->thread[i]);
	s->nthreads = 0;
	s->held = 0;
	for (struct process *p = s->processes; p; p = p->next) {
		p->to_check = false;
		if (p->state == PROCESS_HELD)
			p->state = PROCESS_EXITED;
		process_close(s, p);
	}
	s->detached = true;
	session_close_log(s);
}

static void ask_detach(struct asked *a) { detach_now(a->s); }

void session_detach(struct session *s)
{
	limit_await_told(s, NULL);
	asking_do(s, ask_detach, &(struct asked){ .ret = 0 });
}
