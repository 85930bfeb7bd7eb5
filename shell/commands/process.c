// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/*
 * `process PID|NAME`: whom the questions are about. A name is that of one process only; of several,
 * of the one that lives.
 */
static int named(struct shell *shell, struct call *call, const char *name, pid_t *pid)
{
	size_t all = 0, alive = 0;
	char list[200] = "";

	for (const struct process *p = session_processes(shell->session); p; p = p->next) {
		bool lives = p->state == PROCESS_RUNNING || p->state == PROCESS_STOPPED;
		size_t at = strlen(list);

		if (p->state == PROCESS_REPLACED || !p->command || strcmp(p->command, name))
			continue;
		if ((lives && !alive) || !all)
			*pid = p->pid;
		all++;
		alive += lives;
		snprintf(list + at, sizeof(list) - at, "%s%d", at ? ", " : "", (int)p->pid);
	}
	if (all == 1 || alive == 1)
		return 0;
	return all ? shell_error(shell, call, "several processes are called '%s': %s", name, list)
		   : shell_error(
			     shell, call,
			     "invalid value '%s': expected a process id or the name of a process, as `processes` lists them",
			     name);
}

static int process(struct shell *shell, struct call *call)
{
	const struct process *p;
	const char *word;
	uint64_t n;
	pid_t pid = 0;

	if (arguments_one(shell, call, &word))
		return -1;
	if (word) {
		session_settle(shell->session);
		if (number_parse(word, &n) == 0 && n <= INT32_MAX)
			pid = (pid_t)n;
		else if (named(shell, call, word, &pid))
			return -1;
		if (session_choose(shell->session, pid))
			return shell_error(shell, call,
					   "there is no process %d here (`processes` lists them)",
					   (int)pid);
	}
	p = shell_process(shell);
	escape_printf(call->out, "process %d (%s), %s\n", (int)p->pid,
		      p->command ? p->command : "?", process_state_name(process_state_seen(p)));
	return 0;
}

const struct command cmd_process = {
	.name = "process",
	.group = GROUP_CONTROL,
	.usage = "[PID|NAME]",
	.summary = "select the process to query",
	.example = "process worker",
	.help = "NAME: as `processes` shows it, of one process; if there are several, of the one that is alive.",
	.flags = COMMAND_TIMES,
	.run = process,
};
