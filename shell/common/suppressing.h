/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * suppressing.h - leaks that are known (leaks/suppressions.h): the files of --suppressions, and
 * what they take out of a report.
 */
#ifndef MTRUN_SUPPRESSING_H
#define MTRUN_SUPPRESSING_H

#include <stdio.h>

#include "leaks/suppressions.h"
#include "report/print_leaks.h"

struct options;
struct process;
struct shell;
struct sites;

/*
 * Those that come with mtrun and those of O's files, for suppressions_free(). NULL: something is
 * wrong with a file (said).
 */
struct suppressions *suppressing_read(const struct options *o) MUST_USE;

/*
 * Takes the records of R, a report of P, that are suppressed out of it, and into its sum of what
 * is. Symbols of all others are known then. The session's lock is given up meanwhile. 0, -EINTR or
 * -ENOMEM.
 */
int suppressing_apply(struct shell *shell, struct process *p, struct sites *sites,
		      struct leak_report *r) MUST_USE;
/* Prints a suppression for each of R's first ROWS records. As above. */
int suppressing_print(FILE *out, struct shell *shell, struct process *p, struct sites *sites,
		      const struct leak_report *r, size_t rows) MUST_USE;

#endif
