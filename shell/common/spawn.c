/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/common/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The session's loop waits for any child, so the status of ours may be taken by it. Therefore an
 * outer /bin/sh runs the command in an inner one and writes the inner one's status into a pipe: its
 * end of file without a status means that the outer one was killed. posix_spawn, not fork: mtrun
 * may be large, and a fork would make its pages copy-on-write while the target is at its fastest.
 */
extern char **environ;

#define STATUS_FD 3
static const char script[] = "/bin/sh -c \"$1\" 3>&-; echo $? >&3";

static void reset_signals(posix_spawnattr_t *attr)
{
	sigset_t set;

	sigemptyset(&set);
	posix_spawnattr_setsigmask(attr, &set);
	for (int sig = 1; sig < 32; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			sigaddset(&set, sig);
	posix_spawnattr_setsigdefault(attr, &set);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* Both ends at 10 or above: out of the way of the numbers that the child's streams get. */
static int high_pipe(int fd[2])
{
	int low[2], err = 0;

	if (pipe2(low, O_CLOEXEC))
		return -errno;
	fd[0] = fcntl(low[0], F_DUPFD_CLOEXEC, 10);
	fd[1] = fcntl(low[1], F_DUPFD_CLOEXEC, 10);
	if (fd[0] < 0 || fd[1] < 0)
		err = -EMFILE;
	close(low[0]);
	close(low[1]);
	if (err) {
		if (fd[0] >= 0)
			close(fd[0]);
		if (fd[1] >= 0)
			close(fd[1]);
	}
	return err;
}

static int start(struct spawned *s, const char *command, int in, int out, int status)
{
	char *const argv[] = { "sh", "-c", (char *)script, "sh", (char *)command, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int err;

	if (posix_spawn_file_actions_init(&actions))
		return -ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	reset_signals(&attr);
	if (in == 0)
		err = 0;
	else if (in > 0)
		err = posix_spawn_file_actions_adddup2(&actions, in, 0);
	else
		err = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&actions, status, STATUS_FD);
	if (!err)
		err = posix_spawn(&s->pid, "/bin/sh", &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

int spawn_shell(struct spawned *s, const char *command, int out, enum spawn_input input)
{
	int in[2] = { -1, -1 }, status[2], err, copy;

	*s = (struct spawned){ .input = -1, .status_fd = -1 };
	copy = fcntl(out, F_DUPFD_CLOEXEC, 10);
	if (copy < 0)
		return -errno;
	err = high_pipe(status);
	if (err)
		goto no_status;
	if (input == SPAWN_PIPE) {
		err = high_pipe(in);
		if (err)
			goto no_input;
	}
	err = start(s, command, input == SPAWN_OURS ? 0 : in[0], copy, status[1]);
	if (in[0] >= 0)
		close(in[0]);
	if (!err) {
		s->input = in[1];
		s->status_fd = status[0];
	} else if (in[1] >= 0) {
		close(in[1]);
	}
no_input:
	if (err)
		close(status[0]);
	close(status[1]);
no_status:
	close(copy);
	return err;
}

int spawn_status(struct spawned *s)
{
	char text[16];
	ssize_t n = read(s->status_fd, text, sizeof(text) - 1);

	close(s->status_fd);
	s->status_fd = -1;
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (n < 0)
		n = 0;
	text[n] = '\0';
	return n ? atoi(text) : 128 + SIGKILL;
}
