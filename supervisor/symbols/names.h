/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * names.h - function names, demangled and classified once each, and interned strings. All of it
 * lives as long as the struct names.
 */
#ifndef MTRUN_NAMES_H
#define MTRUN_NAMES_H

#include "base/types.h"

struct names;

struct name {
	const char *text; /* as shown */
	const char *raw;  /* what it was made from */
	unsigned skip;	  /* SKIP_ALLOCATOR, SKIP_NAMESPACE */
};

struct names *names_new(void) MUST_USE; /* NULL: out of memory */
void names_free(struct names *n);
/* The one copy of STRING. Out of memory: "?". */
const char *names_intern(struct names *n, const char *string);
/*
 * The name for symbol or linkage name RAW (a version after @, and .cold, .isra.0 & co., are
 * dropped). Never NULL.
 */
const struct name *names_symbol(struct names *n, const char *raw);
/* LEN bytes that live as long, aligned for any object; NULL: out of memory. */
void *names_alloc(struct names *n, size_t len) MUST_USE;

#endif
