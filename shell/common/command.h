/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * command.h - what a shell command is. One table (shell/commands/table.c) dispatches, completes
 * abbreviations and is what `help` prints. Each command lives in a file of its own,
 * shell/commands/NAME.c, with its entry, help and code.
 */
#ifndef MTRUN_COMMAND_H
#define MTRUN_COMMAND_H

#include <stdio.h>

#include "base/layout.h"
#include "base/types.h"

struct shell;

/* One call of a command. */
struct call {
	const struct command *command;
	int argc; /* argv[0]: the command's full name */
	char **argv;
	const char *rest;     /* COMMAND_REST: the rest of its line */
	FILE *out;	      /* what it prints goes here */
	int fd;		      /* the descriptor beneath, for other programs */
	struct layout layout; /* of what it prints there */
	bool json;	      /* --json was given (COMMAND_JSON) */
	bool as_is;	      /* what it prints is for programs: not to be folded (fold.h) */
	/*
	 * "get_mem_report", which it was called as: the answer is JSON in the shape that the gs
	 * driver gives it; else NULL
	 */
	const char *call_form;
};

enum command_flags {
	COMMAND_REST = 1,  /* takes the rest of its line as it is */
	COMMAND_JSON = 2,  /* takes --json */
	COMMAND_LIVE = 4,  /* needs a process: not for what -r opened */
	COMMAND_TIMES = 8, /* needs more than one moment: not for a .heap file */
	/* answers from what is recorded: since when that is off stands below its text */
	COMMAND_RECORD = 16,
	COMMAND_BYTES = 32, /* takes --bytes: exact sizes on a terminal, too */
	COMMAND_FULL = 128, /* takes --full: on a terminal as in a pipe */
	COMMAND_AS_IS = 64, /* its lines are as they are, on a terminal, too */
	/* prints a list, all of it in the end: at the prompt a long one has a pager (pager.h) */
	COMMAND_LIST = 256,
};

/* Under which of its heads `help` has it. */
enum command_group { GROUP_LOOK, GROUP_TIME, GROUP_CONTROL, GROUP_RECORD, GROUP_FILES, GROUPS };

struct command {
	const char *name;
	enum command_group group;
	const char *usage;   /* what follows the name */
	const char *summary; /* one line */
	const char *example; /* what somebody would type */
	const char *help;    /* more lines, or NULL */
	unsigned flags;
	/* 0, or -1 when shell_error() has said why */
	int (*run)(struct shell *shell, struct call *call);
};

/* False: it needs more than what -r opened (said). */
bool command_can_answer(struct shell *shell, const struct call *call) MUST_USE;

/* The table, in the order of `help`; NULL ends it. */
extern const struct command *const commands[];
/* By name or unique abbreviation. NULL: WHY says so, in one line. */
const struct command *command_find(const char *name, char *why, size_t len);
/* The name of setting number I, NULL behind the last. */
const char *setting_name(size_t i);
/* Some words that setting NAME may have, with blanks between; "": none are known. */
const char *setting_values(const char *name);
/* The name of what `wait` compares, number I; NULL behind the last. */
const char *wait_quantity(size_t i);

/*
 * Says "COMMAND: text" in one line, with the place in the script; returns -1 for `return
 * shell_error(...)`.
 */
int shell_error(const struct shell *shell, const struct call *call, const char *format, ...)
	PRINTF(3, 4);
/* Says so if ERR is not the user's Ctrl-C; returns -1. */
int shell_failed(const struct shell *shell, const struct call *call, int err);

#endif
