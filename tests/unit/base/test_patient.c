// SPDX-License-Identifier: GPL-3.0-or-later
/* test_patient.c - memory of this very process, some of which never comes. */
#include "base/patient.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "test.h"

/* What remote_read() finds, also where a page cannot be read. */
static void test_memory(void)
{
	static const size_t places[][2] = { { 0, 200 * 4096 },
					    { 5, 3 },
					    { 10, 199 * 4096 },
					    { 100 * 4096 - 1, 2 },
					    { 100 * 4096, 2 },
					    { 101 * 4096, 70000 },
					    { 101 * 4096, 99 * 4096 },
					    { 101 * 4096 + 9, 699 * 4096 - 20 },
					    { 0, 0 } };
	size_t len = 800 * 4096;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*a = calloc(1, len), *b = calloc(1, len);
	raddr_t at = (raddr_t)(uintptr_t)p;

	CHECK(p != MAP_FAILED && a && b);
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + i / 4096);
	CHECK_EQ(mprotect(p + 100 * 4096, 4096, PROT_NONE), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		ssize_t n = remote_read(getpid(), at + places[i][0], a, places[i][1]);

		CHECK_EQ(patient_read(getpid(), at + places[i][0], b, places[i][1]), n);
		CHECK(n <= 0 || !memcmp(a, b, (size_t)n));
		memset(b, 0, len);
		CHECK_EQ(patient_read_wide(getpid(), at + places[i][0], b, places[i][1]), n);
		CHECK(n <= 0 || !memcmp(a, b, (size_t)n));
	}
	CHECK_EQ(patient_read(0x7ffffff, at, b, 1), -ESRCH);
	CHECK_EQ(patient_read_wide(0x7ffffff, at, b, len), -ESRCH);
	munmap(p, len);
	free(a);
	free(b);
}

/* Pieces: longer ones than are written at once, too, more of them, and into a page that cannot be read. */
static void test_spans(void)
{
	size_t len = 100 * 4096, n = 0, bytes = 0;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*expected = calloc(1, len), *from = calloc(1, len);
	static struct remote_span span[601];
	raddr_t at = (raddr_t)(uintptr_t)p;

	CHECK(p != MAP_FAILED && expected && from);
	for (size_t i = 0; i < 600; i++)
		span[n++] = (struct remote_span){ at + i * 97, 1 + i % 50 };
	span[n++] = (struct remote_span){ at + 20 * 4096 + 5, 70 * 4096 };
	for (size_t i = 0; i < n; bytes += span[i++].len) {
		for (size_t k = 0; k < span[i].len; k++)
			from[bytes + k] = (uint8_t)(i + k * 7 + k / 4096 + 1);
		memcpy(expected + (span[i].address - at), from + bytes, span[i].len);
	}
	CHECK_EQ(mprotect(p + 4096, 4096, PROT_NONE), 0);
	CHECK_EQ(patient_write_spans(getpid(), span, n, from), 0);
	CHECK_EQ(patient_write(getpid(), at + 99 * 4096, "end", 3), 0);
	memcpy(expected + 99 * 4096, "end", 3);
	CHECK_EQ(mprotect(p + 4096, 4096, PROT_READ), 0);
	CHECK(!memcmp(p, expected, len));
	span[1].address = 4096;
	CHECK(patient_write_spans(getpid(), span, n, from) < 0);
	munmap(p, len);
	free(expected);
	free(from);
}

/* Pages that nobody serves: they are given up, and are there again when somebody does. */
static void test_held(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	static char bytes[20 * 4096];
	size_t len = 40 * 4096;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	raddr_t at = (raddr_t)(uintptr_t)p;
	struct uffdio_register r = { .range = { at, len - 4096 },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };
	const struct remote_span both[] = { { at + len - 1, 1 }, { at + 4 * 4096, 3 } };
	char byte = 'x';
	uint64_t began;
	ssize_t got = 0;

	if (fd < 0) {
		printf("# no userfaultfd for faults of the kernel here\n");
		return;
	}
	p[len - 1] = 'z';
	CHECK(ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &r) == 0);
	began = clock_ms();
	CHECK_EQ(patient_read(getpid(), at, &byte, 1), -ETIMEDOUT);
	CHECK(clock_ms() - began >= PATIENT_MS - 10);
	CHECK_EQ(patient_read(getpid(), at + len - 1, &byte, 1), 1);
	CHECK_EQ(byte, 'z');
	CHECK_EQ(patient_read(getpid(), at + 4096, &byte, 1), -ETIMEDOUT);
	CHECK_EQ(patient_write_spans(getpid(), both, 2, "abcd"), -ETIMEDOUT);
	CHECK_EQ(p[len - 1], 'z');
	CHECK_EQ(patient_read_wide(getpid(), at + 8 * 4096, bytes, sizeof(bytes)), -ETIMEDOUT);
	began = clock_ms();
	CHECK_EQ(patient_read(getpid(), at + 2 * 4096, &byte, 1), -ETIMEDOUT);
	CHECK(clock_ms() - began < PATIENT_MS / 2);
	close(fd);
	for (int i = 0; i < 1000 && patient_read(getpid(), at, &byte, 1) != 1; i++)
		usleep(10000);
	CHECK_EQ(patient_read(getpid(), at + 3 * 4096, &byte, 1), 1);
	CHECK_EQ(byte, 0);
	for (int i = 0; i < 1000 && got != sizeof(bytes); i++) {
		usleep(10000);
		got = patient_read_wide(getpid(), at + 8 * 4096, bytes, sizeof(bytes));
	}
	CHECK_EQ(got, sizeof(bytes));
	usleep(100000);
	CHECK(p[len - 1] == 'z' && p[4 * 4096] == 0);
	munmap(p, len);
}

/* A child that does FN, with the least claim to a processor if IDLE. */
static pid_t child(void (*fn)(void *), void *arg, bool idle)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (idle)
		sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 });
	for (;;)
		fn(arg);
}

static void turn(void *arg) { (void)arg; }

#define LOCKED_BYTES ((size_t)64 << 20)
static void lock(void *memory)
{
	mprotect(memory, LOCKED_BYTES, PROT_READ);
	mprotect(memory, LOCKED_BYTES, PROT_READ | PROT_WRITE);
}

/*
 * The lock of an address space is held by a thread that gets no processor, nearly always and for
 * long: nobody keeps these bytes from us, and they come.
 */
static void test_locked(void)
{
	long busy = sysconf(_SC_NPROCESSORS_ONLN);
	char *p = mmap(NULL, LOCKED_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	pid_t locker = child(lock, p, true), others[64];
	uint64_t end, longest = 0;
	ssize_t n = 1;
	char byte;

	CHECK(p != MAP_FAILED);
	busy = busy < 64 ? busy : 64;
	for (long i = 0; i < busy; i++)
		others[i] = child(turn, NULL, false);
	end = clock_ms() + (uint64_t)test_size(1500, 5000);
	for (uint64_t now; n == 1 && longest < PATIENT_MS + 100 && (now = clock_ms()) < end;) {
		n = patient_read(locker, (raddr_t)(uintptr_t)p, &byte, 1);
		if (clock_ms() - now > longest)
			longest = clock_ms() - now;
	}
	CHECK_EQ(n, 1);
	printf("# at most %d ms\n", (int)longest);
	for (long i = 0; i < busy; i++)
		kill(others[i], SIGKILL);
	kill(locker, SIGKILL);
	while (wait(NULL) > 0)
		;
	munmap(p, LOCKED_BYTES);
}

int main(void)
{
	RUN(test_locked);
	RUN(test_memory);
	RUN(test_spans);
	RUN(test_held);
	return test_status();
}
