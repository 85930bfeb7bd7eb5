// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/patient.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/proc.h"

/*
 * patient.c - a thread that reads for another one, and can be given up.
 *
 * The two share a struct reader. The asker fills in what is asked for, sets ASKED and waits for
 * DONE. When it has waited for too long it sets GIVEN_UP and forgets the reader: the next question
 * makes a new one. A reader that finds itself given up when its bytes have come frees the struct
 * and ends. Until then it is in the list of those that are stuck. By that the same is not asked
 * again, a process that has some of them is waited for less, and one that has enough of them is not
 * asked any more: each question would cost time, and a thread.
 */

#define STUCK_LONG 2u	/* of one process are waited for PATIENT_MS, */
#define STUCK_MOST 32u	/* more of them for SHORT_MS: it has shown that it holds us up */
#define STUCK_ALL  256u /* of all processes */
#define SHORT_MS   20
/*
 * Where processors are scarce a reader may be late that nobody holds up: only the time counts that
 * it was seen asleep, by SLICES looks. In all that is MOST_TIMES as long at most.
 */
#define SLICES	    8
#define MOST_TIMES  10
#define STACK_BYTES ((size_t)256 << 10)
/*
 * To fall asleep and be woken takes longer than most jobs, and one job is often followed by the
 * next: so both sides look for some microseconds first. The reader's are the program's, where
 * processors are few: with 20 of them each exec of a program took 0.4 ms more.
 */
#define ASKER_US  30
#define READER_US 5

enum state { IDLE, ASKED, DONE, GIVEN_UP, LEFT };

struct job {
	pid_t pid;
	patient_fn *fn;
	const char *what;
	uint64_t where;
	size_t len;
};

struct reader {
	struct reader *next; /* of those that are stuck */
	pthread_mutex_t lock;
	pthread_cond_t asked, done;
	enum state state; /* changed with the lock held, and looked at without */
	struct job job;
	ssize_t got;
	pid_t tid; /* 0: it has not run yet */
	char bytes[PATIENT_BYTES];
};

static struct {
	pthread_mutex_t lock;
	struct reader *first;
	size_t count;
} stuck = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local struct reader *mine; /* the reader that this thread is */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* the asker's reader */
static bool several_processors;

static enum state state_of(const struct reader *r)
{
	return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
}

static void set_state(struct reader *r, enum state state)
{
	__atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
}

/* Looks for US microseconds whether R's state is another one than A and B. Without its lock. */
static void spin(const struct reader *r, enum state a, enum state b, uint64_t us)
{
	uint64_t end = clock_ns() + us * 1000;

	do {
		for (int i = 0; i < 32; i++) {
			enum state now = state_of(r);

			if (now != a && now != b)
				return;
			__builtin_ia32_pause();
		}
	} while (several_processors && clock_ns() < end);
}

/* ---- the reader ---------------------------------------------------------- */

static void free_reader(struct reader *r)
{
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->asked);
	pthread_cond_destroy(&r->done);
	free(r);
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
	mine = r;
	__atomic_store_n(&r->tid, gettid(), __ATOMIC_RELAXED);
	for (;;) {
		spin(r, IDLE, DONE, READER_US);
		pthread_mutex_lock(&r->lock);
		while (r->state == IDLE || r->state == DONE)
			pthread_cond_wait(&r->asked, &r->lock);
		if (r->state != ASKED)
			break;
		pthread_mutex_unlock(&r->lock);
		r->got = r->job.fn(r->job.pid, r->job.where, r->bytes, r->job.len);
		pthread_mutex_lock(&r->lock);
		if (r->state != ASKED)
			break;
		set_state(r, DONE);
		pthread_cond_signal(&r->done);
		pthread_mutex_unlock(&r->lock);
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
	several_processors = sysconf(_SC_NPROCESSORS_ONLN) > 1;
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
	r = malloc(sizeof(*r));
	if (!r)
		return NULL;
	memset(r, 0, offsetof(struct reader, bytes)); /* of those each page is a fault */
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

/* How long JOB is waited for; 0: it is not asked. */
static unsigned patience(const struct job *job)
{
	bool again = false, full;
	size_t its = 0;

	pthread_mutex_lock(&stuck.lock);
	for (const struct reader *r = stuck.first; r; r = r->next)
		if (r->job.pid == job->pid) {
			its++;
			again |= r->job.what == job->what && r->job.where <= job->where &&
				 job->where - r->job.where < r->job.len;
		}
	full = its >= STUCK_MOST || stuck.count >= STUCK_ALL;
	pthread_mutex_unlock(&stuck.lock);
	return again || full ? 0 : its < STUCK_LONG ? PATIENT_MS : SHORT_MS;
}

/* With R's lock, which it gives back. R is not ours any more. */
static void give_up(struct reader *r, bool say)
{
	struct job job = r->job;

	pthread_setspecific(key, NULL);
	pthread_mutex_lock(&stuck.lock);
	r->next = stuck.first;
	stuck.first = r;
	stuck.count++;
	pthread_mutex_unlock(&stuck.lock);
	set_state(r, GIVEN_UP);
	pthread_mutex_unlock(&r->lock);
	if (!say)
		return;
	message_error("%d: %s 0x%" PRIx64
		      " does not come: a userfaultfd or a file system holds it up; it is left out",
		      (int)job.pid, job.what, job.where);
}

/*
 * Whether R is asleep, as it is where somebody holds it up; or it cannot be known. It is not held
 * up while it waits for the lock of the address space, which a thread may have that only waits for
 * a processor. (`wchan`, proc(5): the kernel's function that it sleeps in.)
 */
static bool is_asleep(const struct reader *r)
{
	static const char *const for_the_lock[] = { "process_vm_rw", "access_remote_vm",
						    "get_user_pages" };
	pid_t tid = __atomic_load_n(&r->tid, __ATOMIC_RELAXED);
	char name[32], *where;
	bool asleep = true;

	if (!tid)
		return false;
	snprintf(name, sizeof(name), "task/%d/stat", (int)tid);
	if (proc_state(getpid(), name) == 'R')
		return false;
	snprintf(name, sizeof(name), "task/%d/wchan", (int)tid);
	if (proc_read(getpid(), name, &where) < 0)
		return true;
	for (size_t i = 0; i < sizeof(for_the_lock) / sizeof(*for_the_lock); i++)
		asleep &= !strstr(where, for_the_lock[i]);
	free(where);
	return asleep;
}

/* Waits for NS nanoseconds at most. With R's lock. */
static void await_done(struct reader *r, uint64_t ns)
{
	uint64_t end = clock_ns() + ns;
	struct timespec until = { .tv_sec = (time_t)(end / 1000000000),
				  .tv_nsec = (long)(end % 1000000000) };

	while (r->state == ASKED && pthread_cond_timedwait(&r->done, &r->lock, &until) != ETIMEDOUT)
		;
}

/* How many bytes are in R's buffer now, or -errno; after -ETIMEDOUT R is not to be touched. */
static ssize_t ask(struct reader *r, unsigned ms)
{
	uint64_t wait = (uint64_t)ms * 1000000, end = clock_ns() + wait * MOST_TIMES;
	unsigned asleep = 0;
	ssize_t got;

	pthread_mutex_lock(&r->lock);
	set_state(r, ASKED);
	pthread_cond_signal(&r->asked);
	pthread_mutex_unlock(&r->lock);
	spin(r, ASKED, ASKED, ASKER_US);
	pthread_mutex_lock(&r->lock);
	while (r->state == ASKED) {
		if (asleep == SLICES || clock_ns() > end) {
			give_up(r, ms == PATIENT_MS);
			return -ETIMEDOUT;
		}
		await_done(r, wait / SLICES);
		asleep += r->state == ASKED && is_asleep(r);
	}
	got = r->got;
	pthread_mutex_unlock(&r->lock);
	return got;
}

/*
 * FN is done with INPUT bytes of IN in its buffer (NULL: none); what it leaves there is copied to
 * OUT (NULL: nowhere). LEN is what it is told.
 */
static ssize_t ask_with(const struct job *job, const void *in, size_t input, void *out)
{
	unsigned ms = patience(job);
	struct reader *r;
	ssize_t got;

	if (!ms)
		return -ETIMEDOUT;
	r = reader();
	if (!r)
		return -ENOMEM;
	r->job = *job;
	if (in)
		memcpy(r->bytes, in, input);
	got = ask(r, ms);
	if (out && got > 0)
		memcpy(out, r->bytes, (size_t)got);
	return got;
}

ssize_t patient_ask(pid_t pid, patient_fn *fn, const char *what, uint64_t where, void *buf,
		    size_t len)
{
	return ask_with(&(struct job){ .pid = pid,
				       .fn = fn,
				       .what = what,
				       .where = where,
				       .len = len < PATIENT_BYTES ? len : PATIENT_BYTES },
			NULL, 0, buf);
}

/* ---- memory -------------------------------------------------------------- */

static const char its_memory[] = "its memory at";
static _Thread_local pid_t fresh;

void patient_fresh(pid_t pid) { fresh = pid; }

ssize_t patient_read(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	size_t done = 0;

	if (pid == fresh)
		return remote_read(pid, addr, buf, len);
	while (done < len) {
		size_t part = len - done < PATIENT_BYTES ? len - done : PATIENT_BYTES;
		ssize_t n = patient_ask(pid, remote_read, its_memory, addr + done,
					(char *)buf + done, part);

		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if ((size_t)n < part)
			break;
	}
	return (ssize_t)done;
}

/* A question for pieces of memory. What is there takes its place. */
struct pieces {
	size_t n;
	struct remote_span span[256];
};

static ssize_t read_pieces(pid_t pid, uint64_t where, void *buf, size_t len)
{
	struct pieces p;

	(void)where;
	memcpy(&p, buf, sizeof(p));
	remote_read_spans(pid, p.span, p.n, buf);
	return (ssize_t)len;
}

/* As many of the N spans from SPAN on as are asked for at once, in all *BYTES. */
static void batch(struct pieces *p, const struct remote_span *span, size_t n, size_t *bytes)
{
	*p = (struct pieces){ .n = 0 };
	*bytes = 0;
	while (p->n < n && p->n < 256 && span[p->n].len <= PATIENT_BYTES - *bytes) {
		p->span[p->n] = span[p->n];
		*bytes += span[p->n++].len;
	}
}

void patient_read_spans(pid_t pid, const struct remote_span *span, size_t n, void *buf)
{
	char *to = buf;

	if (pid == fresh) {
		remote_read_spans(pid, span, n, buf);
		return;
	}
	while (n) {
		struct job job = { pid, read_pieces, its_memory, span->address, 0 };
		struct pieces p;
		ssize_t got;

		batch(&p, span, n, &job.len);
		if (p.n) {
			got = ask_with(&job, &p, sizeof(p), to);
		} else { /* it is longer than that */
			p.n = 1;
			job.len = span->len;
			got = patient_read(pid, span->address, to, job.len);
		}
		got = got > 0 ? got : 0;
		memset(to + got, 0, job.len - (size_t)got);
		to += job.len;
		span += p.n;
		n -= p.n;
	}
}

/* Each page is read first: if one does not come in time, nothing is written when it comes. */
static ssize_t write_memory(pid_t pid, uint64_t where, void *buf, size_t len)
{
	uint64_t end = where + len;
	char byte;
	int err;

	for (uint64_t at = where; at < end; at = (at | (PAGE - 1)) + 1)
		if (remote_read(pid, at, &byte, 1) < 0)
			break; /* not to be read; it may be written */
	if (state_of(mine) != ASKED)
		return -ETIMEDOUT;
	err = remote_write(pid, where, buf, len);
	return err ? err : (ssize_t)len;
}

int patient_write(pid_t pid, raddr_t addr, const void *buf, size_t len)
{
	size_t part;
	ssize_t n;

	if (pid == fresh)
		return remote_write(pid, addr, buf, len);
	for (size_t done = 0; done < len; done += part) {
		struct job job = { pid, write_memory, its_memory, addr + done, 0 };

		job.len = part = len - done < PATIENT_BYTES ? len - done : PATIENT_BYTES;
		n = ask_with(&job, (const char *)buf + done, part, NULL);
		if (n < 0)
			return (int)n;
	}
	return 0;
}
