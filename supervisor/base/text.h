/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * text.h - what a text is, begins with and ends with.
 */
#ifndef MTRUN_TEXT_H
#define MTRUN_TEXT_H

#include <string.h>

#include "base/types.h"

/* Whether both read the same, or both are NULL. */
static inline bool text_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static inline bool text_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Of a path what is behind its last slash, or all of it. NULL stays NULL. */
static inline const char *text_last_part(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

#endif
