// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/*
 * `gdb`: a process can have one tracer, so ours lets go of it while gdb has it. The hooks need no
 * tracer: recording goes on. What they cannot do meanwhile is ask about new libraries; those are
 * found when gdb has left.
 */
static int run_gdb(struct shell *shell, struct call *call, pid_t pid, int *status)
{
	struct spawned child;
	char *command;
	int err;

	if (asprintf(&command, "exec gdb -p %d %s", (int)pid, call->rest ? call->rest : "") < 0)
		return -ENOMEM;
	err = shell_spawn(shell, &child, command, message_fd(),
			  shell->screen ? SPAWN_OURS : SPAWN_NULL);
	free(command);
	if (!err)
		err = shell_await(shell, child.status_fd, AWAIT_READABLE);
	if (err)
		return err;
	*status = spawn_status(&child);
	return 0;
}

static int gdb(struct shell *shell, struct call *call)
{
	struct process *p = shell_alive(shell, call);
	bool stopped = p && p->state == PROCESS_STOPPED, stays = stopped && p->stays;
	int status = 0, err, back;

	if (!p)
		return -1;
	err = session_lend(shell->session, p);
	if (err)
		return shell_error(shell, call, "cannot let go of process %d: %s", (int)p->pid,
				   session_stop_error(err));
	err = run_gdb(shell, call, p->pid, &status);
	shell->interrupted = false; /* Ctrl-C was for gdb */
	back = session_take_back(shell->session, p);
	if (!back && stopped) {
		back = session_stop(shell->session, p);
		p->stays = !back && stays;
	}
	if (back && back != -ESRCH)
		return shell_error(
			shell, call,
			"cannot take process %d back: %s (it is recorded, but can be neither stopped nor followed)",
			(int)p->pid, strerror(-back));
	if (err)
		return shell_error(shell, call, "cannot run gdb: %s", strerror(-err));
	return status ? shell_error(shell, call,
				    status == 127 ? "gdb was not found: exit status %d"
						  : "gdb: exit status %d",
				    status)
		      : 0;
}

const struct command cmd_gdb = {
	.name = "gdb",
	.group = GROUP_CONTROL,
	.usage = "[ARGS]",
	.summary = "debug the process with gdb in this terminal, then go on",
	.example = "gdb -ex bt",
	.help = "Recording goes on meanwhile; `stop`, `bt` and the program's end have to wait. ARGS (up to the end of the line) are gdb's, behind `-p PID`:\n"
		"`gdb -batch -ex 'info threads'`.",
	.flags = COMMAND_AS_IS | COMMAND_REST | COMMAND_LIVE,
	.run = gdb,
};
