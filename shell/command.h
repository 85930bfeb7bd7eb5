/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * command.h - what a shell command is, and the shell that runs them. One table (command.c) dispatches, completes abbreviations and is what `help` prints.
 * Each command lives in a file of its own, cmd-NAME.c, with its entry, help and code.
 */
#ifndef MTRUN_COMMAND_H
#define MTRUN_COMMAND_H

#include <stdio.h>

#include "session/session.h"
#include "report/sites.h"
#include "base/types.h"
#include "dumping.h"
#include "spawn.h"

struct shell;

/* One call of a command. */
struct call {
	const struct command *command;
	int argc;			/* argv[0]: the command's full name */
	char **argv;
	const char *rest;		/* COMMAND_REST: the rest of its line */
	FILE *out;			/* what it prints goes here */
	int fd;				/* the descriptor beneath, for other programs */
	bool json;			/* --json was given (COMMAND_JSON) */
};

enum command_flags {
	COMMAND_REST     = 1,		/* takes the rest of its line as it is */
	COMMAND_JSON     = 2,		/* takes --json */
	COMMAND_LIVE     = 4,		/* needs a process: not for what -r opened */
	COMMAND_TIMES    = 8,		/* needs more than one moment: not for a .heap file */
	COMMAND_RECORD   = 16,		/* answers from what is recorded: since when that is off stands below its text */
};

struct command {
	const char *name;
	const char *usage;		/* what follows the name */
	const char *summary;		/* one line */
	const char *help;		/* more of them, or NULL */
	unsigned flags;
	int (*run)(struct shell *shell, struct call *call);	/* 0, or -1 when shell_error() has said why */
};

extern const struct command cmd_status, cmd_report, cmd_text, cmd_tree, cmd_blocks, cmd_x, cmd_wait, cmd_stop, cmd_cont, cmd_bt, cmd_threads,
	cmd_processes, cmd_process, cmd_timeline, cmd_snapshot, cmd_diff, cmd_kill, cmd_detach, cmd_echo, cmd_source, cmd_shell, cmd_set, cmd_help, cmd_quit,
	cmd_top, cmd_every, cmd_on, cmd_history, cmd_fg, cmd_run, cmd_gdb, cmd_sample, cmd_record, cmd_log;
extern const struct command cmd_trace, cmd_list, cmd_export;
extern const struct command cmd_interval, cmd_limit;
extern const struct command cmd_dump;
extern const struct command cmd_open, cmd_parse;
/* The table, in the order of `help`; NULL ends it. */
extern const struct command *const commands[];
/* By name or unique abbreviation. NULL: WHY says so, in one line. */
const struct command *command_find(const char *name, char *why, size_t len);

/* ---- the shell -------------------------------------------------------------------------------------------------------------------- */

struct settings {
	size_t rows;			/* how many rows text lists show */
	char *site_skip;		/* regular expression; never NULL */
};

struct interval { uint64_t ms; int fd; };	/* usage lines; ms 0: none */

struct limiting {			/* hits of the limit */
	uint64_t hits, waited;		/* how many there were, of all processes; how many of them `wait limit` has seen */
	bool kill;			/* the commands of `on limit` come first: until they have run, `kill` is `stop` */
};

struct comparing;
struct process_sites;

struct shell {
	struct session *session;
	struct settings settings;
	bool quit;			/* `quit`: no more commands, mtrun ends at once */
	bool detached;			/* by `quit`, `detach` */
	unsigned failed;		/* commands that did */
	unsigned nesting;		/* of `source` */
	const char *where;		/* script being read, NULL: -x */
	unsigned line;
	bool ended;			/* the program's end, or the end of tracing, was seen ... */
	uint64_t ended_ms;		/* ... at this moment */
	bool traced_enough;		/* -d has passed */
	struct screen *screen;		/* interactive; NULL in batch, as the next */
	struct terminal *terminal;
	bool interrupted;		/* Ctrl-C: the command at work is to end; cleared before the next line */
	uint64_t spawned_ms;		/* when the last shell command was started */
	bool leave;			/* the user's terminal is gone, or we were told to: detach and end */
	bool killed;			/* because the user said so on leaving */
	struct events *events;		/* `every`, `on` */
	struct interval interval;
	struct limiting limiting;
	struct dumping dumping;		/* .heap files */
	struct functions *functions;	/* for completion */
	struct comparing *comparing;	/* files that the last answer was about; NULL: none */
	struct process_sites *sites;
};

/* Storage is the caller's. */
void shell_init(struct shell *shell, struct session *session);
void shell_release(struct shell *shell);

/* Runs all commands in TEXT (from -x, or the file NAME); each error is said and counted in `failed`. */
void shell_run_text(struct shell *shell, const char *name, const char *text);
/* Runs the commands of a file as they are read, "-": stdin. 0 or -errno when it cannot be read (not said). */
int shell_run_file(struct shell *shell, const char *path) MUST_USE;

/* The program the questions are about, with everything that has happened so far in its ledger. Never NULL once the session has launched. */
struct process *shell_process(struct shell *shell);
/* The heap that it had before an attach; NULL: it was started by us. */
const struct before *shell_before(struct shell *shell);
/* The same if it is running or stopped; NULL: it has ended, or was let go (said). */
struct process *shell_alive(struct shell *shell, const struct call *call);
/* The moment that answers about it are of: now, its end, or when recording was switched off. In ms since tracing began. */
uint64_t shell_moment(const struct shell *shell, const struct process *p);
/* Now, or its end. */
uint64_t shell_elapsed(const struct shell *shell, const struct process *p);
/* Its stacks with symbols. NULL: out of memory (said). */
struct sites *shell_sites(struct shell *shell, struct process *p);
/* The same, of the caller's own (to be freed): also while another command is at work with them. */
struct sites *shell_own_sites(struct shell *shell, struct process *p);
/* The rule for sites has changed. 0 or -EINVAL (*why is static). */
int shell_site_skip(struct shell *shell, const char *regex, const char **why) MUST_USE;

/* All processes are about to be others: nothing of them is remembered. */
void shell_forget(struct shell *shell);

/* Detaches: the program lives on, its hooks do nothing any more. */
void shell_let_go(struct shell *shell);
/* Says that P has ended, or was let go; returns -1. */
int shell_over(const struct shell *shell, const struct call *call, const struct process *p);

/* Whether the command at work is to end: asked by all that take long. */
bool shell_interrupted(const struct shell *shell);
/* What was printed is on its way out, so that somebody else can write to message_fd(). */
void shell_flush(struct shell *shell);

/* Whether TEXT ends within braces: more lines must come. */
bool shell_is_open(const char *text);
/* The name of setting number I, NULL behind the last. */
const char *setting_name(size_t i);
/* The same for snapshots, where there are any. */
const char *shell_snapshot_name(const struct shell *shell, size_t i) __attribute__((weak));

/* One turn of the session's loop, at most MS; keeps the time-outs of batch runs (-d, the hold at the end). */
int shell_turn(struct shell *shell, int ms) MUST_USE;
/* Turns it until FD can be read, or is at its end; or until we are to leave, or also by Ctrl-C: -EINTR. 0 or -errno. */
/* spawn_shell(), after what was said before. Ctrl-C reaches it by itself, and ends it; one that came before it was there is passed on. 0 or -errno. */
int shell_spawn(struct shell *shell, struct spawned *child, const char *command, int out, enum spawn_input input) MUST_USE;
enum await_end { AWAIT_READABLE, AWAIT_LEAVE, AWAIT_INTERRUPT };
int shell_await(struct shell *shell, int fd, enum await_end end) MUST_USE;

/* Says "COMMAND: text" in one line, with the place in the script; returns -1 for `return shell_error(...)`. */
int shell_error(const struct shell *shell, const struct call *call, const char *format, ...) PRINTF(3, 4);

/* ---- arguments -------------------------------------------------------------------------------------------------------------------- */

struct argument {
	const char *name;		/* long option without the dashes, at most one letter: also `-x` */
	char letter;			/* 0: none */
	bool value;
};
#define ARGUMENTS_END { NULL, 0, false }

struct arguments {
	const struct argument *table;	/* ends with ARGUMENTS_END; --json is known without being in it */
	struct call *call;
	const struct shell *shell;
	int at;				/* argv index */
	const char *cluster;
	bool plain;			/* after -- */
	const char *value;		/* of the option just returned, or the word */
};

/* Steps through CALL's arguments: returns the index of the option in TABLE, ARG_WORD for a word, ARG_END at the end, ARG_BAD (said). */
enum { ARG_WORD = -1, ARG_END = -2, ARG_BAD = -3 };
void arguments_init(struct arguments *a, const struct shell *shell, struct call *call, const struct argument *table);
int arguments_next(struct arguments *a) MUST_USE;
/* Calls ONE for each argument in order, with ARG_WORD for words, until it returns nonzero. 0, or -1 (said). */
int arguments_each(struct shell *shell, struct call *call, const struct argument *table,
		   int (*one)(struct shell *shell, struct call *call, void *ctx, int arg, const char *value), void *ctx) MUST_USE;
/* For commands without any: 0, or -1 (said). */
int arguments_none(const struct shell *shell, struct call *call) MUST_USE;
/* For those with at most one word and no options; *WORD is NULL without. 0, or -1 (said). */
int arguments_one(const struct shell *shell, struct call *call, const char **word) MUST_USE;
/* Says that WORD is one too many; returns -1. */
int arguments_unexpected(const struct shell *shell, const struct call *call, const char *word);

#endif
