// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/clock.h"
#include "log/replay_process.h"
#include "process/sampling.h"
#include "report/heapfile_process.h"
#include "session/credible.h"
#include "session/recorder.h"
#include "session/session_state.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/maps.h"
#include "base/message.h"
#include "base/proc.h"
#include "log/replay.h"
#include "session/errors_serve.h"
#include "session/limit_enforce.h"
#include "tracee/agent.h"
#include "tracee/backtrace.h"
#include "tracee/mail.h"
#include "tracee/terminal.h"
#include "tracee/tracer.h"
#include "transport/heartbeat.h"

/*
 * loop.c - one run of mtrun: its life, and the loop that serves stops (stops.c), questions, rings
 * and signals.
 *
 * Every turn: stops first (the target waits for us there), questions second, then the rings.
 */

#define TICK_MS 8 /* between two looks at rings, at most */
/* the same for rings whose hooks cannot ring the bell: as long as finds them about half full */
#define MUTE_US	      1000u
#define MUTE_LEAST_US 50u
/* between two yields: a ring fills in a millisecond or two */
#define YIELD_NS 200000
/* until a mailbox that nobody serves is tried again: finding that out takes long */
#define RETRY_MS     30000
#define QUESTIONS_NS 10000000 /* for the questions of one process, in a turn */
/* how long to look for the next question after one of the program's own: waking up takes longer */
#define AWAKE_NS 20000

/*
 * The thread that asks Q. Its id is the target's word; a thread that could not ask the kernel for
 * it (seccomp) says 0: then it is P's only thread, or not known (NULL).
 */
static const struct thread *asking_thread(struct session *s, const struct process *p,
					  const struct shared_question *q)
{
	return thread_find(s, q->tid || p->threads != 1 ? q->tid : p->via);
}

static void refresh_modules(struct session *s, struct process *p, const struct shared_question *q)
{
	const struct thread *t = asking_thread(s, p, q);
	int err;

	/* another tracer may stop the thread at any moment, and we would wait for it */
	if (p->lent) {
		p->lent_loaded = true;
		return;
	}
	if (!t || t->process != p || heartbeat_ms() < p->refresh_after_ms)
		err = -ESRCH;
	else if (p->wire->no_syscalls)
		err = session_refresh_quietly(s, p, t->tid);
	else
		err = agent_refresh(p, q->tid, q->mail, &s->options.agent);
	if (err == -ETIMEDOUT)
		p->refresh_after_ms = heartbeat_ms() + RETRY_MS;
	if (err && err != -ESRCH)
		message_verbose(1, "%d: new libraries are not supervised: %s", p->pid,
				strerror(-err));
}

/* The end of the mapping that ADDR is in, if it can be read, else 0. */
static uint64_t readable_end(const struct process *p, raddr_t addr)
{
	struct maps maps;
	const struct map *m;
	uint64_t end = 0;

	if (maps_read(&maps, p->via) < 0)
		return 0;
	m = maps_find(&maps, addr);
	if (m && m->read)
		end = m->end;
	maps_release(&maps);
	return end;
}

/* Whether any of LENGTH bytes at START of P is memory of mtrun's. */
static bool is_ours(const struct process *p, raddr_t start, uint64_t length)
{
	raddr_t end = length < UINT64_MAX - start ? start + length : UINT64_MAX;
	struct maps maps;
	bool ours = false;

	if (maps_read(&maps, p->via) < 0)
		return false;
	for (size_t i = 0; i < maps.count && !ours; i++)
		ours = maps.map[i].start < end && maps.map[i].end > start &&
		       agent_owns(p->agent, &maps.map[i]);
	maps_release(&maps);
	return ours;
}

/*
 * Looks at all slots of each process, beginning where the last look ended: if that takes long, as
 * with made-up questions, the rest is left for the next time.
 */
void session_serve_questions(struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next) {
		struct shared_question q;
		uint32_t slot = p->question;
		uint64_t until = 0;

		if (!p->wire || p->state > PROCESS_STOPPED)
			continue;
		p->question = 0;
		while (p->wire && shared_question(&p->shared, &slot, &q)) {
			if (!until)
				until = clock_ns() + QUESTIONS_NS;
			else if (clock_ns() > until) {
				p->question = q.slot;
				break;
			}
			switch (q.what) {
			case ASK_API:
				if (p->stream && !api_answer(p, &q, &s->api))
					continue; /* later */
				s->asked_ns = clock_ns();
				break;
			case ASK_ROOM:
				if (!limit_enforce_answer(s, p, &q))
					continue;
				s->asked_ns = clock_ns();
				break;
			case ASK_LEND:
			case ASK_BACK:
			case ASK_TRACE: continue; /* by session_serve_handovers() */
			case ASK_READABLE:
				q.mail->answer = readable_end(p, q.arg[0]);
				s->asked_ns = clock_ns();
				break;
			case ASK_OURS:
				q.mail->answer = is_ours(p, q.arg[0], q.arg[1]);
				s->asked_ns = clock_ns();
				break;
			case ASK_WHOLE:
			case ASK_MOVED:
			case ASK_MAPPED:
				s->asked_ns = clock_ns();
				if (!session_capture_serve(s, p, &q))
					continue;
				break;
			default: refresh_modules(s, p, &q);
			}
			if (p->wire && !mail_answer(q.mail, q.asked) && q.what == ASK_ROOM)
				limit_unanswered(p, q.slot);
		}
		limit_enforce_crossed(s, p);
	}
}

size_t session_serve_rings(struct session *s)
{
	size_t n = 0, most = recorder_portion(s);

	for (struct process *p = s->processes; p; p = p->next)
		if (p->stream && p->state <= PROCESS_STOPPED) {
			n += stream_take(p->stream, heartbeat_ms(), most);
			sampling_turn(p, heartbeat_ms());
			if (ledger_move(p->ledger))
				n += CHUNK; /* it goes on at once */
		}
	recorder_turn(s);
	return n;
}

bool session_hung_up(const struct session *s) { return s->hung_up; }

/* Of the end of a session's terminal the kernel tells only the session's leader. */
bool session_is_hangup(const struct session *s, int code)
{
	return code == SI_KERNEL ? getsid(0) != getpid() : s->controlled && !terminal_controls();
}

void session_pass_on(pid_t pid, int sig, int code)
{
	kill(pid, sig);
	if (sig == SIGHUP && code == SI_KERNEL)
		kill(pid, SIGCONT);
}

static void forward(const struct session *s, const struct signalfd_siginfo *info)
{
	int sig = (int)info->ssi_signo;

	if (!s->launched || s->main_ended || (sig != SIGTERM && sig != SIGHUP && sig != SIGUSR2))
		return;
	if (sig == SIGHUP && session_is_hangup(s, info->ssi_code))
		return;
	session_pass_on(s->main ? s->main->pid : s->launched, sig, info->ssi_code);
}

void session_take_signals(struct session *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == sizeof(info)) {
		s->asking.news += info.ssi_signo != SIGCHLD;
		if (info.ssi_signo == SIGCHLD)
			tracer_told();
		s->hung_up |= info.ssi_signo == SIGHUP && info.ssi_code == SI_KERNEL;
		if (info.ssi_signo == SIGUSR1) {
			if (s->on_dump)
				s->on_dump(s->on_dump_ctx);
		} else if (s->on_signal && info.ssi_signo != SIGCHLD)
			s->on_signal(s->on_signal_ctx, (int)info.ssi_signo);
		else
			forward(s, &info);
	}
}

/*
 * Whether there is something that no bell tells of: a ring that is half full already, or a question
 * that could not be answered at once.
 */
static bool rings_filling(const struct session *s)
{
	for (struct process *p = s->processes; p; p = p->next) {
		if (!p->wire || p->state > PROCESS_STOPPED)
			continue;
		for (uint32_t i = 0, high = shared_slots(&p->shared); i < high; i++) {
			const struct wire_thread *t = &p->wire->thread[i];

			if (t->head - t->tail >= shared_ring_size(&p->shared, i) / 2)
				return true;
			if ((t->mail.state & MAIL_STATE) == MAIL_ASKED &&
			    !(p->state == PROCESS_STOPPED && t->mail.what == ASK_ROOM))
				return true;
		}
	}
	return false;
}

/* Whether some target cannot ring the bell, because of seccomp. */
static bool mute_targets(const struct session *s)
{
	for (const struct process *p = s->processes; p; p = p->next)
		if (p->wire && p->state <= PROCESS_STOPPED && p->wire->no_syscalls)
			return true;
	return false;
}

/*
 * A hook that cannot ring cannot sleep either: while its ring is full its thread spins, on a
 * processor that we may need. Adapts the nap. FILLING: whether a ring was half full after the last
 * one.
 */
static void pace_naps(struct session *s, bool filling)
{
	uint32_t us = filling ? s->nap_us / 2 : s->nap_us + s->nap_us / 4;

	s->nap_us = us < MUTE_LEAST_US ? MUTE_LEAST_US : us > MUTE_US ? MUTE_US : us;
}

int session_watch(struct session *s, int fd, short events, void (*fn)(void *ctx, short revents),
		  void *ctx)
{
	nfds_t i = 0;

	while (i < s->watches && s->watch[i].fd != fd)
		i++;
	if (!events) {
		if (i < s->watches)
			s->watch[i] = s->watch[--s->watches];
		asking_wake(s);
		return 0;
	}
	if (i == WATCHES)
		return -ENOSPC;
	asking_wake(s);
	s->watch[i] = (struct watch){ fd, events, fn, ctx };
	if (i == s->watches)
		s->watches++;
	return 0;
}

/* WATCH[N]: the watches when poll(2) began; those that have gone since are left out. */
static bool serve_watches(struct session *s, const struct watch *watch, nfds_t n,
			  const struct pollfd *fds)
{
	bool any = false;

	for (nfds_t i = 0; i < n; i++) {
		bool there = false;

		for (nfds_t k = 0; k < s->watches && !there; k++)
			there = s->watch[k].fd == watch[i].fd && s->watch[k].fn == watch[i].fn;
		if (!fds[i].revents || !there)
			continue;
		if (watch[i].fn)
			watch[i].fn(watch[i].ctx, fds[i].revents);
		any = true;
	}
	return any;
}

/*
 * Looks for a seccomp filter that no hook has seen coming, as when generated code has installed it:
 * then hooks make no system call from now on. Each time the process that was looked at longest ago
 * is looked at.
 */
#define FILTERS_MS 100

static void look_for_filters(struct session *s)
{
	uint64_t now = heartbeat_ms();
	struct process *next = NULL;

	if (now < s->filters_ms)
		return;
	s->filters_ms = now + FILTERS_MS;
	for (struct process *p = s->processes; p; p = p->next)
		if (p->wire && p->state <= PROCESS_STOPPED && !p->wire->no_syscalls &&
		    (!next || p->filters_ms < next->filters_ms))
			next = p;
	if (!next)
		return;
	next->filters_ms = now;
	if (session_is_filtered(next->via)) {
		__atomic_store_n(&next->wire->no_syscalls, 1, __ATOMIC_SEQ_CST);
		message_verbose(
			1,
			"%d: it has installed a seccomp filter by itself: its hooks make no system call from now on",
			next->pid);
	}
}

/* MS < 0: for ever. */
static int at_most(int ms, int most) { return ms < 0 || ms > most ? most : ms; }

/*
 * While programs write more than we can read, a turn is rings and stops only; once in WHOLE_US it
 * has all parts, as signals and the like must not wait for long.
 */
#define WHOLE_US 10000u

int loop_turn(struct session *s, int timeout_ms, bool *something)
{
	struct pollfd fds[2 + WATCHES + 1] = { { .fd = s->signals, .events = POLLIN },
					       { .fd = s->bell, .events = POLLIN } };
	bool live = s->unannounced || s->lingering || (s->nthreads && !s->main_ended);
	struct watch watch[WATCHES];
	nfds_t watches = s->watches;
	eventfd_t ignored;
	uint64_t seen = s->asking.news, owed;
	bool filling, mute;
	int64_t nap_us;
	int stops;

	stops = session_serve_stops(s);
	owed = tracer_owed_us();
	session_serve_questions(s);
	session_serve_handovers(s);
	*something = s->asking.news != seen;
	if (session_serve_rings(s) >= recorder_portion(s) / 2 || stops)
		timeout_ms = 0;
	if (timeout_ms == 0 && !watches && clock_us() - s->whole_us < WHOLE_US)
		return 0;
	s->whole_us = clock_us();
	memcpy(watch, s->watch, watches * sizeof(*watch));
	for (nfds_t i = 0; i < watches; i++)
		fds[2 + i] = (struct pollfd){ .fd = watch[i].fd, .events = watch[i].events };
	for (const struct process *p = s->processes; p && !live; p = p->next)
		live = p->stream && p->state <= PROCESS_STOPPED;
	if (live)
		timeout_ms = at_most(timeout_ms, TICK_MS);
	if (s->asked_ns && clock_ns() - s->asked_ns < AWAKE_NS)
		timeout_ms = 0;
	if (timeout_ms)
		heartbeat_sleeping(true);
	filling = timeout_ms && rings_filling(s);
	mute = live && timeout_ms && mute_targets(s);
	nap_us = filling ? 0 : timeout_ms < 0 ? -1 : timeout_ms * 1000ll;
	if (mute && nap_us > s->nap_us)
		nap_us = s->nap_us;
	if (nap_us && owed < INT64_MAX && (nap_us < 0 || (int64_t)owed < nap_us))
		nap_us = (int64_t)owed;
	if ((!filling || watches) && asking_poll(s, fds, 2 + watches, nap_us) < 0 && errno != EINTR)
		return -errno;
	if (mute)
		pace_naps(s, filling || rings_filling(s));
	if (timeout_ms)
		heartbeat_sleeping(false);
	if (fds[1].revents)
		eventfd_read(s->bell, &ignored);
	session_take_signals(s);
	session_serve_stops(s);
	session_serve_questions(s);
	session_serve_rings(s);
	credible_turn(s);
	s->asking.news += errors_serve(s);
	look_for_filters(s);
	s->asking.news += serve_watches(s, watch, watches, fds + 2);
	*something = s->asking.news != seen;
	return 0;
}

int session_turn(struct session *s, int timeout_ms)
{
	bool nested = s->serving, something;
	int err;

	if (asking_is_asker(s))
		return asking_turn(s, timeout_ms);
	s->serving = true;
	err = loop_turn(s, timeout_ms, &something);
	s->serving = nested;
	return err;
}

/* What one process waits for comes while another one waits: hundreds wait no longer than one. */
static void settle_now(struct session *s)
{
	unsigned naps = STREAM_NAPS;

	session_serve_stops(s);
	for (struct process *p = s->processes; p; p = p->next)
		if (p->stream)
			stream_settle_within(p->stream, heartbeat_ms(), p->state > PROCESS_STOPPED,
					     &naps);
}

static void ask_settle(struct asked *a) { settle_now(a->s); }

void session_settle(struct session *s) { asking_do(s, ask_settle, &(struct asked){ .ret = 0 }); }

void session_yield(struct session *s)
{
	if (asking_is_asker(s)) {
		asking_yield(s);
		return;
	}
	if (clock_ns() - s->yielded_ns < YIELD_NS)
		return;
	if (s->serving)
		session_serve_rings(s);
	else if (session_turn(s, 0) < 0)
		return; /* whoever turns it next hears of that */
	s->yielded_ns = clock_ns();
}

uint64_t session_ms(const struct session *s)
{
	return s->log ? replay_ended_ms(s->log) : heartbeat_ms();
}

uint64_t session_clock(const struct session *s)
{
	return s->log ? replay_clock_ms(s->log) : s->clock_ms;
}

/* ---- life ---------------------------------------------------------------- */

/* When tracing began, in ms since 1970; less exact if we are preempted between the two clocks. */
static uint64_t clock_began(void)
{
	struct timespec now;
	uint64_t ms;
	int looks = 0;

	do {
		ms = heartbeat_ms();
		clock_gettime(CLOCK_REALTIME, &now);
	} while (heartbeat_ms() > ms + 1 && ++looks < 100);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 - ms;
}

struct session *session_new(const struct options *options)
{
	struct session *s = calloc(1, sizeof(*s));
	/* SIGINT tells us to leave. A program that was launched gets its own from the terminal. */
	bool is_ours = options->npids || options->open;
	sigset_t set;

	if (!s)
		return NULL;
	s->options = *options;
	s->ended.hooked = calloc(options->agent.nhooks + 1, sizeof(*s->ended.hooked));
	if (!s->ended.hooked) {
		free(s);
		return NULL;
	}
	s->was_off = modes[options->mode].off;
	s->api.count = options->count;
	s->api.limit = options->limit;
	s->last = &s->processes;
	inherited_save(&s->inherited);
	limits_raise();
	s->controlled = terminal_controls();
	s->bell = heartbeat_start();
	if (s->bell < 0) {
		errno = -s->bell;
		free(s->ended.hooked);
		free(s);
		return NULL;
	}
	s->clock_ms = clock_began();
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (is_ours)
		sigaddset(&set, SIGINT); /* it stays pending until take_over_signals() */
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* an inherited SIG_IGN would reap the target behind our back */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGINT, is_ours ? SIG_DFL : SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTSTP, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_DFL); /* what is ignored is not queued */
	signal(SIGXFSZ, SIG_IGN);
	return s;
}

static void free_processes(struct process *p)
{
	struct process *next;

	for (; p; p = next) {
		next = p->next;
		process_drop(p);
	}
}

void session_free(struct session *s)
{
	if (!s)
		return;
	session_close_log(s);
	free_processes(s->processes);
	ended_release(&s->ended);
	replay_free(s->log);
	recorder_free(s->recorder);
	backtrace_release();
	heartbeat_stop();
	close(s->signals);
	free(s->log_dir);
	free(s->thread);
	free(s->early_end);
	free(s);
}

static void take_over_signals(struct session *s, const int *more, size_t n,
			      void (*fn)(void *ctx, int sig), void *ctx)
{
	sigset_t set;

	s->on_signal = fn;
	s->on_signal_ctx = ctx;
	sigemptyset(&set);
	for (size_t i = 0; i < n; i++)
		sigaddset(&set, more[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < n; i++)
		signal(more[i], SIG_DFL); /* what is ignored is not queued */
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	signalfd(s->signals, &set, 0);
}

void session_interactive(struct session *s, const struct terminal *terminal,
			 void (*fn)(void *ctx, int sig), void *ctx)
{
	static const int more[] = { SIGINT, SIGTSTP, SIGWINCH, SIGHUP };

	s->terminal = terminal;
	take_over_signals(s, more, sizeof(more) / sizeof(*more), fn, ctx);
}

void session_on_signals(struct session *s, void (*fn)(void *ctx, int sig), void *ctx)
{
	static const int more[] = { SIGINT };

	take_over_signals(s, more, 1, fn, ctx);
}

const struct options *session_options(const struct session *s) { return &s->options; }

static const char *seize_advice(int err)
{
	return err == -EPERM || err == -ENOSYS
		       ? " (ptrace is forbidden here: by seccomp, a container's policy, or kernel.yama.ptrace_scope)"
		       : "";
}

int session_begin_log(struct session *s)
{
	char why[600];
	int err = modes[s->options.mode].logged ? recorder_on(s, why, sizeof(why)) : 0;

	if (err)
		message_error("%s", why);
	return err;
}

/* Runs the child up to its exec: only then is there something to supervise. */
static int await_exec(struct session *s, struct launch *l, const char *path)
{
	int failure = 0;

	while (s->nthreads && s->main && !s->main->exe)
		if (session_turn(s, -1) < 0)
			break;
	if (read(l->failed, &failure, sizeof(failure)) == sizeof(failure)) {
		/* ENOENT: PATH is there, so the kernel has not found its interpreter */
		message_error("cannot run '%s': %s", path,
			      failure == ENOENT && access(path, F_OK) == 0
				      ? "the interpreter that it names was not found"
				      : strerror(failure));
		return failure == ENOENT || failure == ENOTDIR ? 127 : 126;
	}
	while (s->refused && s->nthreads)
		if (session_turn(s, -1) < 0)
			break;
	return s->refused ? 126 : 0;
}

static int launch_now(struct session *s, int *status)
{
	char **argv = s->options.argv;
	struct launch l;
	struct process *p;
	char *path = launch_find(argv[0], status);
	int err = -EINVAL;

	if (!path)
		return -ENOENT;
	*status = launch_check(path, s->options.agent.nhooks > 0);
	if (*status)
		goto out;
	*status = 125;
	err = session_begin_log(s);
	if (err)
		goto out;
	err = launch_fork(&l, path, argv, &s->inherited, s->options.stdin_null, s->terminal);
	if (err) {
		message_error("cannot start '%s': %s", path, strerror(-err));
		goto out;
	}
	err = tracer_seize(l.pid, s->options.follow ? TRACE_CHILDREN : 0);
	if (err) {
		message_error("cannot trace '%s': ptrace: %s%s", path, strerror(-err),
			      seize_advice(err));
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
	/* after the fork: the program is to be scheduled as without us */
	heartbeat_prompt();
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

static void ask_launch(struct asked *a) { a->ret = launch_now(a->s, a->status); }

int session_launch(struct session *s, int *status)
{
	return asking_do(s, ask_launch, &(struct asked){ .status = status });
}

int session_open(struct session *s, struct heap *heap)
{
	struct process *p = heapfile_process(heap);

	if (!p)
		return -ENOMEM;
	p->next = s->processes;
	s->processes = s->main = s->chosen = p;
	s->last = p->next ? s->last : &p->next;
	return 0;
}

/* The processes of LOG. NULL: out of memory, or there are none. */
static struct process *processes_of(struct replay *log, unsigned count)
{
	struct process *first = NULL, **last = &first;

	for (size_t i = 0; i < replay_processes(log); i++) {
		*last = replay_process_new(replay_process(log, i), count);
		if (!*last) {
			free_processes(first);
			return NULL;
		}
		last = &(*last)->next;
	}
	return first;
}

int session_open_log(struct session *s, struct replay *log)
{
	const struct log_run *run = replay_run(log);
	unsigned count = run->counted ? run->counted : s->options.count;
	struct process *p = processes_of(log, count);

	if (!p) {
		replay_free(log);
		return -ENOMEM;
	}
	free_processes(s->processes);
	replay_free(s->log);
	s->log = log;
	s->options.count = count;
	s->options.agent.sample = s->options.sampled = run->sample;
	s->options.agent.depth = run->depth ? run->depth : s->options.agent.depth;
	s->processes = s->main = s->chosen = p;
	for (s->last = &p->next; *s->last; s->last = &(*s->last)->next)
		;
	for (p = p->next; p; p = p->next)
		if (p->pid == s->processes->pid)
			s->main = s->chosen = p;
	return 0;
}

struct replay *session_log(const struct session *s) { return s->log; }

/* ---- questions ----------------------------------------------------------- */

struct process *session_processes(const struct session *s) { return s->processes; }

struct process *session_main(const struct session *s) { return s->chosen; }

pid_t session_named(const struct session *s) { return s->main ? s->main->pid : s->chosen->pid; }

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

void session_on_dump(struct session *s, void (*fn)(void *ctx), void *ctx)
{
	s->on_dump = fn;
	s->on_dump_ctx = ctx;
}

void session_on_snapshot(struct session *s,
			 void (*fn)(void *ctx, struct process *p, const char *name), void *ctx)
{
	s->api.snapshot = fn;
	s->api.ctx = ctx;
}

bool session_ended(const struct session *s) { return s->main_ended || s->detached || !s->nthreads; }

bool session_all_gone(const struct session *s) { return !s->nthreads || s->detached; }

static void hold_now(struct session *s, bool hold)
{
	pid_t held = s->held;
	bool waits = false;

	s->hold = hold;
	if (!hold && held) {
		s->held = 0;
		for (const struct process *p = s->processes; p && !waits; p = p->next)
			waits = p->to_check && p->via == held;
		if (!waits)
			tracer_cont(held, 0);
	}
}

static void ask_hold(struct asked *a) { hold_now(a->s, a->number); }

void session_hold(struct session *s, bool hold)
{
	asking_do(s, ask_hold, &(struct asked){ .number = hold });
}

bool session_holds(const struct session *s, const struct process *p)
{
	return s->held && p->via == s->held;
}

static void checked_now(struct session *s, struct process *p)
{
	if (!p->to_check)
		return;
	p->to_check = false;
	if (p->via != s->held)
		tracer_cont(p->via, 0);
}

static void ask_checked(struct asked *a) { checked_now(a->s, a->p); }

void session_checked(struct session *s, struct process *p)
{
	asking_do(s, ask_checked, &(struct asked){ .p = p });
}

int session_exit_status(const struct session *s, int *signal)
{
	int status = s->main ? s->main->wait_status : 0;

	*signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
void session_self(const struct session *s, uint64_t *rss_bytes, uint64_t *cpu_ms)
{
	struct rusage use;
	int64_t rss = proc_status_field(getpid(), "VmRSS");

	(void)s;
	getrusage(RUSAGE_SELF, &use);
	*rss_bytes = rss > 0 ? (uint64_t)rss * 1024 : 0;
	*cpu_ms = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
		  (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000;
}
