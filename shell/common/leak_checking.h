/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * leak_checking.h - --leak-check: each process waits at its last instant until it was scanned and
 * reported. The state is in struct shell.
 */
#ifndef MTRUN_LEAK_CHECKING_H
#define MTRUN_LEAK_CHECKING_H

#include "base/types.h"

struct shell;

/*
 * Checks those that wait; but the program named, if commands may still ask about it, only at the
 * END.
 */
void leak_checking_turn(struct shell *shell, bool end);
/* The processes are about to be let go: those that wait are checked; says which are not. */
void leak_checking_let_go(struct shell *shell);

#endif
