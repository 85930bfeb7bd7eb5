/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "command.h"

/* `quit`: as `detach`, and no further command is run. */
static int quit(struct shell *shell, struct call *call)
{
	if (arguments_none(shell, call))
		return -1;
	shell_let_go(shell);
	shell->quit = true;
	return 0;
}

const struct command cmd_quit = {
	.name = "quit",
	.usage = "",
	.summary = "end mtrun at once, with status 0; the program lives on",
	.run = quit,
};
