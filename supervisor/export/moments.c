/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "export/moments.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A day of a busy process has 864000 points, more than a graph has columns. What a graph is looked
 * at for are the highest ones.
 */
ssize_t moments_choose(const struct export *e, size_t most, size_t **index, uint64_t *stretch)
{
	size_t *chosen = calloc(e->points + 1, sizeof(*chosen)), n = 0;
	uint64_t first = e->points ? e->point[0].from_ms : 0,
		 end = e->points ? e->point[e->points - 1].to_ms : 0;
	uint64_t width = (end - first + most - 1) / most, last = 0;

	if (!chosen)
		return -ENOMEM;
	if (e->points <= most)
		width = 1;
	for (size_t i = 0; i < e->points; i++) {
		uint64_t here = (e->point[i].from_ms - first) / (width ? width : 1);

		if (n && here == last) {
			if (e->point[i].bytes > e->point[chosen[n - 1]].bytes)
				chosen[n - 1] = i;
			continue;
		}
		last = here;
		chosen[n++] = i;
	}
	*index = chosen;
	if (stretch)
		*stretch = width;
	return (ssize_t)n;
}

size_t moments_highest(const struct export *e, const size_t *index, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (e->point[index[i]].bytes > e->point[index[best]].bytes)
			best = i;
	return best;
}
