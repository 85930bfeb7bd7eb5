// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What of stacks is a root, in the memory of this process itself: of a thread that is in a function
 * what that can still see, and nothing below; also where a handler runs on another stack.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "leaks/captured.h"
#include "memory/capture_make.h"
#include "process/process.h"
#include "test.h"

static struct process process;
static struct capture *capture;
static struct captured captured;

static bool never(void *ctx)
{
	(void)ctx;
	return false;
}

static uint64_t itself(void *ctx, uint32_t stack)
{
	(void)ctx;
	return stack;
}

static const struct captured_source source = { never, itself };

static raddr_t thread_pointer(void)
{
	raddr_t fs;

	__asm__("mov %%fs:0, %0" : "=r"(fs));
	return fs;
}

static void begin(void)
{
	process.via = getpid();
	capture = capture_new(NULL, NULL);
	CHECK_EQ(capture_ranges(capture, getpid(), 0), 0);
	CHECK_EQ(capture_open(capture, getpid(), false), 0);
}

static void add_thread(pid_t tid, raddr_t rsp, raddr_t fs)
{
	struct user_regs_struct regs = { .rsp = rsp, .fs_base = fs, .r12 = 0x1212, .rip = 0x77 };
	uint64_t vector[2] = { 0x2323, 0 };

	CHECK_EQ(capture_thread(capture, tid, &regs, vector, sizeof(vector)), 0);
}

static void look(void) { CHECK_EQ(captured_init(&captured, capture, NULL, 0, &source, NULL), 0); }

static void end(void)
{
	captured_release(&captured);
	capture_free(capture);
}

static bool is_root(raddr_t at)
{
	bool found = false;

	for (size_t i = 0; i < captured.image.ranges; i++) {
		const struct leaks_range *r = &captured.image.range[i];

		if (i && r->start < r[-1].end)
			return false; /* not in order */
		found |= r->roots && at >= r->start && at < r->end;
	}
	return found;
}

static NOINLINE raddr_t here(void) { return (uintptr_t)__builtin_frame_address(0); }

/* ---- a thread's own stack --------------------------------------------------- */

static void *global;

static void test_first_thread(void)
{
	raddr_t rsp = here(); /* of a function that has returned, and that we use up to there */
	void *volatile local = (void *)&local;

	begin();
	add_thread(getpid(), rsp, thread_pointer());
	look();
	CHECK(is_root((uintptr_t)&local));
	CHECK(is_root(rsp - 100));
	CHECK(!is_root(rsp - 200));
	CHECK(!is_root(rsp - 100000));
	CHECK(is_root((uintptr_t)&global));
	CHECK_EQ(captured_stack(&captured, (uintptr_t)&local), 0);
	CHECK_EQ(captured_stack(&captured, rsp - 4096), -1);
	CHECK_EQ(captured_stack(&captured, (uintptr_t)&global), -1);
	end();
}

struct visit {
	raddr_t fs, rsp;
	long tid;
	void *volatile *local;
	sem_t come, go;
};

static NOINLINE void *visit(void *arg)
{
	struct visit *v = arg;
	void *volatile local = arg;

	v->fs = thread_pointer();
	v->tid = syscall(SYS_gettid);
	v->rsp = here();
	v->local = &local;
	sem_post(&v->come);
	sem_wait(&v->go);
	return local;
}

static void test_other_threads(void)
{
	struct visit v[2];
	pthread_t t[2];

	for (int i = 0; i < 2; i++) {
		sem_init(&v[i].come, 0, 0);
		sem_init(&v[i].go, 0, 0);
		pthread_create(&t[i], NULL, visit, &v[i]);
		sem_wait(&v[i].come);
	}
	begin();
	add_thread(getpid(), here(), thread_pointer());
	for (int i = 0; i < 2; i++)
		add_thread((pid_t)v[i].tid, v[i].rsp, v[i].fs);
	look();
	for (int i = 0; i < 2; i++) {
		CHECK(is_root((uintptr_t)v[i].local));
		CHECK(is_root(v[i].fs - 8));
		CHECK(is_root(v[i].fs + 16));
		CHECK(!is_root(v[i].rsp - 300));
		CHECK(!is_root(v[i].rsp - (1u << 20)));
		CHECK_EQ(captured_stack(&captured, (uintptr_t)v[i].local), i + 1);
	}
	end();
	/* one of them is on a stack of which nothing is known: then all of it is one */
	begin();
	add_thread((pid_t)v[0].tid, v[0].rsp, 0);
	look();
	CHECK(is_root((uintptr_t)v[0].local));
	CHECK(is_root(v[0].rsp - (1u << 20)));
	end();
	for (int i = 0; i < 2; i++) {
		sem_post(&v[i].go);
		pthread_join(t[i], NULL);
	}
}

/* ---- a handler on a stack within the stack ---------------------------------- */

static raddr_t interrupted, handler;
static bool sees_interrupted, sees_below;

static void handle(int sig)
{
	(void)sig;
	handler = here();
	begin();
	add_thread(getpid(), handler, thread_pointer());
	look();
	sees_interrupted = is_root(interrupted);
	sees_below = is_root(interrupted - 65536);
	end();
}

static NOINLINE void interrupt(void)
{
	void *volatile local = (void *)&local;

	interrupted = (uintptr_t)&local;
	raise(SIGUSR1);
	CHECK(local == (void *)&local);
}

static void test_other_stack(void)
{
	char stack[128 << 10];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) }, was;
	struct sigaction act = { .sa_handler = handle, .sa_flags = SA_ONSTACK }, before;

	sigaltstack(&other, &was);
	sigaction(SIGUSR1, &act, &before);
	interrupt();
	sigaction(SIGUSR1, &before, NULL);
	sigaltstack(&was, NULL);
	CHECK(handler >= (uintptr_t)stack && handler < (uintptr_t)stack + sizeof(stack));
	CHECK(interrupted < handler);
	CHECK(sees_interrupted);
	CHECK(!sees_below);
}

/* ---- registers -------------------------------------------------------------- */

static void test_registers(void)
{
	size_t thread;
	unsigned r12 = 0, vector = 0;

	begin();
	add_thread(10, here(), thread_pointer());
	add_thread(11, here(), thread_pointer());
	look();
	for (size_t i = 0; i < captured.image.words; i++) {
		const char *name = captured_register(&captured, i, &thread);

		if (captured.image.word[i] == 0x1212) {
			CHECK_STR(name, "r12");
			CHECK_EQ(thread, r12++);
		}
		if (captured.image.word[i] == 0x2323) {
			CHECK_STR(name, "a vector register");
			CHECK_EQ(thread, vector++);
		}
	}
	CHECK_EQ(r12, 2);
	CHECK_EQ(vector, 2);
	end();
}

int main(void)
{
	RUN(test_first_thread);
	RUN(test_other_threads);
	if (TEST_SANITIZED)
		SKIP(test_other_stack, "the sanitizer has the locals elsewhere");
	else
		RUN(test_other_stack);
	RUN(test_registers);
	return test_status();
}
