/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * options.h - the command line. Strings in struct options point into argv or live as long as the
 * program; nothing is freed.
 */
#ifndef MTRUN_OPTIONS_H
#define MTRUN_OPTIONS_H

#include <stdio.h>

#include "base/units.h"
#include "session/session.h"

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_BAD };

/* mtrun's exit status for bad usage, a failed -x command, a failure of its own */
#define EXIT_FAILED 125

/*
 * Fills *O. OPTIONS_DONE: --help or --version was printed to OUT, exit 0. OPTIONS_BAD: the one line
 * to say is in WHY.
 */
enum options_result options_parse(struct options *o, int argc, char **argv, FILE *out, char *why,
				  size_t len) MUST_USE;

/* What --sample, -l, --on-limit, --errors and -i take, and the commands for them. 0, -EINVAL */
int options_sample(const char *text, uint64_t *period) MUST_USE;
#define SAMPLE_ACCEPTED	  SIZE_ACCEPTED ", from 1 to 1G"
#define LIMIT_MAX	  INT64_MAX
#define LIMIT_ACCEPTED	  SIZE_ACCEPTED ", more than 0 and below 2^63"
#define ON_LIMIT_ACCEPTED "kill, stop, fail or report"
#define INTERVAL_MAX	  (UINT64_C(365) * 86400000)
#define INTERVAL_ACCEPTED TIME_ACCEPTED ", more than 0, at most a year"
int options_limit(const char *text, uint64_t *limit) MUST_USE;
int options_on_limit(const char *text, enum limit_action *action) MUST_USE;
#define ERRORS_ACCEPTED "report, stop or off"
int options_errors(const char *text, enum error_action *action) MUST_USE;
int options_interval(const char *text, uint64_t *ms) MUST_USE;
/* What --log-size and --log-files take, and the command `log`. 0, -EINVAL */
int options_log_size(const char *text, uint64_t *size) MUST_USE;
int options_log_files(const char *text, uint32_t *files) MUST_USE;
#define LOG_SIZE_ACCEPTED  SIZE_ACCEPTED ", from 64K to 1T"
#define LOG_FILES_ACCEPTED "a number from 1 to 100000"
/* `NAME[=KIND][@ARG]`. 0, -EINVAL */
int options_hook(const char *text, struct hook_request *hook) MUST_USE;

#endif
