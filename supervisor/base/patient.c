// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/patient.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/message.h"
#include "base/proc.h"

/*
 * patient.c - a thread that reads for another one, and can be given up.
 *
 * The two share a struct reader. The asker fills in what is asked for, sets ASKED and waits for
 * DONE. When it has waited for too long it sets GIVEN_UP and forgets the reader: the next question
 * makes a new one. A reader that finds itself given up when its bytes have come frees the struct
 * and ends. Until then it is in the list of those that are stuck, by which a process that has
 * enough of them is not asked any more: each question would cost a second, and a thread.
 */

#define BYTES	    ((size_t)64 << 10) /* of one question, at most */
#define STUCK_MOST  2u		       /* of one process */
#define STUCK_ALL   256u	       /* of all */
#define STACK_BYTES ((size_t)256 << 10)
/* some microseconds: less than it takes to fall asleep and be woken */
#define SPINS 200

enum state { IDLE, ASKED, DONE, GIVEN_UP, LEFT };

struct reader {
	struct reader *next; /* of those that are stuck */
	pthread_mutex_t lock;
	pthread_cond_t asked, done;
	enum state state; /* changed with the lock held, and looked at without */
	pid_t pid;
	raddr_t address;
	size_t len;
	ssize_t got;
	char bytes[BYTES];
};

static struct {
	pthread_mutex_t lock;
	struct reader *first;
	size_t count;
} stuck = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* the asker's reader */

/* ---- the reader ---------------------------------------------------------- */

static void free_reader(struct reader *r)
{
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->asked);
	pthread_cond_destroy(&r->done);
	free(r);
}

static enum state state_of(const struct reader *r)
{
	return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
}

static void set_state(struct reader *r, enum state state)
{
	__atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
}

/* R has come back, though it was given up. */
static void not_stuck(const struct reader *r)
{
	pthread_mutex_lock(&stuck.lock);
	for (struct reader **at = &stuck.first; *at; at = &(*at)->next)
		if (*at == r) {
			*at = r->next;
			stuck.count--;
			break;
		}
	pthread_mutex_unlock(&stuck.lock);
}

static void *run(void *arg)
{
	struct reader *r = arg;

	pthread_setname_np(pthread_self(), "mtrun-reader");
	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (r->state == IDLE || r->state == DONE)
			pthread_cond_wait(&r->asked, &r->lock);
		if (r->state != ASKED)
			break;
		pthread_mutex_unlock(&r->lock);
		r->got = remote_read(r->pid, r->address, r->bytes, r->len);
		pthread_mutex_lock(&r->lock);
		if (r->state != ASKED)
			break;
		set_state(r, DONE);
		pthread_cond_signal(&r->done);
	}
	pthread_mutex_unlock(&r->lock);
	if (r->state == GIVEN_UP)
		not_stuck(r);
	free_reader(r);
	return NULL;
}

/* ---- the asker ----------------------------------------------------------- */

/* The asker ends, and so does its reader. */
static void leave(void *reader)
{
	struct reader *r = reader;

	pthread_mutex_lock(&r->lock);
	set_state(r, LEFT);
	pthread_cond_signal(&r->asked);
	pthread_mutex_unlock(&r->lock);
}

/* A child by fork(2) has our memory, and none of the readers. */
static void forget(void)
{
	pthread_setspecific(key, NULL);
	pthread_mutex_init(&stuck.lock, NULL);
	stuck.first = NULL;
	stuck.count = 0;
}

static void make_key(void)
{
	if (pthread_key_create(&key, leave) || pthread_atfork(NULL, NULL, forget))
		abort(); /* there are a thousand keys, and we use a few */
}

static int start(struct reader *r)
{
	sigset_t all, was;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	err = pthread_create(&thread, &attr, run, r);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

/* This thread's; NULL: there is none to be had. */
static struct reader *reader(void)
{
	pthread_condattr_t attr;
	struct reader *r;

	pthread_once(&once, make_key);
	r = pthread_getspecific(key);
	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->asked, &attr);
	pthread_cond_init(&r->done, &attr);
	pthread_condattr_destroy(&attr);
	if (pthread_setspecific(key, r) || start(r)) {
		pthread_setspecific(key, NULL);
		free_reader(r);
		return NULL;
	}
	return r;
}

static bool may_ask(pid_t pid)
{
	size_t its = 0;
	bool may;

	pthread_mutex_lock(&stuck.lock);
	for (const struct reader *r = stuck.first; r; r = r->next)
		its += r->pid == pid;
	may = its < STUCK_MOST && stuck.count < STUCK_ALL;
	pthread_mutex_unlock(&stuck.lock);
	return may;
}

/* With R's lock, which it gives back. R is not ours any more. */
static void give_up(struct reader *r)
{
	pid_t pid = r->pid;
	raddr_t at = r->address;

	pthread_setspecific(key, NULL);
	pthread_mutex_lock(&stuck.lock);
	r->next = stuck.first;
	stuck.first = r;
	stuck.count++;
	pthread_mutex_unlock(&stuck.lock);
	set_state(r, GIVEN_UP);
	pthread_mutex_unlock(&r->lock);
	message_error("%d: its memory at 0x%" PRIx64
		      " does not come: a userfaultfd or a file system holds it up; it is left out",
		      (int)pid, at);
}

/* How many bytes are in R's buffer now, or -errno; after -ETIMEDOUT R is not to be touched. */
static ssize_t ask(struct reader *r)
{
	struct timespec until;
	ssize_t got;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENT_MS / 1000;
	pthread_mutex_lock(&r->lock);
	set_state(r, ASKED);
	pthread_cond_signal(&r->asked);
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < SPINS && state_of(r) == ASKED; i++)
		__builtin_ia32_pause();
	pthread_mutex_lock(&r->lock);
	while (r->state == ASKED)
		if (pthread_cond_timedwait(&r->done, &r->lock, &until) == ETIMEDOUT &&
		    r->state == ASKED) {
			give_up(r);
			return -ETIMEDOUT;
		}
	got = r->got;
	pthread_mutex_unlock(&r->lock);
	return got;
}

/* As patient_read(), of BYTES at most. */
static ssize_t read_part(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	struct reader *r;
	ssize_t got;

	if (!may_ask(pid))
		return -ETIMEDOUT;
	r = reader();
	if (!r)
		return -ENOMEM;
	r->pid = pid;
	r->address = addr;
	r->len = len;
	got = ask(r);
	if (got > 0)
		memcpy(buf, r->bytes, (size_t)got);
	return got;
}

ssize_t patient_read(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		size_t part = len - done < BYTES ? len - done : BYTES;
		ssize_t n = read_part(pid, addr + done, (char *)buf + done, part);

		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if ((size_t)n < part)
			break;
	}
	return (ssize_t)done;
}
