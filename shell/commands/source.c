// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <string.h>

#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/*
 * `source`: commands from a file. A file may name another; one that names itself ends at the limit.
 */
#define NESTING_MAX 16

static int source(struct shell *shell, struct call *call)
{
	const char *file;
	int err;

	if (arguments_one(shell, call, &file))
		return -1;
	if (!file)
		return shell_error(shell, call, "missing file name");
	if (shell->nesting >= NESTING_MAX)
		return shell_error(shell, call, "'%s': files are nested too deeply", file);
	shell->nesting++;
	err = shell_run_file(shell, file);
	shell->nesting--;
	if (err == -EILSEQ)
		return shell_error(shell, call, "cannot read '%s': it is not a text file", file);
	return err ? shell_error(shell, call, "cannot read '%s': %s", file, strerror(-err)) : 0;
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
