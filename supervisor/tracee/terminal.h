/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * terminal.h - in an interactive run: the user's terminal, and the one of its own that the program
 * gets. The program leads a session there; those of its descriptors 0-2 that would be the user's
 * terminal are its own instead. A keeper process (keeper.h) sees to it that our death neither hangs
 * the program up nor leaves the user's terminal raw. One for a run of mtrun; run again, the program
 * gets a new one.
 */
#ifndef MTRUN_TERMINAL_H
#define MTRUN_TERMINAL_H

#include <termios.h>

#include "base/types.h"

/*
 * Every byte is the program's (RAW); keys are read one by one without being shown (KEYS); as we
 * found it (SANE).
 */
enum terminal_mode { TERMINAL_SANE, TERMINAL_KEYS, TERMINAL_RAW };

struct terminal {
	/* the user's terminal: an open file of our own, which does not block */
	int user;
	struct termios saved; /* as we found it */
	unsigned shared;      /* bit N: the program's descriptor N is its terminal */
	int master;	      /* -1: none */
	/* ours of the other side: nothing ends while the program has it closed */
	int slave;
	char *name; /* of the other side */
	int keeper;
	enum terminal_mode mode; /* of the user's */
};

/*
 * Standard input and error must be terminals. PROGRAM: it gets one. 0 or -errno. Before there is a
 * second thread: it forks the keeper.
 */
int terminal_open(struct terminal *t, bool program) MUST_USE;
/* A fresh one for the program: `master` is another then. 0 or -errno. */
int terminal_renew(struct terminal *t) MUST_USE;
/* In the child, before its exec: makes the program's terminal its own. */
void terminal_enter(const struct terminal *t);
/* Whether the user's terminal was closed, or is within MS milliseconds. */
bool terminal_is_gone(const struct terminal *t, int ms);
/*
 * Closes the program's terminal: SIGHUP and SIGCONT for its foreground group, nothing to read or
 * write any more. The keeper has ended.
 */
void terminal_hang_up(struct terminal *t);
/* Whether this process has a controlling terminal, be it on a descriptor or not. */
bool terminal_controls(void);
/* The user's window has another size now: tells the program. */
void terminal_resized(const struct terminal *t);
/* Rows and columns of the user's window; 24 by 80 if it does not say. */
void terminal_size(const struct terminal *t, unsigned *rows, unsigned *columns);

void terminal_mode(struct terminal *t, enum terminal_mode mode);
/*
 * What switches the user's terminal to its alternate screen, or back: to be written there by the
 * caller, in its place among the rest. Should we be killed, it is switched back.
 */
const char *terminal_switch(const struct terminal *t, bool alternate);

/*
 * Everything in TEXT, however long the terminal takes it; what it does not take any more (it is
 * gone) is lost.
 */
void terminal_write(const struct terminal *t, const char *text, size_t len);

/*
 * The end of our part in it: the user's terminal is as we found it, the keeper goes on for a
 * program that lives.
 */
void terminal_close(struct terminal *t);

#endif
