/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * screen.h - what is written on the user's terminal in an interactive run, and in which order: what
 * the program prints, what commands print, and the line being typed, which moves down for both.
 * Nothing here waits for the terminal: what it does not take yet is kept, and the program has to
 * wait with its output until that is gone.
 */
#ifndef MTRUN_SCREEN_H
#define MTRUN_SCREEN_H

#include "base/types.h"
#include "tracee/terminal.h"

struct screen;
struct session;

enum screen_mode {
	/* a command is at work: everything is written as it comes */
	SCREEN_COMMAND,
	/* a line is being typed: it is taken off before and put back after */
	SCREEN_PROMPT,
	SCREEN_HANDED, /* the keyboard is the program's, and so is the screen */
	/*
	 * a command draws on the whole screen, the terminal's alternate one, or another program
	 * does (LENT): what the program prints and what is said is kept for later
	 */
	SCREEN_DRAWN,
	SCREEN_LENT,
};

/* HIDE takes the line being typed off the screen, SHOW puts it back. NULL: out of memory. */
struct screen *screen_new(struct session *session, struct terminal *terminal, void (*hide)(void),
			  void (*show)(void)) MUST_USE;
void screen_free(struct screen *s);

/*
 * Leaving SCREEN_DRAWN and SCREEN_LENT writes what was kept; SCREEN_PROMPT begins on a line of its
 * own.
 */
void screen_enter(struct screen *s, enum screen_mode mode);
/* SCREEN_DRAWN: a picture. One that would have to wait for the terminal is left out. */
void screen_draw(struct screen *s, const char *text, size_t len);
/* We are about to be stopped, or go on: the terminal shows its normal screen meanwhile. */
void screen_suspend(struct screen *s, bool stopping);
/* Whether a line of ours may come in between: nobody has the whole screen. */
bool screen_takes_lines(const struct screen *s);
/* Our own text. */
void screen_write(struct screen *s, const char *text, size_t len);
/* What the program has printed so far comes on the screen. */
void screen_catch_up(struct screen *s);
/* The program gets another terminal: it is started again. 0 or -errno. */
int screen_renew(struct screen *s) MUST_USE;
/* The user's terminal is gone: the program's goes, too. */
void screen_hang_up(struct screen *s);
/* Whether all that was written is on the terminal; or so much of it that more can be. */
bool screen_done(const struct screen *s);
bool screen_has_room(const struct screen *s);
/* What is not yet on it is forgotten (ours; the user has had enough). */
void screen_drop(struct screen *s);
/* Until all is on it: for the end. */
void screen_flush(struct screen *s);

#endif
