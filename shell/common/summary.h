/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summary.h - what a batch run says at the program's end. */
#ifndef MTRUN_SUMMARY_H
#define MTRUN_SUMMARY_H

#include <stdio.h>

struct shell;

/*
 * Peak, totals, what is still live and the top sites, of the program that was named; while it is
 * held at its last instant.
 */
void summary_print(struct shell *shell, FILE *out);

#endif
