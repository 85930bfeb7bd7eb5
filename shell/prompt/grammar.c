// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/prompt/grammar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * One pass, a word at a time. A word is built in a buffer of its own; whether any part of it was
 * quoted is remembered, because `}` quoted is an argument and `}` alone is not.
 */
struct word {
	char *text;
	size_t len, allocated;
	bool quoted, block;
};

static int put(struct word *w, char c)
{
	if (w->len + 2 > w->allocated) {
		size_t n = w->allocated ? w->allocated * 2 : 64;
		char *text = realloc(w->text, n);

		if (!text)
			return -ENOMEM;
		w->text = text;
		w->allocated = n;
	}
	w->text[w->len++] = c;
	w->text[w->len] = '\0';
	return 0;
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool ends(char c) { return c == '\0' || c == '\n' || c == ';'; }

static char take(struct grammar *g)
{
	if (*g->at == '\n')
		g->line++;
	return *g->at++;
}

/* Blanks, escaped newlines and a comment, up to something else or the end of the line. */
static void skip_blanks(struct grammar *g)
{
	for (;;) {
		if (blank(*g->at)) {
			g->at++;
		} else if (g->at[0] == '\\' && g->at[1] == '\n') {
			g->at++;
			take(g);
		} else if (*g->at == '#') {
			while (*g->at && *g->at != '\n')
				g->at++;
		} else {
			return;
		}
	}
}

static int quoted(struct grammar *g, struct word *w, char quote, bool keep)
{
	if (keep && put(w, quote))
		return -ENOMEM;
	while (*g->at && *g->at != quote) {
		if (quote == '"' && *g->at == '\\' && g->at[1] &&
		    (keep || g->at[1] == '"' || g->at[1] == '\\')) {
			if (keep && put(w, *g->at))
				return -ENOMEM;
			g->at++;
		}
		if (put(w, take(g)))
			return -ENOMEM;
	}
	if (!*g->at)
		return -EAGAIN;
	g->at++;
	return keep ? put(w, quote) : 0;
}

/* The inside of { }, as it is written: it will be read again when it is run. */
static int block(struct grammar *g, struct word *w)
{
	unsigned depth = 1;
	int err = 0;

	w->block = true;
	while (*g->at && !err) {
		char c = take(g);

		if (c == '\'' || c == '"') {
			err = quoted(g, w, c, true);
			continue;
		}
		if (c == '{')
			depth++;
		else if (c == '}' && --depth == 0)
			return w->text ? 0 : put(w, ' ');
		err = put(w, c);
		if (!err && c == '\\' && *g->at)
			err = put(w, take(g));
	}
	g->in_braces = !err;
	return err ? err : -EAGAIN;
}

static int word(struct grammar *g, struct word *w)
{
	int err = 0;

	*w = (struct word){ 0 };
	if (*g->at == '{') {
		g->at++;
		return block(g, w);
	}
	while (!err && !ends(*g->at) && !blank(*g->at)) {
		char c = take(g);

		if (c == '\'' || c == '"') {
			w->quoted = true;
			err = quoted(g, w, c, false);
		} else if (c == '\\' && *g->at == '\n') {
			take(g);
		} else {
			if (c == '\\' && *g->at) {
				w->quoted = true;
				c = take(g);
			}
			err = put(w, c);
		}
	}
	if (!err && !w->text) {
		err = put(w, ' '); /* '' is a word too */
		if (!err) {
			w->len = 0;
			w->text[0] = '\0';
		}
	}
	return err;
}

/* Text up to the end of the command, quotes kept and obeyed. */
static int rest(struct grammar *g, char **text)
{
	struct word w = { 0 };
	int err = put(&w, ' ');

	w.len = 0;
	skip_blanks(g);
	while (!err && !ends(*g->at)) {
		char c = take(g);

		if (c == '#' && (w.len == 0 || blank(w.text[w.len - 1]))) {
			while (*g->at && *g->at != '\n')
				g->at++;
			break;
		}
		if (c == '\'' || c == '"') {
			err = quoted(g, &w, c, true);
			continue;
		}
		err = put(&w, c);
		if (!err && c == '\\' && *g->at)
			err = put(&w, take(g));
	}
	if (err) {
		free(w.text);
		return err;
	}
	while (w.len && blank(w.text[w.len - 1]))
		w.len--;
	w.text[w.len] = '\0';
	*text = w.text;
	return 0;
}

static int wrong(struct grammar *g, const char *why)
{
	snprintf(g->why, sizeof(g->why), "%s", why);
	return -EINVAL;
}

static int argument(struct statement *s, char *text)
{
	char **argv = reallocarray(s->argv, (size_t)s->argc + 2, sizeof(*argv));

	if (!argv)
		return -ENOMEM;
	s->argv = argv;
	argv[s->argc++] = text;
	argv[s->argc] = NULL;
	return 0;
}

static int file_target(struct grammar *g, struct statement *s, enum redirect redirect)
{
	struct word w;
	int err;

	skip_blanks(g);
	if (ends(*g->at))
		return wrong(g, redirect == REDIRECT_WRITE ? "missing file name after '>'"
							   : "missing file name after '>>'");
	err = word(g, &w);
	if (!err && !*w.text)
		err = wrong(g, "the file name after '>' is empty");
	if (err) {
		free(w.text);
		return err;
	}
	s->redirect = redirect;
	s->target = w.text;
	skip_blanks(g);
	return ends(*g->at)
		       ? 0
		       : wrong(g,
			       "nothing may follow the file name after '>': arguments come before it");
}

static int pipe_target(struct grammar *g, struct statement *s)
{
	int err = rest(g, &s->target);

	if (err)
		return err;
	s->redirect = REDIRECT_PIPE;
	return *s->target ? 0 : wrong(g, "missing shell command after '|'");
}

/* What is said behind the arguments, whether there is a blank behind its `>` or `|` or not. */
static int output(struct grammar *g, struct statement *s)
{
	bool append = g->at[0] == '>' && g->at[1] == '>';
	int err;

	if (*g->at == '|') {
		g->at++;
		err = pipe_target(g, s);
	} else {
		g->at += append ? 2 : 1;
		err = file_target(g, s, append ? REDIRECT_APPEND : REDIRECT_WRITE);
	}
	if (!err && !s->argc)
		err = wrong(g, "missing command before the redirection");
	return err;
}

static int arguments(struct grammar *g, struct statement *s)
{
	for (;;) {
		struct word w;
		int err;

		skip_blanks(g);
		if (ends(*g->at))
			return 0;
		if (*g->at == '>' || *g->at == '|')
			return output(g, s);
		if (s->argc == 0 && *g->at == '!') { /* `!ls`: a word of its own */
			g->at++;
			w = (struct word){ .text = strdup("!") };
			err = w.text ? 0 : -ENOMEM;
		} else {
			err = word(g, &w);
		}
		if (!err && !w.quoted && !w.block && !strcmp(w.text, "}"))
			err = wrong(g, "'}' without '{'");
		if (!err)
			err = argument(s, w.text);
		if (err) {
			free(w.text);
			return err;
		}
		if (s->argc == 1 && g->takes_rest && g->takes_rest(s->argv[0]))
			return rest(g, &s->rest);
	}
}

/* Behind a mistake: to the end of the command. */
static void resume(struct grammar *g)
{
	while (!ends(*g->at)) {
		char c = take(g);

		if (c == '\\' && *g->at)
			take(g);
		else if (c == '\'' || c == '"')
			while (*g->at && take(g) != c)
				;
	}
}

/*
 * A command may have another spelling: its words are those of the command it stands for, and what
 * follows is read as always.
 */
static int call(struct grammar *g, struct statement *s)
{
	struct grammar inner = { .takes_rest = NULL };
	const char *name = NULL;
	size_t len = 0;
	char *text = g->expand ? g->expand(g->at, &len, &name, g->why, sizeof(g->why)) : NULL;
	int err = g->why[0] ? -EINVAL : 0;

	if (text) {
		inner.at = text;
		err = arguments(&inner, s);
		s->call_form = name;
		free(text);
	}
	g->at += len;
	if (!err && text && !ends(*g->at) && !blank(*g->at))
		err = wrong(g, "nothing may follow it but a redirection");
	return err;
}

int grammar_next(struct grammar *g, struct statement *s)
{
	int err;

	*s = (struct statement){ 0 };
	g->why[0] = '\0';
	g->in_braces = false;
	for (;;) {
		skip_blanks(g);
		if (!*g->at)
			return 0;
		if (!ends(*g->at))
			break;
		take(g);
	}
	s->line = g->line;
	err = call(g, s);
	if (!err)
		err = arguments(g, s);
	if (!err)
		return 1;
	statement_release(s);
	if (err == -EINVAL)
		resume(g);
	return err;
}

void statement_release(struct statement *s)
{
	for (int i = 0; i < s->argc; i++)
		free(s->argv[i]);
	free(s->argv);
	free(s->rest);
	free(s->target);
	*s = (struct statement){ 0 };
}
