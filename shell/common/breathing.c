/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/common/breathing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "shell/common/shell.h"

/*
 * What a report of 10^5 stacks prints, a gigabyte, takes seconds. Its profile is a copy, so with
 * each piece that is written the session's loop may turn: the program goes on at its own speed.
 * Where the reader is slow, its pipe is waited for in the same way, until the user has enough. A
 * file is never waited for by poll(2), but the kernel may well make a caller sleep for a tenth of a
 * second, while the disk is behind, and when a large file is cut off or closed: so calls about
 * files are made in a thread of their own.
 */
/* as much as a pipe takes; made and written within a millisecond */
#define PIECE	(64u << 10)
#define WAIT_MS 1

struct breathing {
	struct shell *shell;
	int fd;
	int err; /* why it could not be written: what fclose() says */
	bool is_file;
	char buffer[PIECE];
};

/* ---- calls about files --------------------------------------------------- */

struct errand {
	enum { ERRAND_OPEN, ERRAND_WRITE, ERRAND_CLOSE } what;
	const char *text; /* a path; or LEN bytes */
	size_t len;
	int flags, fd;
	ssize_t ret; /* or -errno */
};

static void *errand_run(void *ctx)
{
	struct errand *e = ctx;

	switch (e->what) {
	case ERRAND_OPEN: e->ret = open(e->text, e->flags, 0666); break;
	case ERRAND_WRITE: e->ret = write(e->fd, e->text, e->len); break;
	case ERRAND_CLOSE: e->ret = close(e->fd);
	}
	if (e->ret < 0)
		e->ret = -errno;
	return NULL;
}

static void errand_await(struct shell *shell, pthread_t thread)
{
	struct timespec until;

	do {
		session_breathe(shell->session);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += WAIT_MS * 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
	} while (pthread_timedjoin_np(thread, NULL, &until) == ETIMEDOUT);
}

/* Returns E->ret; below 0, errno is set, too. */
static ssize_t errand_do(struct shell *shell, struct errand *e)
{
	sigset_t all, was;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	err = pthread_create(&thread, NULL, errand_run, e);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (err)
		errand_run(e);
	else
		errand_await(shell, thread);
	if (e->ret < 0)
		errno = (int)-e->ret;
	return e->ret;
}

/* ---- streams ------------------------------------------------------------- */

static ssize_t put_piece(struct shell *shell, int fd, bool is_file, const char *text, size_t len)
{
	struct errand e = { .what = ERRAND_WRITE, .text = text, .len = len, .fd = fd };

	return is_file ? errand_do(shell, &e) : write(fd, text, len);
}

/* Less than LEN, with errno: it failed, or the user has enough. */
static size_t put(struct shell *shell, int fd, bool is_file, const char *text, size_t len)
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
		n = put_piece(shell, fd, is_file, text + done,
			      len - done < PIECE ? len - done : PIECE);
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
	size_t done = put(b->shell, b->fd, b->is_file, text, len);

	if (done < len)
		b->err = errno;
	return (ssize_t)done; /* 0: an error, to stdio */
}

static int breathing_close(void *cookie)
{
	struct breathing *b = cookie;
	struct errand e = { .what = ERRAND_CLOSE, .fd = b->fd };
	int err = b->is_file ? (int)errand_do(b->shell, &e) : close(b->fd);

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
	struct stat st;
	FILE *f = b ? fopencookie(b, "w",
				  (cookie_io_functions_t){ .write = breathing_write,
							   .close = breathing_close })
		    : NULL;

	if (!f) {
		free(b);
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	b->shell = shell;
	b->fd = fd;
	b->err = 0;
	b->is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	setvbuf(f, b->buffer, _IOFBF, sizeof(b->buffer));
	return f;
}

int breathing_create(struct shell *shell, const char *path, bool append)
{
	struct errand e = { .what = ERRAND_OPEN,
			    .text = path,
			    .flags = O_WRONLY | O_CREAT | O_CLOEXEC |
				     (append ? O_APPEND : O_TRUNC) };

	return (int)errand_do(shell, &e);
}

static bool divert(void *ctx, const char *text, size_t len)
{
	return put(ctx, message_fd(), false, text, len) == len;
}

void breathing_messages(struct shell *shell) { message_divert(shell ? divert : NULL, shell); }
