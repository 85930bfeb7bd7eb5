// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/patient.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
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
 *
 * A thread of the process may have the lock of its mappings and wait for a file system of its own:
 * an mmap(2) of a file waits so for a page that another thread reads. Then nothing of the process
 * can be read, neither its memory nor what /proc tells of its mappings. As that thread may also
 * just wait for a processor, the first who asks waits for long; nobody else waits until its reader
 * has come back, and from then on nobody waits for that process for so long.
 *
 * A thread that executes a program has a lock, too, in which it may wait for a file system: to
 * close a file that is not to stay open, for one. By then it is the only thread. Whoever asks for
 * what only a tracer may see of the process waits for that lock.
 */

#define STUCK_LONG 2u	/* of one process are waited for PATIENT_MS, */
#define STUCK_MOST 32u	/* more of them for SHORT_MS: it has shown that it holds us up */
#define STUCK_ALL  256u /* of all processes; and as many for work, which pages do not hold up */
#define SHORT_MS   20
#define WARNED_MS  100u /* for those who have held the lock of their mappings for too long */
#define WARNED	   32u	/* as many are remembered */
/*
 * Where processors are scarce a reader may be late that nobody holds up: only the time counts that
 * it was seen asleep, by SLICES looks. In all that is MOST_TIMES as long at most. For
 * who is in a hurry (patient_hurry) all time counts.
 */
#define SLICES	    8
#define MOST_TIMES  10
#define STACK_BYTES ((size_t)256 << 10)
/*
 * To fall asleep and be woken takes longer than most jobs, and one job is often followed by the
 * next: so both sides look for some microseconds first. The reader's are the program's, where
 * processors are few: with 20 of them each exec of a program took 0.4 ms more. For the same reason
 * the other side is woken when the lock is free already.
 */
#define FREE_US	  1000u /* a lock that is free is had within that */
#define KNOCKS	  8u	/* at it, at most */
#define ASKER_US  30
#define READER_US 5
#define SLOWLY	  (16 * PAGE) /* bytes that are read slowly before one knocks again */

/* of these WHERE is a file's name */
static const char its_record[] = "what /proc says of it", its_arguments[] = "its command line";

enum state { IDLE, ASKED, DONE, GIVEN_UP, LEFT };

struct job {
	pid_t pid;
	patient_fn *fn; /* NULL: it is WORK */
	const char *what;
	uint64_t where;
	size_t len;
	char *wide; /* LEN bytes for what comes; NULL: the reader's own are enough */
	const struct patient_work *work;
	void *arg;
};

struct reader {
	struct reader *next; /* of those that are stuck */
	pthread_mutex_t lock;
	pthread_cond_t asked, done;
	enum state state; /* changed with the lock held, and looked at without */
	struct job job;
	ssize_t got;
	pid_t tid; /* 0: it has not run yet */
	/* given up when it waited for a lock, that of the mappings or of a program's execution */
	bool locked;
	pid_t door_of;
	int door; /* the pagemap of DOOR_OF, or -1 */
	char bytes[PATIENT_BYTES];
};

static struct {
	pthread_mutex_t lock;
	struct reader *first;
	size_t count;
	pid_t warned[WARNED];
	size_t warnings;
} stuck = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local struct reader *mine; /* the reader that this thread is */
static _Thread_local bool hurried;
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
	if (r->door >= 0)
		close(r->door);
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

static void work(struct reader *r)
{
	r->got = 0;
	if (r->job.fn)
		r->got = r->job.fn(r->job.pid, r->job.where, r->job.wide ? r->job.wide : r->bytes,
				   r->job.len);
	else
		r->job.work->fn(r->job.pid, r->job.arg);
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
		work(r);
		pthread_mutex_lock(&r->lock);
		if (r->state != ASKED)
			break;
		set_state(r, DONE);
		pthread_mutex_unlock(&r->lock);
		pthread_cond_signal(&r->done);
	}
	pthread_mutex_unlock(&r->lock);
	if (r->state == GIVEN_UP) {
		not_stuck(r);
		free(r->job.wide);
		if (!r->job.fn)
			r->job.work->drop(r->job.arg);
	}
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
	several_processors &= proc_descriptor() != -1; /* opened before there are readers */
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
	r->door = -1;
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

/* Whether PID has held the lock of its mappings for too long. With the lock of those stuck. */
static bool is_warned(pid_t pid)
{
	for (size_t i = 0; i < WARNED; i++)
		if (stuck.warned[i] == pid)
			return true;
	return false;
}

/* How long JOB is waited for; 0: it is not asked. */
static unsigned patience(const struct job *job)
{
	bool refused = false, warned;
	size_t its = 0;

	pthread_mutex_lock(&stuck.lock);
	for (const struct reader *r = stuck.first; r; r = r->next)
		if (r->job.pid == job->pid) {
			its++;
			refused |= r->locked ||
				   (r->job.what == job->what && r->job.where <= job->where &&
				    job->where - r->job.where < r->job.len);
		}
	refused |= job->fn ? its >= STUCK_MOST || stuck.count >= STUCK_ALL
			   : stuck.count >= 2 * STUCK_ALL;
	warned = is_warned(job->pid);
	pthread_mutex_unlock(&stuck.lock);
	return refused			      ? 0
	       : its >= STUCK_LONG && job->fn ? SHORT_MS
	       : warned			      ? WARNED_MS
					      : PATIENT_MS;
}

/* With R's lock, which it gives back. R is not ours any more. LOCKED: see struct reader. */
static void give_up(struct reader *r, bool locked, bool say)
{
	struct job job = r->job;

	pthread_setspecific(key, NULL);
	pthread_mutex_lock(&stuck.lock);
	r->locked = locked || job.what == its_record;
	r->next = stuck.first;
	stuck.first = r;
	stuck.count++;
	say &= !locked || !is_warned(job.pid);
	if (locked && say)
		stuck.warned[stuck.warnings++ % WARNED] = job.pid;
	pthread_mutex_unlock(&stuck.lock);
	set_state(r, GIVEN_UP);
	pthread_mutex_unlock(&r->lock);
	if (say && locked)
		message_error("%d: a thread holds the lock of its mappings, and waits, for a file "
			      "system perhaps; its memory cannot be read until it goes on",
			      (int)job.pid);
	else if (say && job.what == its_record)
		message_error(
			"%d: %s (%s) does not come: it executes a program perhaps, and a file "
			"system holds it up; it is left out",
			(int)job.pid, job.what, (const char *)(uintptr_t)job.where);
	else if (say && job.what == its_arguments)
		message_error("%d: %s does not come: a userfaultfd or a file system holds it up; "
			      "it is left out",
			      (int)job.pid, job.what);
	else if (say)
		message_error("%d: %s 0x%" PRIx64 " does not come: a userfaultfd or a file system "
			      "holds it up; it is left out",
			      (int)job.pid, job.what, job.where);
}

/*
 * Whether R is asleep, as it is where somebody holds it up; or it cannot be known. It is not held
 * up while it waits for the lock of the mappings, which a thread may have that only waits for a
 * processor; WORK waits for nothing else. (`wchan`, proc(5): the kernel's function that it sleeps
 * in.)
 */
static bool is_asleep(const struct reader *r)
{
	static const char *const for_the_lock[] = { "pagemap_read", "process_vm_rw",
						    "access_remote_vm", "get_user_pages" };
	pid_t tid = __atomic_load_n(&r->tid, __ATOMIC_RELAXED);
	char name[32], *where;
	bool asleep = true;

	if (!tid || !r->job.fn)
		return false;
	if (proc_state(tid) == 'R')
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
	struct timespec until = clock_timespec(clock_ns() + ns);

	while (r->state == ASKED && pthread_cond_timedwait(&r->done, &r->lock, &until) != ETIMEDOUT)
		;
}

void patient_hurry(bool on) { hurried = on; }

/* How many bytes are in R's buffer now, or -errno; after -ETIMEDOUT R is not to be touched. */
static ssize_t ask(struct reader *r, unsigned ms)
{
	uint64_t wait = (uint64_t)ms * 1000000;
	uint64_t end = clock_ns() + wait * (hurried ? 1 : MOST_TIMES);
	unsigned asleep = 0;
	ssize_t got;

	pthread_mutex_lock(&r->lock);
	set_state(r, ASKED);
	pthread_mutex_unlock(&r->lock);
	pthread_cond_signal(&r->asked);
	spin(r, ASKED, ASKED, ASKER_US);
	pthread_mutex_lock(&r->lock);
	while (r->state == ASKED) {
		if (asleep == SLICES || clock_ns() > end) {
			give_up(r, asleep < SLICES, ms != SHORT_MS);
			return -ETIMEDOUT;
		}
		await_done(r, wait / SLICES);
		asleep += r->state == ASKED && is_asleep(r);
	}
	got = r->got;
	pthread_mutex_unlock(&r->lock);
	return got;
}

/* This thread's reader, with JOB, which is to be waited for MS. NULL: *ERR says why. */
static struct reader *begin(const struct job *job, unsigned *ms, ssize_t *err)
{
	struct reader *r;

	*ms = patience(job);
	r = *ms ? reader() : NULL;
	*err = !*ms ? -ETIMEDOUT : r ? 0 : -ENOMEM;
	if (r)
		r->job = *job;
	return r;
}

/*
 * FN is done with INPUT bytes of IN in its buffer (NULL: none); what it leaves there is copied to
 * OUT. LEN is what it is told.
 */
static ssize_t ask_with(const struct job *job, const void *in, size_t input, void *out)
{
	ssize_t got;
	unsigned ms;
	struct reader *r = begin(job, &ms, &got);

	if (!r)
		return got;
	if (in)
		memcpy(r->bytes, in, input);
	got = ask(r, ms);
	if (got > 0)
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

/* ---- work ---------------------------------------------------------------- */

static _Thread_local pid_t fresh;

void patient_fresh(pid_t pid) { fresh = pid; }

bool patient_at_once(pid_t pid) { return mine || pid == fresh || pid == getpid(); }

int patient_do(pid_t pid, const struct patient_work *work, void *arg)
{
	struct job job = { .pid = pid, .work = work, .arg = arg };
	unsigned ms;
	struct reader *r;

	if (patient_at_once(pid)) {
		work->fn(pid, arg);
		return 0;
	}
	ms = patience(&job);
	r = ms ? reader() : NULL;
	if (!r) {
		work->drop(arg);
		return ms ? -ENOMEM : -ETIMEDOUT;
	}
	r->job = job;
	return ask(r, ms) < 0 ? -ETIMEDOUT : 0;
}

struct opening {
	char name[64];
	int flags, fd; /* fd: also -errno */
};

static void open_it(pid_t pid, void *opening)
{
	struct opening *o = opening;

	o->fd = proc_open(pid, o->name, o->flags);
}

static void drop_opening(void *opening)
{
	const struct opening *o = opening;

	if (o->fd >= 0)
		close(o->fd);
	free(opening);
}

int patient_open(pid_t pid, const char *name, int flags)
{
	static const struct patient_work work = { open_it, drop_opening };
	struct opening *o = malloc(sizeof(*o));
	int err, fd;

	if (!o)
		return -ENOMEM;
	*o = (struct opening){ .flags = flags, .fd = -1 };
	snprintf(o->name, sizeof(o->name), "%s", name);
	err = patient_do(pid, &work, o);
	if (err)
		return err;
	fd = o->fd;
	free(o);
	return fd;
}

/* ---- what /proc says of it ----------------------------------------------- */

static ssize_t read_file(pid_t pid, uint64_t name, void *buf, size_t len)
{
	int fd = proc_open(pid, (const char *)(uintptr_t)name, O_RDONLY);
	ssize_t n = fd < 0 ? fd : read(fd, buf, len);

	n = fd >= 0 && n < 0 ? -errno : n;
	if (fd >= 0)
		close(fd);
	return n;
}

static ssize_t read_link(pid_t pid, uint64_t name, void *buf, size_t len)
{
	return proc_readlink(pid, (const char *)(uintptr_t)name, buf, len);
}

static ssize_t ask_for(pid_t pid, patient_fn *fn, const char *what, const char *name, char *buf,
		       size_t size)
{
	uint64_t where = (uintptr_t)name;
	ssize_t n = patient_at_once(pid) ? fn(pid, where, buf, size - 1)
					 : patient_ask(pid, fn, what, where, buf, size - 1);

	buf[n > 0 ? n : 0] = '\0';
	return n;
}

ssize_t patient_file(pid_t pid, const char *name, char *buf, size_t size)
{
	return ask_for(pid, read_file, its_record, name, buf, size);
}

ssize_t patient_link(pid_t pid, const char *name, char *buf, size_t size)
{
	return ask_for(pid, read_link, its_record, name, buf, size);
}

bool patient_same_namespace(pid_t pid, const char *name)
{
	char theirs[64], own[64];

	return patient_link(pid, name, theirs, sizeof(theirs)) > 0 &&
	       proc_readlink(getpid(), name, own, sizeof(own)) > 0 && !strcmp(theirs, own);
}

static ssize_t compare_memory(pid_t pid, uint64_t other, void *buf, size_t len)
{
	(void)len;
	*(char *)buf = syscall(SYS_kcmp, pid, (pid_t)other, KCMP_VM, 0, 0) == 0;
	return 1;
}

bool patient_same_memory(pid_t pid, pid_t other)
{
	char same;

	return patient_ask(pid, compare_memory, "kcmp(2) with process", (uint64_t)other, &same,
			   1) == 1 &&
	       same;
}

bool patient_sleeping(pid_t tid, long *nr, raddr_t *rsp, raddr_t *pc)
{
	char text[512];

	return patient_file(tid, "syscall", text, sizeof(text)) > 0 &&
	       (sscanf(text, "%ld %*x %*x %*x %*x %*x %*x %" SCNx64 " %" SCNx64, nr, rsp, pc) ==
			3 ||
		sscanf(text, "%ld %" SCNx64 " %" SCNx64, nr, rsp, pc) == 3);
}

char *patient_command_line(pid_t pid)
{
	char *text = malloc(PATIENT_BYTES);
	ssize_t n = -1;

	if (text)
		n = ask_for(pid, read_file, its_arguments, "cmdline", text, PATIENT_BYTES);
	if (n <= 0) {
		free(text);
		return NULL;
	}
	for (ssize_t i = 0; i < n - 1; i++)
		if (!text[i])
			text[i] = ' ';
	/* where a program has written what it does over its arguments */
	while (n > 0 && (!text[n - 1] || text[n - 1] == ' '))
		text[--n] = '\0';
	return text;
}

/* ---- memory -------------------------------------------------------------- */

static const char its_memory[] = "its memory at";

/* Eight bytes of the pagemap that r->door is. 0: its process has another one now, or has ended. */
static ssize_t knock(const struct reader *r, raddr_t addr)
{
	uint64_t entry,
		last = (addr | (((uint64_t)2 << 20) - 1)) / PAGE; /* of a table: it is soon done */

	return r->door < 0 ? 0
			   : pread(r->door, &entry, sizeof(entry), (off_t)(last * sizeof(entry)));
}

/*
 * Waits until the lock of PID's mappings is free, so that death ends it. The wait of
 * process_vm_readv(2) for that lock nothing ends, and as long as a thread of ours is in it we
 * cannot end either. So one knocks first, and again where that has taken long, as it also does
 * where processors are busy. Whether it was free at once.
 */
static bool is_free(pid_t pid, raddr_t addr)
{
	struct reader *r = mine;
	uint64_t began = clock_ns();

	if (r->door_of != pid || knock(r, addr) <= 0) {
		if (r->door >= 0)
			close(r->door);
		r->door_of = pid;
		r->door = proc_open(pid, "pagemap", O_RDONLY);
		if (knock(r, addr) < 0)
			return true; /* it is not to be known so */
	}
	for (unsigned i = 1; i < KNOCKS && clock_ns() - began >= FREE_US * 1000; i++) {
		began = clock_ns();
		if (knock(r, addr) < 0)
			return true;
	}
	return clock_ns() - began < FREE_US * 1000;
}

/*
 * By /proc/PID/mem: death ends all its waiting, too. But it reads what is mapped unreadable, and
 * not what a userfaultfd withholds.
 */
static ssize_t read_slowly(pid_t pid, raddr_t addr, char *buf, size_t len)
{
	int fd = proc_open(pid, "mem", O_RDONLY);
	size_t done = 0;
	ssize_t n = fd;

	while (fd >= 0 && done < len) {
		n = pread(fd, buf + done, len - done, (off_t)(addr + done));
		if (n < 0)
			n = -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	return done || n >= 0 ? (ssize_t)done : n == -EIO ? -EFAULT : n;
}

/* read_slowly() waits for the lock once for each page, remote_read() once for all of them. */
static ssize_t read_memory(pid_t pid, uint64_t where, void *buf, size_t len)
{
	size_t done = 0;
	ssize_t n = 0;

	while (done < len) {
		bool at_once = is_free(pid, where + done);
		size_t part = at_once || len - done < SLOWLY ? len - done : SLOWLY;

		n = at_once ? remote_read(pid, where + done, (char *)buf + done, part)
			    : read_slowly(pid, where + done, (char *)buf + done, part);
		if (n < 0)
			break;
		done += (size_t)n;
		if ((size_t)n < part)
			break;
	}
	return done ? (ssize_t)done : n;
}

static ssize_t ask_memory(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	return patient_ask(pid, read_memory, its_memory, addr, buf, len);
}

/* As ask_memory(), for more than PATIENT_BYTES. A reader that is given up frees the buffer. */
static ssize_t ask_wide(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	struct job job = { .pid = pid,
			   .fn = read_memory,
			   .what = its_memory,
			   .where = addr,
			   .len = len,
			   .wide = malloc(len) };
	ssize_t got = -ENOMEM;
	unsigned ms;
	struct reader *r = job.wide ? begin(&job, &ms, &got) : NULL;

	if (r) {
		got = ask(r, ms);
		if (got == -ETIMEDOUT)
			return got;
		if (got > 0)
			memcpy(buf, job.wide, (size_t)got);
		r->job.wide = NULL;
	}
	free(job.wide);
	return got;
}

/* Reads by questions of up to MOST bytes each. */
static ssize_t read_by(size_t most, pid_t pid, raddr_t addr, char *buf, size_t len)
{
	size_t done = 0;

	if (pid == fresh)
		return remote_read(pid, addr, buf, len);
	while (done < len) {
		size_t part = len - done < most ? len - done : most;
		ssize_t n = part > PATIENT_BYTES ? ask_wide(pid, addr + done, buf + done, part)
						 : ask_memory(pid, addr + done, buf + done, part);

		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if ((size_t)n < part)
			break;
	}
	return (ssize_t)done;
}

ssize_t patient_read(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	return read_by(PATIENT_BYTES, pid, addr, buf, len);
}

ssize_t patient_read_wide(pid_t pid, raddr_t addr, void *buf, size_t len)
{
	return read_by(PATIENT_WIDE, pid, addr, buf, len);
}

/* A question for pieces of memory. What is there takes its place. */
struct pieces {
	size_t n;
	struct remote_span span[256];
};

/* Those that there are: the rest is never touched, which would be a fault for each page. */
static size_t pieces_bytes(const struct pieces *p)
{
	return offsetof(struct pieces, span) + p->n * sizeof(*p->span);
}

/* Copies them from BUF. Returns what is behind them. */
static const char *pieces_copy(struct pieces *p, const void *buf)
{
	memcpy(&p->n, buf, sizeof(p->n));
	memcpy(p, buf, pieces_bytes(p));
	return (const char *)buf + pieces_bytes(p);
}

static ssize_t read_pieces(pid_t pid, uint64_t where, void *buf, size_t len)
{
	struct pieces p;
	char *to = buf;

	pieces_copy(&p, buf);
	if (is_free(pid, where)) {
		remote_read_spans(pid, p.span, p.n, buf);
		return (ssize_t)len;
	}
	for (size_t i = 0; i < p.n; to += p.span[i++].len)
		if (read_slowly(pid, p.span[i].address, to, p.span[i].len) !=
		    (ssize_t)p.span[i].len)
			memset(to, 0, p.span[i].len);
	return (ssize_t)len;
}

/* As many of the N spans from SPAN on as are asked for at once, in all *BYTES. */
static void batch(struct pieces *p, const struct remote_span *span, size_t n, size_t *bytes)
{
	p->n = *bytes = 0;
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
		struct job job = {
			.pid = pid, .fn = read_pieces, .what = its_memory, .where = span->address
		};
		struct pieces p;
		ssize_t got;

		batch(&p, span, n, &job.len);
		if (p.n) {
			got = ask_with(&job, &p, pieces_bytes(&p), to);
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

static int write_now(pid_t pid, const struct remote_span *span, size_t n, const char *from)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; from += span[i++].len)
		err = remote_write(pid, span[i].address, from, span[i].len);
	return err;
}

/*
 * In BUF are the pieces, and behind them their bytes. Each page is read first: if one does not come
 * in time, nothing is written when it comes.
 */
static ssize_t write_pieces(pid_t pid, uint64_t where, void *buf, size_t len)
{
	uint64_t seen = 1; /* no page */
	struct pieces p;
	const char *from = pieces_copy(&p, buf);
	char byte;
	int err;

	(void)where;
	for (size_t i = 0; i < p.n; i++) {
		uint64_t end = p.span[i].address + p.span[i].len;

		for (uint64_t at = p.span[i].address; at < end; at = (at | (PAGE - 1)) + 1) {
			if (page_down(at) == seen)
				continue;
			if (read_memory(pid, at, &byte, 1) < 0)
				break; /* not to be read; it may be written */
			seen = page_down(at);
		}
	}
	if (state_of(mine) != ASKED)
		return -ETIMEDOUT;
	err = write_now(pid, p.span, p.n, from);
	return err ? err : (ssize_t)len;
}

/*
 * As much of the N spans from SPAN on as is written at once, in all *BYTES; the first *DONE bytes
 * of the first one are written. Returns how many spans that completes.
 */
static size_t part(struct pieces *p, const struct remote_span *span, size_t n, size_t *done,
		   size_t *bytes)
{
	size_t most = PATIENT_BYTES - sizeof(*p), whole = 0;

	p->n = *bytes = 0;
	while (whole < n && p->n < 256 && *bytes < most) {
		size_t left = span[whole].len - *done, room = most - *bytes,
		       len = left < room ? left : room;

		p->span[p->n++] = (struct remote_span){ span[whole].address + *done, len };
		*bytes += len;
		*done = len < left ? *done + len : 0;
		whole += len == left;
	}
	return whole;
}

int patient_write_spans(pid_t pid, const struct remote_span *span, size_t n, const void *buf)
{
	const char *from = buf;
	size_t done = 0, whole, bytes;
	struct pieces p;
	ssize_t got = 0;

	if (pid == fresh)
		return write_now(pid, span, n, from);
	while (n && got >= 0) {
		struct job job = { .pid = pid,
				   .fn = write_pieces,
				   .what = its_memory,
				   .where = span->address + done };
		unsigned ms;
		struct reader *r = begin(&job, &ms, &got);

		if (!r)
			break;
		whole = part(&p, span, n, &done, &bytes);
		r->job.len = bytes;
		memcpy(r->bytes, &p, pieces_bytes(&p));
		memcpy(r->bytes + pieces_bytes(&p), from, bytes);
		got = ask(r, ms);
		from += bytes;
		span += whole;
		n -= whole;
	}
	return got < 0 ? (int)got : 0;
}

int patient_write(pid_t pid, raddr_t addr, const void *buf, size_t len)
{
	return patient_write_spans(pid, &(struct remote_span){ addr, len }, 1, buf);
}
