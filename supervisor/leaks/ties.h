/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ties.h - which records of a report belong together: what was lost with what. */
#ifndef MTRUN_TIES_H
#define MTRUN_TIES_H

#include "leaks/leaks.h"

struct leak_tie {
	uint32_t head, child; /* records: LEAK_DEFINITE, LEAK_INDIRECT */
	struct leak_sum sum;  /* of the child's blocks that are lost with one of the head's */
};

/*
 * All ties between RECORD[RECORDS], made by leaks_records() of L with the same WANTED; IMAGE is
 * what L is of. For the caller to free. How many, or -ENOMEM.
 */
ssize_t leak_ties(const struct leaks *l, const struct leaks_image *image,
		  const struct leak_record *record, size_t records,
		  bool (*wanted)(void *ctx, size_t block), void *ctx,
		  struct leak_tie **out) MUST_USE;

#endif
