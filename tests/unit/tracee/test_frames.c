// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_frames.c - are the stacks that the hooks see those that libunwind sees?
 *
 *	test_frames			a small program of its own, some hundred stacks
 *	test_frames COUNT PROGRAM ARG...	COUNT random allocations of PROGRAM and of what it
 *	                                        starts (tests/system/frames.sh)
 *
 * In the environment: FRAMES_SECONDS, the longest it may take; FRAMES_DONE, a file that is made
 * when it is enough, for a program that runs until then.
 *
 * A session like mtrun's, with one thing more: at random moments a random thread is told to wait in
 * its next hook, before the walk (wire_thread.h: WIRE_STALE_SHOW). While it waits it is stopped and
 * unwound as by `bt`, through libunwind. Then it goes on: it walks, and writes its event; the stack
 * in that event must have the same frames. The walk is the usual one, with all that the thread
 * remembers of the stacks before.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "process/process.h"
#include "session/options.h"
#include "session/session_state.h"
#include "test.h"

#define FRAMES 1100

struct tally {
	size_t samples, frames, equal, differ, truncated, deep, overtaken, signals;
	size_t truncated_plain; /* of those, without a signal's frame */
	size_t shown;
};

struct stack {
	size_t count;
	uint64_t pc[FRAMES];
};

static uint64_t seed = 0x9e3779b97f4a7c15ull;
static uint64_t random64(void) { return test_random(&seed); }

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- a thread that waits in its hook ------------------------------------- */

static void mail_post(struct wire_mail *mail, uint32_t state)
{
	__atomic_store_n(&mail->state,
			 (__atomic_load_n(&mail->state, __ATOMIC_ACQUIRE) & ~MAIL_STATE) | state,
			 __ATOMIC_RELEASE);
	syscall(SYS_futex, &mail->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static bool mail_await(struct wire_mail *mail, uint32_t state, uint64_t us)
{
	uint64_t end = now_us() + us;

	while ((__atomic_load_n(&mail->state, __ATOMIC_ACQUIRE) & MAIL_STATE) != state) {
		if (now_us() > end)
			return false;
		usleep(5);
	}
	return true;
}

/*
 * A thread of P that has come to a walk. It is given work of no calls: so it stays, and the session
 * takes it for busy.
 */
static struct wire_thread *parked(struct process *p)
{
	for (uint32_t i = 0; i < shared_slots(&p->shared); i++) {
		struct wire_mail *mail = &p->wire->thread[i].mail;
		uint32_t state = __atomic_load_n(&mail->state, __ATOMIC_ACQUIRE) & MAIL_STATE;

		if (mail->what != ASK_FRAMES || (state != MAIL_ASKED && state != MAIL_DONE))
			continue;
		if (state == MAIL_ASKED) {
			mail->ncalls = 0;
			mail_post(mail, MAIL_WORK);
		}
		if (mail_await(mail, MAIL_DONE, 200000))
			return &p->wire->thread[i];
	}
	return NULL;
}

static void take_bt(void *ctx, const struct bt_thread *b)
{
	struct stack *s = ctx;

	s->count = b->count < FRAMES ? b->count : FRAMES;
	memcpy(s->pc, b->pc, s->count * sizeof(*s->pc));
	if (s->count)
		/* inside the call that led into the hook; the hook knows its return address */
		s->pc[0]++;
}

/*
 * (A thread whose 8192 next events came before we looked is `overtaken`: that sample is lost to the
 * test.)
 *
 * The stack in the first event that the thread of slot W writes from HEAD on. 0: none came, or it
 * was none that has a stack. A signal may wait for the thread, hence the turns; they take events
 * out of the ring, but those that were taken still stand there until as many have followed.
 */
static uint32_t next_stack(struct session *s, struct process *p, const struct wire_thread *w,
			   uint64_t head)
{
	uint32_t slot = (uint32_t)(w - p->wire->thread);
	uint64_t end = now_us() + 1000000, now;

	while (p->wire && now_us() < end) {
		if (!shared_ring_head(&p->shared, slot, head, &now))
			break;
		for (uint64_t i = head; i < now; i++) {
			struct wire_event e;

			shared_events(&p->shared, slot, i, &e, 1);
			if (wire_kind(e) != WIRE_TIME)
				return __atomic_load_n(&w->head, __ATOMIC_ACQUIRE) - i <
						       shared_ring_size(&p->shared, slot)
					       ? wire_stack(e)
					       : 0;
		}
		if (session_turn(s, 0) < 0)
			break;
	}
	return 0;
}

/* ---- comparing ----------------------------------------------------------- */

static void print_frame(const struct process *p, uint64_t pc)
{
	const struct module *m = modules_find(&p->modules, pc & WIRE_PC_MASK, UINT32_MAX);
	const char *name = m ? strrchr(m->path, '/') : NULL;

	printf(" %s+%#llx%s",
	       name ? name + 1
	       : m  ? m->path
		    : "?",
	       (unsigned long long)((pc & WIRE_PC_MASK) - (m ? m->bias : 0)),
	       pc & WIRE_PC_EXACT ? "!" : "");
}

static void print_difference(const struct process *p, const struct stack *hook,
			     const struct stack *truth, size_t at)
{
	printf("# %s (%d): frame %zu of %zu differs (hook: %zu frames); before:",
	       p->command ? p->command : "?", p->pid, at, truth->count, hook->count);
	for (size_t i = at > 3 ? at - 3 : 0; i < at; i++)
		print_frame(p, truth->pc[i]);
	printf("\n#   libunwind:");
	for (size_t i = at; i < truth->count && i < at + 4; i++)
		print_frame(p, truth->pc[i]);
	printf("\n#   hook:     ");
	for (size_t i = at; i < hook->count && i < at + 4; i++)
		print_frame(p, hook->pc[i]);
	printf("\n");
}

static void compare(const struct process *p, struct stack *hook, const struct stack *truth,
		    struct tally *t)
{
	size_t i, signals = 0, truncated = t->truncated;
	bool cut = false;

	if (hook->count && (hook->pc[hook->count - 1] == WIRE_PC_TRUNCATED ||
			    hook->pc[hook->count - 1] == WIRE_PC_DEEP)) {
		cut = true;
		if (hook->pc[--hook->count] == WIRE_PC_DEEP)
			t->deep++;
		else
			t->truncated++;
	}
	t->samples++;
	t->frames += hook->count;
	for (i = 0; i < hook->count && i < truth->count && hook->pc[i] == truth->pc[i]; i++)
		;
	for (size_t k = 0; k < i; k++)
		signals += (truth->pc[k] & WIRE_PC_EXACT) != 0;
	t->signals += signals;
	t->truncated_plain += t->truncated > truncated && !signals;
	if (i == hook->count && (i == truth->count || (cut && hook->count >= 127))) {
		t->equal++;
		return;
	}
	t->differ++;
	if (t->shown++ < 20)
		print_difference(p, hook, truth, i);
}

/* The pcs of STACK's nodes, leaf first. */
static size_t pcs_of(const struct process *p, uint32_t stack, uint64_t *pc, size_t max)
{
	size_t n = 0;

	while (stack && n < max) {
		stack = process_stack_parent(p, stack, &pc[n]);
		if (!pc[n])
			break;
		n++;
	}
	return n;
}

static bool in_vfork(struct session *s, pid_t tid)
{
	const struct thread *t = thread_find(s, tid);

	for (size_t i = 0; t && i < s->nthreads; i++)
		if (s->thread[i].vfork_child && s->thread[i].process == t->process)
			return true;
	return t && t->process && thread_blocked(t);
}

static void sample(struct session *s, struct process *p, struct wire_thread *w, struct tally *t)
{
	static struct stack hook, truth;
	uint64_t head = w->head;
	uint32_t id, show = WIRE_STALE_SHOW;

	truth.count = 0;
	/* its child asks, on its stack: the kernel has the registers of neither as they were */
	if (in_vfork(s, (pid_t)w->tid)) {
		mail_post(&w->mail, MAIL_GO);
		return;
	}
	if (session_bt(s, p, (pid_t)w->tid, take_bt, &truth) || !truth.count) {
		mail_post(&w->mail, MAIL_GO);
		return; /* it ended meanwhile */
	}
	/* so that it cannot run away before we have read its event */
	w->stale = WIRE_STALE_SHOW;
	mail_post(&w->mail, MAIL_GO);
	id = next_stack(s, p, w, head);
	if (p->wire)
		__atomic_compare_exchange_n(&w->stale, &show, 0, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
	if (!id) {
		t->overtaken++;
		return;
	}
	hook.count = pcs_of(p, id, hook.pc, FRAMES);
	compare(p, &hook, &truth, t);
}

/* Asks a random thread of P, waits a moment for any that comes. DONE: only lets go who has come. */
static void ask_one(struct session *s, struct process *p, struct tally *t, bool done)
{
	uint32_t high = shared_slots(&p->shared), none = 0;
	struct wire_thread *w, *asked;
	uint64_t end = now_us() + 1000;

	if (!high)
		return;
	asked = &p->wire->thread[random64() % high];
	if (!done && asked->fs > 1)
		__atomic_compare_exchange_n(&asked->stale, &none, WIRE_STALE_SHOW, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	while (!(w = parked(p)) && !done && now_us() < end)
		usleep(5);
	if (w)
		sample(s, p, w, t);
}

/* COUNT is reached, or the time is over: the program is told. */
static bool enough(const struct tally *t, size_t count, uint64_t began)
{
	static bool said;
	const char *seconds = getenv("FRAMES_SECONDS"), *done = getenv("FRAMES_DONE");

	if (t->samples < count &&
	    (!seconds || now_us() - began < (uint64_t)atol(seconds) * 1000000))
		return false;
	if (!said && done) {
		int fd = open(done, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

		said = true;
		if (fd >= 0)
			close(fd);
	}
	return true;
}

static bool can_ask(const struct process *p)
{
	return p->state == PROCESS_RUNNING && p->agent && p->wire && p->stream;
}

static int run(char **argv, size_t count, struct tally *t)
{
	struct session *s;
	struct options o;
	char why[256];
	uint64_t began = now_us();
	int status = 0, argc = 0, sig;

	while (argv[argc])
		argc++;
	if (options_parse(&o, argc, argv, stdout, why, sizeof(why)) != OPTIONS_RUN) {
		printf("# %s\n", why);
		return -EINVAL;
	}
	s = session_new(&o);
	if (!s || session_launch(s, &status)) {
		printf("# cannot launch: %d\n", status);
		return -EINVAL;
	}
	while (!session_all_gone(s)) {
		uint64_t nap = random64() % 100;
		bool done = enough(t, count, began);

		for (struct process *p = session_processes(s); p; p = p->next)
			if (can_ask(p))
				ask_one(s, p, t, done);
		if (session_turn(s, done ? 20 : 0) < 0)
			break;
		if (!done)
			usleep((useconds_t)nap);
	}
	status = session_exit_status(s, &sig);
	session_free(s);
	return sig ? 128 + sig : status;
}

static void print_tally(const char *what, const struct tally *t)
{
	printf("# %s: %zu stacks, %.1f frames each, %zu of them through a signal; %zu equal, %zu differ; %zu truncated, %zu deeper than --depth; %zu lost to the test\n",
	       what, t->samples, t->samples ? (double)t->frames / (double)t->samples : 0.0,
	       t->signals, t->equal, t->differ, t->truncated, t->deep, t->overtaken);
}

/* ---- a program to try it on ---------------------------------------------- */

static void *volatile sink;

static NOINLINE void grow_from(int depth, size_t size)
{
	void *p = malloc((size_t)depth * 8 + size);

	sink = p;
	if (depth)
		grow_from(depth - 1, size);
	free(p);
}

static void grow(int depth) { grow_from(depth, 1); }

static int by_value(const void *a, const void *b)
{
	grow(3);
	return *(const int *)a - *(const int *)b;
}

static void on_alarm(int sig)
{
	(void)sig;
	/* sizes that nobody else uses: they come from the thread's cache, without a lock */
	grow_from(5, 900);
}

static NOINLINE void realigned(size_t n)
{
	char wide[128] __attribute__((aligned(64)));
	char *some = __builtin_alloca(n);

	memset(some, 1, n);
	__asm__ volatile("" ::"r"(wide), "r"(some) : "memory");
	grow(4);
	__asm__ volatile("" ::"r"(wide), "r"(some) : "memory");
}

static void *work(void *arg)
{
	time_t end = time(NULL) + (time_t)(intptr_t)arg;
	sigset_t alarms;

	grow_from(5, 900);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	while (time(NULL) < end) {
		int v[8] = { 5, 3, 8, 1, 7, 2, 6, 4 };

		qsort(v, 8, sizeof(*v), by_value);
		realigned((size_t)(v[0] + 40));
		grow(30);
		free(strdup("x"));
	}
	return NULL;
}

static int victim(int seconds)
{
	struct itimerval often = { .it_interval.tv_usec = 700, .it_value.tv_usec = 700 };
	pthread_t other;
	sigset_t alarms;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, NULL);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	pthread_create(&other, NULL, work, (void *)(intptr_t)seconds);
	work((void *)(intptr_t)seconds);
	pthread_join(other, NULL);
	return 0;
}

static char *self;

static __attribute__((unused)) void test_own_program(void)
{
	char *argv[] = { "mtrun", "-q", self, "--victim", "3", NULL };
	struct tally t = { .samples = 0 };

	CHECK_EQ(run(argv, 1000, &t), 0);
	print_tally("own program", &t);
	CHECK(t.samples >= 20);
	CHECK_EQ(t.differ, 0);
	/*
	 * A timer can interrupt where glibc's call frame information is wrong for an instruction:
	 * libunwind comes to the same end there (else the stacks differ).
	 */
	CHECK_EQ(t.truncated_plain, 0);
}

int main(int argc, char **argv)
{
	struct tally t = { .samples = 0 };
	int status;

	self = argv[0];
	if (argc == 3 && !strcmp(argv[1], "--victim"))
		return victim(atoi(argv[2]));
	if (message_open(NULL, STDERR_FILENO, 0, 0))
		return 1;
	if (argc < 3) {
#if TEST_SANITIZED
		SKIP(test_own_program,
		     "AddressSanitizer's malloc must not be entered from a handler");
#else
		RUN(test_own_program);
#endif
		return test_status();
	}
	/* COUNT PROGRAM ARG... becomes mtrun -q -- PROGRAM ARG... */
	{
		char **args = calloc((size_t)argc + 3, sizeof(*args));

		args[0] = "mtrun";
		args[1] = "-q";
		args[2] = "--";
		memcpy(&args[3], &argv[2], (size_t)(argc - 1) * sizeof(*args));
		status = run(args, (size_t)atol(argv[1]), &t);
	}
	print_tally(argv[2], &t);
	printf("stacks %zu differ %zu truncated %zu overtaken %zu signals %zu status %d\n",
	       t.samples, t.differ, t.truncated, t.overtaken, t.signals, status);
	return t.differ || !t.samples;
}
