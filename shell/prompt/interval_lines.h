/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * interval_lines.h - the usage lines of -i and `interval`: every TIME one for each process that runs, at
 * the prompt and while commands are at work.
 */
#ifndef MTRUN_INTERVAL_H
#define MTRUN_INTERVAL_H

#include "base/types.h"

struct shell;

/* The next line comes after FIRST ms, then one every MS; 0: no more. 0 or -errno. */
int interval_set(struct shell *shell, uint64_t first, uint64_t ms) MUST_USE;
void interval_release(struct shell *shell);

#endif
