// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/snapshots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * snapshots.c - a short list of named profiles. They are copies, and so stay when the program goes
 * on, and when it ends.
 */

static void forget(struct snapshots *s, size_t i)
{
	s->rows -= s->snapshot[i].profile.count;
	profile_release(&s->snapshot[i].profile);
	s->count--;
	memmove(&s->snapshot[i], &s->snapshot[i + 1], (s->count - i) * sizeof(*s->snapshot));
}

int snapshots_add(struct snapshots *s, const char *name, struct profile *profile)
{
	const struct snapshot *same = snapshots_find(s, name);
	size_t at = same ? (size_t)(same - s->snapshot) : 0;
	struct snapshot *more;
	int err = -EINVAL;

	if (!*name || strlen(name) >= SNAPSHOT_NAME)
		goto fail;
	err = -ENOSPC;
	if ((!same && s->count == SNAPSHOTS_MOST) ||
	    (s->rows - (same ? same->profile.count : 0) + profile->count) * sizeof(*profile->row) >
		    SNAPSHOTS_MEMORY)
		goto fail;
	err = -ENOMEM;
	more = realloc(s->snapshot, (s->count + 1) * sizeof(*more));
	if (!more)
		goto fail;
	s->snapshot = more;
	if (same) /* not before: an error must leave the old one */
		forget(s, at);
	more += s->count++;
	*more = (struct snapshot){ .profile = *profile };
	strcpy(more->name, name);
	s->rows += profile->count;
	return 0;
fail:
	profile_release(profile);
	return err;
}

const struct snapshot *snapshots_find(const struct snapshots *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->snapshot[i].name, name))
			return &s->snapshot[i];
	return NULL;
}

void snapshots_release(struct snapshots *s)
{
	while (s->count)
		forget(s, s->count - 1);
	free(s->snapshot);
	*s = (struct snapshots){ 0 };
}
