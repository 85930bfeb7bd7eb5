/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * keyboard.h - keys from the user's terminal while no line is edited; the loop turns meanwhile. The
 * terminal's mode is the caller's business.
 */
#ifndef MTRUN_KEYBOARD_H
#define MTRUN_KEYBOARD_H

#include "base/types.h"

struct shell;

enum { KEY_NONE = -1, KEY_STOP = -2 }; /* time is over; Ctrl-C, or there is no terminal any more */

/*
 * The next key, waited for at most MS (-1: as long as it takes), and no longer than the window
 * keeps its size.
 */
int keyboard_key(struct shell *shell, int ms);
/* One of KEYS, which are offered by printing QUESTION; KEY_STOP: none. */
int keyboard_ask(struct shell *shell, const char *question, const char *keys);
/* Whether keyboard_take() would find something: what a watch has seen may have been read since. */
bool keyboard_is_ready(void);
/* At least one byte, at most LEN, if there are any; 0 if not; -1: there is no terminal any more. */
int keyboard_take(struct shell *shell, char *text, size_t len);

#endif
