// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/keyboard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/message.h"
#include "shell/common/shell.h"
#include "tracee/terminal.h"

/*
 * The terminal, opened once more: standard input is shared with the shell that started us, and must
 * go on blocking. What poll(2) has seen can be gone when it is read: Ctrl-C makes the terminal
 * forget it. Where it cannot be opened (after su(1), say) standard input has to do.
 */
static int keys(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? STDIN_FILENO : fd;
}

bool keyboard_is_ready(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

int keyboard_take(struct shell *shell, char *text, size_t len)
{
	ssize_t n;

	if (!keyboard_is_ready())
		return 0;
	n = read(keys(), text, len);
	if (n > 0)
		return (int)n;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	shell->leave = true;
	return -1;
}

int keyboard_key(struct shell *shell, int ms)
{
	uint64_t end = session_ms(shell->session) + (ms < 0 ? 0 : (uint64_t)ms), now;
	unsigned resizes = shell->resizes;
	char c;
	int n;

	session_watch(shell->session, 0, POLLIN, NULL, NULL);
	for (;;) {
		n = shell_interrupted(shell) || shell->leave ? KEY_STOP
							     : keyboard_take(shell, &c, 1);
		if (n)
			break;
		now = session_ms(shell->session);
		if (ms >= 0 && (now >= end || resizes != shell->resizes)) {
			n = KEY_NONE;
			break;
		}
		if (shell_turn(shell, ms < 0 ? -1 : (int)(end - now))) {
			n = KEY_STOP;
			break;
		}
	}
	session_watch(shell->session, 0, 0, NULL, NULL);
	return n > 0 ? (unsigned char)c : n == KEY_NONE ? KEY_NONE : KEY_STOP;
}

int keyboard_ask(struct shell *shell, const char *question, const char *keys)
{
	int key;

	escape_printf(message_stream(), "%s ", question);
	message_flush();
	terminal_mode(shell->terminal, TERMINAL_KEYS);
	do
		key = keyboard_key(shell, -1);
	while (key != KEY_STOP && (key == 0 || !strchr(keys, key)) && key != '\033' && key != 4);
	terminal_mode(shell->terminal, TERMINAL_SANE);
	if (key > 0 && key != '\033' && key != 4)
		fprintf(message_stream(), "%c\n", key);
	else
		putc('\n', message_stream());
	message_flush();
	return key > 0 && key != '\033' && key != 4 ? key : KEY_STOP;
}
