/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pattern.h - POSIX extended regular expressions, as all options and settings take them.
 */
#ifndef MTRUN_PATTERN_H
#define MTRUN_PATTERN_H

#include <regex.h>

#include "base/types.h"

/*
 * P is for regfree(). -EINVAL: TEXT is none, *ERROR says why (this thread's, until the next call).
 */
int pattern_compile(regex_t *p, const char *text, const char **error) MUST_USE;

#endif
