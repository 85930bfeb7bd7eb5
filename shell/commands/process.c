/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>

#include "base/escape.h"
#include "base/units.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/* `process PID`: whom the questions are about. */
static int process(struct shell *shell, struct call *call)
{
	const struct process *p;
	const char *word;
	uint64_t pid;

	if (arguments_one(shell, call, &word))
		return -1;
	if (word) {
		if (number_parse(word, &pid) || pid > INT32_MAX)
			return shell_error(
				shell, call,
				"'%s' is not accepted: a process id, as `processes` lists them",
				word);
		session_settle(shell->session);
		if (session_choose(shell->session, (pid_t)pid))
			return shell_error(shell, call,
					   "there is no process %" PRIu64
					   " here (`processes` lists them)",
					   pid);
	}
	p = shell_process(shell);
	escape_printf(call->out, "process %d (%s), %s\n", (int)p->pid,
		      p->command ? p->command : "?", process_state_name(p->state));
	return 0;
}

const struct command cmd_process = {
	.name = "process",
	.usage = "[PID]",
	.summary = "choose the process that questions are about",
	.flags = COMMAND_TIMES,
	.run = process,
};
