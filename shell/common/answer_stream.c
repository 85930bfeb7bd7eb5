// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/answer_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "session/asking.h"
#include "shell/common/shell.h"

/*
 * What a report of 10^5 stacks prints, a gigabyte, takes seconds; a pipe's reader may be slow; and
 * the kernel may make a caller sleep while the disk is behind, also when a large file is cut off or
 * closed. The profile that is printed is a copy, so nobody need wait for that but who has asked.
 *
 * A command that prints with the session locked is in the middle of something, and does not expect
 * that anything changes. So what it prints then is kept until the session is unlocked, or the
 * command has ended.
 */
#define PIECE	(64u << 10) /* as much as a pipe takes */
#define WAIT_MS 50	    /* a slow reader is waited for; Ctrl-C is looked for this often */

struct answer {
	struct shell *shell;
	int fd;
	int err; /* why it could not be written: what fclose() says */
	char *kept;
	size_t len, room;
	char buffer[PIECE];
};

/* message_stream()'s. */
static struct answer messages;

/* Less than LEN, with errno: it failed, or the user has enough. */
static size_t put(struct shell *shell, int fd, const char *text, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	size_t done = 0;
	int err = 0;

	asking_unlock(shell->session);
	while (done < len) {
		ssize_t n;

		if (shell_interrupted(shell)) {
			err = EINTR;
			break;
		}
		if (poll(&p, 1, WAIT_MS) == 0)
			continue;
		n = write(fd, text + done, len - done < PIECE ? len - done : PIECE);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0) {
			err = errno;
			break;
		}
		done += (size_t)n;
	}
	asking_lock(shell->session);
	errno = err;
	return done;
}

static bool keep(struct answer *a, const char *text, size_t len)
{
	while (a->room - a->len < len)
		if (array_room(&a->kept, a->room, &a->room, 1))
			return false;
	memcpy(a->kept + a->len, text, len);
	a->len += len;
	return true;
}

/* What was kept goes out. */
static bool catch_up(struct answer *a)
{
	size_t len = a->len;
	char *text = a->kept;
	bool whole;

	a->kept = NULL;
	a->len = a->room = 0;
	errno = 0;
	whole = !len || put(a->shell, a->fd, text, len) == len;
	free(text);
	return whole;
}

static ssize_t answer_write(void *cookie, const char *text, size_t len)
{
	struct answer *a = cookie;
	size_t done = 0;

	if (a->shell->at_work && !asking_is_unlocked()) {
		errno = ENOMEM;
		done = keep(a, text, len) ? len : 0;
	} else if (catch_up(a)) {
		done = put(a->shell, a->fd, text, len);
	}
	if (done < len)
		a->err = errno;
	return (ssize_t)done; /* 0: an error, to stdio */
}

static int answer_close(void *cookie)
{
	struct answer *a = cookie;
	int err;

	if (!catch_up(a))
		a->err = errno;
	asking_unlock(a->shell->session);
	err = close(a->fd);
	asking_lock(a->shell->session);
	if (a->err) {
		errno = a->err;
		err = -1;
	}
	free(a);
	return err;
}

FILE *answer_open(struct shell *shell, int fd)
{
	struct answer *a = malloc(sizeof(*a));
	FILE *f = a ? fopencookie(a, "w",
				  (cookie_io_functions_t){ .write = answer_write,
							   .close = answer_close })
		    : NULL;

	if (!f) {
		free(a);
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	a->shell = shell;
	a->fd = fd;
	a->err = 0;
	a->kept = NULL;
	a->len = a->room = 0;
	setvbuf(f, a->buffer, _IOFBF, sizeof(a->buffer));
	return f;
}

int answer_create(struct shell *shell, const char *path, bool append)
{
	int fd;

	asking_unlock(shell->session);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0666);
	asking_lock(shell->session);
	return fd < 0 ? -errno : fd;
}

struct layout answer_layout(int fd)
{
	struct winsize size = { 0 };

	if (!isatty(fd))
		return (struct layout){ 0 };
	ioctl(fd, TIOCGWINSZ, &size);
	return (struct layout){ .columns = size.ws_col > 1 ? size.ws_col : 80,
				.unicode = layout_unicode() };
}

static bool divert(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	if (answer_write(&messages, text, len) == (ssize_t)len)
		return true;
	message_lose(messages.err);
	return false;
}

void answer_messages(struct shell *shell)
{
	if (!shell)
		answer_flush(messages.shell);
	message_divert(shell ? divert : NULL, NULL);
	messages.shell = shell;
	messages.fd = message_fd();
}

void answer_flush(struct shell *shell)
{
	bool at_work = shell->at_work;

	shell->at_work = false;
	message_flush();
	if (messages.shell == shell && !catch_up(&messages))
		message_lose(errno);
	shell->at_work = at_work;
}
