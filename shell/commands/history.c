// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/units.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/prompt/interactive.h"

/* `history`: the lines typed, in this run and before. */
static int history(struct shell *shell, struct call *call)
{
	uint64_t n = UINT64_MAX;
	const char *word;

	if (arguments_one(shell, call, &word))
		return -1;
	if (word && number_parse(word, &n))
		return shell_error(shell, call, "invalid value '%s': expected a number of lines",
				   word);
	interactive_history(call->out, (size_t)n);
	return 0;
}

const struct command cmd_history = {
	.name = "history",
	.group = GROUP_FILES,
	.usage = "[N]",
	.summary = "the lines typed at the prompt, the last N",
	.example = "history 20",
	.help = "Arrow keys and Ctrl-R find them again. They are kept in $XDG_STATE_HOME/mtrun/history (~/.local/state/mtrun/history).",
	.flags = COMMAND_LIST,
	.run = history,
};
