// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tracee/keeper.h"

/*
 * Two terminals. The user's is opened anew, so that it can be written to without waiting and
 * without changing how the shell that started us finds it. The program's is a pty with the same
 * settings and size. It is a new one for each start: when a session's leader ends, the kernel hangs
 * its terminal up.
 *
 * When the user's terminal is closed, the program's is closed too, by us and by the keeper: the
 * kernel hangs it up, and the program's session finds it as it would have found the user's. Its
 * leader gets SIGHUP and SIGCONT by that, its foreground group gets them from us.
 */

/* Compares terminals, not files: /dev/tty may be the same terminal. */
static bool same_terminal(int fd, unsigned user)
{
	unsigned device;

	return ioctl(fd, TIOCGDEV, &device) == 0 && device == user;
}

static int open_again(int fd)
{
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (again < 0) /* it may be another user's: then the open descriptor is used */
		again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return again < 0 ? -errno : again;
}

int terminal_open(struct terminal *t, bool program)
{
	unsigned device;
	int err;

	*t = (struct terminal){ .user = -1, .master = -1, .slave = -1, .keeper = -1 };
	if (tcgetattr(0, &t->saved) < 0 || ioctl(0, TIOCGDEV, &device) < 0)
		return -errno;
	t->user = open_again(0);
	if (t->user < 0)
		return t->user;
	for (int fd = 0; fd < 3; fd++)
		if (same_terminal(fd, device))
			t->shared |= 1u << fd;
	t->keeper = keeper_start(t->user, &t->saved);
	err = t->keeper < 0 ? t->keeper : program ? terminal_renew(t) : 0;
	if (err)
		terminal_close(t);
	return err;
}

static int make(struct terminal *t)
{
	char name[64];

	t->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->master < 0 || grantpt(t->master) < 0 || unlockpt(t->master) < 0)
		return -errno;
	fcntl(t->master, F_SETFL, O_NONBLOCK);
	if (ptsname_r(t->master, name, sizeof(name)))
		return -errno;
	free(t->name);
	t->name = strdup(name);
	t->slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (!t->name || t->slave < 0)
		return t->name ? -errno : -ENOMEM;
	tcsetattr(t->slave, TCSANOW, &t->saved);
	terminal_resized(t);
	return keeper_hold(t->keeper, t->master);
}

static void close_pty(struct terminal *t)
{
	if (t->slave >= 0)
		close(t->slave);
	if (t->master >= 0)
		close(t->master);
	t->slave = t->master = -1;
}

int terminal_renew(struct terminal *t)
{
	int err;

	close_pty(t);
	err = make(t);
	if (err)
		close_pty(t);
	return err;
}

void terminal_enter(const struct terminal *t)
{
	int fd;

	setsid();
	fd = open(t->name, O_RDWR);
	if (fd < 0)
		return;
	ioctl(fd, TIOCSCTTY, 0);
	for (int i = 0; i < 3; i++)
		if (t->shared & 1u << i)
			dup2(fd, i);
	if (fd > 2)
		close(fd);
}

bool terminal_is_gone(const struct terminal *t, int ms)
{
	struct pollfd p = { .fd = t->user };

	return poll(&p, 1, ms) > 0;
}

void terminal_hang_up(struct terminal *t)
{
	pid_t group;

	if (t->master < 0)
		return;
	if (ioctl(t->master, TIOCGPGRP, &group) < 0)
		group = 0;
	keeper_end(t->keeper);
	t->keeper = -1;
	close_pty(t);
	if (group > 1 && kill(-group, SIGHUP) == 0)
		kill(-group, SIGCONT);
}

bool terminal_controls(void)
{
	int fd = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void terminal_resized(const struct terminal *t)
{
	struct winsize size;

	if (ioctl(t->user, TIOCGWINSZ, &size) == 0)
		ioctl(t->master, TIOCSWINSZ, &size);
}

void terminal_size(const struct terminal *t, unsigned *rows, unsigned *columns)
{
	struct winsize size = { 0 };

	ioctl(t->user, TIOCGWINSZ, &size);
	*rows = size.ws_row ? size.ws_row : 24;
	*columns = size.ws_col ? size.ws_col : 80;
}

void terminal_mode(struct terminal *t, enum terminal_mode mode)
{
	struct termios tio = t->saved;

	t->mode = mode;

	if (mode == TERMINAL_RAW) {
		cfmakeraw(&tio);
	} else if (mode == TERMINAL_KEYS) {
		tio.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tio.c_cc[VMIN] = 1;
		tio.c_cc[VTIME] = 0;
	}
	tcsetattr(t->user, TCSADRAIN, &tio);
}

const char *terminal_switch(const struct terminal *t, bool alternate)
{
	keeper_screen(t->keeper, alternate);
	return alternate ? TERMINAL_ALTERNATE : TERMINAL_NORMAL;
}

void terminal_write(const struct terminal *t, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(t->user, text, len);
		struct pollfd p = { .fd = t->user, .events = POLLOUT };

		if (n > 0) {
			text += n;
			len -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			poll(&p, 1, -1);
			if (p.revents & (POLLERR | POLLHUP))
				return;
		} else if (n < 0 && errno != EINTR) {
			return;
		}
	}
}

void terminal_close(struct terminal *t)
{
	if (t->user >= 0) {
		tcsetattr(t->user, TCSADRAIN, &t->saved);
		close(t->user);
	}
	if (t->keeper >= 0)
		keeper_leave(t->keeper);
	close_pty(t);
	free(t->name);
	*t = (struct terminal){ .user = -1, .master = -1, .slave = -1, .keeper = -1 };
}
