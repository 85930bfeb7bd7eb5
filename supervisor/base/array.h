/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * array.h - arrays that grow by one entry at a time, their room doubling. For arenas, which never
 * move, see arena.h.
 */
#ifndef MTRUN_ARRAY_H
#define MTRUN_ARRAY_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"

#define ARRAY_LEAST 16u

/*
 * ARRAY: the address of a pointer to entries of SIZE bytes, NULL at first, for the caller to free.
 * Makes room for one more than COUNT. 0, or -ENOMEM: it is as it was.
 */
static inline MUST_USE int array_room(void *array, size_t count, size_t *room, size_t size)
{
	size_t n = *room ? *room * 2 : ARRAY_LEAST;
	void *entries;

	if (count < *room)
		return 0;
	memcpy(&entries, array, sizeof(entries));
	entries = reallocarray(entries, n, size);
	if (!entries)
		return -ENOMEM;
	memcpy(array, &entries, sizeof(entries));
	*room = n;
	return 0;
}

#endif
