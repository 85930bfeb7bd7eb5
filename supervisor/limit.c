// SPDX-License-Identifier: GPL-3.0-or-later
#include "limit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const limit_action_names[LIMIT_ACTIONS] = { "kill", "stop", "fail", "report" };

void limit_release(struct limit *l)
{
	free(l->refusal);
	*l = (struct limit){ 0 };
}

/* Where STACK is, or belongs. */
static size_t place_of(const struct limit *l, uint32_t stack)
{
	size_t lo = 0, hi = l->refusals;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (l->refusal[mid].stack < stack)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int limit_refused(struct limit *l, uint32_t stack, uint64_t bytes)
{
	size_t at = place_of(l, stack);

	if (at == l->refusals || l->refusal[at].stack != stack) {
		if (l->refusals == l->room) {
			size_t room = l->room ? l->room * 2 : 16;
			struct limit_refusal *v = reallocarray(l->refusal, room, sizeof(*v));

			if (!v)
				return -ENOMEM;
			l->refusal = v;
			l->room = room;
		}
		memmove(&l->refusal[at + 1], &l->refusal[at], (l->refusals - at) * sizeof(*l->refusal));
		l->refusal[at] = (struct limit_refusal){ .stack = stack };
		l->refusals++;
	}
	l->refusal[at].count++;
	l->refusal[at].bytes += bytes;
	return 0;
}
