// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/units.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/opening.h"
#include "shell/common/shell.h"

/* `parse`: all of a log is read, not only what is asked about. */

#define WORKERS_MOST 256u

/* Of a live process everything that a log would tell is known already. */
static int live(struct shell *shell, struct call *call)
{
	const struct process *p = shell_process(shell);

	if (p->source->one_moment)
		return shell_error(shell, call, "a .heap file is known whole: parse is for a log");
	opening_complete(call->out, session_clock(shell->session) + p->recorded_ms,
			 shell_moment(shell, p) - p->recorded_ms);
	return 0;
}

static int parse(struct shell *shell, struct call *call)
{
	const char *word;
	char why[512];
	uint64_t n = 0;

	if (arguments_one(shell, call, &word))
		return -1;
	if (word && (number_parse(word, &n) || n < 1 || n > WORKERS_MOST))
		return shell_error(shell, call,
				   "invalid value '%s': expected a number of workers, 1 to %u",
				   word, WORKERS_MOST);
	if (!session_log(shell->session))
		return live(shell, call);
	if (opening_parse(shell, (unsigned)n, call->out, why, sizeof(why)))
		return *why ? shell_error(shell, call, "%s", why) : -1;
	return 0;
}

const struct command cmd_parse = {
	.name = "parse",
	.group = GROUP_FILES,
	.usage = "[N]",
	.summary = "read every event of the log that is open, and see whether it is whole",
	.example = "parse",
	.help = "Questions need no parse: a log opens by what stands at its files' ends, and a moment is found by itself. N: workers at the same time; without it,\n"
		"one for each file, at most as many as there are processors. Of a program that is there nothing need be read: it is said what is known of it.",
	.flags = COMMAND_AS_IS,
	.run = parse,
};
