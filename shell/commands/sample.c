// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "session/options.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/* `sample`: whether every allocation is recorded, or one per so many bytes. */
static int sample(struct shell *shell, struct call *call)
{
	uint64_t period = session_options(shell->session)->agent.sample;
	struct text_buffer size;
	const char *word;

	if (arguments_one(shell, call, &word))
		return -1;
	if (!word && period)
		escape_printf(call->out, "one allocation per %" PRIu64 " byte%s%s\n", period,
			      plural(period), size_aside(&size, period));
	else if (!word)
		fputs("off: every allocation\n", call->out);
	if (!word)
		return 0;
	period = 0;
	if (strcmp(word, "off") && options_sample(word, &period))
		return shell_error(shell, call,
				   "invalid value '%s': expected " SAMPLE_ACCEPTED "; or off",
				   word);
	if (!shell_can_set(shell, call))
		return -1;
	if (period && session_limit_now(shell->session))
		return shell_error(shell, call,
				   "a limit needs every allocation: first `limit off`");
	session_sample(shell->session, period);
	return 0;
}

const struct command cmd_sample = {
	.name = "sample",
	.group = GROUP_RECORD,
	.usage = "[SIZE|off]",
	.summary = "record one allocation per SIZE bytes on average; off: every one; alone: show",
	.example = "sample 512K",
	.help = "Of each SIZE bytes that are asked for one is chosen at random, and the block that it is in is recorded: large blocks nearly always, small\n"
		"ones rarely. Each recorded block stands for as many as it was chosen from, so that bytes and counts are right on average: of what\n"
		"N recorded blocks stand for, the usual error is a part of 1 in the square root of N. Such numbers have a `~` before them. A program costs the\n"
		"less the larger SIZE is (512K: next to nothing). What was recorded before stays known exactly until it is freed. Switched off, every\n"
		"allocation is recorded from then on; blocks that had not been chosen stay unknown.",
	.flags = COMMAND_LIVE,
	.run = sample,
};
