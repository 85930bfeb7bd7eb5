/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * keeper.h - a small process beside mtrun that holds the program's terminal, too. While mtrun lives
 * it does nothing. When mtrun is gone, in whatever way, the keeper makes the user's terminal sane
 * again and goes on passing on what the program prints, while both terminals exist: so mtrun's
 * death does not hang the program up.
 */
#ifndef MTRUN_KEEPER_H
#define MTRUN_KEEPER_H

#include <termios.h>

#include "base/types.h"

#define KEEPER_NAME "mtrun-keeper" /* in /proc/PID/comm */

/* Switch to the terminal's alternate screen, without a cursor; and back to the normal one. */
#define TERMINAL_ALTERNATE "\033[?1049h\033[?25l"
#define TERMINAL_NORMAL	   "\033[?25h\033[?1049l"

/*
 * Forks the keeper. USER: the user's terminal; SAVED: how it shall be left. Returns the descriptor
 * that the functions below take, the caller's, or -errno.
 */
int keeper_start(int user, const struct termios *saved) MUST_USE;
/* The program's terminal is MASTER from now on. 0 or -errno. */
int keeper_hold(int keeper, int master) MUST_USE;
/* Which screen the user's terminal shows: it is the normal one that stays when we are gone. */
void keeper_screen(int keeper, bool alternate);
/* We leave, and have made the user's terminal sane ourselves. */
void keeper_leave(int keeper);
/*
 * The user's terminal is gone, and the program's is to go with it: the keeper has ended when this
 * returns.
 */
void keeper_end(int keeper);

#endif
