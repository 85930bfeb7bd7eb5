// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/* `cont`: after `stop`, or a start with -S. */
static int cont(struct shell *shell, struct call *call)
{
	return shell_act(shell, call, "continue", session_cont);
}

const struct command cmd_cont = {
	.name = "cont",
	.group = GROUP_CONTROL,
	.usage = "",
	.summary = "let a stopped process run on",
	.example = "stop; bt; cont",
	.flags = COMMAND_LIVE,
	.run = cont,
};
