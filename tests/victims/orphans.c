// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * orphans.c ROUNDS HOW - ROUNDS processes, one after the other: three threads of each fork as fast as
 * they can, until the first one ends them all, HOW: `exit`, or `exec` of /bin/true. So some forks are
 * under way then, and nobody is left to tell of what they make. Each child ends at once.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *forks(void *arg)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0) {
			free(malloc(100));
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	return arg;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	int exec = argc > 2 && !strcmp(argv[2], "exec");

	for (int i = 0; i < rounds; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pthread_t t;

			for (int k = 0; k < 3; k++)
				pthread_create(&t, NULL, forks, NULL);
			usleep(1000 + (unsigned)i * 37 % 3000);
			if (exec)
				execl("/bin/true", "true", NULL);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	puts("fine");
	return 0;
}
