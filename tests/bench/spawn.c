// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * spawn.c HOW CHILDREN - so many children, one after the other: HOW is `spawn` (posix_spawn of
 * /bin/true), `vfork` (vfork and execve of it) or `fork` (which ends at once). Prints the
 * milliseconds that one took.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static pid_t start(const char *how, char **child)
{
	pid_t pid = -1;

	if (!strcmp(how, "spawn")) {
		if (posix_spawn(&pid, child[0], NULL, NULL, child, environ))
			return -1;
	} else if (!strcmp(how, "vfork")) {
		pid = vfork();
		if (pid == 0) {
			execve(child[0], child, environ);
			_exit(127);
		}
	} else {
		pid = fork();
		if (pid == 0)
			_exit(0);
	}
	return pid;
}

int main(int argc, char **argv)
{
	static char program[] = "/bin/true";
	char *child[] = { program, NULL };
	int children = argc > 2 ? atoi(argv[2]) : 0, status;
	double began = now_ms();

	if (argc != 3 || children < 1) {
		fprintf(stderr, "usage: spawn spawn|vfork|fork CHILDREN\n");
		return 2;
	}
	for (int i = 0; i < children; i++) {
		pid_t pid = start(argv[1], child);

		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			perror("spawn");
			return 1;
		}
	}
	printf("%.3f\n", (now_ms() - began) / children);
	return 0;
}
