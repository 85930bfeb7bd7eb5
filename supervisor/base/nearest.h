/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * nearest.h - which of the words that there are somebody may have meant. All zeros but for WORD: a
 * search that has been offered nothing.
 */
#ifndef MTRUN_NEAREST_H
#define MTRUN_NEAREST_H

#include "base/types.h"

struct nearest {
	const char *word;  /* what was typed */
	const char *found; /* the nearest so far; NULL: none is near. Borrowed */
	unsigned distance;
};
void nearest_offer(struct nearest *n, const char *candidate);

/* " (did you mean 'WORD'?)" of what was found behind PREFIX, or OTHERWISE; in TEXT. */
const char *nearest_text(const struct nearest *n, const char *prefix, const char *otherwise,
			 char *text, size_t len);

#endif
