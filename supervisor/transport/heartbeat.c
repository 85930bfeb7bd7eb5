// SPDX-License-Identifier: GPL-3.0-or-later
#include "transport/heartbeat.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/space.h"

/*
 * heartbeat.c - the beacons of all targets: clock, bell and `alive`, in a thread of its own.
 *
 * `alive` of each beacon is a robust futex: it holds this thread's id and is on its robust list.
 * When the thread dies, be it with the whole process by SIGKILL, the kernel walks the list and sets
 * FUTEX_OWNER_DIED in each word. The list's nodes must not lie in memory that a target can write,
 * and the kernel wants one fixed distance from node to word; so each mapping of a beacon has a
 * private page right before it, which holds the node:
 *
 *	| private page: struct robust_list | beacon page (shared) | ...
 *	^ node                             ^ + 4096, alive at + 8
 *
 * The bell: futex_waitv(2) (Linux 5.16) sleeps on up to BELLS bells at once. Without it they are
 * looked at with each tick of the clock.
 */

#define TICK_NS 3000000
#define BELLS	120 /* futex_waitv takes 128 at most */
/*
 * The CPU time that the thread may take in one tick. After that it is deaf until the end of the tick,
 * and a tick that took more is as much longer: a target that rings without end takes a fifth of a
 * processor, and so do a thousand targets, whose clocks take 1 to 3 ms a tick on a busy machine of
 * which the host shadows the page tables.
 */
#define SHARE	     5
#define SHARE_NS     (TICK_NS / SHARE)
#define NODE_TO_WORD ((long)PAGE + (long)offsetof(struct wire_beacon, alive))

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
struct waitv {
	uint64_t val, uaddr;
	uint32_t flags, reserved;
};
#define WAITV_32 2 /* a 32-bit futex, shared */

/*
 * `heard` is the bell when we last looked. The next wait begins from that value: otherwise a bell that
 * rings between a look and the wait would be missed, and a target with a full ring would wait until
 * the tick.
 */
struct beat {
	struct wire_beacon *beacon;
	uint32_t heard;
};

static struct {
	pthread_t thread;
	pthread_mutex_t lock; /* guards the list */
	struct beat *beat;
	size_t count, room;
	uint64_t began_ns;
	int bell_fd;
	uint32_t tid;	  /* 0 until the thread is up */
	uint32_t changed; /* futex: the list has changed */
	bool stop, sleeping;
	struct robust_list_head robust;
} heartbeat = { .lock = PTHREAD_MUTEX_INITIALIZER, .bell_fd = -1 };

static uint64_t ms_at(uint64_t ns) { return (ns - heartbeat.began_ns) / 1000000; }

uint64_t heartbeat_ms(void) { return ms_at(clock_ns()); }

/* As <linux/sched/types.h> has it, which cannot be included beside <sched.h>. */
struct slice {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

void heartbeat_prompt(void)
{
	struct slice s = { .size = sizeof(s) };

	if (syscall(SYS_sched_getattr, 0, &s, (unsigned)sizeof(s), 0) < 0)
		return;
	s.runtime = 100000;
	s.flags = 0;
	syscall(SYS_sched_setattr, 0, &s, 0);
}

static bool hear(struct beat *beat)
{
	uint32_t now = __atomic_load_n(&beat->beacon->bell, __ATOMIC_ACQUIRE);
	bool news = now != beat->heard;

	beat->heard = now;
	return news;
}

/*
 * A late tick dates events late. A nice value counts only among the threads of one session or cgroup
 * (sched(7), autogroup): where others keep the processors busy, ticks are late by 5 ms and more with
 * -10. So the thread has the least real-time priority. It needs some us for a tick, SHARE_NS
 * at most. Without the right to that priority ticks may be late.
 */
static void be_punctual(void)
{
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK,
			       &(struct sched_param){ .sched_priority = 1 })) {
		setpriority(PRIO_PROCESS, 0, -10);
		heartbeat_prompt();
	}
}

/* Waits for a bell of WAITV's N, or until END. */
static void wait_bells(struct waitv *waitv, unsigned n, const struct timespec *end)
{
	if (syscall(SYS_futex_waitv, waitv, n, 0, end, CLOCK_MONOTONIC) < 0 && errno != EAGAIN &&
	    errno != EINTR && errno != ETIMEDOUT)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, end, NULL);
}

/* Whether one of the N beacons OF rang: the first of the list when it had CHANGED so often. */
static bool any_rung(struct wire_beacon *const *of, size_t n, uint32_t changed)
{
	bool rung = false;

	pthread_mutex_lock(&heartbeat.lock);
	for (size_t i = 0; i < n; i++) {
		size_t k = i;

		if (changed != heartbeat.changed)
			for (k = 0; k < heartbeat.count && heartbeat.beat[k].beacon != of[i];)
				k++;
		if (k < heartbeat.count)
			rung |= hear(&heartbeat.beat[k]);
	}
	pthread_mutex_unlock(&heartbeat.lock);
	return rung;
}

static void *heartbeat_run(void *unused)
{
	struct waitv waitv[BELLS + 1];
	struct wire_beacon *of[BELLS];
	uint64_t began = 0, own_before = 0; /* the tick: when, and the thread's CPU time then */
	uint64_t last = 0;		    /* what the tick before this one took of that */
	size_t n;

	(void)unused;
	pthread_setname_np(pthread_self(), "mtrun-heartbeat");
	heartbeat.robust.list.next = &heartbeat.robust.list;
	heartbeat.robust.futex_offset = NODE_TO_WORD;
	syscall(SYS_set_robust_list, &heartbeat.robust, sizeof(heartbeat.robust));
	be_punctual();
	__atomic_store_n(&heartbeat.tid, (uint32_t)gettid(), __ATOMIC_RELEASE);

	for (;;) {
		uint64_t now = clock_ns(), used = clock_thread_ns() - own_before;
		struct timespec end;
		uint32_t ms;

		if (used >= SHARE_NS) {
			/* once may be the host's, which took the processor; twice is ours */
			uint64_t ours = used < last ? used : last;
			uint64_t tick = ours > SHARE_NS ? ours * SHARE : TICK_NS;

			end = clock_timespec(began + tick);
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
			now = clock_ns();
		}
		if (now >= began + TICK_NS) {
			began = now;
			own_before += used;
			last = used;
		}
		ms = (uint32_t)ms_at(now);
		end = clock_timespec(now + TICK_NS);
		pthread_mutex_lock(&heartbeat.lock);
		if (heartbeat.stop)
			break;
		n = 0;
		waitv[BELLS] = (struct waitv){ heartbeat.changed, (uintptr_t)&heartbeat.changed,
					       WAITV_32, 0 };
		for (size_t i = 0; i < heartbeat.count; i++) {
			struct beat *b = &heartbeat.beat[i];

			__atomic_store_n(&b->beacon->ms, ms, __ATOMIC_RELAXED);
			if (n < BELLS) {
				of[n] = b->beacon;
				waitv[n] = (struct waitv){ b->heard, (uintptr_t)&b->beacon->bell,
							   WAITV_32, 0 };
				n++;
			}
		}
		waitv[n] = waitv[BELLS];
		pthread_mutex_unlock(&heartbeat.lock);

		wait_bells(waitv, (unsigned)n + 1, &end);
		if (any_rung(of, n, (uint32_t)waitv[n].val))
			eventfd_write(heartbeat.bell_fd, 1);
	}
	pthread_mutex_unlock(&heartbeat.lock);
	return NULL;
}

/* Makes the thread look at the list again. The lock is held. */
static void wake(void)
{
	__atomic_add_fetch(&heartbeat.changed, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &heartbeat.changed, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int heartbeat_start(void)
{
	pthread_mutexattr_t inherit;
	sigset_t all, was;
	int err;

	/* the thread waits for who has the lock: that one has its priority then */
	pthread_mutexattr_init(&inherit);
	pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
	pthread_mutex_destroy(&heartbeat.lock);
	pthread_mutex_init(&heartbeat.lock, &inherit);
	pthread_mutexattr_destroy(&inherit);
	heartbeat.began_ns = clock_ns();
	heartbeat.bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (heartbeat.bell_fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	err = pthread_create(&heartbeat.thread, NULL, heartbeat_run, NULL);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (err) {
		close(heartbeat.bell_fd);
		heartbeat.bell_fd = -1;
		return -err;
	}
	while (!__atomic_load_n(&heartbeat.tid, __ATOMIC_ACQUIRE))
		sched_yield();
	return heartbeat.bell_fd;
}

void heartbeat_stop(void)
{
	if (heartbeat.bell_fd < 0)
		return;
	pthread_mutex_lock(&heartbeat.lock);
	heartbeat.stop = true;
	wake();
	pthread_mutex_unlock(&heartbeat.lock);
	pthread_join(heartbeat.thread, NULL);
	close(heartbeat.bell_fd);
	heartbeat.bell_fd = -1;
	free(heartbeat.beat);
	heartbeat.beat = NULL;
	heartbeat.count = heartbeat.room = 0;
	heartbeat.tid = 0; /* what the next start waits for */
	heartbeat.stop = false;
}

static struct robust_list *node_of(struct wire_beacon *b)
{
	return (struct robust_list *)((char *)b - PAGE);
}

struct wire_beacon *heartbeat_map(int fd, size_t size, size_t span)
{
	struct wire_beacon *b = space_map(fd, 0, size, span, PAGE);

	if (!b)
		return NULL;
	pthread_mutex_lock(&heartbeat.lock);
	if (array_room(&heartbeat.beat, heartbeat.count, &heartbeat.room,
		       sizeof(*heartbeat.beat))) {
		pthread_mutex_unlock(&heartbeat.lock);
		munmap(node_of(b), size + PAGE);
		errno = ENOMEM;
		return NULL;
	}
	heartbeat.beat[heartbeat.count++] = (struct beat){ .beacon = b };
	b->ms = (uint32_t)heartbeat_ms();
	b->sleeping = heartbeat.sleeping;
	node_of(b)->next = heartbeat.robust.list.next;
	__atomic_store_n(&b->alive, heartbeat.tid, __ATOMIC_RELEASE);
	__atomic_store_n(&heartbeat.robust.list.next, node_of(b), __ATOMIC_RELEASE);
	__atomic_store_n(&b->magic, WIRE_MAGIC | WIRE_VERSION, __ATOMIC_RELEASE);
	wake();
	pthread_mutex_unlock(&heartbeat.lock);
	return b;
}

void heartbeat_unmap(struct wire_beacon *beacon, size_t size)
{
	pthread_mutex_lock(&heartbeat.lock);
	for (struct robust_list *r = &heartbeat.robust.list; r->next != &heartbeat.robust.list;
	     r = r->next)
		if (r->next == node_of(beacon)) {
			__atomic_store_n(&r->next, r->next->next, __ATOMIC_RELEASE);
			break;
		}
	for (size_t i = 0; i < heartbeat.count; i++)
		if (heartbeat.beat[i].beacon == beacon)
			heartbeat.beat[i] = heartbeat.beat[--heartbeat.count];
	__atomic_add_fetch(&heartbeat.changed, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&beacon->alive, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&heartbeat.lock);
	munmap(node_of(beacon), size + PAGE);
}

void heartbeat_sleeping(bool sleeping)
{
	pthread_mutex_lock(&heartbeat.lock);
	heartbeat.sleeping = sleeping;
	for (size_t i = 0; i < heartbeat.count; i++)
		__atomic_store_n(&heartbeat.beat[i].beacon->sleeping, sleeping, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&heartbeat.lock);
}
