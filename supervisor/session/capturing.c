// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * capturing.c - taking the memory of a process that runs, as of one instant.
 *
 * At the instant every thread is stopped, what the hooks have said is in the ledger, and nobody is
 * in the middle of saying something: registers, blocks and pages belong together. What is done by
 * ptrace(2) is the loop's; the pages are copied by whoever asks, beside it.
 *
 * The target is hostile: what it says is not asked for here. Pages are read as far as they can be,
 * for as long as nobody interrupts that.
 */
#include "session/capturing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "memory/available.h"
#include "memory/capture_make.h"
#include "memory/leftovers.h"
#include "process/preattach_heap.h"
#include "session/session_state.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

struct capturing { /* one that is being taken, or waits for what it was taken from */
	struct session *s;
	struct process *p;
	struct capture *c;
	enum capture_way forced;
	uint64_t most;	   /* bytes that a copy may have */
	uint64_t began_us; /* when the threads were stopped */
	bool stopped;	   /* by us, and they still are */
	uint32_t resumed;  /* p->resumed then */
};

/* ---- the instant: the loop's thread -------------------------------------- */

static int take_thread(struct capture *c, pid_t tid)
{
	static uint64_t vector[TRACER_VECTOR / 8];
	struct user_regs_struct general;
	size_t len = sizeof(vector);
	int err = tracer_get_regs(tid, &general);

	if (!err)
		err = tracer_get_vector(tid, vector, &len);
	return err ? err : capture_thread(c, tid, &general, vector, len);
}

/*
 * -EBUSY: one waits in the kernel, uninterruptibly, or shares the memory with a vfork child. At the
 * process' last instant those count, too, that ended with it.
 */
static int take_threads(const struct capturing *k)
{
	const struct thread_ends *ends = &k->p->ends;
	bool held = k->p->state == PROCESS_HELD;
	int err = 0;

	for (size_t i = 0; i < k->s->nthreads && !err; i++) {
		const struct thread *t = &k->s->thread[i];

		if (t->process != k->p ||
		    (t->state == THREAD_EXITING && !(held && t->tid == k->p->via)))
			continue;
		err = t->vfork_child || t->state == THREAD_RUNNING ? -EBUSY
								   : take_thread(k->c, t->tid);
	}
	for (size_t i = 0; held && i < ends->lasts && !err; i++)
		err = capture_thread(k->c, ends->last[i].tid, &ends->last[i].general,
				     ends->last[i].vector, ends->last[i].vector_bytes);
	return err;
}

/*
 * -EAGAIN: some thread stands between taking a number for what it has to say and saying it, and
 * what others have said since waits for that.
 */
static int take_blocks(const struct capturing *k)
{
	struct process *p = k->p;
	uint64_t bytes;

	if (p->stream) {
		stream_settle(p->stream, heartbeat_ms(), p->state > PROCESS_STOPPED);
		if (stream_held(p->stream, &bytes))
			return -EAGAIN;
	}
	return capture_blocks(k->c, p->ledger, heartbeat_ms());
}

static void resume(struct capturing *k)
{
	uint64_t us;

	if (!k->stopped)
		return;
	k->stopped = false;
	if (session_cont(k->s, k->p) < 0)
		message_verbose(1, "%d: it was stopped and is not continued", k->p->pid);
	us = clock_us() - k->began_us;
	if (us * 1000 > k->c->pause_ns)
		k->c->pause_ns = us * 1000;
}

#define STOP_MS 2000

/* All threads stand still, and stay so if this returns 0. */
static int freeze(struct capturing *k)
{
	struct process *p = k->p;
	bool running = p->state == PROCESS_RUNNING;
	int err;

	k->began_us = clock_us();
	err = session_stop_within(k->s, p, STOP_MS);
	if (err)
		return err;
	k->stopped = running;
	k->resumed = p->resumed;
	capture_clear(k->c);
	err = take_threads(k);
	if (!err)
		err = take_blocks(k);
	if (!err)
		err = capture_ranges(k->c, p);
	if (!err && !p->glibc_malloc.state && !preattach_heap_find(p, &p->glibc_malloc))
		message_verbose(2, "%d: its malloc is not glibc's", p->pid);
	if (err)
		resume(k);
	return err;
}

static void ask_freeze(struct asked *a) { a->ret = freeze(a->ctx); }

static void ask_resume(struct asked *a) { resume(a->ctx); }

/* ---- the ways: the asker's ----------------------------------------------- */

#define TRIES	 20
#define PAUSE_MS 50 /* between two of them */

/* What is in the way of an instant goes by, mostly. */
static int stop(struct capturing *k)
{
	int err = -EAGAIN;

	for (int i = 0; i < TRIES && (err == -EAGAIN || err == -EBUSY); i++) {
		if (i && session_turn(k->s, PAUSE_MS) < 0)
			break;
		err = asking_do(k->s, ask_freeze, &(struct asked){ .ctx = k });
	}
	return err;
}

/* Nobody has let it run, and nothing has ended it. */
static int still_stopped(const struct capturing *k)
{
	if (k->p->state != PROCESS_STOPPED && k->p->state != PROCESS_HELD)
		return -ESRCH;
	return k->p->resumed == k->resumed ? 0 : -EBUSY;
}

/* It stands still while its pages are copied; or, without the memory for that, until the end. */
static int capture_by_stop(struct capturing *k)
{
	pid_t via = k->p->via;
	int err = stop(k);

	if (err)
		return err;
	k->c->way = CAPTURE_STOP;
	asking_unlock(k->s);
	err = capture_copy(k->c, via, k->most);
	asking_lock(k->s);
	if (err == -E2BIG)
		err = capture_read_there(k->c, via);
	if (!err)
		err = still_stopped(k);
	if (err || k->c->copied)
		asking_do(k->s, ask_resume, &(struct asked){ .ctx = k });
	return err;
}

/* ---- from beginning to end ----------------------------------------------- */

static enum capture_way forced_way(void)
{
	static const char *const name[] = { [CAPTURE_STOP] = "stop" };
	const char *asked = getenv("MTRUN_CAPTURE");

	for (size_t i = 0; asked && i < sizeof(name) / sizeof(*name); i++)
		if (name[i] && !strcmp(asked, name[i]))
			return (enum capture_way)i;
	return CAPTURE_AUTO;
}

static const char *reason(int err)
{
	switch (err) {
	case -EBUSY: return "a thread of it waits in the kernel, for a vfork(2) or for a device";
	case -EAGAIN: return "its threads do not come to rest";
	case -ETIMEDOUT: return "some of its threads do not stop";
	case -ESRCH: return "it has ended";
	case -EALREADY: return "another capture is under way";
	case -ENODATA: return "its allocations are not recorded";
	case -EINTR: return "interrupted";
	case -ENOMEM: return "out of memory";
	default: return strerror(-err);
	}
}

static void release(struct capturing *k)
{
	k->s->capturing = NULL;
	free(k);
}

/* 0: *K is begun. */
static int begin(struct session *s, struct process *p, bool (*interrupted)(void *ctx), void *ctx,
		 struct capturing **begun)
{
	struct capturing *k;

	if (s->capturing)
		return -EALREADY;
	if (p->state > PROCESS_HELD)
		return -ESRCH;
	if (!p->agent || p->off)
		return -ENODATA;
	if (p->lent)
		return -EBUSY;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	*k = (struct capturing){ .s = s,
				 .p = p,
				 .c = capture_new(interrupted, ctx),
				 .forced = forced_way(),
				 .most = memory_available(getpid()) / 2 };
	if (!k->c) {
		free(k);
		return -ENOMEM;
	}
	*begun = s->capturing = k;
	return 0;
}

/* Each block of P's heap is in its ledger: from the beginning on nothing went by us. */
static bool all_known(const struct session *s, const struct process *p)
{
	struct stream_stats stats = p->last_stats;

	if (p->stream)
		stream_stats(p->stream, &stats);
	return !p->attached && p->preattach.state == PREATTACH_NONE && !s->options.sampled &&
	       !s->was_off && !s->options.agent.nhooks && !p->plant.nrefused &&
	       !p->credible.emptied && !p->credible.given_up && !stats.dropped && !stats.bad;
}

/* The same, once those are found that were there before. */
static bool all_found(struct session *s, const struct process *p, struct capture *c)
{
	struct glibc_malloc g = p->glibc_malloc;
	int err = -ENOTSUP;

	if ((p->attached || p->recorded_ms > p->began_ms) && !s->options.sampled &&
	    !s->options.agent.nhooks) {
		asking_unlock(s);
		err = capture_before(c, &g);
		asking_lock(s);
	}
	return !err;
}

int session_capture(struct session *s, struct process *p, bool (*interrupted)(void *ctx), void *ctx,
		    struct capture **c, char *why, size_t len)
{
	struct capturing *k;
	int err = begin(s, p, interrupted, ctx, &k);

	if (!err) {
		err = capture_by_stop(k);
		if (err)
			capture_free(k->c);
		else
			*c = k->c;
		if (err || k->c->copied)
			release(k);
	}
	if (err) {
		snprintf(why, len, "cannot capture the memory of %d: %s", p->pid, reason(err));
		return err;
	}
	capture_names(*c, p->pid);
	if (leftovers_mark(*c, p, all_known(s, p) || all_found(s, p, *c)))
		message_verbose(1, "%d: what it has freed counts as if it were in use: %s", p->pid,
				strerror(ENOMEM));
	return 0;
}

void session_capture_end(struct session *s, struct capture *c)
{
	struct capturing *k = s->capturing;

	if (k && k->c == c) {
		asking_do(s, ask_resume, &(struct asked){ .ctx = k });
		release(k);
	}
	capture_free(c);
}
