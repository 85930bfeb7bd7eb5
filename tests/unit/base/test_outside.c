// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_outside.c - files that somebody else named: whose rights, which kinds, which root directory.
 * Of children of this process.
 */
#include "base/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "test.h"

static char dir[64];

static const char *in_dir(const char *name)
{
	static char path[8][128];
	static unsigned i;

	i = (i + 1) % 8;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

static void make(const char *name, const char *text, mode_t mode)
{
	int fd = open(in_dir(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK_EQ(fchmod(fd, mode), 0);
	close(fd);
}

/* What outside_open() says: 0, or its error. */
static int opens(struct outside *o, const char *path)
{
	int fd = outside_open(o, path, OUTSIDE_SOURCE);

	if (fd >= 0) {
		CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
	}
	return fd < 0 ? fd : 0;
}

/* A child that has done what SETUP does, and waits to be killed. */
static pid_t child_after(bool (*setup)(void))
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (pid == 0) {
		if (!setup() || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool nothing(void) { return true; }
static bool go_into_dir(void) { return !chroot(dir) && !chdir("/"); }
static bool become_other(void) { return !setgroups(0, NULL) && !setgid(4321) && !setuid(4321); }

static bool become_member(void)
{
	const gid_t group = 5432;

	return !setgroups(1, &group) && !setgid(4321) && !setuid(4321);
}

static void test_kinds(void)
{
	struct outside *o = outside_of_process(getpid());

	make("plain", "text", 0644);
	CHECK_EQ(mkfifo(in_dir("fifo"), 0666), 0);
	CHECK_EQ(symlink("fifo", in_dir("to_fifo")), 0);
	CHECK_EQ(symlink("plain", in_dir("to_plain")), 0);
	CHECK_EQ(opens(o, in_dir("plain")), 0);
	CHECK_EQ(opens(o, in_dir("to_plain")), 0);
	CHECK_EQ(opens(o, in_dir("fifo")), -EINVAL); /* and does not wait for a writer */
	CHECK_EQ(opens(o, in_dir("to_fifo")), -EINVAL);
	CHECK_EQ(opens(o, "/dev/null"), -EINVAL);
	CHECK_EQ(opens(o, "/etc"), -EINVAL);
	CHECK_EQ(opens(o, "/proc/self/maps"), -EMEDIUMTYPE);
	CHECK(opens(o, "/proc/self/exe") < 0 && opens(o, "/proc/self/fd/0") < 0);
	CHECK_EQ(opens(o, in_dir("none")), -ENOENT);
	CHECK_EQ(opens(o, "plain"), -ENOENT);
	make("large", "", 0644);
	CHECK_EQ(truncate(in_dir("large"), (off_t)10 << 30), 0);
	CHECK_EQ(opens(o, in_dir("large")), -EFBIG);
	outside_free(o);
}

/* A lease of the file's owner makes an ordinary open wait for most of a minute. */
static void test_lease(void)
{
	int fd, held;

	make("leased", "text", 0644);
	held = open(in_dir("leased"), O_RDWR | O_CLOEXEC);
	if (held < 0 || fcntl(held, F_SETLEASE, F_WRLCK)) {
		printf("# not tried: no leases here\n");
		close(held);
		return;
	}
	signal(SIGIO, SIG_IGN);
	fd = outside_open(NULL, in_dir("leased"), OUTSIDE_SOURCE);
	CHECK_EQ(fd, -EAGAIN);
	close(held);
}

static void test_rights(void)
{
	int dumpable = prctl(PR_GET_DUMPABLE), inherit;
	struct outside *o;
	pid_t pid;

	if (geteuid() != 0 || (pid = child_after(become_other)) < 0) {
		printf("# not tried: not root\n");
		return;
	}
	o = outside_of_process(pid);
	make("secret", "secret", 0600);
	make("group", "secret", 0640);
	CHECK_EQ(chown(in_dir("group"), 0, 5432), 0);
	make("theirs", "text", 0400);
	CHECK_EQ(chown(in_dir("theirs"), 4321, 0), 0);
	CHECK_EQ(chmod(dir, 0755), 0);
	CHECK_EQ(opens(o, in_dir("secret")), -EACCES);
	CHECK_EQ(opens(o, in_dir("group")), -EACCES);
	CHECK_EQ(opens(o, in_dir("theirs")), 0);
	CHECK_EQ(opens(o, in_dir("plain")), 0);
	CHECK_EQ(opens(NULL, in_dir("secret")), 0); /* ours are as they were */
	CHECK_EQ(setfsuid((uid_t)-1), 0);
	CHECK_EQ(prctl(PR_GET_DUMPABLE), dumpable);
	CHECK_EQ(prctl(PR_GET_PDEATHSIG, &inherit), 0);
	CHECK_EQ(chmod(dir, 0700), 0);
	CHECK_EQ(opens(o, in_dir("theirs")), -EACCES); /* the way there counts, too */
	CHECK_EQ(chmod(dir, 0755), 0);
	end(pid);
	CHECK_EQ(opens(o, in_dir("secret")), -EACCES); /* its last rights */
	CHECK_EQ(opens(o, in_dir("theirs")), 0);
	outside_free(o);
	pid = child_after(become_member);
	o = outside_of_process(pid);
	CHECK_EQ(opens(o, in_dir("group")), 0);
	CHECK_EQ(opens(o, in_dir("secret")), -EACCES);
	outside_ended(o);
	end(pid);
	CHECK_EQ(opens(o, in_dir("group")), 0);
	outside_free(o);
}

static void test_owner(void)
{
	struct outside *o = outside_of_owner(OUTSIDE_OURS);

	CHECK_EQ(opens(o, in_dir("plain")), 0);
	outside_free(o);
	if (geteuid() != 0)
		return;
	o = outside_of_owner(4321);
	CHECK_EQ(opens(o, in_dir("theirs")), 0);
	CHECK_EQ(opens(o, in_dir("secret")), -EACCES);
	CHECK_EQ(opens(o, in_dir("group")), -EACCES);
	outside_free(o);
	o = outside_of_owner(0);
	CHECK_EQ(opens(o, in_dir("secret")), 0);
	outside_free(o);
}

/*
 * A chroot's absolute links are meant inside of it; when its process is gone, its names mean
 * nothing.
 */
static void test_chroot(void)
{
	struct outside *o;
	char text[8] = "";
	pid_t pid;
	int fd;

	if (geteuid() != 0 || (pid = child_after(go_into_dir)) < 0) {
		printf("# not tried: not root\n");
		return;
	}
	make("passwd", "inside", 0600);
	CHECK_EQ(symlink("/passwd", in_dir("link")), 0);
	CHECK_EQ(symlink("../../../../etc/passwd", in_dir("out")), 0);
	o = outside_of_process(pid);
	fd = outside_open(o, "/link", 6);
	CHECK(fd >= 0 && read(fd, text, 6) == 6 && !memcmp(text, "inside", 6));
	close(fd);
	CHECK_EQ(opens(o, "/etc/passwd"), -ENOENT);
	CHECK_EQ(opens(o, "/out"), -ENOENT);
	CHECK_EQ(opens(o, "/../../etc/passwd"), -ENOENT);
	end(pid);
	CHECK_EQ(opens(o, "/link"), -EXDEV);
	CHECK_EQ(opens(o, "/etc/passwd"), -EXDEV);
	outside_free(o);
}

/* What a library opens with open(2) meanwhile goes the same way. */
static void test_entered(void)
{
	struct outside *o = outside_of_process(getpid());
	int fd;

	CHECK(outside_enter(o) == NULL);
	CHECK(open(in_dir("fifo"), O_RDONLY) == -1 && errno == EINVAL);
	CHECK(open("/proc/self/maps", O_RDONLY) == -1 && errno == EMEDIUMTYPE);
	fd = open(in_dir("plain"), O_RDONLY);
	CHECK(fd >= 0);
	close(fd);
	CHECK(outside_enter(NULL) == o);
	fd = open("/proc/self/maps", O_RDONLY);
	CHECK(fd >= 0);
	close(fd);
	outside_free(o);
}

static void test_gone(void)
{
	pid_t pid = child_after(nothing);
	struct outside *o = outside_of_process(pid);

	end(pid);
	CHECK_EQ(opens(o, in_dir("plain")), 0);
	outside_free(o);
	o = outside_of_process(0x7ffffff); /* never seen: no rights at all */
	CHECK_EQ(opens(o, in_dir("plain")), -EACCES);
	outside_free(o);
}

int main(void)
{
	char remove[80];

	strcpy(dir, "/tmp/test_outside.XXXXXX");
	if (!mkdtemp(dir))
		return 77;
	RUN(test_kinds);
	RUN(test_lease);
	RUN(test_rights);
	RUN(test_owner);
	RUN(test_chroot);
	RUN(test_entered);
	RUN(test_gone);
	snprintf(remove, sizeof(remove), "rm -rf %s", dir);
	if (system(remove))
		return 1;
	return test_status();
}
