// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "base/units.h"
#include "shell/common/command.h"
#include "shell/common/events.h"

/* `every`: commands again and again. */
#define AT_LEAST_MS 10

static int every(struct shell *shell, struct call *call)
{
	uint64_t ms;

	if (call->argc == 1) {
		events_print(shell, call->out);
		return 0;
	}
	if (call->argc == 2 && !strcmp(call->argv[1], "off")) {
		events_every_off(shell);
		return 0;
	}
	if (time_parse(call->argv[1], &ms) || ms < AT_LEAST_MS)
		return shell_error(shell, call,
				   "invalid value '%s': expected " TIME_ACCEPTED
				   ", at least 10ms; or off",
				   call->argv[1]);
	if (call->argc != 3)
		return shell_error(shell, call, "put the commands in braces: every %s { status }",
				   call->argv[1]);
	return events_every(shell, ms, call->argv[2]) ? shell_error(shell, call, "out of memory")
						      : 0;
}

const struct command cmd_every = {
	.name = "every",
	.group = GROUP_TIME,
	.usage = "[TIME { COMMANDS }|off]",
	.summary = "run commands each TIME, until the program ends; off: no more; alone: list them",
	.example = "every 10m { report -n 5 >> growth.txt }",
	.help = "They run at the prompt and while a command waits, in batch also after the last command. `every 5s { status | head -2 }`",
	.flags = COMMAND_AS_IS | COMMAND_LIVE,
	.run = every,
};
