// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdlib.h>
#include <string.h>

#include "session/asking.h"
#include "shell/common/command.h"
#include "shell/serve/server.h"

/*
 * /api/v1/COMMAND: what the command of that name says with --json, by the command itself, so that
 * the numbers are the prompt's. Only commands of this table, each of which does nothing but look;
 * only parameters of its row, which become `--NAME=VALUE`, words that no grammar reads.
 */
static const struct {
	const char *command, *parameters; /* with blanks around each */
	const char *words;		  /* parameters that are words, in their order */
} table[] = {
	{ "status", " pid ", "" },
	{ "report", " n by sort at since base match pid ", "" },
	{ "timeline", " pid ", "" },
	{ "diff", " n by match since base at pid ", " since base at " },
	{ "text", " n at since base match pid ", "" },
	{ "tree", " n at since base match pid ", "" },
	{ "threads", " pid ", "" },
	{ "processes", " pid ", "" },
	{ "map", " n pid ", "" },
};
enum { COMMANDS = sizeof(table) / sizeof(*table), WORDS = 12 };
/* A regular expression may cost the more the longer it is, and with counts, without bounds. */
#define LONGEST_MATCH 200u

static bool has(const char *list, const char *name)
{
	char text[32];

	snprintf(text, sizeof(text), " %s ", name);
	return strstr(list, text) != NULL;
}

/* 0, or -1 (refused). */
static int check_value(struct answer *a, const struct evkeyval *one)
{
	if (strcmp(one->key, "match"))
		return 0;
	if (strlen(one->value) <= LONGEST_MATCH && !strchr(one->value, '{'))
		return 0;
	answer_refuse(a, 400, "match: at most %u bytes, without braces", LONGEST_MATCH);
	return -1;
}

struct words {
	int count;
	char *word[WORDS];
};

/* 0, or -1 (refused). */
static int add(struct answer *a, struct words *w, const char *format, const char *name,
	       const char *value)
{
	if (w->count + 1 < WORDS && asprintf(&w->word[w->count], format, name, value) >= 0) {
		w->word[++w->count] = NULL;
		return 0;
	}
	answer_refuse(a, 500, "out of memory");
	return -1;
}

/* 0, or -1 (refused). */
static int make_words(struct answer *a, size_t row, struct words *w)
{
	struct evkeyval *one;
	const char *value;

	if (add(a, w, "%s%s", table[row].command, "") || add(a, w, "%s%s", "--json", ""))
		return -1;
	TAILQ_FOREACH(one, &a->query, next)
	{
		if (!has(table[row].parameters, one->key)) {
			answer_refuse(a, 400, "'%s' takes no parameter '%s'", table[row].command,
				      one->key);
			return -1;
		}
		if (check_value(a, one))
			return -1;
		if (strcmp(one->key, "pid") && !has(table[row].words, one->key) &&
		    add(a, w, strlen(one->key) == 1 ? "-%s%s" : "--%s=%s", one->key, one->value))
			return -1;
	}
	if (*table[row].words && add(a, w, "%s%s", "--", ""))
		return -1;
	if (!*table[row].words)
		return 0;
	/* there are two at most: `since`, which is `base`, too, and `at` */
	value = answer_parameter(a, "since");
	if (value && answer_parameter(a, "base")) {
		answer_refuse(a, 400, "since and base are two names of one parameter");
		return -1;
	}
	value = value ? value : answer_parameter(a, "base");
	if (value && add(a, w, "%s%s", value, ""))
		return -1;
	value = value ? answer_parameter(a, "at") : NULL;
	return value ? add(a, w, "%s%s", value, "") : 0;
}

static void run(struct answer *a, struct words *w)
{
	struct shell *shell = &a->s->shell;
	struct call call = { .argc = w->count, .argv = w->word, .out = a->out, .fd = -1 };
	char why[160];

	call.command = command_find(w->word[0], why, sizeof(why));
	shell->about = answer_process(a);
	if (!call.command)
		answer_refuse(a, 404, "%s", why);
	if (call.command && shell->about &&
	    (!command_can_answer(shell, &call) || call.command->run(shell, &call)))
		answer_refuse(a, 400, "%s", *shell->said ? shell->said : "no answer");
	shell_leave_subject(shell);
}

void answer_command(struct answer *a, const char *name)
{
	struct words w = { 0 };
	size_t row;

	for (row = 0; row < COMMANDS && strcmp(name, table[row].command); row++)
		;
	if (row == COMMANDS) {
		answer_refuse(a, 404, "there is no '%s' here", name);
		return;
	}
	a->type = "application/json";
	if (make_words(a, row, &w) == 0) {
		asking_lock(a->s->session);
		a->s->shell.said[0] = '\0';
		run(a, &w);
		asking_unlock(a->s->session);
	}
	for (int i = 0; i < w.count; i++)
		free(w.word[i]);
}
