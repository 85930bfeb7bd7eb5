// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/asking.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "session/session_state.h"
#include "transport/heartbeat.h"

/*
 * The session's lock has two kinds of holders: the loop, for a turn, and askers, who go first and
 * in order. (A mutex would let the loop, which comes back at once, starve them.)
 *
 * Who waits for a turn of the loop is told of those in which something happened that the shell may
 * care for; where only events were read, each few milliseconds. A turn does not begin before those
 * who were told have held the lock: else a descriptor that nobody has read yet would make it run
 * hot.
 */
#define TELL_MS 8

#define STACK_BYTES (16u << 20) /* an asker's: names that are demangled nest deeply */

bool asking_is_asker(const struct session *s)
{
	return s->asking.begun && !pthread_equal(pthread_self(), s->asking.loop);
}

struct asker {
	struct asker *next;
	bool queued;
};

/* ---- the session's lock; `lock` is held ---------------------------------- */

static void queue(struct asking *a, struct asker *me)
{
	struct asker **at = &a->first;

	while (*at)
		at = &(*at)->next;
	me->next = NULL;
	me->queued = true;
	*at = me;
}

/* ME is queued. */
static void take(struct asking *a, struct asker *me)
{
	while (a->taken || a->first != me)
		pthread_cond_wait(&a->changed, &a->lock);
	a->first = me->next;
	a->taken = true;
}

static void give_back(struct asking *a)
{
	a->taken = false;
	pthread_cond_broadcast(&a->changed);
	if (a->stale && eventfd_write(a->wake, 1) == 0)
		a->stale = false;
}

/* The loop's: false when it is to end. */
static bool take_for_turn(struct asking *a)
{
	while (a->run || a->ending || a->taken || a->first) {
		if (a->run) {
			void (*run)(struct asked * asked) = a->run;

			pthread_mutex_unlock(&a->lock);
			run(a->asked);
			message_flush();
			pthread_mutex_lock(&a->lock);
			a->run = NULL;
			pthread_cond_broadcast(&a->changed);
		} else if (a->ending) {
			return false;
		} else {
			pthread_cond_wait(&a->changed, &a->lock);
		}
	}
	a->taken = true;
	return true;
}

/* ---- the loop ------------------------------------------------------------ */

int asking_poll(struct session *s, struct pollfd *fds, nfds_t n, int ms)
{
	struct asking *a = &s->asking;
	eventfd_t ignored;
	int got, err;

	if (!a->begun || a->run)
		return poll(fds, n, ms);
	fds[n] = (struct pollfd){ .fd = a->wake, .events = POLLIN };
	s->serving = false;
	pthread_mutex_lock(&a->lock);
	give_back(a);
	pthread_mutex_unlock(&a->lock);
	got = poll(fds, n + 1, ms);
	err = errno;
	if (got > 0 && fds[n].revents)
		eventfd_read(a->wake, &ignored);
	pthread_mutex_lock(&a->lock);
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
		/* who was not told of this turn is told of one that comes soon */
		int ms = a->asleep ? TELL_MS : -1;

		pthread_mutex_unlock(&a->lock);
		s->serving = true;
		err = loop_turn(s, ms, &something);
		s->serving = false;
		message_flush();
		pthread_mutex_lock(&a->lock);
		a->err = err;
		tell(a, something || err || message_deferred());
		give_back(a);
		while (a->err && !a->ending && !a->run)
			pthread_cond_wait(&a->changed, &a->lock);
	}
	a->begun = false;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

struct beside {
	struct session *session;
	void (*fn)(void *ctx);
	void *ctx;
};

static void *run_beside(void *arg)
{
	struct beside *b = arg;

	pthread_setname_np(pthread_self(), "mtrun-asker");
	b->fn(b->ctx);
	asking_end(b->session);
	return NULL;
}

int asking_loop(struct session *s, void (*fn)(void *ctx), void *ctx)
{
	struct beside beside = { s, fn, ctx };
	struct asking *a = &s->asking;
	pthread_t asker;
	pthread_attr_t attr;
	pthread_condattr_t monotonic;
	sigset_t all, was;
	int err;

	*a = (struct asking){ .loop = pthread_self(),
			      .taken = true,
			      .begun = true,
			      .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	if (a->wake < 0)
		return -errno;
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&a->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&asker, &attr, run_beside, &beside);
	pthread_attr_destroy(&attr);
	if (!err) {
		/* they are for the asker to choose, and come by the session's descriptor */
		sigfillset(&all);
		sigdelset(&all, SIGBUS);
		pthread_sigmask(SIG_SETMASK, &all, &was);
		if (message_defer() < 0)
			message_error("out of memory: messages may have to be waited for");
		run_loop(s);
		message_defer_end();
		pthread_join(asker, NULL);
		pthread_sigmask(SIG_SETMASK, &was, NULL);
	}
	a->begun = false;
	close(a->wake);
	return -err;
}

void asking_end(struct session *s)
{
	struct asking *a = &s->asking;

	if (!asking_is_asker(s))
		return;
	pthread_mutex_lock(&a->lock);
	a->ending = true;
	pthread_cond_broadcast(&a->changed);
	eventfd_write(a->wake, 1);
	while (a->begun)
		pthread_cond_wait(&a->changed, &a->lock);
	pthread_mutex_unlock(&a->lock);
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
	pthread_mutex_lock(&a->lock);
	a->asked = asked;
	a->run = fn;
	pthread_cond_broadcast(&a->changed);
	eventfd_write(a->wake, 1);
	while (a->run)
		pthread_cond_wait(&a->changed, &a->lock);
	pthread_mutex_unlock(&a->lock);
	if (message_deferred())
		message_flush();
	return asked->ret;
}

/* How often the calling thread has left, without coming back. */
static __thread struct {
	struct session *session;
	unsigned times;
} unlocked;

static void relock(struct asking *a)
{
	struct asker me;

	pthread_mutex_lock(&a->lock);
	queue(a, &me);
	take(a, &me);
	pthread_mutex_unlock(&a->lock);
}

static void unlock(struct asking *a)
{
	pthread_mutex_lock(&a->lock);
	give_back(a);
	pthread_mutex_unlock(&a->lock);
}

void asking_unlock(struct session *s)
{
	if (!asking_is_asker(s))
		return;
	unlocked.session = s;
	if (!unlocked.times++)
		unlock(&s->asking);
}

void asking_lock(struct session *s)
{
	if (asking_is_asker(s) && !--unlocked.times)
		relock(&s->asking);
}

bool asking_is_unlocked(void) { return unlocked.times; }

bool asking_relock(void)
{
	if (!unlocked.times)
		return false;
	relock(&unlocked.session->asking);
	return true;
}

void asking_reunlock(bool relocked)
{
	if (relocked)
		unlock(&unlocked.session->asking);
}

static struct timespec after(int ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
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
	struct timespec until = after(ms > 0 ? ms : 0);
	int err = 0;

	pthread_mutex_lock(&a->lock);
	me.next = a->asleep;
	a->asleep = &me;
	if (ms == 0) { /* one turn, whatever happens in it */
		a->tell_next = true;
		a->stale = true;
	}
	give_back(a);
	while (!me.queued && !a->err && err != ETIMEDOUT)
		err = ms > 0 ? pthread_cond_timedwait(&a->changed, &a->lock, &until)
			     : pthread_cond_wait(&a->changed, &a->lock);
	if (!me.queued) { /* nothing has happened: we come by ourselves */
		forget(a, &me);
		queue(a, &me);
	}
	take(a, &me);
	err = a->err;
	pthread_mutex_unlock(&a->lock);
	return err;
}

void asking_wake(struct session *s) { s->asking.stale = true; }
