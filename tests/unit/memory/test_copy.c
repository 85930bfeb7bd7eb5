// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_copy.c - which pages of a process are there, and copies of them: of a child that stands
 * still, whose pages we know because they were ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/zero_page.h"
#include "base/proc.h"
#include "memory/copy.h"
#include "test.h"

#define COUNT 6000u /* pages: of several leaves */
#define SIZE  (COUNT * PAGE)
#define MOST  (64u << 20)

static uint64_t word(size_t page, size_t i) { return (page + 1) * 0x9e3779b97f4a7c15ull + i; }

static char *map(int prot, int flags)
{
	char *at = mmap(NULL, SIZE, prot, flags, -1, 0);

	if (at == MAP_FAILED || madvise(at, SIZE, MADV_NOHUGEPAGE)) {
		puts("out of memory");
		exit(1);
	}
	return at;
}

static void fill(char *at, size_t page)
{
	uint64_t *to = (uint64_t *)(void *)(at + page * PAGE);

	for (size_t i = 0; i < PAGE / 8; i++)
		to[i] = word(page, i);
}

static void fill_all(char *at)
{
	for (size_t i = 0; i < COUNT; i++)
		fill(at, i);
}

static bool is_filled(const char *page, size_t number)
{
	const uint64_t *from = (const uint64_t *)(const void *)page;
	size_t same = 0;

	for (size_t i = 0; i < PAGE / 8; i++)
		same += from[i] == word(number, i);
	return same == PAGE / 8;
}

/* A child with our memory, which waits. */
static pid_t child(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct memory memory_of(pid_t pid)
{
	struct memory m = { .mem = -1 };

	CHECK_EQ(memory_open(&m, pid, true), 0);
	return m;
}

static size_t runs(const struct pages *pages, raddr_t start, raddr_t end, unsigned what,
		   struct page_run *run, size_t most)
{
	size_t count = 0;
	ssize_t n = 0;

	for (raddr_t at = start; at < end && n >= 0; count += (size_t)n)
		n = pages_next(pages, &at, end, what, run + count,
			       most - count < 7 ? most - count : 7);
	CHECK(n >= 0);
	return count;
}

/*
 * A page in three is written, and one in five of the others only read: where the kernel has a page of
 * zeros for that, it is not there.
 */
static bool is_written(size_t page) { return page % 3 == 1; }

static void test_sparse(void)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	raddr_t start = (raddr_t)(uintptr_t)at, first;
	struct page_run *run = calloc(COUNT, sizeof(*run));
	struct copy *copy = copy_new(MOST);
	const bool zeros = has_zero_page();
	struct memory from;
	size_t n, len, found = 0;
	pid_t pid;

	for (size_t i = 0; i < COUNT; i++)
		if (is_written(i))
			fill(at, i);
		else if (zeros && i % 5 == 0)
			(void)*(volatile char *)&at[i * PAGE];
	pid = child();
	from = memory_of(pid);
	for (int scan = 0; scan < 2; scan++) {
		n = runs(&from.pages, start, start + SIZE, 0, run, COUNT);
		if (from.pages.no_scan) /* pages of zeros are like any others there */
			break;
		CHECK_EQ(n, COUNT / 3);
		for (size_t i = 0; i < n; i++)
			CHECK(run[i].end - run[i].start == PAGE &&
			      is_written((run[i].start - start) / PAGE));
		from.pages.no_scan = scan == 0;
	}
	from.pages.no_scan = false;
	n = runs(&from.pages, start, start + SIZE, 0, run, COUNT);
	CHECK_EQ(copy_take(copy, &from, run, n, false), 0);
	CHECK_EQ(copy_bytes(copy), n * PAGE);
	end(pid);
	for (raddr_t next = start; next < start + SIZE; next = first + len, found++) {
		const char *bytes = copy_next(copy, next, start + SIZE, &first, &len);

		if (!bytes)
			break;
		CHECK_EQ(len, PAGE);
		CHECK(is_filled(bytes, (first - start) / PAGE));
	}
	CHECK_EQ(found, COUNT / 3);
	/* from the middle of a page to the middle of it */
	CHECK(copy_next(copy, start + PAGE + 100, start + PAGE + 120, &first, &len) != NULL);
	CHECK_EQ(first, start + PAGE + 100);
	CHECK_EQ(len, 20);
	CHECK(!copy_next(copy, start + 2 * PAGE, start + 4 * PAGE, &first, &len));
	copy_keep(copy, start, start + SIZE, run + 10, 5);
	CHECK_EQ(copy_bytes(copy), 5 * PAGE);
	CHECK(!copy_next(copy, start, run[10].start, &first, &len));
	copy_free(copy);
	memory_close(&from);
	free(run);
	munmap(at, SIZE);
}

/* What lies together is found together, however long; and again after it has changed. */
static void test_dense(void)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	raddr_t start = (raddr_t)(uintptr_t)at, first;
	struct copy *copy = copy_new(MOST);
	struct page_run run[16];
	struct memory from;
	const char *bytes;
	size_t n, len;
	pid_t pid;

	fill_all(at);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {

		for (size_t i = 0; i < COUNT; i++)
			(void)*(volatile char *)&at[i * PAGE];
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, NULL, WUNTRACED);
	from = memory_of(pid);
	CHECK_EQ(runs(&from.pages, start, start + SIZE, PAGES_NOT_FILES, run, 16), 0);
	n = runs(&from.pages, start, start + SIZE, 0, run, 16);
	CHECK_EQ(copy_take(copy, &from, run, n, false), 0);
	bytes = copy_next(copy, start, start + SIZE, &first, &len);
	CHECK(bytes && first == start && len == SIZE);
	fill(at, 0);
	at[10 * PAGE + 5] ^= 1;
	CHECK_EQ(copy_take(copy, &from, run, n, true), 0);
	CHECK_EQ(copy_bytes(copy), SIZE);
	CHECK(!memcmp(at, copy_next(copy, start, start + SIZE, &first, &len), SIZE));
	end(pid);
	copy_free(copy);
	memory_close(&from);
	munmap(at, SIZE);
}

/* Pages that a fork has left to two processes stay so; those of one are told from them. */
static void test_shared(void)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	raddr_t start = (raddr_t)(uintptr_t)at, first;
	struct copy *copy = copy_new(MOST);
	struct page_run run[16];
	bool shared[64];
	struct memory from;
	const char *bytes;
	size_t n, len;
	int sum = 0;
	pid_t pid;

	fill_all(at);
	pid = child();
	fill(at, 3); /* ours is another one now */
	from = memory_of(pid);
	n = runs(&from.pages, start, start + SIZE, 0, run, 16);
	CHECK_EQ(copy_take(copy, &from, run, n, false), 0);
	bytes = copy_next(copy, start, start + SIZE, &first, &len);
	CHECK(bytes && len == SIZE && is_filled(bytes, 0) &&
	      is_filled(bytes + SIZE - PAGE, COUNT - 1));
	CHECK_EQ(pages_shared(&from.pages, start, 64, shared), 0);
	for (int i = 0; i < 64; i++)
		sum += shared[i];
	CHECK_EQ(sum, 63);
	CHECK(!shared[3]);
	end(pid);
	copy_free(copy);
	memory_close(&from);
	munmap(at, SIZE);
}

/* Pages that went between two looks, or cannot be read, are not there; the others are. */
static void test_holes(void)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	raddr_t start = (raddr_t)(uintptr_t)at, first;
	const struct page_run all = { start, start + SIZE, 0 };
	struct memory from;
	pid_t pid;

	fill_all(at);
	munmap(at + 100 * PAGE, PAGE);
	munmap(at + 1000 * PAGE, 1000 * PAGE);
	pid = child();
	from = memory_of(pid);
	for (int way = 0; way < 2; way++) {
		struct copy *copy = copy_new(MOST);
		const char *bytes;
		size_t len;

		from.quick = way;
		CHECK_EQ(copy_take(copy, &from, &all, 1, way == 1), 0);
		CHECK_EQ(copy_bytes(copy), (COUNT - 1001) * PAGE);
		bytes = copy_next(copy, start, start + SIZE, &first, &len);
		CHECK(bytes && len == 100 * PAGE && is_filled(bytes, 0));
		bytes = copy_next(copy, first + len, start + SIZE, &first, &len);
		CHECK(bytes && first == start + 101 * PAGE && is_filled(bytes, 101));
		bytes = copy_next(copy, first + len, start + SIZE, &first, &len);
		CHECK(bytes && first == start + 2000 * PAGE && is_filled(bytes, 2000));
		copy_free(copy);
	}
	end(pid);
	memory_close(&from);
	munmap(at, SIZE);
}

static void test_most(void)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	raddr_t start = (raddr_t)(uintptr_t)at;
	const struct page_run all = { start, start + SIZE, 0 };
	struct copy *copy = copy_new(SIZE - 1);
	struct memory from;
	pid_t pid = child();

	from = memory_of(pid);
	CHECK_EQ(copy_take(copy, &from, &all, 1, false), -E2BIG);
	end(pid);
	copy_free(copy);
	memory_close(&from);
	munmap(at, SIZE);
}

/*
 * What is touched beforehand, by a thread beside, has what was copied there; and there may be less.
 */
static void test_expected(void)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	raddr_t start = (raddr_t)(uintptr_t)at, first;
	struct memory from;
	pid_t pid;

	fill_all(at);
	pid = child();
	from = memory_of(pid);
	for (int i = 0; i < 20; i++) {
		struct copy *copy = copy_new((uint64_t)MOST * 3);
		const char *bytes = NULL;
		size_t len = 0, right = 0;

		copy_expect(copy, (uint64_t)MOST * 4);
		for (raddr_t next = start; next < start + SIZE; next += SIZE / 4) {
			const struct page_run run = { next, next + SIZE / 4, 0 };

			CHECK_EQ(copy_take(copy, &from, &run, 1, false), 0);
		}
		if (i % 2)
			copy_expected(copy);
		for (raddr_t next = start; next < start + SIZE; next = first + len) {
			bytes = copy_next(copy, next, start + SIZE, &first, &len);
			for (size_t k = 0; bytes && k < len; k += PAGE)
				right += is_filled(bytes + k, (first + k - start) / PAGE);
			if (!bytes)
				break;
		}
		CHECK_EQ(right, COUNT);
		CHECK_EQ(copy_core_free(copy), copy_core_free(copy));
		copy_free(copy);
	}
	end(pid);
	memory_close(&from);
	munmap(at, SIZE);
}

/* A piece at a time: no more is looked through than is told of, and all of it in the end. */
static void test_pieces(void)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	raddr_t start = (raddr_t)(uintptr_t)at, behind = start + SIZE, next = start;
	uint64_t bytes = 0;
	struct memory from;
	pid_t pid;

	fill_all(at);
	pid = child();
	from = memory_of(pid);
	for (ssize_t n = 1; n > 0 && next < behind;) {
		raddr_t began = next;
		struct page_run run = { 0 };

		n = pages_next(&from.pages, &next, behind, PAGES_PIECE, &run, 1);
		CHECK_EQ(n, 1);
		CHECK_EQ(run.start, began);
		CHECK_EQ(run.end, next);
		CHECK(from.pages.no_scan || run.end - run.start <= 1u << 20);
		bytes += run.end - run.start;
	}
	CHECK_EQ(bytes, SIZE);
	end(pid);
	memory_close(&from);
	munmap(at, SIZE);
}

int main(void)
{
	RUN(test_sparse);
	RUN(test_dense);
	RUN(test_shared);
	RUN(test_holes);
	RUN(test_most);
	RUN(test_expected);
	RUN(test_pieces);
	return test_status();
}
