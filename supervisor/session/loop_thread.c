// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/asking.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "session/session_state.h"
#include "transport/heartbeat.h"

/*
 * The session's lock is held by the loop, for a turn, or by an asker, while it copies. The lock's
 * state is guarded by a mutex, which is held for some instructions only.
 *
 * A lock that is released is handed over to the asker that has waited longest, so nobody can come
 * in between. If none waits it is free: an asker that has just released it, as one does for each
 * frame that it looks up, may take it again before the loop has woken up. But when the loop has
 * waited for LOOP_US it comes first: events wait for it, in rings that are full in some
 * milliseconds.
 *
 * Askers that wait for a turn of the loop are told of turns in which something happened that
 * concerns them; of turns in which only events were read, once in some milliseconds. Those that
 * were told get the lock next: otherwise a descriptor that nobody has read yet would make the loop
 * spin.
 */
#define LOOP_US 2000u
#define TELL_MS 8

#define STACK_BYTES (16u << 20) /* of an asker's thread: demangling recurses deeply */

bool asking_is_asker(const struct session *s)
{
	return s->asking.begun && !pthread_equal(pthread_self(), s->asking.loop);
}

struct asker {
	struct asker *next;
	bool queued, granted;
	pthread_cond_t changed;
};

static void begin_condition(pthread_cond_t *c)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(c, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* ---- the session's lock; `lock` is held ---------------------------------- */

static void queue(struct asking *a, struct asker *me)
{
	struct asker **at = &a->first;

	while (*at)
		at = &(*at)->next;
	me->next = NULL;
	me->queued = true;
	*at = me;
	a->waiting++;
}

static bool loop_is_first(const struct asking *a)
{
	return a->loop_since && clock_us() - a->loop_since >= LOOP_US;
}

/* Makes the loop look again at what it waits for. */
static void call_loop(struct asking *a)
{
	if (a->polling)
		eventfd_write(a->wake, 1);
	else if (!a->called)
		pthread_cond_signal(&a->to_loop);
	a->called = true;
}

static void give_back(struct asking *a)
{
	struct asker *next = a->first;

	if (a->stale && a->polling) {
		call_loop(a);
		a->stale = false;
	}
	if (!next || loop_is_first(a)) {
		a->taken = false;
		if (a->loop_since)
			call_loop(a);
		return;
	}
	a->first = next->next;
	a->waiting--;
	next->granted = true;
	pthread_cond_signal(&next->changed);
}

/* Waits until ME, which is queued, has the lock. */
static void await_grant(struct asking *a, struct asker *me)
{
	while (!me->granted)
		pthread_cond_wait(&me->changed, &a->lock);
}

static void take(struct asking *a)
{
	struct asker me = { .granted = false };

	if (!a->taken && !a->first && !loop_is_first(a)) {
		a->taken = true;
		return;
	}
	begin_condition(&me.changed);
	queue(a, &me);
	await_grant(a, &me);
	pthread_cond_destroy(&me.changed);
}

/* Does what the asker that holds the lock wants done. */
static void run_for_asker(struct asking *a)
{
	void (*run)(struct asked * asked) = a->run;

	pthread_mutex_unlock(&a->lock);
	run(a->asked);
	message_flush();
	pthread_mutex_lock(&a->lock);
	a->run = NULL;
	pthread_cond_broadcast(&a->done);
}

/* Takes the lock for the loop. False: the loop is to end. */
static bool take_for_turn(struct asking *a)
{
	while (a->run || a->ending || a->taken || (a->first && !loop_is_first(a))) {
		if (a->run) {
			run_for_asker(a);
			continue;
		}
		if (a->ending)
			return false;
		if (!a->loop_since)
			__atomic_store_n(&a->loop_since, clock_us(), __ATOMIC_RELAXED);
		a->called = false;
		pthread_cond_wait(&a->to_loop, &a->lock);
	}
	__atomic_store_n(&a->loop_since, 0, __ATOMIC_RELAXED);
	a->taken = true;
	return true;
}

/* ---- the loop ------------------------------------------------------------ */

/* US < 0: for ever. */
static int poll_us(struct pollfd *fds, nfds_t n, int64_t us)
{
	const struct timespec most = { us / 1000000, us % 1000000 * 1000 };

	return ppoll(fds, n, us < 0 ? NULL : &most, NULL);
}

int asking_poll(struct session *s, struct pollfd *fds, nfds_t n, int64_t us)
{
	struct asking *a = &s->asking;
	eventfd_t ignored;
	int got, err;

	if (!a->begun || a->run)
		return poll_us(fds, n, us);
	fds[n] = (struct pollfd){ .fd = a->wake, .events = POLLIN };
	s->serving = false;
	pthread_mutex_lock(&a->lock);
	if (a->stale || a->ending)
		us = 0;
	a->polling = true;
	a->called = a->stale = false;
	give_back(a);
	pthread_mutex_unlock(&a->lock);
	got = poll_us(fds, n + 1, us);
	err = errno;
	if (got > 0 && fds[n].revents)
		eventfd_read(a->wake, &ignored);
	pthread_mutex_lock(&a->lock);
	a->polling = false;
	take_for_turn(a); /* when it is to end, the caller finds out */
	pthread_mutex_unlock(&a->lock);
	s->serving = true;
	errno = err;
	return got;
}

/* A turn has ended in which SOMETHING happened, or only events were read. */
static void tell(struct asking *a, bool something)
{
	uint64_t now = heartbeat_ms();

	if (!a->asleep || (!something && !a->tell_next && now < a->told_ms + TELL_MS))
		return;
	a->tell_next = false;
	a->told_ms = now;
	while (a->asleep) {
		struct asker *next = a->asleep->next;

		queue(a, a->asleep);
		a->asleep = next;
	}
}

static void run_loop(struct session *s)
{
	struct asking *a = &s->asking;

	pthread_mutex_lock(&a->lock);
	while (take_for_turn(a)) {
		bool something = false;
		int err;
		/* an asker that was not told of this turn is to be told of one soon */
		int ms = a->asleep ? TELL_MS : -1;

		pthread_mutex_unlock(&a->lock);
		s->serving = true;
		err = loop_turn(s, ms, &something);
		session_forget_ended(s);
		s->serving = false;
		message_flush();
		pthread_mutex_lock(&a->lock);
		a->err = err;
		tell(a, something || err || message_deferred());
		give_back(a);
		while (a->err && !a->ending && !a->run) {
			a->called = false;
			pthread_cond_wait(&a->to_loop, &a->lock);
		}
	}
	a->begun = false;
	pthread_cond_broadcast(&a->done);
	pthread_mutex_unlock(&a->lock);
}

/* ---- threads ------------------------------------------------------------- */

struct beside {
	struct session *session;
	void (*fn)(void *ctx);
	void *ctx;
	sigset_t blocked; /* the signals that the first asker is to block at first */
};

static __thread struct {
	struct session *session;
	/* how often the lock was given back, without being taken again */
	unsigned times;
	uint64_t news; /* as it was at the end of this asker's last turn */
	bool measured;
	struct asking_hold since, longest;
} mine;

static struct asking_hold hold_now(void)
{
	return (struct asking_hold){ clock_us(), clock_thread_us() };
}

/* Around a hold of the lock: measures it, if asked to. */
static void hold_begins(void)
{
	if (mine.measured)
		mine.since = hold_now();
}

static void hold_ends(void)
{
	struct asking_hold now;

	if (!mine.measured)
		return;
	now = hold_now();
	if (now.cpu_us - mine.since.cpu_us > mine.longest.cpu_us)
		mine.longest = (struct asking_hold){ now.us - mine.since.us,
						     now.cpu_us - mine.since.cpu_us };
}

void asking_measure(bool on)
{
	mine.measured = on;
	mine.longest = (struct asking_hold){ 0, 0 };
	hold_begins();
}

struct asking_hold asking_longest(void)
{
	if (!mine.times)
		hold_ends();
	return mine.longest;
}

static void relock(struct asking *a)
{
	pthread_mutex_lock(&a->lock);
	take(a);
	pthread_mutex_unlock(&a->lock);
	hold_begins();
}

static void unlock(struct asking *a)
{
	hold_ends();
	pthread_mutex_lock(&a->lock);
	give_back(a);
	pthread_mutex_unlock(&a->lock);
}

static int start(void *(*fn)(void *ctx), void *ctx, pthread_t *thread)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(thread, &attr, fn, ctx);
	pthread_attr_destroy(&attr);
	return -err;
}

static void *run_first(void *arg)
{
	struct beside *b = arg;

	pthread_sigmask(SIG_SETMASK, &b->blocked, NULL);
	pthread_setname_np(pthread_self(), "mtrun-asker");
	hold_begins();
	b->fn(b->ctx);
	asking_end(b->session);
	return NULL;
}

int asking_loop(struct session *s, void (*fn)(void *ctx), void *ctx)
{
	struct beside beside = { .session = s, .fn = fn, .ctx = ctx };
	struct asking *a = &s->asking;
	pthread_t asker;
	sigset_t all;
	int err;

	*a = (struct asking){ .loop = pthread_self(),
			      .taken = true,
			      .begun = true,
			      .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	if (a->wake < 0)
		return -errno;
	pthread_mutex_init(&a->lock, NULL);
	begin_condition(&a->to_loop);
	begin_condition(&a->done);
	/*
	 * Signals are for the asker to choose, and come by the session's descriptor. This thread
	 * blocks all before there is an asker: once that has chosen, an unblocked one would end mtrun.
	 */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &beside.blocked);
	err = start(run_first, &beside, &asker);
	if (!err) {
		if (message_defer() < 0)
			message_error("out of memory: messages may have to be waited for");
		run_loop(s);
		message_defer_end();
		pthread_join(asker, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &beside.blocked, NULL);
	a->begun = false;
	close(a->wake);
	return err;
}

static void *run_beside(void *arg)
{
	struct beside b = *(struct beside *)arg;
	struct asking *a = &b.session->asking;

	free(arg);
	if (message_defer() < 0)
		message_error("out of memory: messages may have to be waited for");
	relock(a);
	b.fn(b.ctx);
	message_defer_end();
	hold_ends();
	pthread_mutex_lock(&a->lock);
	a->others--;
	pthread_cond_broadcast(&a->done);
	give_back(a);
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int asking_beside(struct session *s, void (*fn)(void *ctx), void *ctx)
{
	struct beside *b = malloc(sizeof(*b));
	struct asking *a = &s->asking;
	sigset_t all, was;
	pthread_t thread;
	int err;

	if (!b)
		return -ENOMEM;
	*b = (struct beside){ .session = s, .fn = fn, .ctx = ctx };
	pthread_mutex_lock(&a->lock);
	err = a->begun && !a->ending ? 0 : -ESHUTDOWN;
	a->others += !err;
	pthread_mutex_unlock(&a->lock);
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	if (!err) {
		err = start(run_beside, b, &thread);
		pthread_mutex_lock(&a->lock);
		a->others -= err != 0;
		pthread_mutex_unlock(&a->lock);
	}
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (err)
		free(b);
	else
		pthread_detach(thread);
	return err;
}

void asking_end(struct session *s)
{
	struct asking *a = &s->asking;

	if (!asking_is_asker(s))
		return;
	pthread_mutex_lock(&a->lock);
	__atomic_store_n(&a->closing, true, __ATOMIC_RELAXED);
	while (a->others) {
		give_back(a);
		while (a->others)
			pthread_cond_wait(&a->done, &a->lock);
		take(a); /* the loop may have begun another one */
	}
	a->ending = true;
	call_loop(a);
	while (a->begun)
		pthread_cond_wait(&a->done, &a->lock);
	pthread_mutex_unlock(&a->lock);
}

bool asking_is_closing(const struct session *s)
{
	return __atomic_load_n(&s->asking.closing, __ATOMIC_RELAXED);
}

/* ---- askers -------------------------------------------------------------- */

int asking_do(struct session *s, void (*fn)(struct asked *a), struct asked *asked)
{
	struct asking *a = &s->asking;

	asked->s = s;
	if (!asking_is_asker(s)) {
		fn(asked);
		return asked->ret;
	}
	hold_ends();
	pthread_mutex_lock(&a->lock);
	a->asked = asked;
	a->run = fn;
	call_loop(a);
	while (a->run)
		pthread_cond_wait(&a->done, &a->lock);
	pthread_mutex_unlock(&a->lock);
	hold_begins(); /* what it did was the loop's own work */
	if (message_deferred())
		message_flush();
	return asked->ret;
}

void asking_unlock(struct session *s)
{
	if (!asking_is_asker(s))
		return;
	mine.session = s;
	if (!mine.times++)
		unlock(&s->asking);
}

void asking_lock(struct session *s)
{
	if (asking_is_asker(s) && !--mine.times)
		relock(&s->asking);
}

bool asking_is_unlocked(void) { return mine.times; }

bool asking_relock(void)
{
	if (!mine.times)
		return false;
	relock(&mine.session->asking);
	return true;
}

void asking_reunlock(bool relocked)
{
	if (relocked)
		unlock(&mine.session->asking);
}

void asking_yield(struct session *s)
{
	uint64_t since = __atomic_load_n(&s->asking.loop_since, __ATOMIC_RELAXED);

	if (mine.times || !since || clock_us() - since < LOOP_US)
		return;
	unlock(&s->asking);
	relock(&s->asking);
}

static void forget(struct asking *a, const struct asker *me)
{
	struct asker **at = &a->asleep;

	while (*at != me)
		at = &(*at)->next;
	*at = me->next;
}

int asking_turn(struct session *s, int ms)
{
	struct asking *a = &s->asking;
	struct asker me = { .queued = false };
	struct timespec until = clock_timespec(clock_ns() + (ms > 0 ? (uint64_t)ms : 0) * 1000000);
	int err = 0;

	/* nobody else would wake us: it may be the last thing that happens for long */
	if (ms && a->news != mine.news) {
		mine.news = a->news;
		return a->err;
	}
	hold_ends();
	begin_condition(&me.changed);
	pthread_mutex_lock(&a->lock);
	me.next = a->asleep;
	a->asleep = &me;
	if (ms == 0) { /* one turn, whatever happens in it */
		a->tell_next = true;
		a->stale = true;
	}
	give_back(a);
	while (!me.queued && !a->err && err != ETIMEDOUT)
		err = ms > 0 ? pthread_cond_timedwait(&me.changed, &a->lock, &until)
			     : pthread_cond_wait(&me.changed, &a->lock);
	if (me.queued) {
		await_grant(a, &me);
	} else { /* nothing has happened: we come by ourselves */
		forget(a, &me);
		take(a);
	}
	err = a->err;
	mine.news = a->news;
	pthread_mutex_unlock(&a->lock);
	pthread_cond_destroy(&me.changed);
	hold_begins();
	return err;
}

void asking_wake(struct session *s) { s->asking.stale = true; }
