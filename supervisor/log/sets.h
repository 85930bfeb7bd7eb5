/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sets.h - which log files there are: those of a run of mtrun are a set. Only their headers are
 * read.
 */
#ifndef MTRUN_LOG_SETS_H
#define MTRUN_LOG_SETS_H

#include "base/types.h"

struct log_set_file {
	char *path;
	uint32_t number;
	uint64_t bytes, began_ms; /* began_ms: since tracing began */
	bool after_off;		  /* the log was off before it: nothing is missing there */
};
struct log_set {
	uint64_t set, clock_ms; /* clock_ms: when tracing began, since 1970 */
	size_t files;
	struct log_set_file *file; /* ascending by number */
};
struct log_sets {
	size_t count;
	struct log_set *set; /* the newest last */
};

/*
 * Those of PATHS, directories and files. A file of a directory that cannot be read is left out, and
 * TROUBLE hears why, in a line. 0, or -EINVAL: a path is neither, or there is no log; WHY is one
 * line.
 */
int log_sets_find(struct log_sets *sets, char *const *path, size_t paths,
		  void (*trouble)(void *ctx, const char *text), void *ctx, char *why,
		  size_t len) MUST_USE;
void log_sets_release(struct log_sets *sets);

/* The newest of its files that go on in each other: from this one on. */
size_t log_set_newest(const struct log_set *set);

#endif
