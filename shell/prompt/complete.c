// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/complete.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/proc.h"
#include "leaks/leaks.h"
#include "shell/common/asked_snapshots.h"
#include "shell/common/command.h"
#include "shell/common/functions.h"
#include "shell/common/shell.h"

/*
 * The line before the word is read as the grammar does, roughly: which command it is in, which
 * words that has so far. Then the usage line is gone through: what belongs to the option before the
 * cursor, or else to the argument that the cursor is at, is offered if it begins as the word does.
 */
#define WORDS	  32
#define MOST	  2000 /* more are not shown to anybody */
#define GATHER_MS 1000 /* nobody waits longer for Tab */

struct place {
	char *copy;
	const char *word[WORDS]; /* of the command so far, its name first */
	size_t words;
	bool file;	    /* behind > or >> */
	bool shell_command; /* behind | */
};

/* ---- where we are -------------------------------------------------------- */

static void begin_command(struct place *p)
{
	p->words = 0;
	p->file = p->shell_command = false;
}

static void end_word(struct place *p, char *from, char *to)
{
	if (from == to)
		return;
	*to = '\0';
	if (p->shell_command)
		return;
	if (p->words < WORDS)
		p->word[p->words++] = from;
}

static bool find_place(struct place *p, const char *line, size_t len)
{
	char *at, *from, quote = '\0';

	*p = (struct place){ .copy = strndup(line, len) };
	if (!p->copy)
		return false;
	for (at = from = p->copy; *at; at++) {
		char c = *at;

		if (quote) {
			quote = c == quote ? '\0' : quote;
		} else if (c == '\'' || c == '"') {
			quote = c;
		} else if (c == '\\' && at[1]) {
			at++;
		} else if (strchr(" \t\n;{}", c)) {
			end_word(p, from, at);
			from = at + 1;
			if (strchr("\n;{}", c))
				begin_command(p);
		} else if ((c == '>' || c == '|') && at == from) {
			p->file = c == '>';
			p->shell_command |= c == '|';
			from = at + 1;
		} else if (c == '!' && at == from && !p->words) {
			p->word[p->words++] = "!";
			from = at + 1;
		}
	}
	return true;
}

/* ---- what there is ------------------------------------------------------- */

struct search {
	struct shell *shell;
	struct completions *c;
	const char *text;
	size_t room;
	/* the command's arguments before the word, without its options and their values */
	const char *argument[WORDS];
	size_t arguments;
};

static void shorten(struct completions *c, const char *word)
{
	size_t len = 0;

	if (!c->common) {
		c->common = strdup(word);
		return;
	}
	while (word[len] && c->common[len] == word[len])
		len++;
	c->common[len] = '\0';
}

static void offer(struct search *s, const char *word)
{
	struct completions *c = s->c;

	/* what cannot be shown as it is could not be typed either */
	if (strncmp(word, s->text, strlen(s->text)) || !escape_is_plain(word))
		return;
	shorten(c, word);
	if (c->count == MOST) {
		c->more = true;
		return;
	}
	if (array_room(&c->word, c->count, &s->room, sizeof(*c->word)))
		return;
	c->word[c->count] = strdup(word);
	c->count += c->word[c->count] != NULL;
}

static void offer_function(void *ctx, const char *name) { offer(ctx, name); }

/*
 * The loop turns meanwhile. If the program executes another one then, names of the old one may be
 * offered, and some of the new one not.
 */
static void offer_functions(struct search *s)
{
	struct session *session = s->shell->session;
	uint64_t end = session_ms(session) + GATHER_MS;
	struct functions_cursor at = { 0 };
	struct functions *f = s->shell->functions;
	bool gathers, done;

	if (!f)
		f = s->shell->functions = functions_new();
	if (!f)
		return;
	gathers = !functions_searchable(s->text) || functions_gather(f, session_main(session), 0);
	do {
		done = gathers ? functions_gather(f, session_main(session), FUNCTIONS_SLICE_MS)
			       : functions_search(session_main(session), s->text, &at,
						  FUNCTIONS_SLICE_MS, offer_function, s);
		if (!done)
			session_yield(session);
	} while (!done && session_ms(session) < end && !s->shell->interrupted);
	if (gathers)
		functions_match(f, s->text, offer_function, s);
}

static void offer_commands(struct search *s)
{
	for (size_t i = 0; commands[i]; i++)
		offer(s, commands[i]->name);
}

static void offer_number(struct search *s, int n)
{
	char text[24];

	snprintf(text, sizeof(text), "%d", n);
	offer(s, text);
}

static void offer_processes(struct search *s)
{
	for (const struct process *p = session_processes(s->shell->session); p; p = p->next)
		if (p->state != PROCESS_REPLACED)
			offer_number(s, p->pid);
}

static void offer_threads(struct search *s)
{
	pid_t *tid;
	int n = proc_threads(session_main(s->shell->session)->pid, &tid);

	for (int i = 0; i < n; i++)
		offer_number(s, tid[i]);
	if (n >= 0)
		free(tid);
}

static void offer_signals(struct search *s)
{
	for (int sig = 1; sig < 32; sig++)
		if (sigabbrev_np(sig))
			offer(s, sigabbrev_np(sig));
}

static bool is_one_of(const char *word, const char *list)
{
	size_t len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += len)
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
			return true;
	return false;
}

static void offer_list(struct search *s, const char *(*name)(size_t i))
{
	for (size_t i = 0; name(i); i++)
		offer(s, name(i));
}

static const char *leak_kind(size_t i)
{
	return i < LEAK_KINDS ? leak_kind_names[i] : i == LEAK_KINDS ? "all" : NULL;
}

static void offer_snapshots(struct search *s)
{
	for (size_t i = 0; shell_snapshot_name(s->shell, i); i++)
		offer(s, shell_snapshot_name(s->shell, i));
}

/* What the setting before the word may be. */
static void offer_values(struct search *s)
{
	char *copy = strdup(setting_values(s->argument[0])), *save = NULL;

	for (char *value = copy ? strtok_r(copy, " ", &save) : NULL; value;
	     value = strtok_r(NULL, " ", &save))
		offer(s, value);
	free(copy);
}

/* A word of a usage line in capitals says what stands there. */
static void offer_kind(struct search *s, const struct command *command, const char *kind)
{
	if (is_one_of(kind, "FILE PATH PREFIX DIR"))
		s->c->files = true;
	else if (!strcmp(command->name, "!"))
		s->c->files = true;
	else if (!strcmp(kind, "COMMAND"))
		offer_commands(s);
	else if (is_one_of(kind, "FUNC ADDR REGEX")) {
		if (strcmp(command->name, "listen"))
			offer_functions(s);
	} else if (!strcmp(kind, "PID"))
		offer_processes(s);
	else if (!strcmp(kind, "TID"))
		offer_threads(s);
	else if (!strcmp(kind, "SIGNAL"))
		offer_signals(s);
	else if (!strcmp(command->name, "set") && !strcmp(kind, "NAME"))
		offer_list(s, setting_name);
	else if (!strcmp(kind, "VALUE"))
		offer_values(s);
	else if (!strcmp(kind, "EXPR"))
		offer_list(s, wait_quantity);
	else if (!strcmp(kind, "LIST"))
		offer_list(s, leak_kind);
	else if (!strcmp(command->name, "snapshot"))
		offer_snapshots(s);
	else if (is_one_of(kind, "SNAP A B")) {
		offer_snapshots(s);
		s->c->files = true; /* .heap files */
	}
}

/* A word of a usage line: itself, or what it stands for. */
static void offer_part(struct search *s, const struct command *command, char *part)
{
	part += strspn(part, "[");
	part[strcspn(part, "].")] = '\0';
	if (islower((unsigned char)*part))
		offer(s, part);
	else if (isupper((unsigned char)*part))
		offer_kind(s, command, part);
}

/* ---- the usage line ------------------------------------------------------ */

/*
 * Offers what the usage line has for the option OPTION, its values; for NULL: the options
 * themselves.
 */
static void offer_options(struct search *s, const struct command *command, const char *option)
{
	char *copy = strdup(command->usage), *save = NULL, *inner;
	char current[64] = "";

	for (char *token = copy ? strtok_r(copy, " ", &save) : NULL; token;
	     token = strtok_r(NULL, " ", &save)) {
		bool closes = strchr(token, ']'), named = false;

		for (char *part = strtok_r(token, "[]|", &inner); part;
		     part = strtok_r(NULL, "[]|", &inner)) {
			if (part[0] == '-' && part[1]) {
				size_t used = named ? strlen(current) : 0;

				snprintf(current + used, sizeof(current) - used, "%s%s",
					 named ? " " : "", part);
				named = true; /* `--since|--base` is one with two names */
				if (!option)
					offer(s, part);
			} else if (option && is_one_of(option, current))
				offer_part(s, command, part);
		}
		if (closes)
			*current = '\0';
	}
	free(copy);
}

/* Up to END, a sign outside of brackets, which is taken out; *REST is behind it, or NULL. */
static char *split(char **rest, char end)
{
	char *from = *rest, *at = from;

	for (int depth = 0; *at && (depth || *at != end); at++)
		depth += (*at == '[') - (*at == ']');
	*rest = *at ? at + 1 : NULL;
	*at = '\0';
	return from;
}

/*
 * One group of a usage line's arguments: `FUNC`, `[on|off|files N]`, `[NAME [VALUE]]`, `[PATH...]`.
 * AT: the argument that it is for; it passes over those that are there. True: the word was the
 * group's, and what stands there is offered.
 */
static bool offer_group(struct search *s, const struct command *command, char *group, size_t *at)
{
	char *way[WORDS], *word[WORDS], *chosen = NULL, *rest = group;
	size_t ways = 0, words = 0;

	while (rest && ways < WORDS)
		way[ways++] = split(&rest, '|');
	for (size_t i = 0; i < ways; i++) {
		size_t len = strcspn(way[i], " ");
		bool same = *at < s->arguments && strlen(s->argument[*at]) == len &&
			    !strncmp(way[i], s->argument[*at], len);

		if (*at == s->arguments) {
			way[i][len] = '\0';
			offer_part(s, command, way[i]);
		} else if (same || (!chosen && isupper((unsigned char)*way[i])))
			chosen = way[i];
	}
	if (*at == s->arguments)
		return true;
	for (rest = chosen; rest && words < WORDS;)
		word[words++] = split(&rest, ' ');
	if (words && strstr(word[words - 1], "...")) {
		*at = s->arguments;
		offer_part(s, command, word[words - 1]);
		return true;
	}
	if (s->arguments - *at < words) {
		offer_part(s, command, word[s->arguments - *at]);
		return true;
	}
	*at += words;
	return false;
}

static void offer_arguments(struct search *s, const struct command *command)
{
	char *copy = strdup(command->usage), *rest = copy;
	size_t at = 0;
	bool found = false;

	while (rest && *rest && !found) {
		char *group = split(&rest, ' ');
		size_t len = strlen(group);

		if (*group == '[' && group[len - 1] == ']') {
			group[len - 1] = '\0';
			group++;
		}
		if (*group != '-')
			found = offer_group(s, command, group, &at);
	}
	free(copy);
}

/* Whether the option before the cursor is one that takes a value: then the word is that. */
static bool takes_value(const struct command *command, const char *option)
{
	const char *at = command->usage;
	size_t len = strlen(option);

	while ((at = strstr(at, option))) {
		at += len;
		if (*at == '|') /* another name of it */
			at += strcspn(at, " ]");
		if (at[0] == ' ' && at[1] != '[' && at[1] != '-')
			return true;
	}
	return false;
}

static void join(char **word, const char *option)
{
	char *whole;

	if (asprintf(&whole, "%s=%s", option, *word) < 0)
		return;
	free(*word);
	*word = whole;
}

/* `--by=si` */
static void offer_joined(struct search *s, const struct command *command)
{
	const char *text = s->text, *equals = strchr(text, '=');
	char option[64];

	snprintf(option, sizeof(option), "%.*s", (int)(equals - text), text);
	s->text = equals + 1;
	offer_options(s, command, option);
	s->c->files = false;
	for (size_t i = 0; i < s->c->count; i++)
		join(&s->c->word[i], option);
	if (s->c->common)
		join(&s->c->common, option);
}

static void search(struct search *s, const struct place *p)
{
	const struct command *command;
	const char *last;
	char why[160];

	if (p->file || p->shell_command) {
		s->c->files = true;
		return;
	}
	if (!p->words) {
		offer_commands(s);
		return;
	}
	command = command_find(p->word[0], why, sizeof(why));
	if (!command)
		return;
	last = p->word[p->words - 1];
	for (size_t i = 1; i < p->words; i++)
		if (p->word[i][0] != '-')
			s->argument[s->arguments++] = p->word[i];
		else if (i + 1 < p->words && takes_value(command, p->word[i]))
			i++;
	if (p->words > 1 && last[0] == '-' && takes_value(command, last))
		offer_options(s, command, last);
	else if (s->text[0] == '-' && strchr(s->text, '='))
		offer_joined(s, command);
	else if (s->text[0] == '-')
		offer_options(s, command, NULL);
	else
		offer_arguments(s, command);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void complete(struct shell *shell, const char *line, size_t start, const char *text,
	      struct completions *c)
{
	struct search s = { .shell = shell, .c = c, .text = text };
	struct place place;
	size_t n = 0;

	*c = (struct completions){ 0 };
	if (find_place(&place, line, start))
		search(&s, &place);
	free(place.copy);
	if (c->files && c->count)
		c->files = false;
	if (c->count)
		qsort(c->word, c->count, sizeof(*c->word), by_text);
	for (size_t i = 0; i < c->count; i++) {
		if (n && !strcmp(c->word[n - 1], c->word[i]))
			free(c->word[i]);
		else
			c->word[n++] = c->word[i];
	}
	c->count = n;
}

bool complete_prepare(struct shell *shell)
{
	if (!shell->functions)
		shell->functions = functions_new();
	return shell->functions && !functions_gather(shell->functions, session_main(shell->session),
						     FUNCTIONS_SLICE_MS);
}
