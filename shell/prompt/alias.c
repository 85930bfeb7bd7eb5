// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/alias.h"

#include "base/nearest.h"
#include "base/units.h"
#include "session/mode.h"
#include "shell/common/command.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * One table of calls. They are looked for where a command begins, before quotes are read: a leading
 * ' has no closing one.
 */
static const struct alias {
	const char *name;
	const char *command;
	/* the command for a call with an argument, %s being it; NULL: takes none */
	const char *with;
	bool needed; /* the argument is */
	bool mode;   /* it is a recording mode, as MemRecordType.NAME */
	bool number;
} table[] = {
	{ .name = "get_mem_report", .command = "report --json" },
	{ .name = "get_all_time_size", .command = "timeline --json" },
	{ .name = "get_mem_report_with_time",
	  .with = "report --json --at %sms",
	  .needed = true,
	  .number = true },
	{ .name = "set_enable_mem_profiler",
	  .command = "record mem",
	  .with = "record %s",
	  .mode = true },
	{ .name = "start_mem_log_profiler",
	  .command = "parse",
	  .with = "parse %s",
	  .number = true },
	{ .name = "get_mem_profiler_log_number", .command = "log --json" },
	{ .name = "set_mem_profiler_log_number",
	  .with = "log files %s",
	  .needed = true,
	  .number = true },
};

/* What ends a word, where it is written without parentheses. */
#define ENDS " \t\n;|>#'}"

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

/* Behind the quote and the prefixes that TEXT may begin with. */
static const char *skip_prefixes(const char *text)
{
	text += *text == '\'';
	for (size_t i = 0; i < 2 * (sizeof(prefixes) / sizeof(*prefixes)); i++)
		skip(&text, prefixes[i % 2]);
	return text;
}

void alias_unknown(const char *word, char *why, size_t len)
{
	const char *at = skip_prefixes(word);
	struct nearest n = { 0 };
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "("), at);
	n.word = name;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (exists(&table[i]))
			nearest_offer(&n, table[i].name);
	if (n.found)
		snprintf(why, len, "unknown command '%s' (did you mean '%s()'?)", word, n.found);
}

char *alias_expand(const char *text, size_t *len, const char **called, char *why, size_t why_len)
{
	bool quoted = *text == '\'', is_call;
	const char *at = skip_prefixes(text), *name, *argument, *end, *said;
	const struct alias *a;
	char *command = NULL, word[64];
	uint64_t number;
	enum mode mode;

	*why = '\0';
	name = at;
	at += strspn(at, "abcdefghijklmnopqrstuvwxyz_");
	is_call = *at == '(';
	a = is_call || strchr(ENDS, *at) ? find(name, (size_t)(at - name)) : NULL;
	if (!a)
		return NULL;
	*called = a->name;
	argument = at + is_call + strspn(at + is_call, " \t");
	end = argument + strcspn(argument, is_call ? " \t)\n;" : ENDS);
	if (is_call) {
		at = end + strspn(end, " \t");
		if (*at != ')') {
			*len = (size_t)(at - text) + strcspn(at, ";\n");
			snprintf(why, why_len, "%s(): a ')' is missing behind its argument",
				 a->name);
			return NULL;
		}
		at++;
	} else if (end > argument) {
		at = end;
	}
	if (quoted && *at == '\'')
		at++;
	*len = (size_t)(at - text);
	snprintf(word, sizeof(word), "%.*s", (int)(end - argument), argument);
	said = a->mode ? mode_named(word) : word;
	if (*word ? !a->with : a->needed)
		snprintf(why, why_len,
			 *word ? "%s() takes no argument" : "%s(): an argument is missing",
			 a->name);
	else if (*word && a->mode && mode_parse(said, &mode))
		snprintf(
			why, why_len,
			"%s(): invalid value '%s': expected CLOSED, LOG_RECORD, LOG_FAST, MEM_RECORD or MEM_FAST",
			a->name, word);
	else if (*word && a->number && number_parse(word, &number))
		snprintf(why, why_len, "%s(): invalid value '%s': expected a number", a->name,
			 word);
	else if (asprintf(&command, *word ? a->with : a->command, said) < 0)
		command = NULL;
	return command;
}
