/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * alias.h - other spellings of commands: the calls that the gs driver's shell has for its memory
 * profiler, as `get_mem_report()`, or as words, also with a leading ' and with the prefixes
 * mem_profiler. and system.core. They answer as JSON. One whose command does not exist does not
 * exist either.
 */
#ifndef MTRUN_ALIAS_H
#define MTRUN_ALIAS_H

#include "base/types.h"

/*
 * If one stands at the beginning of TEXT: the command that it means, to be freed; *LEN is how long
 * it is, and *NAME, static, what it is called. NULL: it is none; WHY is not empty if it looks like
 * one that exists but cannot be read (then *LEN is set as well).
 */
char *alias_expand(const char *text, size_t *len, const char **name, char *why,
		   size_t why_len) MUST_USE;
/* Of WORD, an unknown call: if it is near to one, WHY becomes what is to be said. */
void alias_unknown(const char *word, char *why, size_t len);

#endif
