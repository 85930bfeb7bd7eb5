// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The session's loop waits for children of its own thread only, so the status of ours is ours to
 * take. posix_spawn, not fork: mtrun may be large, and a fork would make its pages copy-on-write
 * while the target is at its fastest.
 */
extern char **environ;

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

static int start(struct spawned *s, const char *command, int in, int out)
{
	char *const argv[] = { "sh", "-c", (char *)command, NULL };
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
		err = posix_spawn(&s->pid, "/bin/sh", &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

int spawn_shell(struct spawned *s, const char *command, int out, enum spawn_input input)
{
	int in[2] = { -1, -1 }, err, copy;

	*s = (struct spawned){ .input = -1, .status_fd = -1 };
	copy = fcntl(out, F_DUPFD_CLOEXEC, 10);
	if (copy < 0)
		return -errno;
	err = input == SPAWN_PIPE ? high_pipe(in) : 0;
	if (!err)
		err = start(s, command, input == SPAWN_OURS ? 0 : in[0], copy);
	if (!err) {
		s->status_fd = (int)syscall(SYS_pidfd_open, s->pid, 0);
		if (s->status_fd < 0) {
			err = -errno;
			kill(s->pid, SIGKILL);
			waitpid(s->pid, NULL, 0);
		}
	}
	if (in[0] >= 0)
		close(in[0]);
	if (!err)
		s->input = in[1];
	else if (in[1] >= 0)
		close(in[1]);
	close(copy);
	return err;
}

/* HOW: 0, or WNOHANG: if it has ended. */
static int take(struct spawned *s, int how)
{
	int status = 0;
	pid_t got;

	do
		got = waitpid(s->pid, &status, how);
	while (got < 0 && errno == EINTR);
	close(s->status_fd);
	s->status_fd = -1;
	if (got <= 0)
		return 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int spawn_status(struct spawned *s) { return take(s, 0); }

void spawn_leave(struct spawned *s) { take(s, WNOHANG); }
