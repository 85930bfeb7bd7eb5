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

/* -n: a number of rows, or `all`. 0, or -1 (said). */
int reporting_rows(const struct shell *shell, struct call *call, const char *value,
		   size_t *rows) MUST_USE;
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
/* Only as a time, at most the present. 0, or -1 (said). */
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

/* Of what text and tree share: -n and --at. Zeros, but ROWS: VIEW_ALL. */
struct reporting_scope {
	size_t rows;
	bool has_rows;
	struct moment moment;
};
/* The value of -n, or of --at. 0, or -1 (said). */
int reporting_scope(struct shell *shell, struct call *call, bool at, const char *value,
		    struct reporting_scope *scope) MUST_USE;

/*
 * Reads the symbols for it, the target being served meanwhile: those that sites need, or (WHOLE)
 * all. -1: interrupted (PROFILE is released).
 */
int reporting_lookup(struct shell *shell, struct profile *profile, struct sites *sites,
		     bool whole) MUST_USE;

/*
 * What it held at moment M, by stack, with the symbols as reporting_lookup() reads them. 0, or -1
 * (said, or interrupted).
 */
int reporting_live(struct shell *shell, struct call *call, const struct moment *m, bool whole,
		   struct profile *profile, struct sites **sites) MUST_USE;

/* Since when nothing of P is recorded, in a line; nothing while it is. */
void reporting_off(FILE *out, const struct process *p);
/* As usable_init(); unknown also while nothing is recorded, as the blocks may be gone. */
void reporting_usable(struct usable *u, const struct process *p);

/* `exit N` or `signal NAME` of a wait status, for people. */
const char *reporting_end(int wait_status, char *text, size_t len);
/* n, or 128 + signal. */
int reporting_exit_status(int wait_status);

#endif
