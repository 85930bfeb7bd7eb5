// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/capturing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/proc.h"
#include "ledger/block_list.h"
#include "memory/available.h"
#include "memory/capture_make.h"
#include "memory/leftovers.h"
#include "memory/protect.h"
#include "process/preattach_heap.h"
#include "process/usable_rule.h"
#include "session/session_state.h"
#include "tracee/agent.h"
#include "tracee/own_thread.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * capturing.c - taking the memory of a process that runs, as of one instant.
 *
 * At that instant every thread is stopped, all events are in the ledger, and no thread is in the
 * middle of writing one: registers, blocks and pages belong together. The loop does what needs
 * ptrace(2); the asker copies the pages beside it.
 *
 * The target may be hostile: nothing here depends on its answers. Pages are read as far as they can
 * be, until the caller interrupts.
 */

struct capturing { /* a capture that is being taken, or whose process or clone must still stay */
	struct session *s;
	struct process *p;
	raddr_t agent; /* where that is */
	pid_t via;     /* p->via when its memory was begun to be protected */
	struct capture *c;
	enum capture_way forced;
	uint64_t most;	   /* bytes that a copy may have */
	unsigned stop_ms;  /* how long they are waited for, when they are to stop */
	uint64_t began_us; /* when the threads were stopped */
	bool stopped;	   /* by us, and they still are */
	uint32_t resumed;  /* p->resumed then */
	pid_t child;	   /* a clone of it; 0: none (any more) */
	int child_fd;	   /* its pidfd, which no other process can come to have */
	pid_t child_own;   /* its id in P's pid namespace */
	struct protect protect;
	uint64_t bytes;		/* resident in P, about */
	struct listing *blocks; /* as of the instant, until the capture has them */
	bool sampled;		/* the blocks are samples */
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
 * Adds the threads. -EBUSY: one waits uninterruptibly in the kernel, or shares the memory with a
 * vfork child. At the process' last instant the threads that ended with it are added, too.
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
 * Begins the list of blocks. -EAGAIN: some thread has taken a sequence number and not written its
 * event yet, so events of others are still held.
 */
static int take_blocks(struct capturing *k)
{
	struct process *p = k->p;
	uint64_t bytes;

	if (p->stream) {
		stream_settle(p->stream, heartbeat_ms(), p->state > PROCESS_STOPPED);
		if (stream_held(p->stream, &bytes))
			return -EAGAIN;
	}
	k->blocks = listing_begin(p->ledger);
	return k->blocks ? capture_instant(k->c, p->ledger, heartbeat_ms()) : -ENOMEM;
}

/* Some threads, or all, have stood still since BEGAN_US: notes how long. */
static void paused(const struct capturing *k, uint64_t began_us)
{
	uint64_t ns = (clock_us() - began_us) * 1000;

	if (ns > k->c->pause_ns)
		k->c->pause_ns = ns;
}

static void resume(struct capturing *k)
{
	if (!k->stopped)
		return;
	k->stopped = false;
	if (session_cont(k->s, k->p) < 0)
		message_verbose(1, "%d: it was stopped and is not continued", k->p->pid);
	paused(k, k->began_us);
}

/* Drops the list of blocks, if it was begun. */
static void drop_blocks(struct capturing *k)
{
	if (k->blocks)
		listing_cancel(k->blocks);
	k->blocks = NULL;
}

static void give_up_instant(struct capturing *k)
{
	drop_blocks(k);
	resume(k);
}

/*
 * How long to wait for all threads to stop: the first try is short, so that they do not wait long
 * for one that is blocked; but each thread needs its turn of a processor.
 */
#define STOP_FIRST_MS  125
#define STOP_THREAD_MS 1
#define STOP_MOST_MS   2000

/* Stops all threads, which stay stopped if this returns 0. */
static int freeze(struct capturing *k)
{
	struct process *p = k->p;
	bool running = p->state == PROCESS_RUNNING;
	int err;

	k->began_us = clock_us();
	err = session_stop_within(k->s, p, k->stop_ms);
	if (err == -ETIMEDOUT && k->stop_ms < STOP_MOST_MS) {
		k->stop_ms *= 2;
		err = -EAGAIN;
	}
	if (err)
		return err;
	k->stopped = running;
	k->resumed = p->resumed;
	capture_clear(k->c);
	err = take_threads(k);
	if (!err)
		err = take_blocks(k);
	if (!err)
		err = capture_ranges(k->c, p->via, p->agent);
	if (err)
		give_up_instant(k);
	return err;
}

static void ask_freeze(struct asked *a) { a->ret = freeze(a->ctx); }

static void ask_resume(struct asked *a) { resume(a->ctx); }

static void ask_give_up(struct asked *a) { give_up_instant(a->ctx); }

/* ---- protection: the loop's thread --------------------------------------- */

static int make_protector(struct capturing *k)
{
	struct process *p = k->p;
	uint64_t began;
	pid_t tid, made = 0;
	int err, fd;

	session_hurry(true);
	began = clock_us();
	tid = session_borrow(k->s, p);
	err = tid < 0 ? (int)tid : own_thread_make(p, tid, OWN_PROTECTOR, &made);
	if (tid > 0)
		session_give_back(k->s, tid);
	session_serve_stops(k->s);
	session_hurry(false);
	paused(k, began);
	fd = err ? err : own_thread_protect(made);
	if (fd < 0)
		return fd;
	err = protect_init(&k->protect, fd);
	if (!err && p->wire)
		__atomic_store_n(&p->wire->protecting, 1, __ATOMIC_SEQ_CST);
	return err;
}

static void ask_protector(struct asked *a) { a->ret = make_protector(a->ctx); }

bool session_capture_serve(struct session *s, const struct process *p,
			   const struct shared_question *q)
{
	struct capturing *k = s->capturing;
	raddr_t page = PAGE - 1, start = q->arg[0] & ~page,
		end = (q->arg[0] + q->arg[1] + page) & ~page;

	if (!k || k->p != p || k->protect.fd < 0 || start >= end)
		return true;
	switch (q->what) {
	case ASK_WHOLE: protect_spare(&k->protect, start, end); return true;
	case ASK_MOVED: protect_spared(&k->protect, start, end); return true;
	default: return protect_join(&k->protect, start, end);
	}
}

/* Stops all threads and makes the last round. */
static int last_round(struct capturing *k)
{
	int err;

	session_hurry(true);
	err = freeze(k);
	if (!err)
		err = capture_last_round(k->c);
	if (err)
		give_up_instant(k);
	else
		resume(k);
	session_hurry(false);
	return err;
}

static void ask_last_round(struct asked *a) { a->ret = last_round(a->ctx); }

/* ---- a clone: the loop's thread ------------------------------------------ */

/* longer than a thread that was put back takes to stop */
#define CLONER_HALT_MS 2000

/* Takes CHILD over. Returns CHILD, or -errno: it was killed. */
static pid_t keep_clone(struct capturing *k, pid_t child)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0), err = -errno;

	if (fd < 0) {
		kill(child,
		     SIGKILL); /* a tracee that we have not waited for: nobody else has that number */
		return err;
	}
	k->child = child;
	k->child_own = proc_own_tid(child);
	k->child_fd = fd;
	return child;
}

/* Makes a clone. All threads are stopped, and are stopped again when this returns. */
static int clone_now(struct capturing *k)
{
	struct thread *t = session_one_stopped(k->s, k->p);
	pid_t tid, made = 0, child;
	int err, halted;

	if (!t || t->group)
		return -EAGAIN;
	tid = t->tid;
	if (session_is_filtered(tid))
		return -EPERM;
	err = own_thread_make(k->p, tid, OWN_CLONER, &made);
	t->state = THREAD_RUNNING;
	child = err ? err : own_thread_clone(made);
	if (child > 0)
		child = keep_clone(k, child);
	halted = session_halt(k->s, thread_find(k->s, tid), CLONER_HALT_MS);
	if (child == -EAGAIN) /* RLIMIT_NPROC is met */
		return -EPERM;
	return child < 0 ? (int)child : halted;
}

/* False: the clone is gone, and reaped. */
static bool signal_clone(const struct capturing *k, int signal)
{
	return syscall(SYS_pidfd_send_signal, k->child_fd, signal, NULL, 0) == 0;
}

static void kill_clone(const struct capturing *k)
{
	if (k->child && !signal_clone(k, SIGKILL) && errno != ESRCH)
		message_verbose(1, "%d: its clone cannot be killed: %s", k->p->pid,
				strerror(errno));
}

/*
 * The pages that a clone shares with P become its own as P writes: when memory is short the clone
 * is to be killed first.
 */
static void make_expendable(pid_t pid)
{
	static const char score[] = "1000";
	int fd = proc_open(pid, "oom_score_adj", O_WRONLY);

	if (fd < 0 || write(fd, score, sizeof(score) - 1) < 0)
		message_verbose(1, "%d: it may be killed by the kernel later than others", pid);
	if (fd >= 0)
		close(fd);
}

/* bytes that a clone does not have, which are copied while P stands still, at most */
#define UNCLONED_MOST (64u << 20)

static int freeze_and_clone(struct capturing *k)
{
	int err;

	session_hurry(true);
	err = freeze(k);
	if (!err)
		err = clone_now(k);
	if (!err)
		err = capture_open(k->c, k->child, false);
	if (!err)
		err = capture_begin_copy(k->c, k->most < UNCLONED_MOST ? k->most : UNCLONED_MOST);
	if (!err)
		err = capture_copy_uncloned(k->c, k->p->via);
	if (err)
		give_up_instant(k);
	else
		resume(k);
	session_hurry(false);
	if (!err)
		err = own_thread_part(k->child);
	if (!err)
		make_expendable(k->child);
	else
		kill_clone(k);
	return err;
}

static void ask_clone(struct asked *a) { a->ret = freeze_and_clone(a->ctx); }

static void ask_kill(struct asked *a) { kill_clone(a->ctx); }

void session_capture_cancel(struct session *s, const struct process *p)
{
	if (s->capturing && s->capturing->p == p)
		kill_clone(s->capturing);
}

#define REAP_MS 2000

/* Waits for the end of CHILD, which was killed. 0 or -errno: it does not end. */
static int await_end(pid_t child)
{
	struct event e = { .kind = EVENT_NONE };
	int err = 1;

	while (err > 0 && e.kind != EVENT_GONE) {
		err = tracer_wait(child, &e, REAP_MS);
		if (err > 0 && e.kind != EVENT_GONE)
			tracer_cont(child, 0);
	}
	return err > 0 ? 0 : err ? err : -ETIMEDOUT;
}

void session_capture_reap(struct session *s, const struct process *p, pid_t tid)
{
	const struct capturing *k = s->capturing;
	struct wire_call call = { .nr = SYS_wait4 };
	int err;

	if (!k || !k->child || k->p->state != PROCESS_REPLACED || k->p->pid != p->pid)
		return;
	err = await_end(k->child);
	call.arg[0] = (uint64_t)k->child_own;
	call.arg[2] = __WALL | WNOHANG;
	if (!err)
		err = agent_work(p, tid, &call, 1);
	if (err)
		message_verbose(1, "%d: a clone of what it was is a zombie until it ends: %s",
				p->pid, strerror(-err));
}

/* ---- the ways: the asker's ----------------------------------------------- */

#define GONE_MS	 5000
#define TRIES	 20
#define PAUSE_MS 50 /* between two of them */

/* Kills the clone, and waits, with turns of the loop, until it is reaped. */
static void end_clone(struct capturing *k)
{
	asking_do(k->s, ask_kill, &(struct asked){ .ctx = k });
	for (int i = 0; i < GONE_MS && (signal_clone(k, 0) || own_thread_there(k->p)); i++)
		if (session_turn(k->s, 1) < 0)
			break;
	close(k->child_fd);
	k->child = 0;
}

/* Tries again and again: what is in the way of an instant is mostly over soon. */
static int stop(struct capturing *k, void (*how)(struct asked *a))
{
	int err = -EAGAIN;

	for (int i = 0; i < TRIES && (err == -EAGAIN || err == -EBUSY); i++) {
		if (i && session_turn(k->s, PAUSE_MS) < 0)
			break;
		err = asking_do(k->s, how, &(struct asked){ .ctx = k });
		if (err)
			drop_blocks(k);
		if (err && k->child)
			end_clone(k);
	}
	return err;
}

/* Copies the blocks of the instant: first from the ledger, then without it and unlocked. */
static void copy_blocks(struct capturing *k)
{
	struct ledger_totals totals;

	ledger_totals(k->p->ledger, &totals);
	k->sampled = totals.estimated;
	session_list_copy(k->s, k->blocks);
}

static int take_copied_blocks(struct capturing *k)
{
	struct block_list list;
	int err = listing_end(k->blocks, true, &list);

	k->blocks = NULL;
	return err ? err : capture_blocks(k->c, &list, k->sampled);
}

static int gather(struct capturing *k)
{
	int err;

	copy_blocks(k);
	asking_unlock(k->s);
	err = take_copied_blocks(k);
	asking_lock(k->s);
	return err;
}

/* 0, or -errno: somebody has let P run, or it has ended. */
static int still_stopped(const struct capturing *k)
{
	if (k->p->state != PROCESS_STOPPED && k->p->state != PROCESS_HELD)
		return -ESRCH;
	return k->p->resumed == k->resumed ? 0 : -ECANCELED;
}

/* Copies all pages, if there is memory for that. */
static int copy_all(const struct capturing *k)
{
	int err = k->bytes > k->most ? -E2BIG : capture_begin_copy(k->c, k->most);

	if (!err) {
		capture_expect(k->c, k->bytes);
		err = capture_copy(k->c);
	}
	if (err == -E2BIG)
		err = capture_begin_copy(k->c, 0);
	return err;
}

/*
 * P stands still while its pages are copied; its blocks are listed when it runs again. Without
 * memory for a copy it stands still until session_capture_end().
 */
static int capture_by_stop(struct capturing *k)
{
	pid_t via = k->p->via;
	int err = stop(k, ask_freeze);

	if (err)
		return err;
	k->c->way = CAPTURE_STOP;
	asking_unlock(k->s);
	err = capture_open(k->c, via, true);
	if (!err)
		err = copy_all(k);
	asking_lock(k->s);
	if (!err)
		err = still_stopped(k);
	if (!err && k->c->copied)
		asking_do(k->s, ask_resume, &(struct asked){ .ctx = k });
	if (!err)
		err = gather(k);
	if (!err && !k->c->copied)
		err = still_stopped(k);
	if (err)
		asking_do(k->s, ask_give_up, &(struct asked){ .ctx = k });
	return err;
}

/*
 * Whether PID has a userfaultfd, which could not register a range that is registered with ours; or
 * an io_uring, into whose registered buffers the kernel writes without a fault.
 */
static bool has_conflicting(pid_t pid)
{
	int dir = proc_open(pid, "fd", O_RDONLY | O_DIRECTORY);
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	const struct dirent *entry;
	bool found = false;

	while (d && !found && (entry = readdir(d))) {
		char link[64];
		ssize_t n = readlinkat(dirfd(d), entry->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		found = !strcmp(link, "anon_inode:[userfaultfd]") ||
			!strcmp(link, "anon_inode:[io_uring]");
	}
	if (d)
		closedir(d);
	else if (dir >= 0)
		close(dir);
	return found;
}

/* bytes: so little takes no longer to copy than the rest of a stop */
#define ROUND_ENOUGH (2u << 20)
#define ROUNDS_MOST  16
/* bytes that cannot be protected, and so are copied in the last round, at most */
#define UNTRACKED_MOST (16u << 20)

/*
 * Makes rounds until little was written during one, or no less than during the one before. -ERANGE:
 * that is so much that a clone takes less time. -EFBIG: in two rounds too much could not be
 * protected (in one a mapping may have been in the middle of a change).
 */
static int rounds(struct capturing *k)
{
	uint64_t bytes = UINT64_MAX, untracked = 0, worth = k->bytes / 10;
	int err = 0;

	for (int i = 0; i < ROUNDS_MOST && !err; i++) {
		uint64_t before = i > 1 ? bytes : UINT64_MAX;
		bool many = untracked > UNTRACKED_MOST;

		/* the program may have come to have one: it would not get what it asks of it */
		err = i && has_conflicting(k->via) ? -EOPNOTSUPP : 0;
		if (!err)
			err = capture_round(k->c, k->agent, &k->protect, &bytes, &untracked);
		if (!err && many && untracked > UNTRACKED_MOST)
			err = -EFBIG;
		if (i && untracked <= UNTRACKED_MOST &&
		    (bytes <= ROUND_ENOUGH || bytes > before - before / 4))
			break;
	}
	if (worth < UNCLONED_MOST / 4)
		worth = UNCLONED_MOST / 4;
	return err			     ? err
	       : untracked > UNTRACKED_MOST  ? -EFBIG
	       : bytes > worth && !k->forced ? -ERANGE
					     : 0;
}

/*
 * A process that writes everywhere, as fast as it can, would pay for each page of each round, and
 * then for a clone: so it is probed first. Little memory is copied sooner than it is probed.
 */
#define PROBED_LEAST (128ull << 20)
#define WRITTEN_MOST (8ull << 30) /* bytes a second: nobody copies so fast */

static int probe(struct capturing *k)
{
	uint64_t written = 0;
	int err = 0;

	if (k->bytes >= PROBED_LEAST && !k->forced)
		err = capture_probe(k->c, k->agent, &k->protect, k->bytes, &written);
	return err ? err : written > WRITTEN_MOST ? -ERANGE : 0;
}

/* Copies in rounds while P runs; the last round stops it for a moment. */
static int by_rounds(struct capturing *k)
{
	int err;

	asking_unlock(k->s);
	err = probe(k);
	err = err ? err : -EAGAIN;
	for (int i = 0; i < TRIES && (err == -EAGAIN || err == -EBUSY); i++) {
		err = rounds(k);
		if (err)
			break;
		asking_lock(k->s);
		err = asking_do(k->s, ask_last_round, &(struct asked){ .ctx = k });
		if (!err)
			err = gather(k);
		asking_unlock(k->s);
	}
	capture_leave(k->c, &k->protect);
	if (!err)
		capture_end_rounds(k->c);
	asking_lock(k->s);
	return err;
}

static int capture_by_protection(struct capturing *k)
{
	pid_t via = k->p->via;
	int err;

	k->c->way = CAPTURE_WRITE_PROTECT;
	k->via = via;
	if (session_is_filtered(via))
		return -EPERM;
	asking_unlock(k->s);
	err = has_conflicting(via) ? -EOPNOTSUPP : protect_is_possible() ? 0 : -EPERM;
	if (!err)
		err = capture_open(k->c, via, true);
	if (!err)
		err = capture_begin_copy(k->c, k->most);
	if (!err)
		capture_expect(k->c, k->bytes);
	asking_lock(k->s);
	if (!err)
		err = asking_do(k->s, ask_protector, &(struct asked){ .ctx = k });
	if (!err)
		err = by_rounds(k);
	if (k->p->wire)
		__atomic_store_n(&k->p->wire->protecting, 0, __ATOMIC_RELAXED);
	protect_release(&k->protect);
	return err;
}

/*
 * P's memory is cloned while P stands still, together with a copy of what a clone does not have;
 * the clone is read while P runs again. While it lives P pays for each page that it writes: so the
 * blocks are sorted afterwards.
 */
static int capture_by_clone(struct capturing *k)
{
	bool large;
	int err;

	k->c->way = CAPTURE_CLONE;
	if (session_is_filtered(k->p->via))
		return -EPERM;
	err = stop(k, ask_clone);
	if (err)
		return err;
	copy_blocks(k);
	asking_unlock(k->s);
	capture_allow(k->c, k->most);
	err = -E2BIG;
	if (k->bytes <= k->most) {
		capture_expect(k->c, k->bytes);
		err = capture_copy(k->c);
	}
	asking_lock(k->s);
	large = err == -E2BIG;
	if (!large)
		end_clone(k);
	if (err && !large) {
		drop_blocks(k);
		return err;
	}
	asking_unlock(k->s);
	err = take_copied_blocks(k);
	asking_lock(k->s);
	if (err && large)
		end_clone(k);
	return err;
}

/* ---- from beginning to end ----------------------------------------------- */

static enum capture_way forced_way(void)
{
	static const char *const name[] = { [CAPTURE_WRITE_PROTECT] = "write-protect",
					    [CAPTURE_CLONE] = "clone",
					    [CAPTURE_STOP] = "stop" };
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
	case -EUSERS: return "LeakSanitizer looks at it just now: ask again when it has done";
	case -EAGAIN: return "its threads do not come to rest";
	case -ECANCELED: return "it was let run meanwhile";
	case -EPERM: return "its seccomp filters, or the kernel, do not allow it";
	case -EOPNOTSUPP: return "it has a userfaultfd or an io_uring itself";
	case -EFBIG: return "too much of it is shared, or mapped so that writes are not noticed";
	case -ERANGE: return "it writes faster than can be copied";
	case -ETIMEDOUT: return "some of its threads do not stop, or have its mappings locked";
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
	process_unref(k->p);
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
		return -EUSERS;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	*k = (struct capturing){ .s = s,
				 .p = p,
				 .agent = p->agent,
				 .c = capture_new(interrupted, ctx),
				 .forced = forced_way(),
				 .most = memory_available(getpid()) / 2,
				 .stop_ms = STOP_FIRST_MS + STOP_THREAD_MS * p->threads,
				 .protect = { .fd = -1 } };
	if (!k->c) {
		free(k);
		return -ENOMEM;
	}
	process_ref(p);
	*begun = s->capturing = k;
	return 0;
}

/* Whether each block of P's heap is in its ledger: every event since its beginning was seen. */
static bool all_known(const struct session *s, const struct process *p)
{
	struct stream_stats stats = p->last_stats;

	if (p->stream)
		stream_stats(p->stream, &stats);
	return !p->attached && p->preattach.state == PREATTACH_NONE && !s->options.sampled &&
	       !s->was_off && !s->options.agent.nhooks && !p->plant.nrefused &&
	       !p->credible.emptied && !p->credible.given_up && !stats.dropped && !stats.bad;
}

/* all_known(), together with the blocks from before us, if they can be found. */
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

/* Finds out how much memory P has, without reading it. */
static int look(struct capturing *k)
{
	pid_t via = k->p->via;
	int err;

	asking_unlock(k->s);
	err = capture_open(k->c, via, true);
	if (!err)
		err = capture_ranges(k->c, via, k->agent);
	if (!err)
		err = capture_measure(k->c, &k->bytes);
	asking_lock(k->s);
	return err;
}

/* Whether another way is no use, either. */
static bool is_final(int err) { return !err || err == -ESRCH || err == -EINTR; }

/* bytes: so much is copied by a stop, which takes a millisecond or two */
#define LITTLE (8u << 20)

/* Whether P is stopped, by us or by a stop signal. */
static bool stands_still(const struct process *p)
{
	char state = proc_state(p->via);

	return p->state != PROCESS_RUNNING || state == 'T' || state == 't';
}

/* Whether WAY is to be tried: it was asked for, or is worth it. */
static bool is_tried(const struct capturing *k, enum capture_way way)
{
	if (k->forced)
		return k->forced == way;
	if (k->bytes <= LITTLE || stands_still(k->p))
		return false;
	return way == CAPTURE_WRITE_PROTECT ? k->bytes <= k->most
					    : memory_available(k->p->via) / 2 > k->bytes / 4;
}

static int take(struct capturing *k)
{
	static int (*const ways[])(struct capturing * k) = {
		[CAPTURE_WRITE_PROTECT] = capture_by_protection,
		[CAPTURE_CLONE] = capture_by_clone,
		[CAPTURE_STOP] = capture_by_stop,
	};
	int err = look(k);

	for (enum capture_way way = CAPTURE_WRITE_PROTECT; !err && way < CAPTURE_STOP; way++) {
		if (!is_tried(k, way))
			continue;
		err = ways[way](k);
		if (is_final(err) || k->forced)
			return err;
		message_verbose(1, "%d: its memory is not captured by %s: %s", k->p->pid,
				capture_way_name(way), strerror(-err));
		err = 0;
	}
	return err ? err : capture_by_stop(k);
}

/* Without the lock: who waits for P's memory holds up nobody else. */
static void know_malloc(struct session *s, struct process *p)
{
	const struct module *libc = preattach_heap_libc(p), *jemalloc = usable_jemalloc_library(p);
	struct glibc_malloc found = p->glibc_malloc;
	struct static_tls tls = { 0 };
	pid_t via = p->via;

	if ((!found.state && libc) || jemalloc) {
		asking_unlock(s);
		if (!found.state && libc && !preattach_heap_find(libc, via, &found))
			found = (struct glibc_malloc){ 0 };
		if (jemalloc && !static_tls_find(jemalloc, via, &tls))
			message_verbose(2, "%d: jemalloc's variables are not found", p->pid);
		asking_lock(s);
		p->glibc_malloc = found;
	}
	p->jemalloc_tls = tls;
	if (!found.state)
		message_verbose(2, "%d: its malloc is not glibc's", p->pid);
}

int session_capture(struct session *s, struct process *p, bool (*interrupted)(void *ctx), void *ctx,
		    struct capture **c, char *why, size_t len)
{
	struct capturing *k;
	int err = begin(s, p, interrupted, ctx, &k);

	if (!err) {
		know_malloc(s, p);
		err = take(k);
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
		if (k->child)
			end_clone(k);
		release(k);
	}
	capture_free(c);
}
