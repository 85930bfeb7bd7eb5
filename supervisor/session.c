// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * session.c - the loop: what the kernel, the targets and the user's signals say is turned into changes of the process records.
 *
 * Threads. Each traced thread has a record. A new one is announced by its parent's stop and reports a first stop of its own; either may come
 * first, so a stranger that stops is left waiting until it has been announced. Whether it is a thread, a child with memory of its own, or a
 * vfork child that borrows its parent's until exec, is what kcmp(2) says, not the event.
 *
 * Processes. exec makes a new record: its allocations start anew. A process' last thread is seen at its last instant (EVENT_EXITING): its rings
 * are complete then, and its memory still there; it can be held at that point.
 *
 * Every turn: stops first (the target waits for us there), questions second, then the rings.
 */
#include "session.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "home.h"
#include "image.h"
#include "launch.h"
#include "message.h"
#include "proc.h"
#include "pulse.h"
#include "tracer.h"
#include "unwind.h"

#define TICK_MS 8			/* rings are looked at this often, however quiet */
#define CHUNK   65536			/* events of one process before others have their turn */
#define AWAKE_NS 20000			/* after a question of the program's own code the next one is looked for so long: to be woken takes longer */

enum thread_state { THREAD_NEW, THREAD_STRANGER, THREAD_RUNNING, THREAD_STOPPED, THREAD_EXITING, THREAD_LENT };

struct thread {
	pid_t tid;
	struct process *process;	/* NULL: a stranger */
	enum thread_state state;
	bool guest;			/* a vfork child: lives in the process' memory without being of it */
	bool interrupted;		/* asked to stop for session_stop() */
	int signal;			/* to be delivered when resumed */
};

#define WATCHES 8

struct watch {
	int fd;
	short events;
	void (*fn)(void *ctx, short revents);
	void *ctx;
};

struct session {
	struct options options;
	struct inherited inherited;
	struct process *processes, **last;
	struct process *main;		/* the program named; the newest image of it */
	struct process *chosen;
	struct process *pinned;
	struct process *buried;		/* out of the list, but somebody had them pinned */
	struct thread *thread;
	size_t nthreads, room;
	int bell, signals;
	struct api api;
	uint64_t asked_ns;		/* when the program itself asked last */
	pid_t launched;
	bool hold, main_ended, detached, began;
	const struct process *stopping;	/* whose threads stay where they stop: session_stop() is at it */
	pid_t held;			/* thread held at its last instant, 0: none */
	struct process *lent;		/* another tracer has it */
	const struct terminal *terminal;	/* interactive: the program's own */
	void (*on_signal)(void *ctx, int sig);
	void *on_signal_ctx;
	struct watch watch[WATCHES];
	nfds_t watches;
	bool started, refused;		/* the program named runs; or was found to be of a kind that we cannot supervise */
};

/* ---- threads ---------------------------------------------------------------------------------------------------------------------- */

static struct thread *thread_find(struct session *s, pid_t tid)
{
	for (size_t i = s->nthreads; i-- > 0;)
		if (s->thread[i].tid == tid)
			return &s->thread[i];
	return NULL;
}

static struct thread *thread_add(struct session *s, pid_t tid, struct process *p, enum thread_state state)
{
	struct thread *t;

	if (s->nthreads == s->room) {
		size_t room = s->room ? s->room * 2 : 64;
		struct thread *more = realloc(s->thread, room * sizeof(*more));

		if (!more)
			return NULL;
		s->thread = more;
		s->room = room;
	}
	t = &s->thread[s->nthreads++];
	*t = (struct thread){ .tid = tid, .process = p, .state = state };
	return t;
}

static void thread_remove(struct session *s, struct thread *t)
{
	*t = s->thread[--s->nthreads];
}

/* ---- processes -------------------------------------------------------------------------------------------------------------------- */

static void process_append(struct session *s, struct process *p)
{
	p->began_ms = pulse_ms();
	*s->last = p;
	s->last = &p->next;
}

static struct process *process_start(struct session *s, pid_t pid, pid_t ppid, struct ledger *ledger)
{
	struct process *p = process_new(pid, ppid, s->options.count & (LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP), ledger);

	if (!p)
		return NULL;
	p->threads = 1;
	process_append(s, p);
	return p;
}

/* A record that never ran as itself: the child between fork and exec. */
static void process_forget(struct session *s, struct process *p)
{
	struct process **at = &s->processes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (s->last == &p->next)
		s->last = at;
	if (p == s->pinned) {
		p->next = s->buried;
		s->buried = p;
		return;
	}
	process_free(p);
}

static int process_listen(struct process *p)
{
	p->stream = stream_new(p->wire, p->ledger, process_own_mapping, p);
	ledger_keep_freed(p->ledger, p->wire->free_stacks);
	return p->stream ? 0 : -ENOMEM;
}

/* Everything that it will ever say is in its rings. */
static void process_drain(struct process *p)
{
	if (p->stream)
		stream_settle(p->stream, pulse_ms(), true);
}

static void process_finish(struct session *s, struct process *p, enum process_state state, int status)
{
	process_drain(p);
	p->state = state;
	p->wait_status = status;
	p->ended_ms = pulse_ms();
	p->threads = 0;
	if (p == s->main && state != PROCESS_REPLACED)
		s->main_ended = true;
}

/* Its rings will not be looked at again. */
static void process_close(struct process *p)
{
	if (p->stream) {
		p->missing = stream_missing(p->stream);
		stream_stats(p->stream, &p->last_stats);
		stream_free(p->stream);
		p->stream = NULL;
	}
	home_release(p);
}

/* ---- a new image ------------------------------------------------------------------------------------------------------------------ */

/* The program that was named is not run when it cannot be supervised: nothing of it has run yet. Its later images and its children are. */
static void cannot_supervise(struct session *s, struct process *p, const char *why)
{
	p->unsupervised = why;
	if (p == s->main && !s->started) {
		message_error("cannot supervise '%s': %s", p->exe ? p->exe : p->command ? p->command : "?", why);
		s->refused = true;
		kill(p->pid, SIGKILL);
	} else
		message_error("%d ('%s') runs unsupervised: %s", p->pid, p->command ? p->command : "?", why);
}

static const char *landing_error(int err)
{
	return err == -ENOSPC ? "no room for the trampoline was found in it" : err == -ETIMEDOUT ? "it did not answer" : strerror(-err);
}

#define CS_64 0x33			/* the code segment of a 64-bit program */

static int land(struct session *s, struct process *p, pid_t tid)
{
	struct user_regs_struct regs;
	int err = tracer_get_regs(tid, &regs);

	if (!err && regs.cs != CS_64) {
		cannot_supervise(s, p, "it is a 32-bit program");
		return tracer_cont(tid, 0);
	}
	if (!err)
		err = home_land(p, tid, &s->options);
	if (err)
		return err;
	err = process_listen(p);
	if (!err)
		err = home_refresh(p, tid, &p->wire->mail, &s->options);
	/* -S: it is stopped while it still serves us, so that `cont` lets it run its first instruction. */
	if (!err && s->options.start_stopped && p == s->main && !s->began && session_stop(s, p) < 0)
		message_error("cannot stop process %d", (int)p->pid);
	s->began = true;
	home_go(&p->wire->mail);
	return err;
}

static void on_exec(struct session *s, const struct event *e)
{
	struct thread *t = thread_find(s, e->tid);
	struct process *old, *p;
	pid_t ppid;
	int err;

	if (e->value != (unsigned long)e->tid) {
		struct thread *former = thread_find(s, (pid_t)e->value);

		if (former)
			thread_remove(s, former);
		t = thread_find(s, e->tid);
	}
	if (!t || !t->process) {
		tracer_cont(e->tid, 0);
		return;
	}
	old = t->process;
	ppid = t->guest ? old->pid : old->ppid;
	if (!t->guest) {
		for (size_t i = 0; i < s->nthreads;)
			if (s->thread[i].process == old && s->thread[i].tid != e->tid && !s->thread[i].guest)
				thread_remove(s, &s->thread[i]);
			else
				i++;
		t = thread_find(s, e->tid);
	}
	p = process_start(s, e->tid, ppid, NULL);
	if (!p) {
		message_error("out of memory: %d runs unsupervised", e->tid);
		tracer_cont(e->tid, 0);
		return;
	}
	if (!t->guest) {
		if (old == s->chosen)
			s->chosen = p;
		if (old == s->main)
			s->main = p;
		if (old->ledger_used) {
			process_finish(s, old, PROCESS_REPLACED, 0);
			process_close(old);
		} else
			process_forget(s, old);
	}
	t->process = p;
	t->guest = false;
	t->state = THREAD_RUNNING;
	p->ledger_used = true;
	process_describe(p);
	err = land(s, p, e->tid);
	if (err && err != -ESRCH)
		cannot_supervise(s, p, landing_error(err));
	process_describe(p);
}

/* ---- new threads and children ------------------------------------------------------------------------------------------------------ */

static bool same_memory(pid_t a, pid_t b, bool otherwise)
{
	long r = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);

	return r < 0 ? otherwise : r == 0;
}

static bool same_process(pid_t pid, pid_t tid)
{
	return proc_status_field(tid, "Tgid") == pid;
}

/* A child with memory of its own, stopped at its beginning: it inherits the table that its parent had at the fork. */
static void begin_child(struct session *s, struct thread *t)
{
	struct process *p = t->process;
	const struct process *parent = p->parent;
	int err = -ESRCH;

	t->state = THREAD_RUNNING;
	p->parent = NULL;
	if (!parent || !parent->home || !parent->wire) {
		tracer_cont(t->tid, 0);
		return;
	}
	err = home_inherit(p, parent, t->tid);
	if (!err)
		err = process_listen(p);
	if (err && err != -ESRCH)
		cannot_supervise(s, p, err == -EPERM ? "it inherits a seccomp filter" : landing_error(err));
}

static void begin(struct session *s, struct thread *t)
{
	if (t->process->parent && t->process->pid == t->tid && !t->guest) {
		begin_child(s, t);
		return;
	}
	if (s->stopping == t->process && !t->guest) {
		t->state = THREAD_STOPPED;
		return;
	}
	t->state = THREAD_RUNNING;
	tracer_cont(t->tid, 0);
}

static void on_new(struct session *s, const struct event *e, struct thread *parent)
{
	pid_t tid = (pid_t)e->value;
	struct process *of = parent->process, *p = of;
	bool shared = same_memory(e->tid, tid, e->kind != EVENT_FORK), thread = shared && same_process(of->pid, tid);
	struct thread *t = thread_find(s, tid);
	bool waits = t && t->state == THREAD_STRANGER;

	if (!shared) {
		struct ledger *ledger;

		if (of->stream)
			stream_settle(of->stream, pulse_ms(), false);
		ledger = ledger_fork(of->ledger);
		p = ledger ? process_start(s, tid, of->pid, ledger) : NULL;
		if (p) {
			p->ledger_used = true;
			p->parent = of;
			p->command = of->command ? strdup(of->command) : NULL;
			p->exe = of->exe ? strdup(of->exe) : NULL;
			p->image_bytes = of->image_bytes;
			if (modules_copy(&p->modules, &of->modules) < 0 || plant_copy(&p->plant, &of->plant) < 0)
				p->parent = NULL;
		} else
			p = of;
	} else if (thread)
		of->threads++;
	if (t) {
		t->process = p;
		t->state = THREAD_NEW;
	} else
		t = thread_add(s, tid, p, THREAD_NEW);
	if (!t)
		return;
	t->guest = shared && !thread;
	if (waits)
		begin(s, t);
}

/* ---- ends -------------------------------------------------------------------------------------------------------------------------- */

static void on_exiting(struct session *s, struct thread *t, const struct event *e)
{
	struct process *p = t->process;
	struct user_regs_struct regs;
	bool last;

	if (t->guest || !p) {
		t->state = THREAD_EXITING;
		tracer_cont(t->tid, 0);
		return;
	}
	last = p->threads <= 1;
	if (t->state != THREAD_EXITING && p->threads)
		p->threads--;
	t->state = THREAD_EXITING;
	if (last) {
		process_finish(s, p, PROCESS_HELD, (int)e->value);
		if (s->hold && p == s->main && p->ledger_used && !s->refused) {
			s->held = p->via = t->tid;
			return;
		}
	} else if (p->stream && tracer_get_regs(t->tid, &regs) == 0)
		stream_thread_gone(p->stream, pulse_ms(), regs.fs_base);
	tracer_cont(t->tid, 0);
}

static void on_gone(struct session *s, struct thread *t, const struct event *e)
{
	struct process *p = t->process;

	if (t->tid == s->held)
		s->held = 0;
	if (p && !t->guest) {
		if (t->state != THREAD_EXITING && p->threads)
			p->threads--;
		/* The last thread may be held while we hear of the end of those before it. */
		if (t->tid == p->pid || (!p->threads && !(s->held && p == s->main))) {
			if (p->state != PROCESS_HELD && p->state != PROCESS_EXITED)
				process_finish(s, p, PROCESS_EXITED, (int)e->value);
			p->state = PROCESS_EXITED;
			if (t->tid == p->pid) {
				p->wait_status = (int)e->value;
				process_close(p);
			}
		}
	}
	thread_remove(s, t);
}

/* ---- events ------------------------------------------------------------------------------------------------------------------------ */

static void on_stranger(struct session *s, const struct event *e)
{
	if (e->kind == EVENT_GONE)
		return;
	if (e->kind == EVENT_STOP)
		thread_add(s, e->tid, NULL, THREAD_STRANGER);
	else
		tracer_cont(e->tid, e->kind == EVENT_SIGNAL ? e->signal : 0);
}

/* Job control: when the terminal stops the program, the shell that started mtrun must see mtrun stop too. */
static void stop_with_it(const struct session *s, const struct thread *t, int signal)
{
	if (s->launched && t->tid == s->launched && signal != SIGSTOP && !s->terminal)
		kill(getpid(), SIGSTOP);
}

static void resume(struct session *s, struct thread *t, int signal)
{
	if (s->stopping && s->stopping == t->process && !t->guest) {
		t->state = THREAD_STOPPED;
		t->signal = signal;
		return;
	}
	tracer_cont(t->tid, signal);
}

static void handle(struct session *s, const struct event *e)
{
	struct thread *t = thread_find(s, e->tid);

	if (!t) {
		on_stranger(s, e);
		return;
	}
	switch (e->kind) {
	case EVENT_GONE:
		on_gone(s, t, e);
		break;
	case EVENT_EXEC:
		on_exec(s, e);
		break;
	case EVENT_FORK:
	case EVENT_VFORK:
	case EVENT_CLONE:
		on_new(s, e, t);
		t = thread_find(s, e->tid);
		if (t)
			resume(s, t, 0);
		break;
	case EVENT_EXITING:
		on_exiting(s, t, e);
		break;
	case EVENT_GROUP_STOP:
		if (t->state == THREAD_NEW)
			begin(s, t);
		else {
			tracer_listen(t->tid);
			stop_with_it(s, t, e->signal);
		}
		break;
	case EVENT_STOP:
		if (t->state == THREAD_NEW)
			begin(s, t);
		else
			resume(s, t, 0);
		break;
	case EVENT_SIGNAL:
		resume(s, t, e->signal);
		break;
	default:
		resume(s, t, 0);
	}
}

static int serve_stops(struct session *s)
{
	struct event e;
	int n = 0, got;

	while ((got = tracer_next(&e)) == 1) {
		handle(s, &e);
		n++;
	}
	return n;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void refresh_modules(struct session *s, struct process *p, struct wire_mail *mail, pid_t tid)
{
	const struct thread *t = thread_find(s, tid);	/* the number is the target's word */
	int err = p != s->lent && t && t->process == p ? home_refresh(p, tid, mail, &s->options) : -ESRCH;

	if (err && err != -ESRCH)
		message_verbose(1, "%d: new libraries are not supervised: %s", p->pid, strerror(-err));
}

static void serve_questions(struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next) {
		struct wire_mail *mail;
		uint32_t slot = 0;
		pid_t tid;

		if (!p->wire || p->state > PROCESS_STOPPED)
			continue;
		while ((mail = home_question(p, &slot, &tid)) != NULL) {
			if (mail->what != ASK_API)
				refresh_modules(s, p, mail, tid);
			else if (p->stream && !api_answer(p, mail, &s->api))
				continue;	/* later */
			else
				s->asked_ns = now_ns();
			home_go(mail);
		}
	}
}

static size_t serve_rings(struct session *s)
{
	size_t n = 0;

	for (struct process *p = s->processes; p; p = p->next)
		if (p->stream && p->state <= PROCESS_STOPPED)
			n += stream_take(p->stream, pulse_ms(), CHUNK);
	return n;
}

static void serve_signals(struct session *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == sizeof(info))
		if (s->on_signal && info.ssi_signo != SIGCHLD)
			s->on_signal(s->on_signal_ctx, (int)info.ssi_signo);
		else if ((info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP || info.ssi_signo == SIGUSR2) && s->launched && !s->main_ended)
			kill(s->main ? s->main->pid : s->launched, (int)info.ssi_signo);
}

void session_take_signals(struct session *s)
{
	serve_signals(s);
}

/* A ring that is half full already would not ring the bell again. */
static bool rings_filling(const struct session *s)
{
	for (const struct process *p = s->processes; p; p = p->next) {
		if (!p->wire || p->state > PROCESS_STOPPED)
			continue;
		for (uint32_t i = 0, high = p->wire->threads_high; i < high && i < WIRE_THREADS; i++) {
			const struct wire_thread *t = &p->wire->thread[i];

			if (t->head - t->tail >= WIRE_RING / 2 || t->mail.state == MAIL_ASKED)
				return true;
		}
	}
	return false;
}

/* seccomp: such a target cannot ring. */
static bool mute_targets(const struct session *s)
{
	for (const struct process *p = s->processes; p; p = p->next)
		if (p->wire && p->state <= PROCESS_STOPPED && p->wire->no_syscalls)
			return true;
	return false;
}

int session_watch(struct session *s, int fd, short events, void (*fn)(void *ctx, short revents), void *ctx)
{
	nfds_t i = 0;

	while (i < s->watches && s->watch[i].fd != fd)
		i++;
	if (!events) {
		if (i < s->watches)
			s->watch[i] = s->watch[--s->watches];
		return 0;
	}
	if (i == WATCHES)
		return -ENOSPC;
	s->watch[i] = (struct watch){ fd, events, fn, ctx };
	if (i == s->watches)
		s->watches++;
	return 0;
}

static void serve_watches(struct session *s, const struct pollfd *fds)
{
	struct watch watch[WATCHES];		/* what is called may change the list */
	nfds_t n = s->watches;

	memcpy(watch, s->watch, n * sizeof(*watch));
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents)
			watch[i].fn(watch[i].ctx, fds[i].revents);
}

int session_turn(struct session *s, int timeout_ms)
{
	struct pollfd fds[2 + WATCHES] = { { .fd = s->signals, .events = POLLIN }, { .fd = s->bell, .events = POLLIN } };
	bool live = s->nthreads && !s->main_ended;
	eventfd_t ignored;
	bool filling;
	int stops;

	stops = serve_stops(s);
	serve_questions(s);
	if (serve_rings(s) >= CHUNK / 2 || stops)
		timeout_ms = 0;
	if (timeout_ms == 0 && !s->watches)
		return 0;
	for (nfds_t i = 0; i < s->watches; i++)
		fds[2 + i] = (struct pollfd){ .fd = s->watch[i].fd, .events = s->watch[i].events };
	for (const struct process *p = s->processes; p && !live; p = p->next)
		live = p->stream && p->state <= PROCESS_STOPPED;
	if (live && (timeout_ms < 0 || timeout_ms > TICK_MS))
		timeout_ms = mute_targets(s) ? 1 : TICK_MS;
	if (s->asked_ns && now_ns() - s->asked_ns < AWAKE_NS)
		timeout_ms = 0;
	if (timeout_ms)
		pulse_sleeping(true);
	filling = timeout_ms && rings_filling(s);
	if ((!filling || s->watches) && poll(fds, 2 + s->watches, filling ? 0 : timeout_ms) < 0 && errno != EINTR)
		return -errno;
	if (timeout_ms)
		pulse_sleeping(false);
	if (fds[1].revents)
		eventfd_read(s->bell, &ignored);
	serve_signals(s);
	serve_stops(s);
	serve_questions(s);
	serve_rings(s);
	serve_watches(s, fds + 2);
	return 0;
}

void session_settle(struct session *s)
{
	serve_stops(s);
	for (struct process *p = s->processes; p; p = p->next)
		if (p->stream)
			stream_settle(p->stream, pulse_ms(), p->state > PROCESS_STOPPED);
}

void session_breathe(struct session *s)
{
	serve_rings(s);
}

uint64_t session_ms(const struct session *s)
{
	(void)s;
	return pulse_ms();
}

/* ---- life -------------------------------------------------------------------------------------------------------------------------- */

/* Our memory files are large. A limit on the size of files is the program's (launch.c gives it back), and must not be our end. */
static void unlimit_files(void)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_FSIZE, &limit) < 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_FSIZE, &limit);
	}
	signal(SIGXFSZ, SIG_IGN);
}

struct session *session_new(const struct options *options)
{
	struct session *s = calloc(1, sizeof(*s));
	sigset_t set;

	if (!s)
		return NULL;
	s->options = *options;
	s->api.count = options->count;
	s->last = &s->processes;
	inherited_save(&s->inherited);
	s->bell = pulse_start();
	if (s->bell < 0) {
		errno = -s->bell;
		free(s);
		return NULL;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	signal(SIGCHLD, SIG_DFL);	/* an inherited SIG_IGN would reap the target behind our back */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTSTP, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	unlimit_files();
	return s;
}

void session_free(struct session *s)
{
	struct process *p, *next;

	if (!s)
		return;
	for (p = s->processes; p; p = next) {
		next = p->next;
		process_free(p);
	}
	for (p = s->buried; p; p = next) {
		next = p->next;
		process_free(p);
	}
	unwind_release();
	pulse_stop();
	close(s->signals);
	free(s->thread);
	free(s);
}

void session_interactive(struct session *s, const struct terminal *terminal, void (*fn)(void *ctx, int sig), void *ctx)
{
	static const int more[] = { SIGINT, SIGTSTP, SIGWINCH };
	sigset_t set;

	s->terminal = terminal;
	s->on_signal = fn;
	s->on_signal_ctx = ctx;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
		signal(more[i], SIG_DFL);	/* what is ignored is not queued */
		sigaddset(&set, more[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	signalfd(s->signals, &set, 0);
}

const struct options *session_options(const struct session *s)
{
	return &s->options;
}

static const char *seize_advice(int err)
{
	return err == -EPERM || err == -ENOSYS ? " (ptrace is forbidden here: by seccomp, a container's policy, or kernel.yama.ptrace_scope)" : "";
}

/* Up to the exec: only then is there something to supervise. */
static int await_exec(struct session *s, struct launch *l, const char *path)
{
	int failure = 0;

	while (s->nthreads && s->main && !s->main->exe)
		if (session_turn(s, -1) < 0)
			break;
	if (read(l->failed, &failure, sizeof(failure)) == sizeof(failure)) {
		message_error("cannot run '%s': %s", path, strerror(failure));
		return failure == ENOENT || failure == ENOTDIR ? 127 : 126;
	}
	while (s->refused && s->nthreads)
		if (session_turn(s, -1) < 0)
			break;
	return s->refused ? 126 : 0;
}

int session_launch(struct session *s, int *status)
{
	char **argv = s->options.argv;
	struct launch l;
	struct process *p;
	char *path = launch_find(argv[0], status);
	int err = -EINVAL;

	if (!path)
		return -ENOENT;
	*status = launch_check(path, s->options.nhooks > 0);
	if (*status)
		goto out;
	*status = 125;
	err = launch_fork(&l, path, argv, &s->inherited, s->options.stdin_null, s->terminal);
	if (err) {
		message_error("cannot start '%s': %s", path, strerror(-err));
		goto out;
	}
	err = tracer_seize(l.pid, s->options.follow ? TRACE_CHILDREN : 0);
	if (err) {
		message_error("cannot trace '%s': ptrace: %s%s", path, strerror(-err), seize_advice(err));
		close(l.go);
		waitpid(l.pid, NULL, 0);
		goto close;
	}
	p = process_start(s, l.pid, getpid(), NULL);
	err = -ENOMEM;
	if (!p || !thread_add(s, l.pid, p, THREAD_RUNNING)) {
		close(l.go);
		goto close;
	}
	pulse_prompt();			/* after the fork: the program is to be scheduled as without us */
	s->main = s->chosen = p;
	s->launched = l.pid;
	err = write(l.go, "g", 1) == 1 ? 0 : -errno;
	close(l.go);
	*status = await_exec(s, &l, path);
	if (*status)
		err = -EINVAL;
	s->started = *status == 0;
close:
	close(l.failed);
out:
	free(path);
	return err;
}

/* ---- questions --------------------------------------------------------------------------------------------------------------------- */

struct process *session_processes(const struct session *s)
{
	return s->processes;
}

struct process *session_main(const struct session *s)
{
	return s->chosen;
}

int session_choose(struct session *s, pid_t pid)
{
	struct process *found = NULL;

	for (struct process *p = s->processes; p; p = p->next)
		if (p->pid == pid && p->state != PROCESS_REPLACED)
			found = p;
	if (!found)
		return -ESRCH;
	s->chosen = found;
	return 0;
}

void session_on_snapshot(struct session *s, void (*fn)(void *ctx, struct process *p, const char *name), void *ctx)
{
	s->api.snapshot = fn;
	s->api.ctx = ctx;
}

bool session_ended(const struct session *s)
{
	return s->main_ended || s->detached || !s->nthreads;
}

bool session_all_gone(const struct session *s)
{
	return !s->nthreads || s->detached;
}

void session_hold(struct session *s, bool hold)
{
	pid_t held = s->held;

	s->hold = hold;
	if (!hold && held) {
		s->held = 0;
		tracer_cont(held, 0);
	}
}

int session_exit_status(const struct session *s, int *signal)
{
	int status = s->main ? s->main->wait_status : 0;

	*signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* ---- acting on the target ----------------------------------------------------------------------------------------------------------- */

static bool all_stopped(const struct session *s, const struct process *p)
{
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && !s->thread[i].guest && s->thread[i].state != THREAD_STOPPED && s->thread[i].state != THREAD_EXITING)
			return false;
	return true;
}

int session_stop(struct session *s, struct process *p)
{
	uint64_t end = pulse_ms() + 5000;

	if (p->state == PROCESS_STOPPED || p->state == PROCESS_HELD)
		return 0;
	if (p->state != PROCESS_RUNNING)
		return -ESRCH;
	if (p == s->lent)
		return -EBUSY;
	s->stopping = p;
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p && !s->thread[i].guest && s->thread[i].state == THREAD_RUNNING)
			tracer_interrupt(s->thread[i].tid);
	while (!all_stopped(s, p) && pulse_ms() < end) {
		serve_questions(s);
		serve_rings(s);
		if (!serve_stops(s))
			usleep(20);
	}
	s->stopping = NULL;
	if (p->state == PROCESS_RUNNING)
		p->state = PROCESS_STOPPED;
	return all_stopped(s, p) ? 0 : -ETIMEDOUT;
}

int session_cont(struct session *s, struct process *p)
{
	if (p->state != PROCESS_STOPPED)
		return 0;
	p->state = PROCESS_RUNNING;
	for (size_t i = 0; i < s->nthreads; i++) {
		struct thread *t = &s->thread[i];

		if (t->process == p && t->state == THREAD_STOPPED) {
			t->state = THREAD_RUNNING;
			tracer_cont(t->tid, t->signal);
			t->signal = 0;
		}
	}
	return 0;
}

int session_kill(struct session *s, int sig)
{
	struct process *p = s->chosen;

	if (!p || p->state > PROCESS_STOPPED)
		return -ESRCH;
	if (kill(p->pid, sig) < 0)
		return -errno;
	return session_cont(s, p);
}

/* Hooks become inert, then every thread is let go. */
void session_detach(struct session *s)
{
	const struct wire_guard off = { .armed = 0 };

	for (struct process *p = s->processes; p; p = p->next) {
		if (p->state > PROCESS_STOPPED)
			continue;
		if (session_stop(s, p) < 0)
			continue;
		if (p->home && remote_write(p->pid, p->home + HOME_GUARD, &off, sizeof(off)) < 0)
			message_verbose(1, "%d: its hooks switch themselves off when mtrun ends", p->pid);
	}
	session_settle(s);
	for (size_t i = 0; i < s->nthreads; i++)
		tracer_detach(s->thread[i].tid, s->thread[i].signal);
	s->nthreads = 0;
	s->held = 0;
	for (struct process *p = s->processes; p; p = p->next) {
		if (p->state <= PROCESS_STOPPED) {
			p->state = PROCESS_DETACHED;
			p->ended_ms = pulse_ms();
		}
		process_close(p);
	}
	s->detached = true;
}

/* The program named is killed, unless it has ended; its children live on, as they would without us. */
int session_restart(struct session *s)
{
	struct process *p = s->main;
	uint64_t end = pulse_ms() + 5000;

	int err = 0;

	session_hold(s, false);
	if (p && p->state <= PROCESS_STOPPED) {
		kill(p->pid, SIGKILL);
		err = session_cont(s, p);
	}
	while (p && p->state <= PROCESS_HELD && !err)
		err = pulse_ms() < end ? session_turn(s, 20) : -ETIMEDOUT;
	if (err)
		return err;
	s->main_ended = s->detached = s->began = s->started = s->refused = false;
	s->launched = 0;
	return 0;
}

int session_lend(struct session *s, struct process *p)
{
	int err = session_stop(s, p);

	if (err)
		return err;
	for (size_t i = 0; i < s->nthreads; i++) {
		struct thread *t = &s->thread[i];

		if (t->process != p || t->guest)
			continue;
		tracer_detach(t->tid, t->signal);
		t->signal = 0;
		t->state = THREAD_LENT;
	}
	p->state = PROCESS_RUNNING;
	s->lent = p;
	return 0;
}

/* Threads may have come and gone meanwhile; those that start while we look are found by looking again. */
static int seize_all(struct session *s, struct process *p)
{
	unsigned flags = s->options.follow ? TRACE_CHILDREN : 0;
	bool more = true;
	pid_t *tid;
	int n = 0;

	while (more) {
		more = false;
		n = proc_threads(p->pid, &tid);
		for (int i = 0; i < n; i++)
			if (!thread_find(s, tid[i]) && tracer_seize(tid[i], flags) == 0) {
				more = thread_add(s, tid[i], p, THREAD_RUNNING);
				p->threads++;
			}
		if (n >= 0)
			free(tid);
	}
	return p->threads ? 0 : n < 0 ? n : -EPERM;
}

int session_take_back(struct session *s, struct process *p)
{
	bool alive = p->state == PROCESS_RUNNING;

	s->lent = NULL;
	for (size_t i = 0; i < s->nthreads;)
		if (s->thread[i].process == p && s->thread[i].state == THREAD_LENT)
			thread_remove(s, &s->thread[i]);
		else
			i++;
	p->threads = 0;
	if (!alive)
		return -ESRCH;
	if (seize_all(s, p) == 0)
		return 0;
	serve_stops(s);
	if (kill(p->pid, 0) < 0 || proc_status_field(p->pid, "Tgid") != p->pid) {
		process_finish(s, p, PROCESS_EXITED, 0);
		process_close(p);
		return -ESRCH;
	}
	return -EPERM;
}

#define BT_FRAMES 1024

int session_bt(struct session *s, struct process *p, pid_t tid, void (*fn)(void *ctx, const struct bt_thread *t), void *ctx)
{
	bool was_running = p->state == PROCESS_RUNNING;
	uint64_t pc[BT_FRAMES];
	int err = session_stop(s, p), found = 0;

	if (err)
		return err;
	for (size_t i = 0; i < s->nthreads; i++) {
		const struct thread *t = &s->thread[i];
		struct bt_thread b = { .tid = t->tid, .pc = pc };
		struct user_regs_struct regs;
		char file[48], *name = NULL;
		int n;

		if (t->process != p || t->guest || (tid && t->tid != tid) || tracer_get_regs(t->tid, &regs) < 0)
			continue;
		n = unwind_stack(p, t->tid, &regs, pc, BT_FRAMES);
		b.count = n > 0 ? (size_t)n : 0;
		snprintf(file, sizeof(file), "task/%d/comm", t->tid);
		if (proc_read(p->pid, file, &name) > 0)
			snprintf(b.name, sizeof(b.name), "%.*s", (int)strcspn(name, "\n"), name);
		free(name);
		fn(ctx, &b);
		found++;
	}
	err = was_running ? session_cont(s, p) : 0;
	return err ? err : found || !tid ? 0 : -ESRCH;
}

void session_pin(struct session *s, struct process *p)
{
	s->pinned = p;
}

void session_free_stacks(struct session *s, bool on)
{
	s->options.free_stacks = on;
	for (struct process *p = s->processes; p; p = p->next)
		if (p->wire) {
			__atomic_store_n(&p->wire->free_stacks, on, __ATOMIC_RELAXED);
			ledger_keep_freed(p->ledger, on);
		}
}

void session_self(const struct session *s, uint64_t *rss_bytes, uint64_t *cpu_ms)
{
	struct rusage use;
	int64_t rss = proc_status_field(getpid(), "VmRSS");

	(void)s;
	getrusage(RUSAGE_SELF, &use);
	*rss_bytes = rss > 0 ? (uint64_t)rss * 1024 : 0;
	*cpu_ms = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 + (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000;
}
