// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/arguments.h"

#include <ctype.h>
#include <string.h>

#include "base/nearest.h"
#include "shell/common/command.h"

#include "shell/common/shell.h"

/*
 * arguments.c - long options may be shortened to what is unique, and take their value after `=` or
 * as the next word; letters may be run together.
 */

void arguments_init(struct arguments *a, const struct shell *shell, struct call *call,
		    const struct argument *table)
{
	*a = (struct arguments){ .table = table, .call = call, .shell = shell, .at = 1 };
}

/* What many take: FLAG says whether a command does. */
#define ARG_COMMON (-4)
static const struct {
	const char *name;
	unsigned flag;
} common[] = { { "json", COMMAND_JSON }, { "bytes", COMMAND_BYTES }, { "full", COMMAND_FULL } };
#define COMMON (int)(sizeof(common) / sizeof(*common))

static void take_common(struct call *call, int i)
{
	if (common[i].flag == COMMAND_JSON)
		call->json = true;
	else if (common[i].flag == COMMAND_BYTES)
		call->layout.exact = true;
	else { /* as in a pipe */
		call->layout = (struct layout){ 0 };
		call->as_is = true;
	}
}

static int bad(struct arguments *a, const char *what, const char *word)
{
	shell_error(a->shell, a->call, "%s '%s' (`help %s` lists all)", what, word,
		    a->call->command->name);
	return ARG_BAD;
}

static int unknown_option(struct arguments *a, const char *word, const char *name)
{
	struct nearest n = { .word = name };
	char list[64], text[64];

	for (int i = 0; a->table && a->table[i].name; i++)
		nearest_offer(&n, a->table[i].name);
	for (int i = 0; i < COMMON; i++)
		if (a->call->command->flags & common[i].flag)
			nearest_offer(&n, common[i].name);
	snprintf(list, sizeof(list), " (`help %s` lists all)", a->call->command->name);
	shell_error(a->shell, a->call, "unknown option '%s'%s", word,
		    nearest_text(&n, "--", list, text, sizeof(text)));
	return ARG_BAD;
}

static int long_option(struct arguments *a, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	int found = ARG_BAD, several = 0;
	bool whole = false;

	for (int i = 0; a->table && a->table[i].name; i++) {
		if (strncmp(a->table[i].name, name, len))
			continue;
		if (a->table[i].name[len] == '\0') {
			found = i;
			several = 0;
			whole = true;
			break;
		}
		several += found != ARG_BAD;
		found = i;
	}
	for (int i = 0; i < COMMON && !whole; i++)
		if (a->call->command->flags & common[i].flag && len &&
		    !strncmp(common[i].name, name, len)) {
			several += found != ARG_BAD && common[i].name[len];
			found = ARG_COMMON - i;
		}
	if (found == ARG_BAD || len == 0) {
		char typed[64];

		snprintf(typed, sizeof(typed), "%.*s", (int)len, name);
		return unknown_option(a, word, typed);
	}
	if (several)
		return bad(a, "ambiguous option", word);
	if (found <= ARG_COMMON || !a->table[found].value) {
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
		if (a->plain || word[0] != '-' || !word[1] || isdigit((unsigned char)word[1]))
			return ARG_WORD; /* `diff -10s` */
		if (!strcmp(word, "--")) {
			a->plain = true;
			continue;
		}
		if (word[1] != '-') {
			a->cluster = word + 1;
			continue;
		}
		r = long_option(a, word);
		if (r > ARG_COMMON)
			return r;
		take_common(a->call, ARG_COMMON - r);
	}
}

int arguments_each(struct shell *shell, struct call *call, const struct argument *table,
		   int (*one)(struct shell *shell, struct call *call, void *ctx, int arg,
			      const char *value),
		   void *ctx)
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
	return shell_error(shell, call, "unexpected argument '%s' (`help %s` lists all)", word,
			   call->command->name);
}

int shell_act(struct shell *shell, struct call *call, const char *verb,
	      int (*act)(struct session *s, struct process *p))
{
	struct process *p;
	int err;

	if (arguments_none(shell, call))
		return -1;
	p = shell_alive(shell, call);
	if (!p)
		return -1;
	err = act(shell->session, p);
	return err ? shell_error(shell, call, "cannot %s process %d: %s", verb, (int)p->pid,
				 session_stop_error(err))
		   : 0;
}
