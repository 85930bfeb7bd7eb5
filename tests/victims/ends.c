// SPDX-License-Identifier: GPL-3.0-or-later
/* ends.c - exits or dies as told: `exit N`, `signal N`, `stop` (itself, then exits 7), `wait` (prints ready; TERM 11, HUP 12, USR2 13, INT 14, else 15). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void leave(int sig)
{
	_exit(sig == SIGTERM ? 11 : sig == SIGHUP ? 12 : sig == SIGUSR2 ? 13 : sig == SIGINT ? 14 : 15);
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 0;
	char *volatile p = malloc(100);
	p[0] = 1;
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "exit"))
		return n;
	if (!strcmp(argv[1], "signal")) {
		struct rlimit none = {0, 0};
		setrlimit(RLIMIT_CORE, &none);
		kill(getpid(), n);
		for (;;)
			pause();
	}
	if (!strcmp(argv[1], "stop")) {
		raise(SIGSTOP);
		return 7;
	}
	for (int i = 1; i < 32; i++)
		if (i != SIGCHLD && i != SIGCONT && i != SIGTSTP && i != SIGKILL && i != SIGSTOP)
			signal(i, leave);
	if (write(1, "ready\n", 6) != 6)
		return 3;
	for (;;)
		free(malloc(100)), usleep(1000);
}
