// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/activity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * One point per stretch: what comes in the last one's stretch takes its place. When there are too
 * many, stretches become twice as long, and so each second one goes.
 */
void activity_init(struct activity *a) { *a = (struct activity){ .step = ACTIVITY_MS }; }

void activity_release(struct activity *a)
{
	free(a->point);
	activity_init(a);
}

static void put(struct activity *a, const struct activity_point *p)
{
	struct activity_point *last = a->count ? &a->point[a->count - 1] : NULL, next = *p;

	if (!last || p->ms / a->step > last->ms / a->step) {
		a->point[a->count++] = next;
		return;
	}
	if (next.high < last->high)
		next.high = last->high;
	if (next.ms < last->ms)
		next.ms = last->ms;
	*last = next;
}

static void coarsen(struct activity *a)
{
	size_t n = a->count;

	a->step *= 2;
	a->count = 0;
	for (size_t i = 0; i < n; i++) {
		struct activity_point p = a->point[i];

		put(a, &p);
	}
}

void activity_add(struct activity *a, const struct activity_point *p)
{
	if (a->count == ACTIVITY_MOST)
		coarsen(a);
	if (!array_room(&a->point, a->count, &a->room, sizeof(*p)))
		put(a, p);
}

int activity_copy(struct activity *to, const struct activity *from)
{
	activity_init(to);
	to->point = malloc(from->count * sizeof(*to->point) + 1);
	if (!to->point)
		return -ENOMEM;
	if (from->count)
		memcpy(to->point, from->point, from->count * sizeof(*to->point));
	to->count = to->room = from->count;
	to->step = from->step;
	return 0;
}
