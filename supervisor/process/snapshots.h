/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * snapshots.h - named profiles of a process. Pure data, embedded in struct process. They are
 * bounded, as the program itself can make them (mtrun_snapshot()).
 */
#ifndef MTRUN_SNAPSHOTS_H
#define MTRUN_SNAPSHOTS_H

#include "base/types.h"
#include "process/profile.h"

#define SNAPSHOTS_MOST	 1000u
#define SNAPSHOTS_MEMORY ((size_t)256 << 20)
#define SNAPSHOT_NAME	 65u /* bytes, with the end */

struct snapshot {
	char name[SNAPSHOT_NAME];
	struct profile profile; /* by stack; its ms is when it was taken */
};
struct snapshots {
	struct snapshot *snapshot; /* in the order taken */
	size_t count;
	size_t rows; /* of all */
};

/*
 * Takes PROFILE over, also on errors; one of the same NAME is replaced. 0, -ENOMEM, -ENOSPC (too
 * many), -EINVAL (no name, or too long).
 */
int snapshots_add(struct snapshots *s, const char *name, struct profile *profile) MUST_USE;
const struct snapshot *snapshots_find(const struct snapshots *s, const char *name);
void snapshots_release(struct snapshots *s);

#endif
