// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/limit_enforce.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/message.h"
#include "transport/heartbeat.h"

/*
 * limit_enforce.c - answers requests for room (limit.c says whether one fits), and acts on a hit.
 *
 * A verdict that ends or stops the program is given twice: first while it runs, then, with all its
 * threads stopped, for good. So what is told is what can be seen, and there is one hit however many
 * threads ask at the same time: the others are stopped by then.
 *
 * Telling of a hit, with symbols and a file, may take a second, and the loop has others to serve.
 * So an asker of its own tells it (session_on_limit()), one hit at a time; until then the process
 * stands still, or, if it goes on, its requests wait. Other processes run: their requests are
 * answered if they fit, and wait if they are hits, too.
 */

#define TOLD_MS 50 /* between two looks of an asker whether a hit was told */

static bool final(const struct session *s)
{
	return s->options.on_limit == LIMIT_KILL || s->options.on_limit == LIMIT_STOP;
}

/* ---- a hit --------------------------------------------------------------- */

/* A hit was told, or there was nothing to tell: does what on_limit says. */
static void hit_over(struct session *s)
{
	if (s->options.on_limit == LIMIT_KILL)
		session_limit_kill(s);
}

static void tell_now(void *ctx)
{
	struct session *s = ctx;
	struct limit_telling *t = &s->telling;

	s->on_limit.tell(s->on_limit.ctx, &t->hit);
	t->busy = false;
	t->told = true;
	hit_over(s);
	process_unref(t->hit.process);
	asking_wake(s);
}

/*
 * Has a hit told. ASKED: its question, or NULL. AT_ONCE: the process does not wait until it is
 * told. False: there is nothing to tell; else hit_over() is called when it was told.
 */
static bool tell(struct session *s, const struct limit_hit *hit,
		 const struct shared_question *asked, bool at_once)
{
	hit->process->limit.hits++;
	if (!s->on_limit.hit || !s->on_limit.hit(s->on_limit.ctx, hit))
		return false;
	s->telling = (struct limit_telling){ .busy = true,
					     .hit = *hit,
					     .slot = asked ? asked->slot : UINT32_MAX,
					     .asked = asked ? asked->asked : 0 };
	process_ref(hit->process);
	if (at_once || asking_is_asker(s) || asking_beside(s, tell_now, s))
		tell_now(s);
	return true;
}

/* The process is stopped. */
static void tell_final(struct session *s, const struct limit_hit *hit)
{
	if (!tell(s, hit, NULL, false))
		hit_over(s);
}

bool session_is_telling(const struct session *s, const struct process *p)
{
	return s->telling.busy && (!p || p == s->telling.hit.process);
}

void limit_await_told(struct session *s, const struct process *p)
{
	while (asking_is_asker(s) && session_is_telling(s, p) && session_turn(s, TOLD_MS) == 0)
		;
}

/* Whether the hit of this question was told already. */
static bool was_told(const struct session *s, const struct process *p,
		     const struct shared_question *asked)
{
	const struct limit_telling *t = &s->telling;

	return t->told && t->hit.process == p && t->slot == asked->slot && t->asked == asked->asked;
}

/* ---- requests ------------------------------------------------------------ */

/*
 * Every thread of P passes a memory barrier: by membarrier(2), which interrupts running threads,
 * or, if P has not registered for that, waits for them; or all are stopped for a moment. 0 or
 * -errno.
 */
static int fence(struct session *s, struct process *p)
{
	int err;

	if (p->state == PROCESS_STOPPED)
		return 0;
	if (p->fences && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
		return 0;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return 0;
	err = session_stop(s, p);
	return err ? err : session_cont(s, p);
}

static struct room_rules rules_now(const struct session *s, bool frozen)
{
	return (struct room_rules){
		.limit = s->options.limit ? s->options.limit : UINT64_MAX >> 2,
		.count = s->options.count,
		.ms = heartbeat_ms(),
		.final = final(s),
		.frozen = frozen,
	};
}

static enum room_verdict judge(struct session *s, struct process *p, const struct room_question *q,
			       struct room_case *c, bool frozen)
{
	struct room_rules rules = rules_now(s, frozen);
	enum room_verdict v = limit_judge(p, q, &rules, c);

	if (v != ROOM_FENCE)
		return v;
	if (!frozen && fence(s, p) < 0)
		return ROOM_LATER;
	if (!p->wire)
		return ROOM_LATER;
	limit_fenced(p);
	return limit_judge(p, q, &rules, c);
}

static struct limit_hit hit_of(const struct session *s, struct process *p,
			       const struct room_question *q, const struct room_case *c, pid_t tid)
{
	/* the number is the target's word */
	const struct thread *t = thread_find((struct session *)s, tid);

	return (struct limit_hit){
		.process = p,
		.tid = t && t->process == p ? tid : p->pid,
		.request = c->growth,
		.allocated = c->allocated,
		.limit = s->options.limit,
		.stack = q->stack,
		.ms = heartbeat_ms(),
	};
}

#define FREEZE_MS 1000 /* how long to wait until all threads are stopped */
#define RETRY_MS  1000 /* how long all run if some did not stop */

/* Stops all threads and looks once more. True: the request fits after all. */
static bool freeze(struct session *s, struct process *p, const struct room_question *q,
		   struct room_case *c, pid_t tid)
{
	int err = session_stop_within(s, p, FREEZE_MS);
	enum room_verdict v;
	struct limit_hit hit;

	if (err == -ETIMEDOUT)
		p->limit.retry_ms = heartbeat_ms() + RETRY_MS;
	/* it must be killed now: what can be seen while it runs is told */
	if (err == -ETIMEDOUT && p->wire && s->options.on_limit == LIMIT_KILL) {
		hit = hit_of(s, p, q, c, tid);
		tell_final(s, &hit);
	}
	if (!p->wire || p->state != PROCESS_STOPPED)
		return false;
	v = judge(s, p, q, c, true);
	if (v != ROOM_CROSSES) {
		if (session_cont(s, p) < 0)
			message_verbose(1, "cannot continue process %d", (int)p->pid);
		return v == ROOM_FITS;
	}
	hit = hit_of(s, p, q, c, tid);
	tell_final(s, &hit);
	return false;
}

/* Refuses the request; the program goes on. False: it must be told first. */
static bool refuse(struct session *s, struct process *p, const struct room_question *q,
		   const struct room_case *c, const struct shared_question *asked)
{
	struct limit_hit hit = hit_of(s, p, q, c, asked->tid);

	if (limit_refused(&p->limit, q->stack, c->growth) < 0)
		message_verbose(1, "out of memory: a refusal is not listed");
	tell(s, &hit, asked, false);
	return !s->telling.busy;
}

/* Has the hit told, unless it was (TOLD), and grants the request. False: not yet. */
static bool report(struct session *s, struct process *p, const struct room_question *q,
		   const struct room_case *c, const struct shared_question *asked, bool told)
{
	struct limit_hit hit = hit_of(s, p, q, c, asked->tid);
	struct room_rules rules = rules_now(s, false);

	if (p->limit.above)
		return true;
	if (!told)
		tell(s, &hit, asked, false);
	if (s->telling.busy)
		return false;
	limit_watch(p, q->slot, &rules);
	return true;
}

void limit_enforce_crossed(struct session *s, struct process *p)
{
	struct limit_watch *w = &p->limit.watch;
	struct limit_hit hit = w->last;

	if (!w->crossings || (s->telling.busy && p->state <= PROCESS_STOPPED))
		return;
	p->limit.hits += w->crossings - !s->telling.busy;
	w->crossings = 0;
	if (s->telling.busy) /* it has ended: there is no later */
		return;
	hit.ms = heartbeat_ms();
	tell(s, &hit, NULL, false);
}

/* LIMIT_REPORT, and P is above the limit already: grants the request. */
static bool goes_on_above(struct session *s, struct process *p, const struct room_question *q,
			  struct room_case *c)
{
	struct room_rules rules = rules_now(s, false);

	return p->limit.above && s->options.on_limit == LIMIT_REPORT &&
	       limit_above(p, q, &rules, c);
}

bool limit_enforce_answer(struct session *s, struct process *p, const struct shared_question *asked)
{
	struct wire_mail *mail = asked->mail;
	struct room_question q;
	struct room_case c = { 0 };
	bool told;

	if (!p->stream || !p->limit.lease || p->limit.lifted) {
		mail->answer = 0;
		return true;
	}
	if (p->state == PROCESS_STOPPED || s->stopping || s->limit_killed ||
	    session_is_telling(s, p) || heartbeat_ms() < p->limit.retry_ms)
		return false;
	room_question(&q, asked);
	told = was_told(s, p, asked);
	if (told && s->options.on_limit == LIMIT_FAIL) { /* whatever has become free since */
		s->telling.told = false;
		mail->answer = limit_refuse(p, &q);
		return true;
	}
	if (goes_on_above(s, p, &q, &c)) {
		mail->answer = limit_grant(p, &q, &c);
		return true;
	}
	switch (judge(s, p, &q, &c, false)) {
	case ROOM_FITS: p->limit.above &= c.growth == 0; break;
	case ROOM_CROSSES:
		if (s->telling.busy)
			return false;
		if (s->options.on_limit == LIMIT_FAIL) {
			if (!refuse(s, p, &q, &c, asked))
				return false;
			mail->answer = limit_refuse(p, &q);
			return true;
		}
		if (final(s) ? !freeze(s, p, &q, &c, asked->tid)
			     : !report(s, p, &q, &c, asked, told))
			return false;
		break;
	default: return false;
	}
	mail->answer = limit_grant(p, &q, &c);
	return true;
}

/* ---- a new process ------------------------------------------------------- */

void limit_enforce_begin(struct session *s, struct process *p)
{
	if (limit_switch(p, s->options.limit ? s->options.count : 0) < 0)
		message_error("out of memory: %d has no limit", (int)p->pid);
}

/* The program named may meet its limit before there is a listener: session_on_limit() tells it then. */
static void image_hit(struct session *s, const struct limit_hit *hit)
{
	if (!s->on_limit.hit)
		s->early = *hit;
	else if (final(s))
		tell_final(s, hit);
	else
		tell(s, hit, NULL, true);
}

bool limit_enforce_image(struct session *s, struct process *p)
{
	struct limit_hit hit = { .process = p,
				 .tid = p->pid,
				 .request = p->image_bytes,
				 .limit = s->options.limit,
				 .image = true,
				 .ms = heartbeat_ms() };

	if (!s->options.limit || !(s->options.count & COUNT_IMAGE) ||
	    p->image_bytes <= s->options.limit)
		return false;
	if (final(s) && session_stop(s, p) < 0)
		message_error("cannot stop process %d", (int)p->pid);
	if (s->options.on_limit == LIMIT_REPORT) {
		struct room_rules rules = rules_now(s, false);

		limit_watch(p, UINT32_MAX, &rules);
	}
	image_hit(s, &hit);
	return final(s);
}

/* ---- settings ------------------------------------------------------------ */

/* Applies a new limit to P: what was given in advance under the old one is taken back. */
static int apply_limit(struct session *s, struct process *p)
{
	int err = limit_switch(p, s->options.limit ? s->options.count : 0);

	if (!err && p->limit.lease) {
		limit_close(p);
		err = fence(s, p);
		if (!err && p->wire)
			limit_fenced(p);
	}
	return err;
}

static int limit_now(struct session *s, uint64_t limit)
{
	int err = 0, got;

	s->options.limit = s->api.limit = limit;
	for (struct process *p = s->processes; p; p = p->next) {
		if (!p->wire || p->state > PROCESS_STOPPED)
			continue;
		got = apply_limit(s, p);
		if (got && got != -ESRCH)
			err = got;
	}
	return err;
}

static void ask_limit(struct asked *a) { a->ret = limit_now(a->s, a->number); }

int session_limit(struct session *s, uint64_t limit)
{
	return asking_do(s, ask_limit, &(struct asked){ .number = limit });
}

uint64_t session_limit_now(const struct session *s) { return s->options.limit; }

void session_limit_action(struct session *s, enum limit_action action)
{
	s->options.on_limit = action;
	for (struct process *p = s->processes; p; p = p->next)
		/* what was given in advance above the limit */
		if (p->wire && p->limit.lease && p->limit.above) {
			limit_unwatch(p);
			limit_close(p);
		}
}

enum limit_action session_limit_action_now(const struct session *s) { return s->options.on_limit; }

void session_on_limit(struct session *s, const struct limit_listener *listener)
{
	struct limit_hit early = s->early;

	s->on_limit = *listener;
	s->early.process = NULL;
	if (early.process)
		image_hit(s, &early);
}

bool session_limit_killed(const struct session *s) { return s->limit_killed; }
