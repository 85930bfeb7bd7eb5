// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "shell/common/command.h"
#include "shell/common/events.h"
#include "shell/common/shell.h"

/* `on`: commands when something happens. */
static int on(struct shell *shell, struct call *call)
{
	if (call->argc == 1) {
		events_print(shell, call->out);
		return 0;
	}
	for (int i = 0; i < ON_KINDS; i++) {
		if (strcmp(call->argv[1], event_names[i]))
			continue;
		if (call->argc != 3)
			return shell_error(shell, call,
					   "put the commands in braces: on %s { status }",
					   event_names[i]);
		if (i == ON_EXIT)
			session_hold(shell->session, true);
		return events_on(shell, (enum event_when)i, call->argv[2])
			       ? shell_error(shell, call, "out of memory")
			       : 0;
	}
	return shell_error(shell, call, "invalid value '%s': expected exit, limit, peak or error",
			   call->argv[1]);
}

const struct command cmd_on = {
	.name = "on",
	.group = GROUP_TIME,
	.usage = "[exit|limit|peak|error { COMMANDS }]",
	.summary =
		"run commands when the program ends, meets its limit, has a new peak or makes an error; alone: list them",
	.example = "on limit { bt; report -n 5 > hit.txt }",
	.help = "`on exit { report -n 5 }`: the program is at its last instant then and everything can be asked.\n"
		"`on limit { bt all }`: the process that met the limit is the chosen one; with `kill` and `stop` all its threads are frozen, and in batch it\n"
		"is killed after them unless they let it go on (`limit 200M; cont`). Several hits in one moment are told once.\n"
		"`on error { bt all }`: the process that has freed something wrongly is the chosen one; with `--errors stop` all its threads are frozen,\n"
		"and in batch it is killed after them unless they let it go on (`cont`). Several errors in one moment are told first.\n"
		"`on peak { ... }`: at most once a second, and for the last peak in any case. Other commands take the place of those before, {} of none.",
	.flags = COMMAND_AS_IS | COMMAND_LIVE,
	.run = on,
};
