/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/prompt/alias.h"

#include "session/mode.h"
#include "shell/common/command.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Looked for where a command begins, before quotes are: the leading ' has no other. */
static const struct alias {
	const char *name;
	const char *command;
	/* the command for a call with an argument, %s being it; NULL: takes none */
	const char *with;
	bool needed; /* the argument is */
	bool mode;   /* it is a recording mode, as MemRecordType.NAME */
} table[] = {
	{ .name = "get_mem_report", .command = "report --json" },
	{ .name = "get_all_time_size", .command = "timeline --json" },
	{ .name = "get_mem_report_with_time", .with = "report --json --at %sms", .needed = true },
	{ .name = "set_enable_mem_profiler",
	  .command = "record mem",
	  .with = "record %s",
	  .mode = true },
	{ .name = "start_mem_log_profiler", .command = "parse", .with = "parse %s" },
	{ .name = "get_mem_profiler_log_number", .command = "log --json" },
	{ .name = "set_mem_profiler_log_number", .with = "log files %s", .needed = true },
};

static const char *const prefixes[] = { "mem_profiler.", "system.core." };

static bool skip(const char **at, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*at, word, len))
		return false;
	*at += len;
	return true;
}

static bool exists(const struct alias *a)
{
	const char *text = a->needed ? a->with : a->command;
	char name[32], why[160];
	const struct command *c;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " "), text);
	c = command_find(name, why, sizeof(why));
	if (!c || strcmp(c->name, name))
		return false;
	return !strstr(text, "--at") || strstr(c->usage, "--at TIME");
}

static const struct alias *find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (strlen(table[i].name) == len && !strncmp(table[i].name, name, len))
			return exists(&table[i]) ? &table[i] : NULL;
	return NULL;
}

/*
 * The mode that WORD names, or 4, the default there; what names none is for the command to refuse,
 * as it was written.
 */
static const char *mode_named(const char *word)
{
	const char *name = !strcmp(word, "4") ? "MEM_RECORD" : word;

	skip(&name, "MemRecordType.");
	for (int i = 0; i < MODES; i++)
		if (!strcmp(modes[i].gs, name))
			return modes[i].name;
	return word;
}

char *alias_expand(const char *text, size_t *len, char *why, size_t why_len)
{
	bool quoted = *text == '\'';
	const char *at = text + quoted, *name, *argument, *end;
	const struct alias *a;
	char *command = NULL, word[64];

	*why = '\0';
	for (size_t i = 0; i < 2 * (sizeof(prefixes) / sizeof(*prefixes)); i++)
		skip(&at, prefixes[i % 2]);
	name = at;
	at += strspn(at, "abcdefghijklmnopqrstuvwxyz_");
	a = *at == '(' ? find(name, (size_t)(at - name)) : NULL;
	if (!a)
		return NULL;
	argument = at + 1 + strspn(at + 1, " \t");
	end = argument + strcspn(argument, " \t)\n;");
	at = end + strspn(end, " \t");
	if (*at != ')') {
		*len = (size_t)(at - text) + strcspn(at, ";\n");
		snprintf(why, why_len, "%s(): a ')' is missing behind its argument", a->name);
		return NULL;
	}
	at++;
	if (quoted && *at == '\'')
		at++;
	*len = (size_t)(at - text);
	snprintf(word, sizeof(word), "%.*s", (int)(end - argument), argument);
	if (*word ? !a->with : a->needed)
		snprintf(why, why_len,
			 *word ? "%s() takes no argument" : "%s(): an argument is missing",
			 a->name);
	else if (asprintf(&command, *word ? a->with : a->command,
			  a->mode ? mode_named(word) : word) < 0)
		command = NULL;
	return command;
}
