/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>

#include "../supervisor/view.h"
#include "command.h"
#include "reporting.h"
#include "spawn.h"

/* `echo`, `source`, `!`, `set`, `help`: the shell's own. */
#define NESTING_MAX 16

static int echo(struct shell *shell, struct call *call)
{
	(void)shell;
	for (int i = 1; i < call->argc; i++)
		fprintf(call->out, "%s%s", i > 1 ? " " : "", call->argv[i]);
	putc('\n', call->out);
	return 0;
}

extern const struct command cmd_echo;
const struct command cmd_echo = {
	.name = "echo",
	.usage = "[TEXT]...",
	.summary = "print the arguments",
	.run = echo,
};

static int source(struct shell *shell, struct call *call)
{
	int err;

	if (call->argc != 2)
		return shell_error(shell, call, "one file name is accepted");
	if (shell->nesting >= NESTING_MAX)
		return shell_error(shell, call, "'%s': files are nested too deeply", call->argv[1]);
	shell->nesting++;
	err = shell_run_file(shell, call->argv[1]);
	shell->nesting--;
	return err ? shell_error(shell, call, "cannot read '%s': %s", call->argv[1], strerror(-err)) : 0;
}

extern const struct command cmd_source;
const struct command cmd_source = {
	.name = "source",
	.usage = "FILE",
	.summary = "run the commands of a file",
	.run = source,
};

static int shell_command(struct shell *shell, struct call *call)
{
	struct spawned child;
	int err, status = 0;

	if (!call->rest || !*call->rest)
		return shell_error(shell, call, "a shell command is missing");
	fflush(call->out);
	err = spawn_shell(&child, call->rest, fileno(call->out), false);
	if (err)
		return shell_error(shell, call, "cannot run '%s' by /bin/sh: %s", call->rest, strerror(-err));
	while (!spawn_ended(&child, 5, &status))
		if (shell_turn(shell, 0))
			break;
	return status ? shell_error(shell, call, "'%s': exit status %d", call->rest, status) : 0;
}

extern const struct command cmd_shell;
const struct command cmd_shell = {
	.name = "!",
	.usage = "COMMAND",
	.summary = "run a shell command (up to the end of the line, or `;`)",
	.help = "By /bin/sh, with /dev/null as its stdin and its output where commands print. An exit status other than 0 is an error.",
	.flags = COMMAND_REST,
	.run = shell_command,
};

/* ---- set ------------------------------------------------------------------------------------------------------------------------- */

static int set_rows(struct shell *shell, struct call *call, const char *value)
{
	return reporting_rows(shell, call, value, &shell->settings.rows);
}

static void show_rows(const struct shell *shell, FILE *out)
{
	if (shell->settings.rows == VIEW_ALL)
		fputs("all", out);
	else
		fprintf(out, "%zu", shell->settings.rows);
}

static int set_site_skip(struct shell *shell, struct call *call, const char *value)
{
	const char *why = "";

	if (!shell_sites(shell, shell_process(shell)))		/* at least one that compiles it */
		return -1;
	return shell_site_skip(shell, value, &why) ? shell_error(shell, call, "site-skip: '%s' is no POSIX extended regular expression: %s", value, why) : 0;
}

static void show_site_skip(const struct shell *shell, FILE *out)
{
	fprintf(out, "'%s'", shell->settings.site_skip);
}

static const struct {
	const char *name, *help;
	int (*set)(struct shell *shell, struct call *call, const char *value);
	void (*show)(const struct shell *shell, FILE *out);
} settings[] = {
	{ "rows", "how many rows text lists show, or all", set_rows, show_rows },
	{ "site-skip", "functions that the search for a site passes over, too ('': none)", set_site_skip, show_site_skip },
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))

static void show(const struct shell *shell, FILE *out, size_t i)
{
	fprintf(out, "%-10s ", settings[i].name);
	settings[i].show(shell, out);
	fprintf(out, "   # %s\n", settings[i].help);
}

static int set(struct shell *shell, struct call *call)
{
	size_t i;

	if (call->argc == 1) {
		for (i = 0; i < SETTINGS; i++)
			show(shell, call->out, i);
		return 0;
	}
	for (i = 0; i < SETTINGS && strcmp(settings[i].name, call->argv[1]); i++)
		;
	if (i == SETTINGS)
		return shell_error(shell, call, "there is no setting '%s' (`set` lists all)", call->argv[1]);
	if (call->argc == 2) {
		show(shell, call->out, i);
		return 0;
	}
	if (call->argc > 3)
		return shell_error(shell, call, "unexpected argument '%s' (quote a value that has blanks in it)", call->argv[3]);
	return settings[i].set(shell, call, call->argv[2]);
}

extern const struct command cmd_set;
const struct command cmd_set = {
	.name = "set",
	.usage = "[NAME [VALUE]]",
	.summary = "change a setting; alone: list all with their values",
	.help = "`set site-skip 'xmalloc|xrealloc|PyMem_'` makes the callers of such wrappers the sites. The expression is POSIX extended and is\n"
		"looked for anywhere in a function's name.",
	.run = set,
};

/* ---- help ------------------------------------------------------------------------------------------------------------------------ */

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
		fprintf(call->out, "%s%s%s\n  %s\n", c->name, *c->usage ? " " : "", c->usage, c->summary);
		if (c->help)
			fprintf(call->out, "\n%s\n", c->help);
		return 0;
	}
	for (size_t i = 0; commands[i]; i++)
		fprintf(call->out, "%-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n`help COMMAND` says more. Names may be shortened to what is unique. `;` or a newline ends a command, # begins a comment;\n"
	      "'...' and \"...\" quote; `> FILE`, `>> FILE` and `| SHELL COMMAND` stand after the arguments.\n", call->out);
	return 0;
}

extern const struct command cmd_help;
const struct command cmd_help = {
	.name = "help",
	.usage = "[COMMAND]",
	.summary = "what there is; what COMMAND does",
	.run = help,
};
