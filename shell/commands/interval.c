// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "base/escape.h"
#include "session/options.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include "shell/prompt/interval_lines.h"

/* `interval`: how often a usage line is printed. */
static int command_interval(struct shell *shell, struct call *call)
{
	struct text_buffer time;
	const char *word;
	uint64_t ms = 0;
	int err;

	if (arguments_one(shell, call, &word))
		return -1;
	if (!word) {
		escape_printf(call->out, "%s\n",
			      shell->interval.ms ? setting_text(&time, shell->interval.ms) : "off");
		return 0;
	}
	if (strcmp(word, "off") && options_interval(word, &ms))
		return shell_error(shell, call,
				   "invalid value '%s': expected " INTERVAL_ACCEPTED "; or off",
				   word);
	err = interval_set(shell, ms, ms);
	return err ? shell_error(shell, call, "no timer: %s", strerror(-err)) : 0;
}

const struct command cmd_interval = {
	.name = "interval",
	.group = GROUP_TIME,
	.usage = "[TIME|off]",
	.summary = "print a usage line every TIME; off: no more; alone: show how often",
	.example = "interval 5s",
	.help = "[MEMTRACER] allocated memory: what counts as allocated (-c), in bytes; metadata memory: 8 bytes for each live block; then the\n"
		"peak and the resident bytes, mtrun's own left out. Where several processes run, each has a line of its own.",
	.flags = COMMAND_LIVE,
	.run = command_interval,
};
