/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/escape.h"
#include "shell/common/command.h"

/* `help`: from the same table that dispatches. */
static int help(struct shell *shell, struct call *call)
{
	const struct command *c;
	char why[160];

	if (call->argc > 2)
		return shell_error(shell, call, "one command's name is accepted");
	if (call->argc == 2) {
		c = command_find(call->argv[1], why, sizeof(why));
		if (!c)
			return shell_error(shell, call, "%s", why);
		escape_printf(call->out, "%s%s%s\n  %s\n", c->name, *c->usage ? " " : "", c->usage,
			      c->summary);
		if (c->help)
			fprintf(call->out, "\n%s\n", c->help); /* lines of ours */
		return 0;
	}
	for (size_t i = 0; commands[i]; i++)
		escape_printf(call->out, "%-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n`help COMMAND` says more. Names may be shortened to what is unique. `;` or a newline ends a command, # begins a comment;\n"
	      "'...' and \"...\" quote; `> FILE`, `>> FILE` and `| SHELL COMMAND` stand after the arguments. `exit` is `quit`, `?` is `help`.\n",
	      call->out);
	return 0;
}

const struct command cmd_help = {
	.name = "help",
	.usage = "[COMMAND]",
	.summary = "what there is; what COMMAND does",
	.run = help,
};
