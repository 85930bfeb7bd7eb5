/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "keyboard.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "../supervisor/message.h"
#include "../supervisor/terminal.h"
#include "command.h"

/* Reads only when something is there: standard input blocks, since it is shared with the shell that started us. */
static void nothing(void *ctx, short revents)
{
	(void)ctx;
	(void)revents;
}

int keyboard_take(struct shell *shell, char *text, size_t len)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, 0) <= 0)
		return 0;
	n = read(0, text, len);
	if (n > 0)
		return (int)n;
	if (n < 0 && errno == EINTR)
		return 0;
	shell->leave = true;
	return -1;
}

int keyboard_key(struct shell *shell, int ms)
{
	uint64_t end = session_ms(shell->session) + (ms < 0 ? 0 : (uint64_t)ms), now;
	char c;
	int n;

	session_watch(shell->session, 0, POLLIN, nothing, NULL);
	for (;;) {
		n = shell_interrupted(shell) || shell->leave ? KEY_STOP : keyboard_take(shell, &c, 1);
		if (n)
			break;
		now = session_ms(shell->session);
		if (ms >= 0 && now >= end) {
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

	fprintf(message_stream(), "%s ", question);
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
