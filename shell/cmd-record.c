/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>

#include "command.h"
#include "reporting.h"

/* `record`: the mode of recording (supervisor/mode.h). */
static int record(struct shell *shell, struct call *call)
{
	const struct process *p;
	enum mode mode;
	const char *word;
	char why[600];

	if (arguments_one(shell, call, &word))
		return -1;
	if (!word) {
		p = session_main(shell->session);
		if (p->off)
			reporting_off(call->out, p);
		else
			fprintf(call->out, "%s\n", modes[session_options(shell->session)->mode].name);
		return 0;
	}
	if (mode_parse(word, &mode))
		return shell_error(shell, call, "'%s' is not accepted: " MODE_ACCEPTED, word);
	if (modes[mode].off && session_limit_now(shell->session))
		return shell_error(shell, call, "a limit needs every allocation: first `limit off`");
	return session_record(shell->session, mode, why, sizeof(why)) ? shell_error(shell, call, "%s", why) : 0;
}

const struct command cmd_record = {
	.name = "record",
	.usage = "[mem-fast|mem|log-fast|log|off]",
	.summary = "how what happens is recorded, from now on; alone: show",
	.help = "mem-fast: the table of live blocks is made for speed. mem: it is made to need the least memory. All that is known is kept when one is\n"
		"switched to the other, and every answer is the same in both. log-fast, log: the same two, and all that happens is in log files, too (`log`).\n"
		"off: nothing is recorded: a malloc and its free take 5 ns more than without mtrun. Answers stay those of the moment when it was switched off, which is said below\n"
		"them. From off to another mode the record begins anew, as with -p: blocks of before are unknown, what the heap has in use by then is told beside it.\n"
		"Not with a limit.",
	.flags = COMMAND_LIVE,
	.run = record,
};
