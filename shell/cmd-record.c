/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>

#include "command.h"

/* `record`: the mode of recording (supervisor/mode.h). */
static int record(struct shell *shell, struct call *call)
{
	enum mode mode;
	const char *word;
	char why[600];

	if (arguments_one(shell, call, &word))
		return -1;
	if (!word) {
		fprintf(call->out, "%s\n", modes[session_options(shell->session)->mode].name);
		return 0;
	}
	if (mode_parse(word, &mode))
		return shell_error(shell, call, "'%s' is not accepted: " MODE_ACCEPTED, word);
	return session_record(shell->session, mode, why, sizeof(why)) ? shell_error(shell, call, "%s", why) : 0;
}

const struct command cmd_record = {
	.name = "record",
	.usage = "[mem-fast|mem|log-fast|log]",
	.summary = "how what happens is recorded, from now on; alone: show",
	.help = "mem-fast: the table of live blocks is made for speed. mem: it is made to need the least memory. All that is known is kept when one is\n"
		"switched to the other, and every answer is the same in both. log-fast, log: the same two, and all that happens is in log files, too (`log`).",
	.flags = COMMAND_LIVE,
	.run = record,
};
