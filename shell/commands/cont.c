/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include <string.h>

/* `cont`: after `stop`, or a start with -S. */
static int cont(struct shell *shell, struct call *call)
{
	struct process *p;
	int err;

	if (arguments_none(shell, call))
		return -1;
	p = shell_alive(shell, call);
	if (!p)
		return -1;
	err = session_cont(shell->session, p);
	return err ? shell_error(shell, call, "cannot continue process %d: %s", (int)p->pid,
				 strerror(-err))
		   : 0;
}

const struct command cmd_cont = {
	.name = "cont",
	.usage = "",
	.summary = "let a stopped process run on",
	.flags = COMMAND_LIVE,
	.run = cont,
};
