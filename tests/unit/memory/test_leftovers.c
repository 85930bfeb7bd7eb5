// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What was given back, in the memory of this process itself: the stacks of its threads, and parts
 * of a mapping that are declared to be glibc's heap.
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger/ledger.h"
#include "memory/capture_make.h"
#include "memory/capture_state.h"
#include "memory/leftovers.h"
#include "process/process.h"
#include "test.h"

#define HEAP ((size_t)64 << 20)

static struct process process;
static struct capture *c;

static raddr_t thread_pointer(void)
{
	raddr_t fs;

	__asm__("mov %%fs:0, %0" : "=r"(fs));
	return fs;
}

/* As if all of our memory had been captured; only this thread lives. */
static void begin(void)
{
	struct user_regs_struct regs = { .rsp = (raddr_t)(uintptr_t)__builtin_frame_address(0),
					 .fs_base = thread_pointer() };
	uint64_t vector = 0;

	process.via = getpid();
	c = capture_new(NULL, NULL);
	CHECK_EQ(capture_ranges(c, getpid(), 0), 0);
	CHECK_EQ(capture_thread(c, (pid_t)syscall(SYS_gettid), &regs, &vector, sizeof(vector)), 0);
	CHECK_EQ(capture_open(c, getpid(), false), 0);
}

static void end(void)
{
	capture_free(c);
	thread_ends_release(&process.ends);
	process.glibc_malloc = (struct glibc_malloc){ 0 };
}

static bool is_root(const void *at)
{
	const struct capture_range *r = capture_range_at(c, (uintptr_t)at);

	return r && r->roots;
}

/* They follow each other, and each byte is still in one. */
static bool in_order(void)
{
	for (size_t i = 0; i < c->ranges; i++)
		if (c->range[i].start >= c->range[i].end ||
		    (i && c->range[i].start < c->range[i - 1].end))
			return false;
	return true;
}

/* ---- stacks ---------------------------------------------------------------- */

static __thread void *own;
struct visit { /* what a thread knows of itself */
	raddr_t fs, sp;
	long tid;
	void **on_stack, **in_tls;
	sem_t here, go;
};

static NOINLINE void *visit(void *arg)
{
	void *volatile mine = arg;
	struct visit *v = arg;

	own = arg;
	v->fs = thread_pointer();
	v->tid = syscall(SYS_gettid);
	v->sp = (uintptr_t)__builtin_frame_address(0) - 256;
	v->on_stack = (void **)(uintptr_t)&mine;
	v->in_tls = &own;
	sem_post(&v->here);
	sem_wait(&v->go);
	return arg;
}

static void start(pthread_t *t, struct visit *v)
{
	sem_init(&v->here, 0, 0);
	sem_init(&v->go, 0, 0);
	pthread_create(t, NULL, visit, v);
	sem_wait(&v->here);
}

static void ended_threads(void)
{
	struct visit joined, waits, lives;
	pthread_t t[3];

	start(&t[0], &joined);
	start(&t[1], &waits);
	start(&t[2], &lives);
	sem_post(&joined.go);
	sem_post(&waits.go);
	pthread_join(t[0], NULL);
	while (syscall(SYS_tgkill, getpid(), waits.tid, 0) == 0)
		usleep(1000);
	begin();
	thread_ends_add(&process.ends, joined.fs, joined.sp);
	thread_ends_add(&process.ends, waits.fs, waits.sp);
	CHECK(is_root(joined.on_stack) && is_root(waits.in_tls) && is_root(lives.on_stack));
	CHECK_EQ(leftovers_mark(c, &process, false), 0);
	CHECK(in_order());
	CHECK(!is_root(joined.on_stack) && !is_root(joined.in_tls));
	CHECK(!is_root((void *)joined.fs));
	CHECK(!is_root(waits.on_stack) && !is_root(waits.in_tls));
	CHECK(is_root((void *)waits.fs)); /* what it has returned is in there */
	CHECK(is_root(lives.on_stack) && is_root(lives.in_tls) && is_root(&joined));
	end();
	sem_post(&lives.go);
	pthread_join(t[1], NULL);
	pthread_join(t[2], NULL);
}

/* Its memory has become something else meanwhile. */
static void reused_stack(void)
{
	uint64_t *page =
		mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	raddr_t fs = (uintptr_t)page + 0xe000;

	memset(page, 1, 1 << 16);
	begin();
	thread_ends_add(&process.ends, fs, fs - 512);
	CHECK_EQ(leftovers_mark(c, &process, false), 0);
	CHECK(is_root(page) && is_root((void *)(fs - 512)));
	end();
	munmap(page, 1 << 16);
}

/* ---- heaps ----------------------------------------------------------------- */

/* The heap of a thread's arena, as glibc has it: PAGES of it are in use. */
static uint64_t *make_arena(size_t pages)
{
	uint8_t *room =
		mmap(NULL, 2 * HEAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t *arena = (uint64_t *)(((uintptr_t)room + HEAP - 1) & ~(HEAP - 1));

	mprotect(arena, (pages + 1) * PAGE, PROT_READ | PROT_WRITE);
	memset(arena, 0xff, (pages + 1) * PAGE);
	arena[0] = (uintptr_t)arena + 48;
	arena[1] = 0;
	arena[2] = pages * PAGE;
	return arena;
}

static void arenas(void)
{
	static uint64_t figures[300];
	uint64_t *arena = make_arena(5);

	begin();
	CHECK_EQ(leftovers_mark(c, &process, true), 0);
	CHECK(is_root(arena + 100) && is_root(figures)); /* malloc is not glibc's */
	end();
	begin();
	process.glibc_malloc =
		(struct glibc_malloc){ .state = (uintptr_t)(figures + 10), .state_bytes = 80 };
	CHECK_EQ(leftovers_mark(c, &process, true), 0);
	CHECK(in_order());
	CHECK(!is_root(arena) && !is_root(arena + 100) && !is_root(arena + 5 * 512 - 1));
	CHECK(is_root(arena + 5 * 512));
	CHECK(is_root(figures + 9) && !is_root(figures + 10) && !is_root(figures + 19) &&
	      is_root(figures + 20));
	end();
	begin();
	process.glibc_malloc =
		(struct glibc_malloc){ .state = (uintptr_t)figures, .state_bytes = 80 };
	CHECK_EQ(leftovers_mark(c, &process, false), 0);
	CHECK(is_root(arena + 100) && is_root(figures)); /* not all blocks are known */
	capture_making(c)->leavings = 1;
	CHECK_EQ(leftovers_mark(c, &process, true), 0);
	CHECK(is_root(arena + 100)); /* one is being resized */
	end();
	arena[0] = (uintptr_t)figures;
	begin();
	process.glibc_malloc =
		(struct glibc_malloc){ .state = (uintptr_t)figures, .state_bytes = 80 };
	CHECK_EQ(leftovers_mark(c, &process, true), 0);
	CHECK(is_root(arena + 100)); /* it is no arena's */
	end();
}

/* ---- other allocators ------------------------------------------------------ */

/* A block has been in the third of six pages; what is marked of them, a letter each. */
static const char *lain(uint8_t *page, bool all_known)
{
	static char text[8];

	CHECK_EQ(leftovers_mark(c, &process, all_known), 0);
	CHECK(in_order());
	for (unsigned i = 0; i < 6; i++) {
		text[i] = is_root(page + i * PAGE) ? 'r' : '-';
		CHECK_EQ(is_root(page + (i + 1) * PAGE - 8), text[i] == 'r');
	}
	end();
	return text;
}

static void pages_of_blocks(void)
{
	uint8_t *page = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ledger *l = process.ledger;
	struct own_mapping *mapping = calloc(1, sizeof(*mapping));
	uint32_t thread = ledger_thread(l, 1);

	page += PAGE;
	mprotect(page, 6 * PAGE, PROT_READ | PROT_WRITE);
	memset(page, 1, 6 * PAGE);
	begin();
	CHECK(!strcmp(lain(page, true), "rrrrrr"));
	ledger_alloc(l, thread, 1, (uintptr_t)page + 2 * PAGE + 96, 48, 1);
	ledger_release(l, thread, 2, (uintptr_t)page + 2 * PAGE + 96, false);
	begin();
	CHECK(!strcmp(lain(page, true), "rr-rrr"));
	begin();
	CHECK(!strcmp(lain(page, false), "rrrrrr"));
	begin(); /* a thread's stack has been there */
	thread_ends_add(&process.ends, (uintptr_t)page + 5 * PAGE, (uintptr_t)page + 4 * PAGE);
	CHECK(!strcmp(lain(page, true), "rrrrrr"));
	begin(); /* the program has it now */
	*mapping = (struct own_mapping){ (uintptr_t)page + PAGE, (uintptr_t)page + 3 * PAGE };
	capture_making(c)->own = mapping;
	capture_making(c)->owns = 1;
	CHECK(!strcmp(lain(page, true), "rrrrrr"));
	munmap(page - PAGE, 8 * PAGE);
}

/* Words beside what was split off are read as they are. */
static void reading(void)
{
	static uint64_t word[2048];
	uint64_t copy[2048];
	char buffer[4096];
	raddr_t at;
	size_t len;

	for (size_t i = 0; i < 2048; i++)
		word[i] = i;
	begin();
	process.glibc_malloc =
		(struct glibc_malloc){ .state = (uintptr_t)(word + 1001), .state_bytes = 24 };
	CHECK_EQ(leftovers_mark(c, &process, true), 0);
	CHECK_EQ(capture_read(c, (uintptr_t)word, copy, sizeof(copy)), sizeof(copy));
	CHECK(!memcmp(copy, word, sizeof(copy)));
	for (raddr_t from = (uintptr_t)word, to = (uintptr_t)(word + 2048); from < to;
	     from = at + len) {
		const uint64_t *got = capture_next(c, from, to, buffer, sizeof(buffer), &at, &len);

		CHECK(got && at == from && len && len % 8 == 0 && at + len <= to);
		if (!got || at != from || !len)
			break;
		CHECK(!memcmp(got, word + (from - (uintptr_t)word) / 8, len));
	}
	end();
}

/* Of pages that nobody has touched: zeros, and an end. */
static void reading_untouched(void)
{
	uint8_t *page =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t word[3] = { 1, 1, 1 };

	begin();
	CHECK_EQ(capture_read(c, (uintptr_t)page + PAGE, word, sizeof(word)), sizeof(word));
	CHECK(!word[0] && !word[1] && !word[2]);
	word[0] = word[2] = 1;
	CHECK_EQ(capture_read(c, (uintptr_t)page + 2 * PAGE - 8, word, sizeof(word)), sizeof(word));
	CHECK(!word[0] && !word[1] && !word[2]);
	end();
	munmap(page, 4 * PAGE);
}

int main(void)
{
	process.ledger = ledger_new(LEDGER_COUNT_HEAP);
	if (TEST_SANITIZED)
		SKIP(ended_threads, "threads' stacks are the sanitizer's");
	else
		RUN(ended_threads);
	RUN(reused_stack);
	RUN(arenas);
	RUN(pages_of_blocks);
	RUN(reading);
	RUN(reading_untouched);
	ledger_free(process.ledger);
	return test_status();
}
