/* SPDX-License-Identifier: GPL-3.0-or-later */
/* reporting.h - what the commands that report have in common: their arguments, and the profile of the chosen process. */
#ifndef MTRUN_REPORTING_H
#define MTRUN_REPORTING_H

#include <regex.h>

#include "../supervisor/profile.h"
#include "command.h"

/* -n: a number of rows, or `all`. 0, or -1 (said). */
int reporting_rows(const struct shell *shell, struct call *call, const char *value, size_t *rows) MUST_USE;
/* The value of --OPTION as a POSIX extended regular expression. 0, or -1 (said). */
int reporting_regex(const struct shell *shell, struct call *call, const char *option, const char *value, regex_t *regex) MUST_USE;
/* What is live now in the chosen process, by stack; *SITES: its stacks. 0, or -1 (said). */
int reporting_live(struct shell *shell, struct call *call, struct profile *profile, struct sites **sites) MUST_USE;

/* `exit N` or `signal NAME` of a wait status, for people. */
const char *reporting_end(int wait_status, char *text, size_t len);
/* n, or 128 + signal. */
int reporting_exit_status(int wait_status);

#endif
