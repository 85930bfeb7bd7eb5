// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

#include "base/bounds.h"

/*
 * Letters added, left out, replaced, or two neighbours exchanged: at most one in three. Longer
 * words than any of ours are not looked at.
 */
#define LONGEST 32u

static unsigned distance(const char *a, size_t la, const char *b, size_t lb)
{
	unsigned row[3][LONGEST + 1];

	for (unsigned j = 0; j <= lb; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		unsigned *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			now[j] = (unsigned)least(least(last[j], now[j - 1]) + 1,
						 last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = (unsigned)least(now[j], before[j - 2] + 1);
		}
	}
	return row[la % 3][lb];
}

void nearest_offer(struct nearest *n, const char *candidate)
{
	size_t la = strlen(n->word), lb = strlen(candidate);
	unsigned d;

	if (la > LONGEST || lb > LONGEST || la < 2)
		return;
	d = distance(n->word, la, candidate, lb);
	if (d > (la + 1) / 3 || (n->found && d >= n->distance))
		return;
	n->found = candidate;
	n->distance = d;
}

const char *nearest_text(const struct nearest *n, const char *prefix, const char *otherwise,
			 char *text, size_t len)
{
	if (!n->found)
		return otherwise;
	snprintf(text, len, " (did you mean '%s%s'?)", prefix, n->found);
	return text;
}
