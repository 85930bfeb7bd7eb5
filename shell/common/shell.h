/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * shell.h - the shell: it takes commands from -x, from a script or from the prompt, runs each
 * against the session, and turns the session's loop while it waits.
 */
#ifndef MTRUN_SHELL_H
#define MTRUN_SHELL_H

#include <stdio.h>

#include "base/types.h"
#include "memory/residency.h"
#include "report/sites.h"
#include "session/session.h"
#include "shell/common/spawn.h"

struct call;
struct dump_record; /* shell/common/dumping.c */
struct events;	    /* shell/common/events.c */
struct functions;   /* shell/common/functions.h */
struct screen;	    /* shell/prompt/screen.h */

struct settings {
	size_t rows;	 /* how many rows text lists show */
	char *site_skip; /* regular expression; never NULL */
	/* well-known wrappers may be sites: they are not passed over */
	bool stay_in_wrappers;
};

struct dumping {		    /* .heap files (dumping.h) */
	struct dump_record *record; /* by pid */
	size_t records;
	bool asked; /* SIGUSR1 has come */
	bool running;
	/* the last one that was due could not be written: said once */
	bool failing;
};

struct interval {
	uint64_t ms;
	int fd;
}; /* usage lines; ms 0: none */

struct limiting { /* hits of the limit */
	/* how many there were, of all processes; how many of them `wait limit` has seen */
	uint64_t hits, waited;
	enum limit_action action; /* at the hit that is being told */
	bool commands;		  /* `on limit` has some */
	bool kill;		  /* they come first: until they have run, `kill` is `stop` */
};

struct mapped {	   /* the last answer about resident memory (mapping.h) */
	pid_t pid; /* 0: there was none */
	uint64_t began_ms, ms, rss, bytes[RESIDENCY_ROWS];
};

struct erring { /* errors of the program */
	/* how many were told, of all processes; how many of them `wait error` has seen */
	uint64_t errors, waited;
	bool telling;
};

struct comparing;
struct leaked;
struct suppressions;
struct process_sites;
struct serve; /* shell/serve/serve.h */

struct shell {
	struct session *session;
	struct process *about; /* the command at work is, a reference; NULL: nobody has asked */
	bool at_work;	       /* a command is */
	bool typed;	       /* it was typed at the prompt, and the user waits for its answer */
	struct settings settings;
	bool quit;	   /* `quit`: no more commands, mtrun ends at once */
	bool detached;	   /* by `quit`, `detach` */
	unsigned failed;   /* commands, and what else mtrun was to do */
	unsigned nesting;  /* of `source` */
	const char *where; /* script being read, NULL: -x */
	unsigned line;
	bool ended;	       /* the program's end, or the end of tracing, was seen ... */
	uint64_t ended_ms;     /* ... at this moment */
	bool traced_enough;    /* -d has passed */
	struct screen *screen; /* interactive; NULL in batch, as the next */
	struct terminal *terminal;
	/* Ctrl-C: the command at work is to end; cleared before the next line */
	_Atomic bool interrupted;
	bool suspended;	     /* Ctrl-Z: to be stopped as any program */
	unsigned resizes;    /* how often the window got another size */
	pid_t spawned;	     /* the /bin/sh that was started last; it may have ended */
	uint64_t spawned_ms; /* when the last shell command was started */
	/* the user's terminal is gone, or we were told to: detach and end */
	_Atomic bool leave;
	uint64_t left_ms;      /* when a signal said so first, by clock_ms() */
	bool killed;	       /* because the user said so on leaving */
	struct events *events; /* `every`, `on` */
	struct interval interval;
	struct limiting limiting;
	struct erring erring;
	struct dumping dumping; /* .heap files */
	struct mapped mapped;
	struct functions *functions; /* for completion */
	struct comparing *comparing; /* files that the last answer was about; NULL: none */
	struct process_sites *sites;
	struct leaked *leaked;		   /* shell/common/leaking.h; NULL: nothing was scanned */
	struct suppressions *suppressions; /* of leaks; the caller's of shell_init() */
	bool leak_checking;		   /* at it */
	bool leaked_definitely;		   /* --leak-check has found something */
	struct serve *serve;		   /* the server of --listen; NULL: none */
	/* where its errors go, SHELL_SAID bytes; NULL: they are said. Then it is no user's */
	char *said;
};
#define SHELL_SAID 1024u
/* ms: who is killed is waited for, so that the next command finds it dead */
#define SHELL_KILL_MS 2000u

/*
 * A shell that asks for somebody else: it has no user, no events, no files of its own. Storage is
 * the caller's; released with the session's lock. 0 or -ENOMEM.
 */
int shell_asker_init(struct shell *shell, struct session *session) MUST_USE;
/* It has the settings of FROM. */
void shell_asker_takes(struct shell *shell, const struct shell *from);
void shell_asker_release(struct shell *shell);

/* Storage is the caller's. SUPPRESSIONS, of leaks, are borrowed. */
void shell_init(struct shell *shell, struct session *session, struct suppressions *suppressions);
void shell_release(struct shell *shell);

/*
 * Runs all commands in TEXT (from -x, or the file NAME); each error is said and counted in
 * `failed`.
 */
void shell_run_text(struct shell *shell, const char *name, const char *text);
/* Of a copy of TEXT, as its commands may have it replaced. */
void shell_run_copy(struct shell *shell, const char *text);
/*
 * shell_run_copy() with P chosen, which something has happened to; TEXT may be NULL. Afterwards the
 * process before is, unless P STAYS to be looked at.
 */
void shell_run_of(struct shell *shell, const struct process *p, bool stays, const char *text);
/* shell_run_text() of what was typed at the prompt. */
void shell_run_typed(struct shell *shell, const char *text);
/*
 * Runs the commands of a file as they are read, "-": stdin. 0 or -errno when it cannot be read (not
 * said).
 */
int shell_run_file(struct shell *shell, const char *path) MUST_USE;

/*
 * The program that the questions of the command at work are about, with everything that has
 * happened so far in its ledger. Its record is held, and it stays the same until the command ends,
 * though it may execute another program or end. Never NULL once the session has launched.
 */
struct process *shell_process(struct shell *shell);
/* It, or if nobody has asked yet, the chosen one. */
struct process *shell_subject(const struct shell *shell);
/* The next shell_process() is the chosen one of then. */
void shell_leave_subject(struct shell *shell);
/* The heap that it had before an attach; NULL: it was started by us. */
const struct preattach_heap *shell_preattach(struct shell *shell);
/* shell_process() if it is running or stopped; NULL: it has ended, or was let go (said). */
struct process *shell_alive(struct shell *shell, const struct call *call);
/*
 * The moment that answers about it are of: now, its end, or when recording was switched off. In ms
 * since tracing began.
 */
uint64_t shell_moment(const struct shell *shell, const struct process *p);
/* Now, or its end. */
uint64_t shell_elapsed(const struct shell *shell, const struct process *p);
/* Its stacks with symbols. NULL: out of memory (said). */
struct sites *shell_sites(struct shell *shell, struct process *p);
/* shell_sites() of the caller's own (to be freed), for use beside another command. */
struct sites *shell_own_sites(struct shell *shell, struct process *p);
/* What is remembered of them is forgotten. */
void shell_forget_sites(struct shell *shell);
/* The rule for sites has changed. 0 or -EINVAL (*why is static). */
int shell_site_skip(struct shell *shell, const char *regex, const char **why) MUST_USE;

/* All processes are about to be others: nothing of them is remembered. */
void shell_forget(struct shell *shell);

/* Detaches: the program lives on, its hooks do nothing any more. */
void shell_let_go(struct shell *shell);
/* Says that P has ended, or was let go; returns -1. */
int shell_over(const struct shell *shell, const struct call *call, const struct process *p);
/* Whether what is set now can be of use: not after the end of what was attached to (said). */
bool shell_can_set(struct shell *shell, const struct call *call);

/* Whether the command at work is to end: asked by all that take long. */
bool shell_interrupted(const struct shell *shell);
/*
 * A signal says that mtrun is to end; BY_USER: Ctrl-C, which some time after the first signal also
 * ends what is still written then.
 */
void shell_told_to_leave(struct shell *shell, bool by_user);
/* What was printed is on its way out, so that somebody else can write to message_fd(). */
void shell_flush(struct shell *shell);

/* Whether TEXT ends within braces: more lines must come. */
bool shell_is_open(const char *text);

/*
 * One turn of the session's loop, at most MS; keeps the time-outs of batch runs (-d, the hold at
 * the end).
 */
int shell_turn(struct shell *shell, int ms) MUST_USE;
/*
 * spawn_shell(), after what was said before. Ctrl-C reaches it by itself, and ends it; one that
 * came before it was there is passed on. 0 or -errno.
 */
int shell_spawn(struct shell *shell, struct spawned *child, const char *command, int out,
		enum spawn_input input) MUST_USE;
/*
 * Turns it until FD can be read, or is at its end; or until we are to leave, or also by Ctrl-C:
 * -EINTR. 0 or -errno.
 */
enum await_end { AWAIT_READABLE, AWAIT_LEAVE, AWAIT_INTERRUPT };
int shell_await(struct shell *shell, int fd, enum await_end end) MUST_USE;

#endif
