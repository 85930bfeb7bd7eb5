/* SPDX-License-Identifier: GPL-3.0-or-later */
/* opening.h - logs, opened by -r and `open`, and read whole by `parse`; what is said of that. */
#ifndef MTRUN_OPENING_H
#define MTRUN_OPENING_H

#include <stdio.h>

#include "session/session.h"

struct shell;

/* Whether PATH is a log, or may have some: a directory. */
bool opening_is_log(const char *path);
/*
 * The newest run among PATHS is what questions are about; the one that was open before is no more.
 * The texts go to OUT, NULL: nowhere. 0, or -1 with WHY, in a line; "" if it was interrupted.
 */
int opening_log(struct shell *shell, char *const *path, size_t paths, FILE *out, char *why,
		size_t len) MUST_USE;
/*
 * Reads every event of the log that is open, by WORKERS threads (0: as many as there are files, at
 * most the processors). As above.
 */
int opening_parse(struct shell *shell, unsigned workers, FILE *out, char *why, size_t len) MUST_USE;
/* What a record is that began at CLOCK_MS, ms of the clock, in the line that others look for. */
void opening_complete(FILE *out, uint64_t clock_ms, uint64_t ms);

#endif
