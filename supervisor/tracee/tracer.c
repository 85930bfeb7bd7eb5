// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/tracer.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "arch/bounded_call.h"
#include "base/array.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/proc.h"

/*
 * tracer.c - the one file that knows ptrace.
 *
 * Always PTRACE_SEIZE: stops are then told apart by the kernel (PTRACE_EVENT_STOP), a group stop
 * can be waited in (LISTEN), and nothing is sent to the tracee. Every thread, child and exec is
 * reported through its event option.
 *
 * Events are collected in rounds. wait4(2) looks at the newest tracee first: if each tracee were
 * resumed before the next event is asked for, new ones that stop again and again would keep an old
 * one stopped for ever. So the events of all that have stopped are collected before the first of
 * them is resumed; the next round begins when these are served. If a second event of a tracee was
 * collected, it was killed in between: it is at another stop by now, and must not be resumed from
 * that by mistake.
 *
 * For a wait for any tracee the kernel looks at all of them in turn: with 8000 threads half a
 * millisecond, and each start of one of them is two stops. Where such a look takes long, none is
 * made while no SIGCHLD tells of a stop or an end, and not too many are. Those are waited for by
 * themselves who will most likely be the next: a thread that has started another, that one, and
 * when many end at once those that were made one after the other. The others wait for the next
 * look, some milliseconds at most. So the start of 8000 threads takes 2.4 s instead of 6.2 (0.6
 * alone), and their end 0.5 s instead of 2.3.
 */

static long options(unsigned flags)
{
	long o = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT |
		 PTRACE_O_TRACESYSGOOD;

	if (flags & TRACE_CHILDREN)
		o |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	if (flags & TRACE_EXITKILL)
		o |= PTRACE_O_EXITKILL;
	if (flags & TRACE_UNFILTERED)
		o |= PTRACE_O_SUSPEND_SECCOMP;
	return o;
}

static int call(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	return ptrace(request, tid, addr, data) < 0 ? -errno : 0;
}

#define SEIZE_MS 1000

/* It waits for a thread of TID's process that executes a program, and that for a file system. */
int tracer_seize(pid_t tid, unsigned flags)
{
	return (int)bounded_call(SEIZE_MS, SYS_ptrace, PTRACE_SEIZE, tid, 0, options(flags));
}

int tracer_flags(pid_t tid, unsigned flags)
{
	return call(PTRACE_SETOPTIONS, tid, NULL, (void *)options(flags));
}

int tracer_signal_code(pid_t tid, int *code)
{
	siginfo_t info;
	int err = call(PTRACE_GETSIGINFO, tid, NULL, &info);

	if (!err)
		*code = info.si_code;
	return err;
}

/*
 * The message of EVENT, at which TID stopped. False: TID has been killed since, and the message is
 * that of its end.
 */
static bool message(pid_t tid, int event, unsigned long *value)
{
	int code;

	return call(PTRACE_GETEVENTMSG, tid, NULL, value) == 0 &&
	       tracer_signal_code(tid, &code) == 0 && code >> 8 == event;
}

static void decode(pid_t tid, int status, struct event *e)
{
	*e = (struct event){ .tid = tid };
	if (!WIFSTOPPED(status)) {
		e->kind = EVENT_GONE;
		e->value = (unsigned long)status;
		return;
	}
	e->signal = WSTOPSIG(status);
	switch (status >> 16) {
	case PTRACE_EVENT_STOP:
		e->kind = e->signal == SIGTRAP ? EVENT_STOP : EVENT_GROUP_STOP;
		break;
	case PTRACE_EVENT_EXEC: e->kind = EVENT_EXEC; break;
	case PTRACE_EVENT_FORK: e->kind = EVENT_FORK; break;
	case PTRACE_EVENT_VFORK: e->kind = EVENT_VFORK; break;
	case PTRACE_EVENT_CLONE: e->kind = EVENT_CLONE; break;
	case PTRACE_EVENT_EXIT: e->kind = EVENT_EXITING; break;
	default: e->kind = e->signal == (SIGTRAP | 0x80) ? EVENT_SYSCALL : EVENT_SIGNAL; return;
	}
	if (message(tid, status >> 16, &e->value))
		return;
	if (e->kind == EVENT_EXEC)
		e->value = (unsigned long)tid;
	else if (e->kind == EVENT_FORK || e->kind == EVENT_VFORK || e->kind == EVENT_CLONE)
		e->kind = EVENT_NONE; /* the new task comes unannounced then */
}

/* ---- drawn events -------------------------------------------------------- */

/* Events in the order in which they were collected; those from `served` on are to be served. */
static struct {
	struct event *event;
	size_t served, count, room;
} drawn;

/* The first of TID's that was not served yet, or NULL. */
static struct event *drawn_find(pid_t tid)
{
	for (size_t i = drawn.served; i < drawn.count; i++)
		if (drawn.event[i].tid == tid)
			return &drawn.event[i];
	return NULL;
}

static void drawn_remove(struct event *e)
{
	struct event *end = drawn.event + drawn.count--;

	memmove(e, e + 1, (size_t)(end - e - 1) * sizeof(*e));
}

/*
 * Threads that were asked to stop. The kernel looks at all tracees in turn for each wait for any of
 * them, so that the time to stop them all together grows with the square of their number: where
 * many are expected each is waited for by itself.
 */
static struct {
	pid_t *tid;
	size_t count, room;
} expected;
#define MANY	   64u
#define BY_THE_WAY 8 /* so many of them may come by a wait for any */

static void expect(pid_t tid)
{
	if (array_room(&expected.tid, expected.count, &expected.room, sizeof(*expected.tid)) == 0)
		expected.tid[expected.count++] = tid;
}

/* True: TID was expected, and is not any more. */
static bool has_come(pid_t tid)
{
	for (size_t i = 0; i < expected.count; i++)
		if (expected.tid[i] == tid) {
			expected.tid[i] = expected.tid[--expected.count];
			return true;
		}
	return false;
}

static int drawn_room(void)
{
	return array_room(&drawn.event, drawn.count, &drawn.room, sizeof(*drawn.event));
}

/* The last ones that have started another thread, and those: the latest first. */
#define STARTERS 8
static pid_t starter[STARTERS];

static void note_starter(pid_t tid)
{
	size_t at = 0;

	while (at < STARTERS - 1 && starter[at] != tid)
		at++;
	memmove(starter + 1, starter, at * sizeof(*starter));
	starter[0] = tid;
}

static void collect(pid_t tid, int status)
{
	struct event *e = &drawn.event[drawn.count++];

	decode(tid, status, e);
	if (e->kind != EVENT_CLONE)
		return;
	note_starter((pid_t)e->value);
	note_starter(tid);
}

/* Collects the event of TID, if it has one: 1, else 0; -ENOMEM. */
static int draw_one(pid_t tid)
{
	int status;

	if (drawn_room())
		return -ENOMEM;
	if (waitpid(tid, &status, __WALL | __WNOTHREAD | WNOHANG) <= 0)
		return 0;
	(void)has_come(tid);
	collect(tid, status);
	return 1;
}

/* ---- going on ------------------------------------------------------------ */

/* Resumes TID. If it is at another stop already, -ESRCH: that event is collected, to be served. */
static int go_on(enum __ptrace_request request, pid_t tid, int signal)
{
	if (drawn_find(tid) || draw_one(tid) > 0)
		return -ESRCH;
	return call(request, tid, NULL, (void *)(long)signal);
}

int tracer_cont(pid_t tid, int signal) { return go_on(PTRACE_CONT, tid, signal); }

int tracer_syscall(pid_t tid, int signal) { return go_on(PTRACE_SYSCALL, tid, signal); }

int tracer_listen(pid_t tid) { return go_on(PTRACE_LISTEN, tid, 0); }

int tracer_interrupt(pid_t tid)
{
	int err = call(PTRACE_INTERRUPT, tid, NULL, NULL);

	if (!err)
		expect(tid);
	return err;
}

int tracer_detach(pid_t tid, int signal)
{
	int err = call(PTRACE_DETACH, tid, NULL, (void *)(long)signal);
	struct event *e;

	/* what it stopped for does not concern us any more */
	if (!err)
		(void)has_come(tid);
	while (!err && (e = drawn_find(tid)))
		drawn_remove(e);
	return err;
}

/* ---- registers ----------------------------------------------------------- */

int tracer_get_regs(pid_t tid, struct user_regs_struct *regs)
{
	return call(PTRACE_GETREGS, tid, NULL, regs);
}

int tracer_get_vector(pid_t tid, void *buf, size_t *len)
{
	struct iovec v = { buf, *len };
	int err = call(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &v);

	if (!err)
		*len = v.iov_len;
	return err;
}

int tracer_set_regs(pid_t tid, const struct user_regs_struct *regs)
{
	return call(PTRACE_SETREGS, tid, NULL, (void *)(uintptr_t)regs);
}

int tracer_get_mask(pid_t tid, uint64_t *mask)
{
	return call(PTRACE_GETSIGMASK, tid, (void *)sizeof(*mask), mask);
}

int tracer_set_mask(pid_t tid, uint64_t mask)
{
	return call(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask);
}

/* <linux/ptrace.h> has them since Linux 6.4 */
#define SET_DISPATCH 0x4210
#define GET_DISPATCH 0x4211

int tracer_get_dispatch(pid_t tid, struct tracer_dispatch *dispatch)
{
	return call(GET_DISPATCH, tid, (void *)sizeof(*dispatch), dispatch);
}

int tracer_set_dispatch(pid_t tid, const struct tracer_dispatch *dispatch)
{
	return call(SET_DISPATCH, tid, (void *)sizeof(*dispatch), (void *)(uintptr_t)dispatch);
}

/* Collects the events of those that are expected. 0 or -ENOMEM. */
static int draw_expected(void)
{
	size_t waiting = 0;
	int status, err = 0;

	for (size_t i = 0; i < expected.count; i++) {
		pid_t tid = expected.tid[i], got = 0;

		if (!err)
			err = drawn_room();
		if (!err)
			got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got > 0)
			decode(tid, status, &drawn.event[drawn.count++]);
		else if (!got || errno == EINTR)
			expected.tid[waiting++] = tid;
	}
	expected.count = waiting;
	return err;
}

/* Looks at all tracees. */
static struct {
	uint64_t ended, last; /* us: when the last one was, and how long it took */
	uint64_t took;	      /* the shorter of the last two: one may have had no processor */
	bool told;	      /* since it began a SIGCHLD has come */
} look;
#define DEAR_US	  50   /* a look that takes longer is spared where it can be */
#define UNTOLD_US 8000 /* one without a SIGCHLD: not every end has to be told of by that */
#define SHARE	  4    /* looks take a fifth of the time at most, */
#define UNTOLD	  32   /* and a 33rd of it while no SIGCHLD comes */
#define LATEST_US 200000

void tracer_told(void) { look.told = true; }

/* Whether tracees may have stopped or ended since the last look at all of them began. */
static bool is_news(uint64_t now)
{
	const struct timespec at_once = { 0 };
	uint64_t pause = least(UNTOLD * look.took, LATEST_US);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD); /* blocked: it only wakes the loop, which is awake */
	while (sigtimedwait(&set, NULL, &at_once) == SIGCHLD)
		look.told = true;
	return look.told || now - look.ended >= (pause < UNTOLD_US ? UNTOLD_US : pause);
}

/* Collects the events of the STARTERS. 0 or -ENOMEM. */
static int draw_starters(void)
{
	pid_t likely[STARTERS];
	int got = 0;

	memcpy(likely, starter, sizeof(likely)); /* what is collected changes their order */
	for (size_t i = 0; i < STARTERS && got >= 0; i++)
		got = likely[i] ? draw_one(likely[i]) : 0;
	return got < 0 ? got : 0;
}

static bool is_dear(void) { return look.took >= DEAR_US; }

/* Before this, in us, all are not looked at again. */
static uint64_t look_due(void) { return look.ended + least(SHARE * look.took, UNTOLD_US); }

uint64_t tracer_owed_us(void)
{
	uint64_t now = clock_us();

	if (!is_dear() || !look.told)
		return UINT64_MAX;
	return look_due() > now ? look_due() - now : 0;
}

/*
 * Collects the events of those that were made just before TID, as far as they have one: threads
 * that end together mostly have numbers that follow each other. 0 or -ENOMEM.
 */
static int draw_neighbours(pid_t tid)
{
	int got = 1;

	while (got > 0)
		got = --tid > 0 ? draw_one(tid) : 0;
	return got;
}

/* Looks at all. 0, or -errno; -ECHILD: no tracees are left. */
static int draw_any(void)
{
	int status, came = 0;
	uint64_t began;
	pid_t tid;

	look.told = false;
	for (;;) {
		if (drawn_room())
			break;
		began = clock_us();
		/* not those of the shell, which another thread has started */
		tid = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);
		if (tid < 0 && errno == EINTR)
			continue;
		if (tid <= 0) {
			int err = tid < 0 ? -errno : 0;

			look.ended = clock_us();
			look.took = least(look.last, look.ended - began);
			look.last = look.ended - began;
			return err;
		}
		collect(tid, status);
		if (has_come(tid) && expected.count >= MANY && ++came == BY_THE_WAY) {
			look.told = true; /* there may be more */
			return 0;
		}
		if (is_dear() && draw_neighbours(tid))
			break;
	}
	look.told = true;
	return -ENOMEM;
}

/* Collects all events that there are, or those that are known to come. As draw_any(). */
static int draw(void)
{
	uint64_t now;
	int err;

	drawn.served = drawn.count = 0;
	err = expected.count < MANY && !is_dear() ? 0 : draw_expected();
	if (err || !is_dear())
		return err ? err : draw_any();
	now = clock_us();
	if (!is_news(now))
		return 0;
	err = draw_starters();
	return err || now < look_due() ? err : draw_any();
}

int tracer_next(struct event *event)
{
	int err = drawn.served < drawn.count ? 0 : draw();

	if (drawn.served >= drawn.count)
		return err;
	*event = drawn.event[drawn.served++];
	return 1;
}

/*
 * Most stops come within some ten microseconds, and the shortest nap takes about a hundred: so we
 * first yield the processor for a while, and only then sleep.
 */
#define LOOKS	    64
#define ZOMBIE	    50 /* naps between two looks whether it has ended */
#define NAP_NS	    20000
#define NAP_MOST_NS 200000

/*
 * A first thread that has ended tells nothing until the others have, who may wait for us in their
 * last stops.
 */
static bool is_zombie(pid_t tid) { return proc_state(tid) == 'Z'; }

int tracer_wait(pid_t tid, struct event *event, int ms)
{
	uint64_t end = clock_ms() + (uint64_t)ms;
	struct timespec nap = { .tv_nsec = NAP_NS };
	struct event *e = drawn_find(tid);
	int status, looks = 0;
	bool ended = false;
	pid_t got;

	if (e) {
		*event = *e;
		if (e->kind != EVENT_GONE)
			drawn_remove(e);
		return 1;
	}
	if (drawn_room())
		return -ENOMEM;
	for (;;) {
		got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got > 0) {
			(void)has_come(tid);
			decode(got, status, event);
			if (event->kind == EVENT_GONE)
				drawn.event[drawn.count++] = *event;
			return 1;
		}
		if (ended)
			return -ESRCH;
		if (clock_ms() >= end)
			return 0;
		if (looks++ < LOOKS) {
			sched_yield();
			continue;
		}
		if ((looks - LOOKS) % ZOMBIE == 0)
			ended = is_zombie(tid);
		nanosleep(&nap, NULL);
		nap.tv_nsec += nap.tv_nsec < NAP_MOST_NS ? nap.tv_nsec / 16 : 0;
	}
}

bool tracer_hand_on(const struct event *event)
{
	switch (event->kind) {
	case EVENT_FORK:
	case EVENT_VFORK:
	case EVENT_CLONE:
	case EVENT_EXEC:
	case EVENT_EXITING: break;
	default: return false;
	}
	drawn.event[drawn.count++] = *event; /* tracer_wait() has made room */
	return true;
}

int tracer_halt(pid_t tid, int *signal, int ms)
{
	struct event e;
	int err = tracer_interrupt(tid);

	for (;;) {
		if (!err)
			err = tracer_wait(tid, &e, ms);
		if (err <= 0)
			return err ? err : -ETIMEDOUT;
		if (e.kind != EVENT_SYSCALL)
			break;
		/* any stop counts for the one that was asked for */
		err = tracer_interrupt(tid);
		if (!err)
			err = tracer_cont(tid, 0);
	}
	if (e.kind == EVENT_GONE || tracer_hand_on(&e))
		return -ESRCH;
	*signal = e.kind == EVENT_SIGNAL ? e.signal : 0;
	return 0;
}
