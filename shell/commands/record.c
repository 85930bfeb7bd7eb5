// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "base/escape.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

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
			escape_printf(call->out, "%s\n",
				      modes[session_options(shell->session)->mode].name);
		return 0;
	}
	if (mode_parse(word, &mode))
		return shell_error(shell, call, "invalid value '%s': expected " MODE_ACCEPTED,
				   word);
	if (!shell_can_set(shell, call))
		return -1;
	if (modes[mode].off && session_limit_now(shell->session))
		return shell_error(shell, call,
				   "a limit needs every allocation: first `limit off`");
	if (session_record(shell->session, mode, why, sizeof(why)))
		return shell_error(shell, call, "%s", why);
	if (call->call_form)
		fputs("true\n", call->out);
	return 0;
}

const struct command cmd_record = {
	.name = "record",
	.group = GROUP_RECORD,
	.usage = "[mem-fast|mem|log-fast|log|off]",
	.summary = "how what happens is recorded, from now on; alone: show",
	.example = "record off; wait 10s; record mem-fast",
	.help = "mem-fast: the table of live blocks is made for speed. mem: it is made to need the least memory. Measured, mtrun's processor time for an event and\n"
		"what the table needs for a live block:\n"
		"    processor time, memory                      mem-fast           mem\n"
		"    a malloc and its free, again and again       9 ns              33 ns\n"
		"    10^5 live blocks, any of them replaced      28 ns              89 ns\n"
		"    10^6 live blocks, any of them replaced      72 ns             153 ns\n"
		"    blocks of 24 bytes                          17 bytes           21 bytes\n"
		"    16 bytes to 4K, mostly small                41 bytes           21 bytes\n"
		"    4K and more                                 44 to 50 bytes     21 bytes\n"
		"mem pays where memory is short and millions of blocks are live, mostly of more than 32 bytes; it also gives memory back when the program frees.\n"
		"Else mem-fast does: a program that allocates faster than mtrun counts has to wait for it. All that is known is kept when one is switched to the\n"
		"other, and every answer is the same in both. A million blocks take 0.3 s to go over while the program runs, at most 1 ms at a time (to mem-fast: 9 ms).\n"
		"log-fast, log: the same two, and all that happens is in log files, too (`log`).\n"
		"off: nothing is recorded: a malloc and its free take 1 ns more than without mtrun. Answers stay those of the moment when it was switched off, which is said below\n"
		"them. From off to another mode the record begins anew, as with -p: blocks of before are unknown, what the heap has in use by then is told beside it.\n"
		"Not with a limit.",
	.flags = COMMAND_LIVE,
	.run = record,
};
