// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "base/escape.h"
#include "shell/common/command.h"

/* `echo`: what it was given, for scripts: also lines, if its user has put some into quotes. */
static void put_lines(FILE *out, const char *text)
{
	size_t len = strcspn(text, "\n");

	escape_put_line(out, text, len);
	while (text[len]) {
		text += len + 1;
		len = strcspn(text, "\n");
		putc('\n', out);
		escape_put_line(out, text, len);
	}
}

static int echo(struct shell *shell, struct call *call)
{
	(void)shell;
	for (int i = 1; i < call->argc; i++) {
		if (i > 1)
			putc(' ', call->out);
		put_lines(call->out, call->argv[i]);
	}
	putc('\n', call->out);
	return 0;
}

const struct command cmd_echo = {
	.name = "echo",
	.group = GROUP_FILES,
	.usage = "[TEXT]...",
	.summary = "print the arguments",
	.example = "echo after the first request; report",
	.flags = COMMAND_AS_IS,
	.run = echo,
};
