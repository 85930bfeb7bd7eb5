/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/prompt/complete.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/proc.h"
#include "shell/common/asked_snapshots.h"
#include "shell/common/command.h"
#include "shell/common/functions.h"
#include "shell/common/shell.h"

/*
 * The line before the word is read as the grammar does, roughly: which command it is in, which
 * words that has so far. Then the usage line is gone through word by word; what belongs to the
 * option before the cursor, or to no option, is offered if it begins as the word does.
 */
#define WORDS	  32
#define MOST	  2000 /* more are not shown to anybody */
#define SLICE_MS  2
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

/* The loop turns meanwhile. */
static void offer_functions(struct search *s)
{
	struct shell *shell = s->shell;
	uint64_t end;

	if (!shell->functions)
		shell->functions = functions_new();
	if (!shell->functions)
		return;
	end = session_ms(shell->session) + GATHER_MS;
	while (!functions_gather(shell->functions, session_main(shell->session), SLICE_MS) &&
	       session_ms(shell->session) < end && !shell->interrupted)
		session_yield(shell->session);
	functions_match(shell->functions, s->text, offer_function, s);
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

/* A word of a usage line in capitals says what stands there. */
static void offer_kind(struct search *s, const struct command *command, const char *kind)
{
	if (is_one_of(kind, "FILE PATH PREFIX DIR"))
		s->c->files = true;
	else if (!strcmp(command->name, "!"))
		s->c->files = true;
	else if (!strcmp(kind, "COMMAND"))
		offer_commands(s);
	else if (is_one_of(kind, "FUNC FUNCTION ADDR ADDRESS REGEX RE"))
		offer_functions(s);
	else if (!strcmp(kind, "PID"))
		offer_processes(s);
	else if (!strcmp(kind, "TID"))
		offer_threads(s);
	else if (is_one_of(kind, "SIG SIGNAL"))
		offer_signals(s);
	else if (!strcmp(command->name, "set") && !strcmp(kind, "NAME"))
		for (size_t i = 0; setting_name(i); i++)
			offer(s, setting_name(i));
	else if (is_one_of(kind, "SNAP SNAPSHOT A B") || !strcmp(command->name, "snapshot"))
		for (size_t i = 0; shell_snapshot_name(s->shell, i); i++)
			offer(s, shell_snapshot_name(s->shell, i));
}

/* ---- the usage line ------------------------------------------------------ */

/*
 * Offers what the usage line has for the option OPTION (its values), for NULL: arguments, or with
 * OPTIONS: the options themselves.
 */
static void offer_usage(struct search *s, const struct command *command, const char *option,
			bool options)
{
	char *copy = strdup(command->usage), *save = NULL, *inner;
	char current[64] = "";

	for (char *token = copy ? strtok_r(copy, " ", &save) : NULL; token;
	     token = strtok_r(NULL, " ", &save)) {
		bool closes = strchr(token, ']'), named = false;

		for (char *part = strtok_r(token, "[]|", &inner); part;
		     part = strtok_r(NULL, "[]|", &inner)) {
			size_t len = strlen(part);

			if (len > 3 && !strcmp(part + len - 3, "..."))
				part[len -= 3] = '\0';
			if (part[0] == '-' && part[1]) {
				size_t used = named ? strlen(current) : 0;

				snprintf(current + used, sizeof(current) - used, "%s%s",
					 named ? " " : "", part);
				named = true; /* `--since|--base` is one with two names */
				if (options)
					offer(s, part);
			} else if (!options && (option ? is_one_of(option, current) : !*current)) {
				if (islower((unsigned char)part[0]))
					offer(s, part);
				else if (isupper((unsigned char)part[0]))
					offer_kind(s, command, part);
			}
		}
		if (closes)
			*current = '\0';
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
	offer_usage(s, command, option, false);
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
	if (p->words > 1 && last[0] == '-' && takes_value(command, last))
		offer_usage(s, command, last, false);
	else if (s->text[0] == '-' && strchr(s->text, '='))
		offer_joined(s, command);
	else
		offer_usage(s, command, NULL, s->text[0] == '-');
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
	return shell->functions &&
	       !functions_gather(shell->functions, session_main(shell->session), SLICE_MS);
}
