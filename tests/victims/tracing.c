// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * tracing - a program that traces processes itself. tracing MODE prints what came of it, natively and here the same:
 *   traceme  a child by fork makes itself traced, stops, and ends with 7: `stopped by 19`, `exit 7`
 *   vfork    the same by vfork and exec: `stopped by 5`, `exit 7`
 *   syscall  as traceme, by syscall(2): the same lines
 *   seize    a child with three threads that allocate is seized, interrupted, and let go: `seized`, `exit 7`
 *   attach   the same by PTRACE_ATTACH: `attached`, `exit 7`
 *   parent   a child seizes its parent and lets it go: `seized`, `exit 7`
 *   self     PTRACE_TRACEME of the program itself: `traceme 0`
 *   many     as traceme, 30 children at a time
 * Before, and at the end, it allocates 100 blocks of 1000 bytes and frees them.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *self;

static void work(void)
{
	for (int i = 0; i < 100; i++) {
		void *volatile p = malloc(1000);

		free(p);
	}
}

static _Noreturn void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void follow(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) == pid) {
		if (!WIFSTOPPED(status)) {
			printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
			return;
		}
		printf("stopped by %d\n", WSTOPSIG(status));
		ptrace(PTRACE_CONT, pid, NULL, NULL);
	}
	die("waitpid");
}

static _Noreturn void traced_child(int by_syscall)
{
	work();
	if (by_syscall ? syscall(SYS_ptrace, (long)PTRACE_TRACEME, 0L, 0L, 0L) : ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(errno);
	raise(SIGSTOP);
	work();
	_exit(7);
}

static void by_fork(int by_syscall)
{
	pid_t pid = fork();

	if (pid == 0)
		traced_child(by_syscall);
	follow(pid);
}

static void by_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(errno);
		execl(self, self, "end", NULL);
		_exit(99);
	}
	follow(pid);
}

static void many(void)
{
	pid_t pid[30];

	for (int i = 0; i < 30; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			traced_child(i % 2);
	}
	for (int i = 0; i < 30; i++)
		follow(pid[i]);
}

static void *allocate(void *unused)
{
	for (;;)
		work();
	return unused;
}

/* Its end comes with a byte from us. */
static pid_t busy_child(int *tell)
{
	int fd[2];
	pid_t pid;
	char byte;

	if (pipe(fd))
		die("pipe");
	pid = fork();
	if (pid == 0) {
		pthread_t t;

		for (int i = 0; i < 3; i++)
			pthread_create(&t, NULL, allocate, NULL);
		while (read(fd[0], &byte, 1) < 0 && errno == EINTR)
			;
		_exit(7);
	}
	*tell = fd[1];
	return pid;
}

static void seize(pid_t pid, int attach)
{
	int status;

	if (ptrace(attach ? PTRACE_ATTACH : PTRACE_SEIZE, pid, NULL, NULL))
		die("seize");
	if (!attach && ptrace(PTRACE_INTERRUPT, pid, NULL, NULL))
		die("interrupt");
	if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
		die("wait");
	puts(attach ? "attached" : "seized");
	fflush(stdout);
	if (ptrace(PTRACE_DETACH, pid, NULL, NULL))
		die("detach");
}

static void running(int attach)
{
	int tell, status;
	pid_t pid = busy_child(&tell);

	usleep(50000);
	seize(pid, attach);
	if (write(tell, "", 1) != 1 || waitpid(pid, &status, 0) != pid)
		die("end");
	printf("exit %d\n", WEXITSTATUS(status));
}

static void parent(void)
{
	pid_t pid, of = getpid();
	int status;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid = fork();
	if (pid == 0) {
		seize(of, 0);
		_exit(7);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	printf("exit %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "self";

	setvbuf(stdout, NULL, _IOLBF, 4096);
	self = argv[0];
	if (!strcmp(mode, "end"))
		return 7;
	work();
	if (!strcmp(mode, "traceme") || !strcmp(mode, "syscall"))
		by_fork(!strcmp(mode, "syscall"));
	else if (!strcmp(mode, "vfork"))
		by_vfork();
	else if (!strcmp(mode, "many"))
		many();
	else if (!strcmp(mode, "seize") || !strcmp(mode, "attach"))
		running(!strcmp(mode, "attach"));
	else if (!strcmp(mode, "parent"))
		parent();
	else
		printf("traceme %ld\n", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	work();
	return 3;
}
