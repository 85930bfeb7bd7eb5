// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/shell.h"
#include "shell/common/command.h"
#include <errno.h>
#include <string.h>

/* `!`: a shell command, while the program goes on. */
static int shell_command(struct shell *shell, struct call *call)
{
	struct spawned child;
	int err, status;

	if (!call->rest || !*call->rest)
		return shell_error(shell, call, "missing shell command");
	fflush(call->out);
	err = shell_spawn(shell, &child, call->rest, call->fd,
			  shell->screen ? SPAWN_OURS : SPAWN_NULL);
	if (err)
		return shell_error(shell, call, "cannot run '%s' by /bin/sh: %s", call->rest,
				   strerror(-err));
	err = shell_await(shell, child.status_fd, AWAIT_LEAVE);
	if (err) {
		spawn_leave(&child);
		if (err == -EINTR) /* we are to leave */
			return -1;
		return shell_error(shell, call, "the program can no longer be followed: %s",
				   strerror(-err));
	}
	status = spawn_status(&child);
	return status ? shell_error(shell, call, "'%s': exit status %d", call->rest, status) : 0;
}

const struct command cmd_shell = {
	.name = "!",
	.group = GROUP_FILES,
	.usage = "COMMAND",
	.summary = "run a shell command (up to the end of the line, or `;`)",
	.example = "! ls -l memory.html",
	.help = "By /bin/sh, its output where commands print; its stdin is the terminal, or in batch /dev/null. An exit status other than 0 is an error.",
	.flags = COMMAND_AS_IS | COMMAND_REST,
	.run = shell_command,
};
