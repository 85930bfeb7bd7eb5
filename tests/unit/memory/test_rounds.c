// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_rounds.c - the memory of a child that writes, copied in rounds: what the first pieces say of
 * how fast that is, and that the copy is right in the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/capture_make.h"
#include "memory/protect.h"
#include "test.h"

#define COUNT 16384u /* pages: 64 MB */
#define SIZE  (COUNT * PAGE)
#define HOT   512u	     /* pages that are written again and again, in `hot` */
#define FAST  (100ull << 20) /* bytes a second: the child alone writes fifty times that */
#define TRIES 20	     /* others run, too: it may not */

enum writes { NOTHING, HOT_ALONE, EVERYWHERE };

struct told { /* by the child */
	int fd;
	raddr_t at;
	uint64_t writes;
};

struct child {
	pid_t pid;
	volatile struct told *told;
	struct protect protect;
};

static void write_pages(volatile struct told *told, char *at, enum writes how)
{
	uint64_t random = 1;

	for (uint64_t n = 0;; n++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		if (how == NOTHING)
			pause();
		*(volatile uint64_t *)(void *)(at + (random >> 33) %
							    (how == HOT_ALONE ? HOT : COUNT) *
							    PAGE) = n;
		told->writes = n;
	}
}

static _Noreturn void run(volatile struct told *told, enum writes how)
{
	char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		_exit(1);
	madvise(at, SIZE, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < COUNT; i++)
		at[i * PAGE] = 1;
	told->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* user mode only */);
	__atomic_store_n(&told->at, (raddr_t)(uintptr_t)at, __ATOMIC_RELEASE);
	write_pages(told, at, how);
	_exit(1);
}

static bool begin(struct child *c, enum writes how)
{
	int pidfd, fd;

	c->protect.fd = -1;
	c->told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(c->told != MAP_FAILED);
	c->pid = fork();
	if (c->pid == 0)
		run(c->told, how);
	while (!__atomic_load_n(&c->told->at, __ATOMIC_ACQUIRE) || (how && c->told->writes < 10000))
		usleep(1000);
	pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, c->told->fd, 0);
	close(pidfd);
	return fd >= 0 && !protect_init(&c->protect, fd);
}

static void end(struct child *c)
{
	protect_release(&c->protect);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	munmap((void *)(uintptr_t)c->told, PAGE);
}

static struct capture *capture_of(const struct child *c, uint64_t *bytes)
{
	struct capture *capture = capture_new(NULL, NULL);

	CHECK_EQ(capture_open(capture, c->pid, true), 0);
	CHECK_EQ(capture_ranges(capture, c->pid, 0), 0);
	CHECK_EQ(capture_measure(capture, bytes), 0);
	CHECK(*bytes >= SIZE);
	CHECK_EQ(capture_begin_copy(capture, 8 * SIZE), 0);
	return capture;
}

/* How much of it is written in a second, as far as that is seen. */
static uint64_t written(enum writes how)
{
	uint64_t bytes, fast = 0;
	struct capture *capture;
	struct child c;

	if (begin(&c, how)) {
		capture = capture_of(&c, &bytes);
		CHECK_EQ(capture_probe(capture, 0, &c.protect, bytes, &fast), 0);
		capture_free(capture);
	}
	end(&c);
	return fast;
}

static void test_speed(void)
{
	uint64_t most = 0;

	CHECK_EQ(written(NOTHING), 0);
	CHECK_EQ(written(HOT_ALONE), 0);
	for (int i = 0; i < TRIES && most < FAST && !TEST_SANITIZED; i++) {
		uint64_t now = written(EVERYWHERE);

		most = now > most ? now : most;
	}
	CHECK(most >= FAST || TEST_SANITIZED); /* there most memory is the sanitizer's */
}

/* Whether what was copied is what is there, of a child that stands still. */
static bool is_same(const struct child *c, const struct capture *capture)
{
	uint64_t *theirs = malloc(2 * SIZE), *ours = theirs + SIZE / sizeof(*ours);
	struct memory m = { .mem = -1 };
	bool same;

	CHECK_EQ(memory_open(&m, c->pid, true), 0);
	same = pread(m.mem, theirs, SIZE, (off_t)c->told->at) == (ssize_t)SIZE &&
	       capture_read(capture, c->told->at, ours, SIZE) == SIZE &&
	       !memcmp(theirs, ours, SIZE);
	memory_close(&m);
	free(theirs);
	return same;
}

static void check_rounds(enum writes how)
{
	uint64_t bytes, untracked, fast;
	struct capture *capture;
	struct child c;
	int status;

	if (begin(&c, how)) {
		capture = capture_of(&c, &bytes);
		CHECK_EQ(capture_probe(capture, 0, &c.protect, bytes, &fast), 0);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(capture_round(capture, 0, &c.protect, &bytes, &untracked), 0);
		kill(c.pid, SIGSTOP);
		CHECK_EQ(waitpid(c.pid, &status, WUNTRACED), c.pid);
		CHECK_EQ(capture_ranges(capture, c.pid, 0), 0);
		CHECK_EQ(capture_last_round(capture), 0);
		capture_end_rounds(capture);
		CHECK(is_same(&c, capture));
		capture_free(capture);
	}
	end(&c);
}

static void test_rounds(void)
{
	check_rounds(NOTHING);
	check_rounds(HOT_ALONE);
	check_rounds(EVERYWHERE);
}

int main(void)
{
	if (!protect_is_possible()) {
		puts("skip rounds: this kernel, or a filter, does not allow write protection");
		return 77;
	}
	RUN(test_speed);
	RUN(test_rounds);
	return test_status();
}
