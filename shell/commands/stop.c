// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/* `stop`: all threads of the process, until `cont`. */
static int stop(struct shell *shell, struct call *call)
{
	struct process *p;

	if (shell_act(shell, call, "stop", session_stop))
		return -1;
	p = shell_process(shell);
	p->stays = p->state == PROCESS_STOPPED;
	return 0;
}

const struct command cmd_stop = {
	.name = "stop",
	.group = GROUP_CONTROL,
	.usage = "",
	.summary = "stop the process, all its threads",
	.example = "stop; bt; cont",
	.flags = COMMAND_LIVE,
	.run = stop,
};
