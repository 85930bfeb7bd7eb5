/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * interactive.h - the prompt: lines are edited, completed, remembered and run until the user
 * leaves. The one user of readline.
 */
#ifndef MTRUN_INTERACTIVE_H
#define MTRUN_INTERACTIVE_H

#include <stdio.h>

#include "base/types.h"

struct shell;
struct session;
struct terminal;

/*
 * Before the program is launched: the terminal is shared from now on, mtrun's signals come here. 0
 * or -errno.
 */
int interactive_open(struct shell *shell, struct terminal *terminal) MUST_USE;
/* The prompt, until `quit`, Ctrl-D or the end of the terminal. */
void interactive_run(struct shell *shell);
/* Ctrl-Z: we are stopped, until the shell that started us lets us go on. */
void interactive_suspend(struct shell *shell);
/* Everything is on the terminal; it is as it was. */
void interactive_close(struct shell *shell);

/*
 * A launched program still runs: asks what shall become of it. 0: that is done and we end; -1: the
 * user has changed his mind.
 */
int interactive_leave(struct shell *shell);
/* The last N lines that were typed. */
void interactive_history(FILE *out, size_t n);

#endif
