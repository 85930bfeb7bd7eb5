/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * grammar.h - from text to commands, the same in -x, -X and at the prompt. Knows no command: it is
 * told which ones take the rest of their line.
 *
 *	words; '...' and "..." quote, \ escapes, # begins a comment; `;` or a newline ends a
 *	command; { } is one word that may hold commands;
 *	`> FILE`, `>> FILE` and `| SHELL COMMAND` stand after the arguments; a word that begins with
 *	an unquoted > or | is one of these, too.
 */
#ifndef MTRUN_GRAMMAR_H
#define MTRUN_GRAMMAR_H

#include "base/types.h"

enum redirect { REDIRECT_NONE, REDIRECT_WRITE, REDIRECT_APPEND, REDIRECT_PIPE };

struct statement {
	int argc;
	/* NULL-terminated; a { } word is its inside, without the braces */
	char **argv;
	/* of a command that takes the rest of its line: that text, trimmed; else NULL */
	char *rest;
	enum redirect redirect;
	char *target;  /* file name or shell command */
	unsigned line; /* where it begins, from 1 */
	/* the name that it was written by in the other spelling (`expand`); NULL: it was not */
	const char *call_form;
};

struct grammar {
	const char *at; /* what is still to be read */
	unsigned line;
	/* Whether the command NAME takes the rest of its line as it is (`wait`: up to `;`; `!`). */
	bool (*takes_rest)(const char *name);
	/*
	 * The command (to be freed) that the other spelling at the beginning of TEXT stands for,
	 * *LEN bytes of it, and *NAME, static, in it; NULL: none, or WHY says what is wrong with it.
	 */
	char *(*expand)(const char *text, size_t *len, const char **name, char *why,
			size_t why_len);
	char why[160]; /* after an error: one line */
	/* after -EAGAIN: it is a brace that is missing, not a quote */
	bool in_braces;
};

/*
 * The next command: 1 and *S is filled (statement_release() frees it), 0 at the end, -EAGAIN if the
 * text ends within quotes or braces (more may follow), -EINVAL for anything wrong: `why` says what,
 * and reading goes on behind that command. -ENOMEM.
 */
int grammar_next(struct grammar *g, struct statement *s) MUST_USE;
void statement_release(struct statement *s);

#endif
