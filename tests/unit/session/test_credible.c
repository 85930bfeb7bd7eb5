// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_credible.c - what processes may say of themselves: a child that has some memory, and ledgers
 * that are filled for it.
 */
#include "session/credible.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/process.h"
#include "session/session_state.h"
#include "test.h"
#include "transport/heartbeat.h"

#define ROOM	((size_t)128 << 20)
#define NOWHERE 0x10000000000ull /* where no kernel maps anything by itself */

static struct wire_process *wire;
static raddr_t room; /* of the child, and of us */

struct subject {
	struct session session;
	struct process *p;
	pid_t pid;
	uint32_t thread;
};

static void begin(struct subject *t)
{
	*t = (struct subject){ .pid = fork() };
	if (t->pid == 0) {
		for (;;)
			pause();
	}
	t->session.options.count = LEDGER_COUNT_HEAP | LEDGER_COUNT_MMAP;
	t->p = t->session.processes = process_new(t->pid, getpid(), t->session.options.count, NULL);
	t->p->shared = (struct shared){ .wire = wire, .slots = WIRE_THREADS };
	t->p->stream = stream_new(&t->p->shared, t->p->ledger, process_own_mapping, t->p);
	t->thread = ledger_thread(t->p->ledger, t->pid);
}

static void end(struct subject *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	process_unref(t->p);
}

static void fill(struct subject *t, size_t n, raddr_t at, uint64_t step, uint64_t size)
{
	for (size_t i = 0; i < n; i++)
		ledger_alloc(t->p->ledger, t->thread, 1, at + i * step, size,
			     (uint32_t)(1 + i % 100));
}

static bool is_given_up_within(struct subject *t, unsigned ms)
{
	for (unsigned i = 0; i <= ms / 10 && !t->p->credible.given_up; i++) {
		credible_turn(&t->session);
		usleep(10000);
	}
	return t->p->credible.given_up;
}

#if !TEST_SANITIZED
static void check_emptied(struct subject *t)
{
	struct ledger_totals totals;

	credible_turn(&t->session);
	ledger_totals(t->p->ledger, &totals);
	CHECK_EQ(totals.heap, 0);
	CHECK_EQ(totals.live_blocks, 0);
	CHECK(ledger_memory(t->p->ledger) < 1 << 20);
	CHECK(t->p->unsupervised != NULL);
}
#endif

static void test_honest(void)
{
	struct subject t;

	begin(&t);
	fill(&t, 300000, room, 32, 24);
	CHECK(!is_given_up_within(&t, 800));
	end(&t);
}

#if !TEST_SANITIZED
/* Freed, and unmapped, but not told of yet: a moment later it is. */
static void test_late(void)
{
	struct subject t;

	begin(&t);
	fill(&t, 300000, NOWHERE, 32, 24);
	/* (on a busy machine the list of mappings does not come at once) */
	for (int i = 0; i < 500 && !t.p->credible.suspects; i++) {
		credible_turn(&t.session);
		usleep(10000);
	}
	CHECK(t.p->credible.suspects > 0);
	for (size_t i = 0; i < 300000; i++)
		ledger_release(t.p->ledger, t.thread, 2, NOWHERE + i * 32, false);
	CHECK(!is_given_up_within(&t, 800));
	end(&t);
}

static void test_nowhere(void)
{
	struct subject t;

	begin(&t);
	fill(&t, 300000, NOWHERE, 32, 24);
	CHECK(is_given_up_within(&t, 5000));
	check_emptied(&t);
	end(&t);
}

static void test_too_many_bytes(void)
{
	struct subject t;

	begin(&t);
	fill(&t, 100, room, 32, (uint64_t)1 << 45);
	CHECK(is_given_up_within(&t, 0));
	check_emptied(&t);
	end(&t);
	begin(&t);
	ledger_map(t.p->ledger, t.thread, 1, NOWHERE, (uint64_t)1 << 45, WIRE_MAP_ANON | 3, 1,
		   true);
	CHECK(is_given_up_within(&t, 0));
	check_emptied(&t);
	end(&t);
}

/* Each with a stack of its own: what grows most. */
static void test_too_many_stacks(void)
{
	struct subject t;
	uint32_t i = 1;

	begin(&t);
	while (!t.p->credible.given_up && i < 5000000) {
		for (unsigned k = 0; k < 10000; k++, i++)
			ledger_alloc(t.p->ledger, t.thread, 1, room + (uint64_t)i * 16 % ROOM, 1,
				     i);
		if (ledger_memory(t.p->ledger) > (uint64_t)300 << 20)
			break;
		credible_turn(&t.session);
	}
	CHECK(t.p->credible.given_up);
	check_emptied(&t);
	end(&t);
}
#endif

/* It goes on writing: that costs no more. */
static void test_discarding(void)
{
	struct subject t;

	begin(&t);
	fill(&t, 100, room, 32, (uint64_t)1 << 45);
	CHECK(is_given_up_within(&t, 0));
	credible_turn(&t.session);
	for (size_t i = 0; i < 300; i++) {
		for (size_t k = 0; k < 10000; k++)
			ledger_alloc(t.p->discarding, 0, 1, NOWHERE + (i * 10000 + k) * 4096, 10,
				     1);
		credible_turn(&t.session);
		CHECK(ledger_memory(t.p->discarding) < (uint64_t)32 << 20);
	}
	end(&t);
}

int main(void)
{
	void *p = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	wire = mmap(NULL, sizeof(*wire), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED || wire == MAP_FAILED)
		return 77;
	room = (raddr_t)(uintptr_t)p;
	if (heartbeat_start() < 0)
		return 77;
	RUN(test_honest);
#if TEST_SANITIZED
	SKIP(test_late, "the sanitizer has mapped so much that any claim is credible");
	SKIP(test_nowhere, "the same");
	SKIP(test_too_many_bytes, "the same");
	SKIP(test_too_many_stacks, "the same");
#else
	RUN(test_late);
	RUN(test_nowhere);
	RUN(test_too_many_bytes);
	RUN(test_too_many_stacks);
#endif
	RUN(test_discarding);
	munmap(wire, sizeof(*wire));
	return test_status();
}
