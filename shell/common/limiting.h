/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limiting.h - what happens at a hit of the limit: it is told, `on limit` and `wait limit` hear of
 * it, and what stays stopped for it goes on or is killed.
 */
#ifndef MTRUN_LIMITING_H
#define MTRUN_LIMITING_H

#include "base/types.h"

struct process;
struct shell;

void limiting_init(struct shell *shell);
/*
 * To be called between two turns of the loop: after a hit its process is the chosen one if it stays
 * stopped, and TEXT, the commands of `on limit` (NULL: none), are run about it.
 */
void limiting_turn(struct shell *shell, const char *text);
/*
 * In batch nobody lets such a process go on once there is nothing to do but to wait: it is killed,
 * and all others.
 */
void limiting_give_up(struct shell *shell);

#endif
