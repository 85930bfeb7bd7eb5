// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * past.c - memory of 50 MB that a limit does not count, by way of argument 1, or that it does.
 * Prints what it did, and a child's number; ends when standard input does. `before`: the child is
 * there, "ready" is printed, and only a later one is printed as `child`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (50ul << 20)

static int child(void *arg)
{
	if (arg)
		memset(malloc(SIZE), 1, SIZE);
	for (;;)
		pause();
}

static pid_t start(int flags, void *arg)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return clone(child, stack + 65536, flags | SIGCHLD, arg);
}

static void *of_file(int fd, int flags)
{
	if (fd < 0 || ((flags & MAP_SHARED) && ftruncate(fd, SIZE)))
		exit(2);
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
}

static void *mapped(const char *how, const char *file)
{
	if (!strcmp(how, "devzero"))
		return of_file(open("/dev/zero", O_RDWR), MAP_PRIVATE);
	if (!strcmp(how, "memfd"))
		return of_file(memfd_create("past", 0), MAP_SHARED);
	if (!strcmp(how, "shm")) {
		int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
		void *at = shmat(id, NULL, 0);

		shmctl(id, IPC_RMID, NULL);
		return at;
	}
	if (!strcmp(how, "file"))
		return of_file(open(file, O_RDWR | O_CREAT, 0600), MAP_SHARED);
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

int main(int argc, char **argv)
{
	const char *how = argv[1];
	pid_t pid = 0, early = 0;
	char c;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(how, "before")) {
		early = start(CLONE_UNTRACED, NULL);
		puts("ready");
		(void)!read(0, &c, 1);
	}
	if (!strcmp(how, "untraced") || early)
		pid = start(CLONE_UNTRACED, argv);
	else if (!strcmp(how, "traced"))
		pid = start(0, NULL);
	else
		memset(mapped(how, argv[argc - 1]), 1, SIZE);
	printf("child %d\n", (int)pid);
	while (read(0, &c, 1) > 0)
		;
	if (pid)
		kill(pid, SIGKILL);
	if (early)
		kill(early, SIGKILL);
	return 0;
}
