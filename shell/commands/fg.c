// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include "shell/prompt/keyboard.h"
#include "shell/prompt/screen.h"
#include "tracee/terminal.h"

/*
 * `fg`: every key goes to the program's terminal as it is, which makes of Ctrl-C what it makes of
 * it for the program. Only Ctrl-Z is ours. As much is read from the user as the program's terminal
 * takes.
 */
#define CTRL_Z 0x1a

struct hand {
	int master;
	char keys[1024];
	size_t len; /* taken from the user, not yet taken by the program */
	bool back;
};

static void take(struct shell *shell, struct hand *h)
{
	int n = h->len ? 0 : keyboard_take(shell, h->keys, sizeof(h->keys));
	const char *stop = n > 0 ? memchr(h->keys, CTRL_Z, (size_t)n) : NULL;

	if (n > 0)
		h->len = stop ? (size_t)(stop - h->keys) : (size_t)n;
	h->back |= stop || n < 0;
}

static void give(struct hand *h)
{
	while (h->len) {
		ssize_t n = write(h->master, h->keys, h->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			n = (ssize_t)h->len;
		h->len -= (size_t)n;
		memmove(h->keys, h->keys + n, h->len);
	}
}

static int fg(struct shell *shell, struct call *call)
{
	struct hand h = { 0 };
	const struct process *p;
	int err = 0;

	if (arguments_none(shell, call))
		return -1;
	if (!session_options(shell->session)->argv)
		return shell_error(
			shell, call,
			"the program was not started here: it has a terminal of its own, or none");
	if (!shell->screen)
		return shell_error(shell, call,
				   "this is not an interactive run: the program has the terminal");
	p = shell_process(shell);
	if (p->state == PROCESS_STOPPED)
		err = session_cont(shell->session, session_main(shell->session));
	if (err || p->state != PROCESS_RUNNING || session_ended(shell->session))
		return shell_over(shell, call, p);
	h.master = shell->terminal->master;
	shell_flush(shell);
	screen_enter(shell->screen, SCREEN_HANDED);
	terminal_mode(shell->terminal, TERMINAL_RAW);
	while (!h.back && !err && !session_ended(shell->session) && !shell->leave) {
		session_watch(shell->session, 0, h.len ? 0 : POLLIN, NULL, NULL);
		err = shell_turn(shell, h.len ? 10 : -1);
		take(shell, &h);
		give(&h);
	}
	session_watch(shell->session, 0, 0, NULL, NULL);
	screen_catch_up(shell->screen);
	terminal_mode(shell->terminal, TERMINAL_SANE);
	screen_enter(shell->screen, SCREEN_COMMAND);
	return 0;
}

const struct command cmd_fg = {
	.name = "fg",
	.group = GROUP_CONTROL,
	.usage = "",
	.summary = "give the program the keyboard, until Ctrl-Z",
	.example = "fg",
	.help = "Everything that is typed goes to the program, Ctrl-C too. A stopped program runs on. Ctrl-Z comes back to the prompt;\n"
		"the program runs on then.",
	.flags = COMMAND_AS_IS | COMMAND_LIVE,
	.run = fg,
};
