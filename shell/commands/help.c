// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "base/escape.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "symbols/site_rule.h"

/*
 * `help`: from the same table that dispatches. Its texts have line ends where a wide page has them.
 * On a terminal the lines of a paragraph, and of what an option is about, are joined again: they
 * are divided where the window ends (fold.h).
 */
#define INDENTED 6 /* blanks before what goes on from the line above */

static bool goes_on(const char *line, const char *next)
{
	size_t indent = strspn(next, " ");

	if (!*next || *next == '\n' || !*line || *line == '\n')
		return false;
	return indent >= INDENTED || (indent == 0 && *line != ' ');
}

static void print_help(const struct call *call, const char *text)
{
	const char *line = text, *end;

	putc('\n', call->out);
	for (; *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		fwrite(line, 1, (size_t)(end - line), call->out);
		while (call->layout.columns && *end && goes_on(line, end + 1)) {
			const char *more = end + 1 + strspn(end + 1, " ");

			/* an option that is too wide for a text beside it */
			bool bare = *line == ' ' &&
				    !memmem(line + 2, (size_t)(end - line - 2), "  ", 2);

			end = strchrnul(more, '\n');
			fputs(bare ? "  " : " ", call->out);
			fwrite(more, 1, (size_t)(end - more), call->out);
		}
		putc('\n', call->out);
	}
}

/* `help sites`: the rule, and what is passed over by name. */
static void print_sites(FILE *out)
{
	size_t column = 0;

	fputs("On a terminal, and on a page, what a library got on the program's behalf\n"
	      "stands in brackets:\n"
	      "[stdio buffer], [thread TLS], [atexit table], [ld.so], [C++ exception pool].\n\n"
	      "A site is where the program asked for memory: walking out from the allocator,\n"
	      "the first frame that is no allocator, in no language's or libc's library, and\n"
	      "in none of these well-known wrappers (`set site-wrappers off`: they may be\n"
	      "sites, too):\n",
	      out);
	for (size_t i = 0; site_wrapper(i); i++) {
		size_t width = strlen(site_wrapper(i));

		if (column && column + 2 + width > 78) {
			putc('\n', out);
			column = 0;
		}
		escape_printf(out, "  %s", site_wrapper(i));
		column += 2 + width;
	}
	putc('\n', out);
}

/* On a terminal: all names on one screen, by what they are for. */
static void print_groups(FILE *out)
{
	static const char *const heads[GROUPS] = {
		[GROUP_LOOK] = "LOOK     what the program holds, where, and since which call",
		[GROUP_TIME] = "TIME     how that changes; what is to be done when",
		[GROUP_CONTROL] = "CONTROL  the program: run, stop, limit and leave it",
		[GROUP_RECORD] = "RECORD   what is recorded, sampled, written and served",
		[GROUP_FILES] = "FILES    for other viewers, from other runs, and the shell itself",
	};

	for (int group = 0; group < GROUPS; group++) {
		escape_printf(out, "%s\n        ", heads[group]);
		for (size_t i = 0; commands[i]; i++)
			if ((int)commands[i]->group == group)
				escape_printf(out, " %s", commands[i]->name);
		putc('\n', out);
	}
	fputs("\n`help COMMAND` says what it does and takes, `help all` has a line for each, `help sites` how a report finds its functions.\n",
	      out);
}

static void print_all(FILE *out)
{
	for (size_t i = 0; commands[i]; i++)
		escape_printf(out, "%-10s %s\n", commands[i]->name, commands[i]->summary);
}

static int help(struct shell *shell, struct call *call)
{
	const struct command *c;
	const char *word;
	char why[160];

	if (arguments_one(shell, call, &word))
		return -1;
	if (word) {
		if (!strcmp(word, "sites")) {
			print_sites(call->out);
			return 0;
		}
		if (!strcmp(word, "all")) {
			print_all(call->out);
			return 0;
		}
		c = command_find(word, why, sizeof(why));
		if (!c)
			return shell_error(shell, call, "%s", why);
		escape_printf(call->out, "%s%s%s\n  %s\n", c->name, *c->usage ? " " : "", c->usage,
			      c->summary);
		if (c->help)
			print_help(call, c->help);
		escape_printf(call->out, "\nExample: %s\n", c->example);
		return 0;
	}
	if (call->layout.columns) {
		print_groups(call->out);
	} else {
		print_all(call->out);
		fputs("\n`help COMMAND` says more. ", call->out);
	}
	fputs("Any unique prefix of a name will do. `;` or a newline ends a command, # begins a comment;",
	      call->out);
	putc(call->layout.columns ? ' ' : '\n', call->out);
	fputs("'...' and \"...\" quote; `> FILE`, `>> FILE` and `| SHELL COMMAND` stand after the arguments. `exit` is `quit`, `?` is `help`.\n",
	      call->out);
	return 0;
}

const struct command cmd_help = {
	.name = "help",
	.group = GROUP_FILES,
	.usage = "[COMMAND|all|sites]",
	.summary = "what there is; what COMMAND does; sites: how a report finds its functions",
	.example = "help report",
	.flags = COMMAND_LIST,
	.run = help,
};
