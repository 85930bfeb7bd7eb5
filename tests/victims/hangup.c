// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * hangup - hangup MODE FILE: appends to FILE what its terminal's end does to it: `HUP`, `CONT`, `end` (nothing can be read any more), a line each with
 * its process id before. It begins with `up`. MODE: default (SIGHUP has its default action), ignore, handle (the handler writes the line and returns).
 * MODE child: a child in a background group of its own does as handle, the parent as default. MODE stop: as handle, and stops itself first.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int out;

static void say(const char *what)
{
	char line[64];

	if (write(out, line, (size_t)snprintf(line, sizeof(line), "%d %s\n", (int)getpid(), what)) < 0)
		_exit(1);
}

static void on_signal(int sig)
{
	int err = errno;

	say(sig == SIGHUP ? "HUP" : "CONT");
	errno = err;
}

static void handle(void)
{
	signal(SIGHUP, on_signal);
	signal(SIGCONT, on_signal);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "default";
	char byte;
	ssize_t n;

	out = open(argc > 2 ? argv[2] : "hangup.log", O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (!strcmp(mode, "ignore"))
		signal(SIGHUP, SIG_IGN);
	if (!strcmp(mode, "handle") || !strcmp(mode, "stop"))
		handle();
	if (!strcmp(mode, "child") && fork() == 0) {
		setpgid(0, 0);
		handle();
		say("up");
		for (;;) {
			free(malloc(100));
			usleep(1000);
		}
	}
	say("up");
	if (!strcmp(mode, "stop"))
		raise(SIGSTOP);
	while ((n = read(0, &byte, 1)) > 0 || (n < 0 && errno == EINTR))
		free(malloc((unsigned char)byte));
	say("end");
	for (;;)
		pause();
}
