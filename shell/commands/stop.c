/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include <string.h>

/* `stop`: all threads of the process, until `cont`. */
static int stop(struct shell *shell, struct call *call)
{
	struct process *p;
	int err;

	if (arguments_none(shell, call))
		return -1;
	p = shell_alive(shell, call);
	if (!p)
		return -1;
	err = session_stop(shell->session, p);
	return err ? shell_error(shell, call, "cannot stop process %d: %s", (int)p->pid,
				 session_stop_error(err))
		   : 0;
}

const struct command cmd_stop = {
	.name = "stop",
	.usage = "",
	.summary = "stop the process, all its threads",
	.flags = COMMAND_LIVE,
	.run = stop,
};
