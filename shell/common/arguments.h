/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * arguments.h - the arguments of a command. Options stand anywhere among the words; the same rules
 * for every command, one line for every mistake.
 */
#ifndef MTRUN_ARGUMENTS_H
#define MTRUN_ARGUMENTS_H

#include "base/types.h"
#include "shell/common/command.h"

struct process;
struct session;

struct argument {
	/* long option without the dashes, at most one letter: also `-x` */
	const char *name;
	char letter; /* 0: none */
	bool value;
};
#define ARGUMENTS_END          \
	{                      \
		NULL, 0, false \
	}

struct arguments {
	/* ends with ARGUMENTS_END; --json, --bytes and --full are known without being in it */
	const struct argument *table;
	struct call *call;
	const struct shell *shell;
	int at; /* argv index */
	const char *cluster;
	bool plain;	   /* after -- */
	const char *value; /* of the option just returned, or the word */
};

/*
 * Steps through CALL's arguments: returns the index of the option in TABLE, ARG_WORD for a word,
 * ARG_END at the end, ARG_BAD (said).
 */
enum { ARG_WORD = -1, ARG_END = -2, ARG_BAD = -3 };
void arguments_init(struct arguments *a, const struct shell *shell, struct call *call,
		    const struct argument *table);
int arguments_next(struct arguments *a) MUST_USE;
/*
 * Calls ONE for each argument in order, with ARG_WORD for words, until it returns nonzero. 0, or -1
 * (said).
 */
int arguments_each(struct shell *shell, struct call *call, const struct argument *table,
		   int (*one)(struct shell *shell, struct call *call, void *ctx, int arg,
			      const char *value),
		   void *ctx) MUST_USE;
/* For commands without any: 0, or -1 (said). */
int arguments_none(const struct shell *shell, struct call *call) MUST_USE;
/* For those with at most one word and no options; *WORD is NULL without. 0, or -1 (said). */
int arguments_one(const struct shell *shell, struct call *call, const char **word) MUST_USE;
/* Says that WORD is one too many; returns -1. */
int arguments_unexpected(const struct shell *shell, const struct call *call, const char *word);

/*
 * A command without arguments that does ACT with the process: "cannot VERB process N: ..." if that
 * fails. 0, or -1 (said).
 */
int shell_act(struct shell *shell, struct call *call, const char *verb,
	      int (*act)(struct session *s, struct process *p));

#endif
