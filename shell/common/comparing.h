/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * comparing.h - .heap files as the moments of an answer: what they hold is brought together with
 * another file's, or with what the process holds.
 */
#ifndef MTRUN_COMPARING_H
#define MTRUN_COMPARING_H

#include "report/heapfile.h"

struct shell;
struct call;
struct sites;

struct comparing;

/* Begins a comparison; what the one before gave is void. 0 or -ENOMEM. */
int comparing_begin(struct shell *shell) MUST_USE;
/* PROFILE: what FILE holds, its stacks being of the comparison. 0, or -1 (said). */
int comparing_file(struct shell *shell, struct call *call, const char *file, unsigned detail,
		   struct profile *profile) MUST_USE;
/*
 * The stacks of PROFILE, which are SITES', become the comparison's. 0, or -1 (said; PROFILE is
 * released).
 */
int comparing_add(struct shell *shell, struct call *call, struct profile *profile,
		  struct sites *sites) MUST_USE;
/* Its stacks: until the next one begins. */
struct sites *comparing_sites(struct shell *shell);
void comparing_release(struct shell *shell);

#endif
