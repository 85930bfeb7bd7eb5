// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * surroundings.c - says everything that a program can see of how it was started, for comparison with and without mtrun. Numbers that differ from run to
 * run (process ids) are given by their relations.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

static void fds(void)
{
	for (int fd = 0; fd < 4096; fd++) {
		char link[64], to[4096];
		int flags = fcntl(fd, F_GETFD);
		if (flags < 0)
			continue;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		printf("fd %d -> %s, flags %d, status %#x, at %ld\n", fd, to, flags, fcntl(fd, F_GETFL), (long)lseek(fd, 0, SEEK_CUR));
	}
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d)); )
		n += isdigit(e->d_name[0]);
	printf("fds %d\n", n);
	if (d)
		closedir(d);
}

static void signals(void)
{
	sigset_t set;
	sigprocmask(SIG_BLOCK, NULL, &set);
	for (int i = 1; i < NSIG; i++) {
		struct sigaction a;
		if (sigaction(i, NULL, &a))
			continue;
		const char *h = a.sa_handler == SIG_DFL ? "default" : a.sa_handler == SIG_IGN ? "ignored" : "handled";
		if (a.sa_handler != SIG_DFL || sigismember(&set, i) == 1)
			printf("signal %d %s flags %#x blocked %d\n", i, h, a.sa_flags, sigismember(&set, i));
	}
	sigpending(&set);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&set, i) == 1)
			printf("signal %d pending\n", i);
}

static void limits(void)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit l;
		if (!getrlimit((__rlimit_resource_t)i, &l))
			printf("rlimit %d %ld %ld\n", i, (long)l.rlim_cur, (long)l.rlim_max);
	}
	printf("nice %d scheduler %d\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
	cpu_set_t cpus;
	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		printf("cpus %d\n", CPU_COUNT(&cpus));
	struct itimerval t;
	for (int i = 0; i < 3; i++)
		if (!getitimer((__itimer_which_t)i, &t))
			printf("timer %d %ld\n", i, (long)t.it_value.tv_sec);
}

static void status(void)
{
	static const char *const keep[] = {"Umask", "Uid", "Gid", "Groups", "Seccomp", "NoNewPrivs", "Threads", "SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn",
		"SigCgt", "Cap", "Cpus_allowed", "Mems_allowed:", "FDSize", "Speculation", "CoreDumping", "THP"};
	FILE *f = fopen("/proc/self/status", "r");
	char line[1024];
	while (f && fgets(line, sizeof(line), f))
		for (unsigned i = 0; i < sizeof(keep) / sizeof(*keep); i++)
			if (!strncmp(line, keep[i], strlen(keep[i])) && strncmp(line, "SigQ", 4))
				printf("status %s", line);
	if (f)
		fclose(f);
	static const char *const files[] = {"oom_score_adj", "coredump_filter", "comm", "cmdline", "timerslack_ns", "personality", "loginuid", "cgroup"};
	for (unsigned i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/%s", files[i]);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
		if (fd >= 0)
			close(fd);
		for (ssize_t j = 0; j < n; j++)
			line[j] = line[j] ? line[j] : '|';
		line[n > 0 ? n : 0] = 0;
		printf("%s: %s\n", files[i], line);
	}
}

int main(int argc, char **argv)
{
	char buf[4096];
	struct stat st;
	int sig;

	fds();
	for (int i = 0; i < argc; i++)
		printf("argv %d '%s'\n", i, argv[i]);
	for (char **e = environ; *e; e++)
		printf("environ '%s'\n", *e);
	printf("cwd %s\n", getcwd(buf, sizeof(buf)));
	mode_t m = umask(022);
	printf("umask %03o\n", m);
	ssize_t n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = 0;
	printf("exe %s\n", buf);
	printf("AT_EXECFN %s\n", (char *)getauxval(AT_EXECFN));
	printf("AT_SECURE %ld, uid %d %d, gid %d %d\n", getauxval(AT_SECURE), getuid(), geteuid(), getgid(), getegid());
	signals();
	limits();
	status();
	printf("group: leader %d, same as session %d, session leader %d\n", getpgrp() == getpid(), getpgrp() == getsid(0), getsid(0) == getpid());
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	printf("terminal %d foreground %d\n", tty >= 0, tty >= 0 && tcgetpgrp(tty) == getpgrp());
	for (int i = 0; i < 3; i++)
		printf("isatty %d %d\n", i, isatty(i));
	printf("dumpable %d, keepcaps %d, subreaper %d\n", prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS), (prctl(PR_GET_CHILD_SUBREAPER, &sig), sig));
	sig = -1;
	prctl(PR_GET_PDEATHSIG, &sig);
	printf("pdeathsig %d timerslack %d thp %d\n", sig, prctl(PR_GET_TIMERSLACK), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	printf("personality %#x\n", personality(0xffffffff));
	prctl(PR_GET_NAME, buf);
	printf("name %s\n", buf);
	if (!fstat(0, &st) && S_ISREG(st.st_mode) | S_ISFIFO(st.st_mode)) {
		n = read(0, buf, sizeof(buf));
		printf("stdin %zd bytes: %.*s\n", n, (int)(n > 0 ? n : 0), buf);
	}
	fprintf(stderr, "this goes to stderr\n");
	return 0;
}
