/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * marks.h - labels that a program put on its timeline (mtrun_mark): the latest MARKS_MOST of a
 * process. Pure data, embedded in struct process.
 */
#ifndef MTRUN_MARKS_H
#define MTRUN_MARKS_H

#include "base/types.h"

#define MARKS_MOST  1000u
#define MARKS_LABEL 65u /* bytes, with the end */

struct mark {
	uint64_t ms; /* since tracing began */
	/* printable, whole UTF-8 characters as far as the program wrote such */
	char label[MARKS_LABEL];
};
struct marks {
	struct mark *mark; /* a ring; NULL until the first */
	uint64_t made;	   /* ever; number I is at I % MARKS_MOST */
};

int marks_add(struct marks *m, uint64_t ms, const char *label); /* 0 or -ENOMEM */
size_t marks_count(const struct marks *m);			/* how many are kept */
uint64_t marks_forgotten(const struct marks *m);		/* how many are not any more */
/* the Ith of those kept, in order of time */
const struct mark *marks_at(const struct marks *m, size_t i);
/* A copy, for the caller to release. 0 or -ENOMEM. */
int marks_copy(struct marks *to, const struct marks *from) MUST_USE;
void marks_release(struct marks *m);

#endif
