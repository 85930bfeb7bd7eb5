/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "command.h"

#include <stdarg.h>
#include <string.h>

#include "base/message.h"

/*
 * The table of commands and how their arguments are read. Options stand anywhere among the words; long ones may be shortened to what
 * is unique, take their value after `=` or as the next word; letters may be run together. The same rules for every command, one line for every mistake.
 */
const struct command *const commands[] = {
	&cmd_status, &cmd_report, &cmd_top, &cmd_text, &cmd_tree, &cmd_timeline, &cmd_snapshot, &cmd_diff,
	&cmd_blocks, &cmd_x, &cmd_wait, &cmd_every, &cmd_on,
	&cmd_limit, &cmd_sample, &cmd_record, &cmd_log, &cmd_interval,
	&cmd_list, &cmd_trace, &cmd_export, &cmd_dump, &cmd_open, &cmd_parse,
	&cmd_stop, &cmd_cont, &cmd_run, &cmd_bt, &cmd_threads,
	&cmd_processes, &cmd_process, &cmd_kill, &cmd_detach, &cmd_fg, &cmd_gdb, &cmd_echo, &cmd_source, &cmd_shell,
	&cmd_set, &cmd_history, &cmd_help, &cmd_quit,
	NULL
};

const struct command *command_find(const char *name, char *why, size_t len)
{
	const struct command *found = NULL;
	size_t n = strlen(name), at = 0;
	bool several = false;

	for (size_t i = 0; commands[i]; i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
		if (n && !strncmp(commands[i]->name, name, n)) {
			several = found;
			found = found ? found : commands[i];
			if (several)
				break;
		}
	}
	if (found && !several)
		return found;
	if (!found) {
		snprintf(why, len, "unknown command '%s' (`help` lists all)", name);
		return NULL;
	}
	at = (size_t)snprintf(why, len, "'%s' is ambiguous:", name);
	for (size_t i = 0; commands[i]; i++)
		if (!strncmp(commands[i]->name, name, n) && at < len)
			at += (size_t)snprintf(why + at, len - at, " %s", commands[i]->name);
	return NULL;
}

int shell_error(const struct shell *shell, const struct call *call, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (shell->where && call)
		message_error("%s:%u: %s: %s", shell->where, shell->line, call->command->name, text);
	else if (shell->where)
		message_error("%s:%u: %s", shell->where, shell->line, text);
	else if (call)
		message_error("%s: %s", call->command->name, text);
	else
		message_error("%s", text);
	return -1;
}

void arguments_init(struct arguments *a, const struct shell *shell, struct call *call, const struct argument *table)
{
	*a = (struct arguments){ .table = table, .call = call, .shell = shell, .at = 1 };
}

#define ARG_JSON (-4)

static int bad(struct arguments *a, const char *what, const char *word)
{
	shell_error(a->shell, a->call, "%s '%s' (`help %s` lists all)", what, word, a->call->command->name);
	return ARG_BAD;
}

static int long_option(struct arguments *a, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	int found = ARG_BAD, several = 0;

	for (int i = 0; a->table && a->table[i].name; i++) {
		if (strncmp(a->table[i].name, name, len))
			continue;
		if (a->table[i].name[len] == '\0') {
			found = i;
			several = 0;
			break;
		}
		several += found != ARG_BAD;
		found = i;
	}
	if (a->call->command->flags & COMMAND_JSON && len && !strncmp("json", name, len)) {
		several += found != ARG_BAD && len < 4;
		found = ARG_JSON;
	}
	if (found == ARG_BAD || len == 0)
		return bad(a, "unknown option", word);
	if (several)
		return bad(a, "ambiguous option", word);
	if (found == ARG_JSON || !a->table[found].value) {
		if (equals)
			return bad(a, "no value is taken by", word);
		return found;
	}
	a->value = equals ? equals + 1 : a->call->argv[a->at];
	if (!a->value)
		return bad(a, "a value is missing after", word);
	if (!equals)
		a->at++;
	return found;
}

static int letter_option(struct arguments *a)
{
	char c = *a->cluster++, word[3] = { '-', c, '\0' };

	for (int i = 0; a->table && a->table[i].name; i++) {
		if (a->table[i].letter != c)
			continue;
		if (!a->table[i].value)
			return i;
		a->value = *a->cluster ? a->cluster : a->call->argv[a->at];
		if (!*a->cluster)
			a->at++;
		a->cluster = NULL;
		return a->value ? i : bad(a, "a value is missing after", word);
	}
	return bad(a, "unknown option", word);
}

int arguments_next(struct arguments *a)
{
	for (;;) {
		const char *word;
		int r;

		if (a->cluster && *a->cluster)
			return letter_option(a);
		a->cluster = NULL;
		if (a->at >= a->call->argc)
			return ARG_END;
		word = a->call->argv[a->at++];
		a->value = word;
		if (a->plain || word[0] != '-' || !word[1])
			return ARG_WORD;
		if (!strcmp(word, "--")) {
			a->plain = true;
			continue;
		}
		if (word[1] != '-') {
			a->cluster = word + 1;
			continue;
		}
		r = long_option(a, word);
		if (r != ARG_JSON)
			return r;
		a->call->json = true;
	}
}

int arguments_each(struct shell *shell, struct call *call, const struct argument *table,
		   int (*one)(struct shell *shell, struct call *call, void *ctx, int arg, const char *value), void *ctx)
{
	struct arguments a;
	int arg;

	arguments_init(&a, shell, call, table);
	while ((arg = arguments_next(&a)) != ARG_END)
		if (arg == ARG_BAD || one(shell, call, ctx, arg, a.value))
			return -1;
	return 0;
}

int arguments_none(const struct shell *shell, struct call *call)
{
	const char *word;

	if (arguments_one(shell, call, &word))
		return -1;
	return word ? arguments_unexpected(shell, call, word) : 0;
}

int arguments_one(const struct shell *shell, struct call *call, const char **word)
{
	struct arguments a;
	int arg;

	*word = NULL;
	arguments_init(&a, shell, call, NULL);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_BAD)
			return -1;
		if (*word)
			return arguments_unexpected(shell, call, a.value);
		*word = a.value;
	}
	return 0;
}

int arguments_unexpected(const struct shell *shell, const struct call *call, const char *word)
{
	return shell_error(shell, call, "unexpected argument '%s' (`help %s` lists all)", word, call->command->name);
}
