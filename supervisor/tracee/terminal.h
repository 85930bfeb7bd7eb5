/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * terminal.h - the two terminals of an interactive run: the user's, and one that the program gets.
 * The program leads a session there; those of its descriptors 0-2 that would be the user's terminal
 * are its own instead. A keeper process (keeper.h) sees to it that our death neither hangs the
 * program up nor leaves the user's terminal raw. There is one struct terminal for a run of mtrun;
 * when the program is run again it gets a new terminal.
 */
#ifndef MTRUN_TERMINAL_H
#define MTRUN_TERMINAL_H

#include <termios.h>

#include "base/types.h"

/* SANE: as we found it. KEYS: keys are read one by one, without echo. RAW: for the program. */
enum terminal_mode { TERMINAL_SANE, TERMINAL_KEYS, TERMINAL_RAW };

struct terminal {
	/* the user's terminal: an open file of our own, which does not block */
	int user;
	struct termios saved; /* as we found it */
	unsigned shared;      /* bit N: the program's descriptor N is its terminal */
	int master;	      /* -1: none */
	/* our descriptor of its other side, so that it stays open while the program has closed it */
	int slave;
	char *name; /* of the other side */
	int keeper;
	enum terminal_mode mode; /* of the user's */
};

/*
 * Opens the user's terminal; standard input and error must be terminals. PROGRAM: makes one for the
 * program, too. It forks the keeper, so it must be called before there is a second thread. 0 or
 * -errno. terminal_close() ends it.
 */
int terminal_open(struct terminal *t, bool program) MUST_USE;
/* Makes a new terminal for the program: `master` changes. 0 or -errno. */
int terminal_renew(struct terminal *t) MUST_USE;
/* In the child, before its exec: makes the program's terminal its own. */
void terminal_enter(const struct terminal *t);
/* Whether the user's terminal was closed, or is closed within MS milliseconds. */
bool terminal_is_gone(const struct terminal *t, int ms);
/*
 * Closes the program's terminal: its foreground group gets SIGHUP and SIGCONT, and can read and
 * write nothing any more. The keeper ends, too.
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

/* Writes all of TEXT, however long that takes; once the terminal is gone the rest is lost. */
void terminal_write(const struct terminal *t, const char *text, size_t len);

/* Leaves the user's terminal as we found it; the keeper goes on for a program that lives. */
void terminal_close(struct terminal *t);

#endif
