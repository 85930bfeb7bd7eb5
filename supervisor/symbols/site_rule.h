/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * site_rule.h - the tables behind the site rule: which functions are an allocator's, which are of a
 * language's library, which of libc. Pure functions over names. The rule over a whole stack is in
 * sites.h.
 */
#ifndef MTRUN_SITE_RULE_H
#define MTRUN_SITE_RULE_H

#include "base/types.h"

/* Why the search for a stack's site passes over a function. */
enum symbol_skip {
	SKIP_NO,
	SKIP_ALLOCATOR = 1,
	SKIP_NAMESPACE = 2,
	SKIP_LIBRARY = 4,
	SKIP_USER = 8
};

/*
 * SKIP_ALLOCATOR and SKIP_NAMESPACE for a function: RAW its mangled name (NULL: there is none),
 * TEXT the readable one.
 */
unsigned site_classify(const char *raw, const char *text);
/*
 * Whether a function is a well-known wrapper around an allocator, by its readable name; and
 * pattern number I of the list, NULL behind the last: a name, or with `*` at its end all that begin
 * with it.
 */
bool site_is_wrapper(const char *text);
const char *site_wrapper(size_t i);
/*
 * In a static executable no module tells libc's functions from the program's: the well-known ones,
 * by their readable name.
 */
bool site_is_libc(const char *text);
/*
 * Whether source FILE is part of a language's or libc's library: what it holds is inlined into the
 * program's own code.
 */
bool site_is_library_file(const char *file);

#endif
