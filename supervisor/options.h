/* SPDX-License-Identifier: GPL-3.0-or-later */
/* options.h - the command line. Strings in struct options point into argv or live as long as the program; nothing is freed. */
#ifndef MTRUN_OPTIONS_H
#define MTRUN_OPTIONS_H

#include <stdio.h>

#include "session.h"

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_BAD };

#define EXIT_FAILED 125			/* mtrun itself: bad usage, failed -x command, its own failure */

/* Fills *O. OPTIONS_DONE: --help or --version was printed to OUT, exit 0. OPTIONS_BAD: the one line to say is in WHY. */
enum options_result options_parse(struct options *o, int argc, char **argv, FILE *out, char *why, size_t len) MUST_USE;

/* `heap,mmap,image` -> LEDGER_COUNT_* | COUNT_IMAGE. 0, -EINVAL */
int options_count(const char *list, unsigned *count) MUST_USE;
/* `NAME[=KIND][@ARG]`. 0, -EINVAL */
int options_hook(const char *text, struct hook_request *hook) MUST_USE;

#endif
