// SPDX-License-Identifier: GPL-3.0-or-later
#include "transport/turns.h"

/* A binary heap: turn I goes before its children, turns 2 I + 1 and 2 I + 2. */

static bool before(const struct turn *a, const struct turn *b)
{
	return a->first != b->first ? a->first < b->first : a->second < b->second;
}

void turns_add(struct turns *q, struct turn t)
{
	uint32_t i = q->count++;

	for (; i && before(&t, &q->at[(i - 1) / 2]); i = (i - 1) / 2)
		q->at[i] = q->at[(i - 1) / 2];
	q->at[i] = t;
}

struct turn turns_take(struct turns *q)
{
	struct turn first = q->at[0], last = q->at[--q->count];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < q->count) {
		child += child + 1 < q->count && before(&q->at[child + 1], &q->at[child]);
		if (!before(&q->at[child], &last))
			break;
		q->at[i] = q->at[child];
		i = child;
	}
	q->at[i] = last;
	return first;
}
