/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * reporting.h - what the commands that report have in common: their arguments, and the profile of
 * the chosen process.
 */
#ifndef MTRUN_REPORTING_H
#define MTRUN_REPORTING_H

#include <regex.h>
#include <stdio.h>

#include "process/profile_make.h"
#include "process/snapshots.h"
#include "process/usable.h"

struct shell;
struct call;
struct process;
struct sites;

/* The value of OPTION: a number of rows, or `all`. 0, or -1 (said). */
int reporting_rows(const struct shell *shell, struct call *call, const char *option,
		   const char *value, size_t *rows) MUST_USE;
/* The value of --OPTION as a POSIX extended regular expression. 0, or -1 (said). */
int reporting_regex(const struct shell *shell, struct call *call, const char *option,
		    const char *value, regex_t *regex) MUST_USE;

/* TEXT as an address in the chosen process: 0x..., decimal, or a symbol's name. 0, or -1 (said). */
int reporting_address(struct shell *shell, struct call *call, const char *text,
		      raddr_t *address) MUST_USE;

/* A moment of the chosen process that a profile can be had of. All zeros: now. */
struct moment {
	enum { MOMENT_NOW, MOMENT_PEAK, MOMENT_PAST, MOMENT_SNAPSHOT, MOMENT_FILE } kind;
	uint64_t ms;		  /* MOMENT_PAST: since tracing began */
	char name[SNAPSHOT_NAME]; /* MOMENT_SNAPSHOT */
	const char *file;	  /* MOMENT_FILE: a .heap file; borrowed */
};
/* beside times */
enum moment_kinds { MOMENTS_PEAK = 1, MOMENTS_SNAPSHOTS = 2, MOMENTS_FILES = 4 };
/*
 * VALUE, an argument of WHAT (`--at`), as a moment within the record; KINDS: enum moment_kinds. 0,
 * or -1 (said).
 */
int reporting_moment(struct shell *shell, struct call *call, const char *what, const char *value,
		     unsigned kinds, struct moment *m) MUST_USE;
/*
 * Only as a time, at most the present; `--from` begins with the record, if that does not go back so
 * far as -10s says. 0, or -1 (said).
 */
int reporting_time(struct shell *shell, struct call *call, const char *what, const char *value,
		   uint64_t *ms) MUST_USE;
/*
 * What the chosen process held at moment M, or if SINCE is not NULL what came between SINCE and M;
 * DETAIL: enum profile_detail, MIN_AGE in ms: for now only, as is USABLE, which is NULL or as in
 * struct profile_ask. *SITES: its stacks. 0, or -1 (said).
 */
int reporting_profile(struct shell *shell, struct call *call, const struct moment *m,
		      const struct moment *since, unsigned detail, uint64_t min_age,
		      const struct usable *usable, struct profile *profile,
		      struct sites **sites) MUST_USE;

/*
 * Of what moment, and since which: --at, and --since, of which --base is another name. All zeros:
 * what is live now.
 */
struct reporting_when {
	struct moment at, since;
	bool has_since;
};
/* Entries of the command's table of arguments, in this order. */
enum { WHEN_AT, WHEN_SINCE, WHEN_BASE, WHEN_OPTIONS };
#define WHEN_ARGUMENTS(first)                                                                   \
	[(first) + WHEN_AT] = { "at", 0, true }, [(first) + WHEN_SINCE] = { "since", 0, true }, \
		   [(first) + WHEN_BASE] = { "base", 0, true }
/* The value of one of them. 0, or -1 (said). */
int reporting_when(struct shell *shell, struct call *call, int arg, const char *value,
		   struct reporting_when *when) MUST_USE;

/*
 * Reads the symbols for it, the target being served meanwhile: those that sites need, or (WHOLE)
 * all. -1: interrupted (PROFILE is released).
 */
int reporting_lookup(struct shell *shell, struct profile *profile, struct sites *sites,
		     bool whole) MUST_USE;

/*
 * What it held, or what has come, by stack, with the symbols as reporting_lookup() reads them;
 * WHEN: NULL is now. 0, or -1 (said, or interrupted).
 */
int reporting_live(struct shell *shell, struct call *call, const struct reporting_when *when,
		   bool whole, struct profile *profile, struct sites **sites) MUST_USE;

/* Since when nothing of P is recorded, in a line; nothing while it is. */
void reporting_off(FILE *out, const struct process *p);
/* What stands behind that, while P can be recorded: how. */
const char *reporting_off_hint(const struct process *p);
/*
 * As usable_init(), without the session's lock meanwhile; unknown also while nothing is recorded, as
 * the blocks may be gone.
 */
void reporting_usable(struct shell *shell, struct usable *u, const struct process *p);

#endif
