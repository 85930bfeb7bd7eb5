/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "command.h"

/* `echo`: what it was given, for scripts. */
static int echo(struct shell *shell, struct call *call)
{
	(void)shell;
	for (int i = 1; i < call->argc; i++)
		fprintf(call->out, "%s%s", i > 1 ? " " : "", call->argv[i]);
	putc('\n', call->out);
	return 0;
}

const struct command cmd_echo = {
	.name = "echo",
	.usage = "[TEXT]...",
	.summary = "print the arguments",
	.run = echo,
};
