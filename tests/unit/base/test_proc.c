// SPDX-License-Identifier: GPL-3.0-or-later
/* test_proc.c - /proc and memory, with this very process and children of it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "test.h"

/* In a child, before anything opened /proc: 0 ok, 1 wrong, 2 cannot be tried here. */
static int without_proc(void)
{
	char *text = NULL;
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    umount2("/proc", MNT_DETACH) < 0)
		return 2;
	if (access("/proc/self", F_OK) == 0)
		return 2;
	fd = proc_open(getpid(), "maps", O_RDONLY);
	if (fd == -EPERM || fd == -ENOSYS)
		return 2;
	if (fd < 0 || proc_read(getpid(), "cmdline", &text) <= 0)
		return 1;
	if (fcntl(fd, F_GETFD) != FD_CLOEXEC || proc_status_field(getpid(), "VmRSS") <= 0)
		return 1;
	return access("/proc/self", F_OK) == 0;
}

static void test_without_proc_mounted(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(without_proc());
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		printf("# not tried: /proc cannot be unmounted or mounted here\n");
	else
		CHECK_EQ(status, 0);
}

static void test_open(void)
{
	char *text = NULL;

	CHECK_EQ(proc_open(getpid(), "no such file", O_RDONLY), -ENOENT);
	CHECK_EQ(proc_read(0x7ffffff, "maps", &text), -ENOENT);
	CHECK_EQ(proc_read(getpid(), "comm", &text), 10);
	CHECK_STR(text, "test_proc\n");
	free(text);
	CHECK(proc_status_field(getpid(), "VmRSS") > 100);
	CHECK_EQ(proc_status_field(getpid(), "Pid"), getpid());
	CHECK_EQ(proc_status_field(getpid(), "Nothing"), -ENOENT);
}

static void test_memory(void)
{
	size_t len = 200 * 4096;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*copy = malloc(len);
	raddr_t at = (raddr_t)(uintptr_t)p;

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + i / 4096);
	CHECK_EQ(remote_read(getpid(), at, copy, len), (ssize_t)len);
	CHECK(memcmp(p, copy, len) == 0);
	CHECK_EQ(remote_read(getpid(), at + 5, copy, 3), 3);
	CHECK(memcmp(p + 5, copy, 3) == 0);
	/* a hole: short at its start, in any part of the page */
	CHECK_EQ(mprotect(p + 100 * 4096, 4096, PROT_NONE), 0);
	CHECK_EQ(remote_read(getpid(), at + 10, copy, len - 10), 100 * 4096 - 10);
	CHECK(memcmp(p + 10, copy, 100 * 4096 - 10) == 0);
	CHECK_EQ(remote_read(getpid(), at + 100 * 4096 - 1, copy, 2), 1);
	CHECK_EQ(remote_read(getpid(), at + 100 * 4096, copy, 2), -EFAULT);
	CHECK_EQ(remote_read(getpid(), at, copy, 0), 0);
	CHECK_EQ(remote_read(0x7ffffff, at, copy, 1), -ESRCH);
	/* read-only, and not even that */
	CHECK_EQ(mprotect(p, 4096, PROT_READ | PROT_EXEC), 0);
	CHECK_EQ(remote_write(getpid(), at + 4090, "0123456789ab", 12), 0);
	CHECK(memcmp(p + 4090, "0123456789ab", 12) == 0);
	munmap(p + 50 * 4096, 4096);
	CHECK(remote_write(getpid(), at + 50 * 4096, "x", 1) < 0);
	CHECK(remote_write(0x7ffffff, at, "x", 1) < 0);
	munmap(p, len);
	free(copy);
}

/* Text is private: written in a child, it is changed in the child alone. */
static void test_write_to_text(void)
{
	static const uint8_t ret[] = { 0xc3 };
	uint8_t before = *(const uint8_t *)(uintptr_t)test_memory, now = 0;
	raddr_t at = (raddr_t)(uintptr_t)test_memory;
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	CHECK_EQ(remote_write(pid, at, ret, 1), 0);
	CHECK(remote_read(pid, at, &now, 1) == 1 && now == 0xc3);
	CHECK_EQ(*(const volatile uint8_t *)(uintptr_t)test_memory, before);
	kill(pid, 9);
	waitpid(pid, NULL, 0);
}

static void test_status_fields(void)
{
	static const char status[] = "Name:\tUid:\nState:\tR (running)\nUid:\t1\t2\t3\t4\n"
				     "Groups:\t \nVmRSS:\t    1234 kB\nSigBlk:\tfe00000000000001\n";
	unsigned id[4];

	CHECK(!strncmp(status_find(status, "Name"), "Uid:\n", 5));
	CHECK_EQ(*status_find(status, "State"), 'R');
	CHECK_EQ(*status_find(status, "Groups"), '\n');
	CHECK_EQ(*status_find(status, "Stat"), 0);
	CHECK_EQ(status_number(status, "VmRSS"), 1234);
	CHECK_EQ(status_number(status, "VmPeak"), 0);
	CHECK_EQ(status_mask(status, "SigBlk"), 0xfe00000000000001);
	CHECK(status_ids(status, "Uid", id) && id[0] == 1 && id[1] == 2 && id[2] == 3 &&
	      id[3] == 4);
	CHECK(!status_ids(status, "Gid", id) && !status_ids(status, "VmRSS", id));
	CHECK_EQ(proc_own_tid(getpid()), getpid());
}

int main(void)
{
	RUN(test_without_proc_mounted);
	RUN(test_open);
	RUN(test_status_fields);
	RUN(test_memory);
	RUN(test_write_to_text);
	return test_status();
}
