/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * search.h - binary search in what is sorted.
 */
#ifndef MTRUN_SEARCH_H
#define MTRUN_SEARCH_H

#include "base/types.h"

/*
 * How many of the elements 0 .. N-1 come before what is looked for: the first I of which BEFORE, an
 * expression in I, is false, or N. It must be true of all below and false of all above.
 *
 *	size_t at = SEARCH(i, names, name[i].start < addr);
 */
#define SEARCH(i, n, before)                                                    \
	({                                                                      \
		size_t search_low = 0, search_high = (n);                       \
		while (search_low < search_high) {                              \
			size_t i = search_low + (search_high - search_low) / 2; \
			if (before)                                             \
				search_low = i + 1;                             \
			else                                                    \
				search_high = i;                                \
		}                                                               \
		search_low;                                                     \
	})

#endif
