/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "breathing.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "../supervisor/message.h"
#include "command.h"

/*
 * What a report of 10^5 stacks prints, a gigabyte, takes seconds. Its profile is a copy, so with each piece that is written the session's loop may turn:
 * the program goes on at its own speed. Where the reader is slow, its pipe is waited for in the same way, until the user has enough.
 */
#define PIECE   (64u << 10)		/* as much as a pipe takes; made and written within a millisecond */
#define WAIT_MS 1

struct breathing {
	struct shell *shell;
	int fd;
	int err;			/* why it could not be written: what fclose() says */
	char buffer[PIECE];
};

/* Less than LEN, with errno: it failed, or the user has enough. */
static size_t put(struct shell *shell, int fd, const char *text, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	size_t done = 0;

	session_breathe(shell->session);
	while (done < len) {
		ssize_t n;

		if (shell_interrupted(shell)) {
			errno = EINTR;
			break;
		}
		if (poll(&p, 1, 0) == 0) {
			session_breathe(shell->session);
			poll(&p, 1, WAIT_MS);
			continue;
		}
		n = write(fd, text + done, len - done < PIECE ? len - done : PIECE);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static ssize_t breathing_write(void *cookie, const char *text, size_t len)
{
	struct breathing *b = cookie;
	size_t done = put(b->shell, b->fd, text, len);

	if (done < len)
		b->err = errno;
	return (ssize_t)done;		/* 0: an error, to stdio */
}

static int breathing_close(void *cookie)
{
	struct breathing *b = cookie;
	int err = close(b->fd);

	if (b->err) {
		errno = b->err;
		err = -1;
	}
	free(b);
	return err;
}

FILE *breathing_open(struct shell *shell, int fd)
{
	struct breathing *b = malloc(sizeof(*b));
	FILE *f = b ? fopencookie(b, "w", (cookie_io_functions_t){ .write = breathing_write, .close = breathing_close }) : NULL;

	if (!f) {
		free(b);
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	b->shell = shell;
	b->fd = fd;
	b->err = 0;
	setvbuf(f, b->buffer, _IOFBF, sizeof(b->buffer));
	return f;
}

static bool divert(void *ctx, const char *text, size_t len)
{
	return put(ctx, message_fd(), text, len) == len;
}

void breathing_messages(struct shell *shell)
{
	message_divert(shell ? divert : NULL, shell);
}
