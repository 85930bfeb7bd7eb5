/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include <string.h>

/*
 * `source`: commands from a file. A file may name another; one that names itself ends at the limit.
 */
#define NESTING_MAX 16

static int source(struct shell *shell, struct call *call)
{
	int err;

	if (call->argc != 2)
		return shell_error(shell, call, "one file name is accepted");
	if (shell->nesting >= NESTING_MAX)
		return shell_error(shell, call, "'%s': files are nested too deeply", call->argv[1]);
	shell->nesting++;
	err = shell_run_file(shell, call->argv[1]);
	shell->nesting--;
	return err ? shell_error(shell, call, "cannot read '%s': %s", call->argv[1], strerror(-err))
		   : 0;
}

const struct command cmd_source = {
	.name = "source",
	.group = GROUP_FILES,
	.usage = "FILE",
	.summary = "run the commands of a file",
	.example = "source checks.mt",
	.flags = COMMAND_AS_IS,
	.run = source,
};
