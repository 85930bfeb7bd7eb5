// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include "shell/prompt/interactive.h"

/*
 * `quit`: as `detach`, and no further command is run; at the prompt it asks whether the program
 * shall live.
 */
static int quit(struct shell *shell, struct call *call)
{
	if (arguments_none(shell, call))
		return -1;
	if (shell->screen) {
		shell->quit = interactive_leave(shell) == 0;
		return 0;
	}
	shell_let_go(shell);
	shell->quit = true;
	return 0;
}

const struct command cmd_quit = {
	.name = "quit",
	.group = GROUP_CONTROL,
	.usage = "",
	.summary = "end mtrun; the program lives on (at the prompt: as you answer)",
	.example = "quit",
	.help = "In batch at once and with status 0. At the prompt, if the program still runs: k(ill), d(etach) or c(ancel); Ctrl-D does the same.",
	.flags = COMMAND_AS_IS,
	.run = quit,
};
