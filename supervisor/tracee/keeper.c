// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/proc.h"

/*
 * The keeper gets messages by a socket: HOLD, with a descriptor, a terminal to hold; LEFT, mtrun
 * leaves; HUNG_UP, the user's terminal was closed; ALTERNATE or NORMAL, which of its screens is
 * shown. The socket's end without LEFT or HUNG_UP is mtrun's death.
 *
 * The kernel closes a dead process' files before it tells the parent, so the keeper is woken before
 * the shell that started mtrun. On a busy machine the shell can be faster all the same: then its
 * prompt is on the alternate screen. A change of the window's size, which is taken back, makes it
 * print the prompt again. (SIGWINCH alone is not enough for readline.)
 *
 * The keeper leads a session of its own: nothing that is typed, and no end of the user's session,
 * reaches it; and it may write to a terminal that is not its controlling one at any time.
 */
enum { USER = 0, SOCKET = 1, MASTER = 2 }; /* its only descriptors */
enum { HOLD = 'h', LEFT = 'q', HUNG_UP = 'u', ALTERNATE = 'a', NORMAL = 'n' }; /* messages */

/* Who started mtrun: the session, and the process group that is mtrun's in it. */
struct user {
	pid_t session, group;
};

/* The next message, with its descriptor in *FD or -1; 0: mtrun is gone. */
static int receive(int *fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(SOCKET, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*fd = -1;
	if (n <= 0)
		return 0;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return byte;
}

/* False: the user's terminal is gone. */
static bool put(const char *text, ssize_t len)
{
	while (len > 0) {
		ssize_t n = write(USER, text, (size_t)len);
		struct pollfd p = { .fd = USER, .events = POLLOUT };

		if (n > 0) {
			text += n;
			len -= n;
		} else if (n < 0 && errno == EAGAIN) {
			poll(&p, 1, -1);
			if (p.revents & (POLLERR | POLLHUP))
				return false;
		} else if (n < 0 && errno != EINTR) {
			return false;
		}
	}
	return true;
}

/*
 * Whether the program's terminal has a session: a program that has closed the terminal may still be
 * in it, and would be hung up.
 */
static bool has_session(void)
{
	pid_t sid;

	return ioctl(MASTER, TIOCGSID, &sid) == 0 && sid > 0;
}

/* Passes on what the program prints, until no process has its terminal any more. */
static void relay(void)
{
	struct pollfd p = { .fd = MASTER, .events = POLLIN };
	bool heard = true;
	char text[4096];
	ssize_t n;

	for (;;) {
		n = read(MASTER, text, sizeof(text));
		if (n > 0)
			heard = heard && put(text, n);
		else if (n < 0 && errno == EAGAIN)
			poll(&p, 1, -1);
		else if (n < 0 && errno == EIO && has_session())
			usleep(200000);
		else if (n == 0 || errno != EINTR)
			return;
	}
}

/* The foreground process group of the terminal of the session SID; -1: nobody knows. */
static pid_t foreground(pid_t sid)
{
	char *text, *end;
	int tpgid;

	if (proc_read(sid, "stat", &text) < 0)
		return -1;
	end = strrchr(text, ')'); /* proc(5): then state, ppid, pgrp, session, tty_nr, tpgid */
	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %d", &tpgid) != 1)
		tpgid = -1;
	free(text);
	return tpgid;
}

#define RESIZED_US 50000 /* for the shell to see it */

static void redraw(void)
{
	struct winsize size, other, now;

	if (ioctl(USER, TIOCGWINSZ, &size) < 0 || size.ws_row < 2)
		return;
	other = size;
	other.ws_row--;
	ioctl(USER, TIOCSWINSZ, &other);
	usleep(RESIZED_US);
	if (ioctl(USER, TIOCGWINSZ, &now) == 0 && memcmp(&now, &other, sizeof(now)) == 0)
		ioctl(USER, TIOCSWINSZ, &size);
}

/* The normal screen, with the prompt of whoever has the terminal now. */
static void show_normal(const struct user *u)
{
	pid_t group;

	put(TERMINAL_NORMAL, (ssize_t)strlen(TERMINAL_NORMAL));
	group = foreground(u->session);
	if (group > 0 && group != u->group)
		redraw();
}

static _Noreturn void keep(const struct termios *saved, const struct user *u)
{
	bool left = false, holding = false, alternate = false;
	int fd, message;

	while ((message = receive(&fd))) {
		if (message == HUNG_UP)
			_exit(0);
		if (fd < 0) {
			left |= message == LEFT;
			alternate = message == ALTERNATE;
			continue;
		}
		if (fd != MASTER) { /* it is the first, and got the number by itself */
			dup3(fd, MASTER, O_CLOEXEC);
			close(fd);
		}
		holding = true;
	}
	if (!left)
		tcsetattr(USER, TCSANOW, saved);
	if (alternate)
		show_normal(u);
	if (holding)
		relay();
	_exit(0);
}

/*
 * Moves the keeper's descriptors to their places and closes all others, so that nobody waits in
 * vain for the end of a pipe that we were given.
 */
static void move_in(int user, int end)
{
	int own = fcntl(user, F_DUPFD_CLOEXEC, 3), socket = fcntl(end, F_DUPFD_CLOEXEC, 3);

	dup2(own, USER);
	dup2(socket, SOCKET);
	close_range(2, ~0u, 0);
}

int keeper_start(int user, const struct termios *saved)
{
	struct user u = { .session = getsid(0), .group = getpgrp() };
	int end[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		setsid();
		for (int sig = 1; sig < 32; sig++)
			signal(sig, SIG_IGN);
		prctl(PR_SET_NAME, KEEPER_NAME);
		if (chdir("/") == 0)
			move_in(user, end[1]);
		keep(saved, &u);
	}
	close(end[1]);
	if (pid > 0)
		return end[0];
	close(end[0]);
	return -errno;
}

int keeper_hold(int keeper, int master)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)) } };
	char message = HOLD;
	struct iovec iov = { &message, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.head), &master, sizeof(master));
	return sendmsg(keeper, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void keeper_screen(int keeper, bool alternate)
{
	char message = alternate ? ALTERNATE : NORMAL;

	send(keeper, &message, 1, MSG_NOSIGNAL);
}

void keeper_leave(int keeper)
{
	char message = LEFT;

	send(keeper, &message, 1, MSG_NOSIGNAL);
	close(keeper);
}

#define GONE_MS 1000

void keeper_end(int keeper)
{
	struct pollfd p = { .fd = keeper, .events = POLLIN };
	char message = HUNG_UP;

	if (send(keeper, &message, 1, MSG_NOSIGNAL) > 0)
		poll(&p, 1, GONE_MS);
	close(keeper);
}
