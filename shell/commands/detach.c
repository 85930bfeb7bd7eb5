// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/* `detach`: the program goes on by itself; the script too, with what was recorded. */
static int detach(struct shell *shell, struct call *call)
{
	if (arguments_none(shell, call))
		return -1;
	shell_let_go(shell);
	return 0;
}

const struct command cmd_detach = {
	.name = "detach",
	.group = GROUP_CONTROL,
	.usage = "",
	.summary = "let the program live on by itself, as it was without mtrun",
	.example = "report; detach",
	.help = "What was recorded so far stays here: the commands that follow answer from it, then mtrun ends with status 0.",
	.flags = COMMAND_LIVE,
	.run = detach,
};
