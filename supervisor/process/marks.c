// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/marks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * marks.c - a ring of labels. It is bounded because its size is in the program's hands: one that
 * marks each request of a day keeps its last thousand.
 */

int marks_add(struct marks *m, uint64_t ms, const char *label)
{
	struct mark *at;

	if (!m->mark)
		m->mark = malloc(MARKS_MOST * sizeof(*m->mark));
	if (!m->mark)
		return -ENOMEM;
	at = &m->mark[m->made++ % MARKS_MOST];
	at->ms = ms;
	snprintf(at->label, sizeof(at->label), "%s", label);
	return 0;
}

size_t marks_count(const struct marks *m)
{
	return m->made < MARKS_MOST ? (size_t)m->made : MARKS_MOST;
}

uint64_t marks_forgotten(const struct marks *m) { return m->made - marks_count(m); }

const struct mark *marks_at(const struct marks *m, size_t i)
{
	return &m->mark[(marks_forgotten(m) + i) % MARKS_MOST];
}

int marks_copy(struct marks *to, const struct marks *from)
{
	*to = (struct marks){ .made = from->made };
	if (!from->mark)
		return 0;
	to->mark = malloc(MARKS_MOST * sizeof(*to->mark));
	if (!to->mark)
		return -ENOMEM;
	memcpy(to->mark, from->mark, marks_count(from) * sizeof(*to->mark));
	return 0;
}

void marks_release(struct marks *m)
{
	free(m->mark);
	*m = (struct marks){ 0 };
}
