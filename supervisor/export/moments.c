// SPDX-License-Identifier: GPL-3.0-or-later
#include "export/moments.h"

#include <errno.h>
#include <stdlib.h>

#include "ledger/activity.h"
#include "ledger/timeline.h"

/*
 * A day of a busy process has 864000 points, more than a graph has columns. What a graph is looked
 * at for are the highest ones.
 */
ssize_t moments_choose(const struct export_point *point, size_t points, size_t most, size_t **index,
		       uint64_t *stretch)
{
	size_t *chosen = calloc(points + 1, sizeof(*chosen)), n = 0;
	uint64_t first = points ? point[0].from_ms : 0, end = points ? point[points - 1].to_ms : 0;
	uint64_t width = (end - first + most - 1) / most, last = 0;

	if (!chosen)
		return -ENOMEM;
	if (points <= most)
		width = 1;
	for (size_t i = 0; i < points; i++) {
		uint64_t here = (point[i].from_ms - first) / (width ? width : 1);

		if (n && here == last) {
			if (point[i].bytes > point[chosen[n - 1]].bytes)
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

/* ---- more finely --------------------------------------------------------- */

/* What becomes of one point. */
struct refined {
	const struct export_point *whole;
	struct export_point *part;
	size_t parts;
};

/* From FROM on it is BYTES. */
static void put(struct refined *r, uint64_t from, uint64_t bytes)
{
	const struct export_point *whole = r->whole;

	if (from < whole->from_ms)
		from = whole->from_ms;
	if (from >= whole->to_ms)
		return;
	if (r->parts && r->part[r->parts - 1].from_ms >= from)
		r->parts--;
	else if (r->parts)
		r->part[r->parts - 1].to_ms = from;
	r->part[r->parts++] = (struct export_point){ from, whole->to_ms,
						     bytes < whole->bytes ? bytes : whole->bytes,
						     from };
}

/* The highest moment may lie between the ends of two ms. */
static void raise_highest(struct refined *r)
{
	size_t i = r->parts - 1;

	while (i && r->part[i].from_ms > r->whole->ms)
		i--;
	r->part[i].bytes = r->whole->bytes;
	r->part[i].ms = r->whole->ms;
}

ssize_t moments_refine(const struct export *e, struct export_point **out)
{
	const struct activity *a = export_activity(e);
	size_t n = 0, at = 0;
	uint64_t live = 0;

	/* a stretch has a beginning and an end, a point at least a beginning */
	*out = calloc(e->points + 2 * a->count + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i < e->points; i++) {
		struct refined r = { .whole = &e->point[i], .part = *out + n };
		bool is_known = at < a->count && a->step <= TIMELINE_MS / 2;

		put(&r, r.whole->from_ms, is_known ? live : r.whole->bytes);
		for (; at < a->count && a->point[at].ms < r.whole->to_ms; at++) {
			uint64_t begins = a->point[at].ms - a->point[at].ms % a->step;

			live = a->point[at].live;
			if (!is_known)
				continue;
			put(&r, begins, a->point[at].high);
			put(&r, begins + a->step, live);
		}
		raise_highest(&r);
		n += r.parts;
	}
	return (ssize_t)n;
}
