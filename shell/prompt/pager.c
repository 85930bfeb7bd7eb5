// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/pager.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "session/asking.h"
#include "shell/common/answer_stream.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include "shell/prompt/screen.h"
#include "tracee/terminal.h"

/*
 * pager.c - a list is held until it is longer than the screen. Then the pager is started and gets
 * what there is and what comes; a shorter one is printed as ever, without one.
 *
 * Whether the pager runs is not known until it has ended: /bin/sh says so by its status. So what it
 * was given is held on, until it is more than its pipe takes: then somebody has read. While it has
 * the screen, what the program prints and what is said is kept (SCREEN_LENT). Ctrl-C reaches it by
 * itself; of us it ends no more than the list. When it goes early, as by `q`, the list ends, too.
 */

/*
 * What is no more than a name and options takes the shell's place; else the shell outlives a Ctrl-C
 * that the pager lives through. What less is told unless the user has told it otherwise: F, leave
 * if it all fits; R, colours; X, leave it on the screen.
 */
#define COMMAND "trap : INT QUIT; export LESS=\"${LESS-FRX}\"; %s%s"
/* Where there is none nothing need be said about that. */
#define USUAL	"command -v less >/dev/null || exit 127; exec less"
#define GRAMMAR "|&;<>()$`\\\"'\n*?[]#~=%{}!"
#define END_MS	500 /* it makes the terminal what it was */

struct pager {
	struct shell *shell;
	const struct call *call;
	const char *command;
	enum { HELD, PAGED, PLAIN } state;
	FILE *stream; /* the command's */
	char *held;
	size_t len, room;
	unsigned rows, columns; /* of the window */
	unsigned row, column;	/* where `held` ends */
	struct spawned child;
	FILE *to;	   /* the pager's stdin */
	size_t pipe_takes; /* bytes; more than that given to it: it has read */
};

static void drop(struct pager *p)
{
	free(p->held);
	p->held = NULL;
	p->len = p->room = 0;
}

/* From now on it goes where it would without a pager. */
static void print_plain(struct pager *p)
{
	fwrite(p->held, 1, p->len, message_stream());
	drop(p);
	p->state = PLAIN;
}

static bool hold(struct pager *p, const char *text, size_t len)
{
	while (p->room - p->len < len)
		if (array_room(&p->held, p->room, &p->room, 1))
			return false;
	memcpy(p->held + p->len, text, len);
	p->len += len;
	return true;
}

/* Wide characters count as one column: some lines less or more are no matter. */
static void count(struct pager *p, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n') {
			p->row++;
			p->column = 0;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80 && p->column++ == p->columns) {
			p->row++;
			p->column = 1;
		}
	}
}

/* With the prompt below it. */
static bool is_long(const struct pager *p) { return p->row + 1 > p->rows; }

static bool give(struct pager *p, const char *text, size_t len)
{
	if (p->held && (p->len + len > p->pipe_takes || !hold(p, text, len)))
		drop(p);
	return fwrite(text, 1, len, p->to) == len;
}

static void start(struct pager *p)
{
	struct shell *shell = p->shell;
	bool entered = asking_relock();
	char *command = NULL;
	size_t len = p->len;
	int takes, err = -1;

	if (asprintf(&command, COMMAND, strpbrk(p->command, GRAMMAR) ? "" : "exec ", p->command) >=
	    0)
		err = shell_spawn(shell, &p->child, command, message_fd(), SPAWN_PIPE);
	free(command);
	if (!err) {
		screen_enter(shell->screen, SCREEN_LENT);
		takes = fcntl(p->child.input, F_GETPIPE_SZ);
		p->pipe_takes = takes > 0 ? (size_t)takes : 0;
		p->to = answer_open(shell, p->child.input);
	}
	asking_reunlock(entered);
	if (err) {
		print_plain(p);
		return;
	}
	p->state = PAGED;
	if (!p->to)
		return;
	fwrite(p->held, 1, len, p->to);
	fflush(p->to); /* the first screen need not wait for the rest */
	if (len > p->pipe_takes)
		drop(p);
}

static ssize_t take(void *cookie, const char *text, size_t len)
{
	struct pager *p = cookie;

	if (p->state == HELD && (p->call->json || p->call->call_form || !hold(p, text, len)))
		print_plain(p);
	if (p->state == PLAIN)
		return (ssize_t)fwrite(text, 1, len, message_stream());
	if (p->state == PAGED)
		return p->to && give(p, text, len) ? (ssize_t)len : 0;
	count(p, text, len);
	/* a command that holds the session is in the middle of something */
	if (is_long(p) && asking_is_unlocked())
		start(p);
	return (ssize_t)len;
}

/* $PAGER as others take it; NULL: none. */
static const char *wanted(void)
{
	const char *pager = getenv("PAGER"), *term = getenv("TERM");

	if (!term || !*term || !strcmp(term, "dumb"))
		return NULL;
	return !pager ? USUAL : !*pager || !strcmp(pager, "cat") ? NULL : pager;
}

struct pager *pager_open(struct shell *shell, const struct call *call)
{
	const char *command = wanted();
	struct winsize size = { 0 };
	struct pager *p;

	if (!command || !shell->typed || !call->layout.columns ||
	    !(call->command->flags & COMMAND_LIST) || ioctl(message_fd(), TIOCGWINSZ, &size) ||
	    size.ws_row < 2)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct pager){ .shell = shell,
			     .call = call,
			     .command = command,
			     .rows = size.ws_row,
			     .columns = call->layout.columns,
			     .child = { .input = -1 } };
	p->stream = fopencookie(p, "w", (cookie_io_functions_t){ .write = take });
	if (p->stream)
		return p;
	free(p);
	return NULL;
}

FILE *pager_stream(const struct pager *p) { return p->stream; }

static void end(struct pager *p)
{
	struct shell *shell = p->shell;
	int status = 0;

	if (p->to)
		fclose(p->to);
	if (shell_await(shell, p->child.status_fd, AWAIT_LEAVE)) {
		kill(p->child.pid, SIGTERM); /* the terminal is the user's again */
		poll(&(struct pollfd){ .fd = p->child.status_fd, .events = POLLIN }, 1, END_MS);
		spawn_leave(&p->child);
	} else {
		status = spawn_status(&p->child);
	}
	/* Ctrl-C was for it; it may have been killed */
	shell->interrupted = shell->leave;
	terminal_mode(shell->terminal, TERMINAL_SANE);
	if (status > 128) /* its last line stands there still */
		terminal_write(shell->terminal, "\r\n", 2);
	screen_enter(shell->screen, SCREEN_COMMAND);
	if (status == 126 || status == 127 || !p->to)
		print_plain(p);
}

void pager_close(struct pager *p)
{
	fclose(p->stream);
	if (p->state == HELD && is_long(p) && !shell_interrupted(p->shell))
		start(p);
	if (p->state == PAGED)
		end(p);
	else if (p->state == HELD)
		print_plain(p);
	drop(p);
	free(p);
}
