/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * erring.h - what happens at an error of the program (process/errors.h): it is told, `on error` and
 * `wait error` hear of it, and what stays stopped for it goes on or is killed.
 */
#ifndef MTRUN_ERRING_H
#define MTRUN_ERRING_H

#include <stdio.h>

#include "base/types.h"

struct errors;
struct shell;

/*
 * To be called between two turns of the loop: those that are new are told; then TEXT, the commands
 * of `on error` (NULL: none), are run about their process, which is the chosen one if it stays
 * stopped.
 */
void erring_turn(struct shell *shell, const char *text);
/*
 * In batch nobody lets a process go on that stays stopped for an error, once there is nothing to do
 * but to wait: all are killed, or, if they were there before us, run on.
 */
void erring_give_up(struct shell *shell);
/* How many of which kind, in one line without an end; nothing if there are none. */
void erring_counts(FILE *out, const struct errors *e);

#endif
