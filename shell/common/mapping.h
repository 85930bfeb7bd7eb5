/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * mapping.h - what the resident memory of a process is made of (memory/residency.h), with the sites
 * that keep pages: asked for in steps, so that the loop is at work meanwhile.
 */
#ifndef MTRUN_MAPPING_H
#define MTRUN_MAPPING_H

#include "report/kept.h"

struct call;
struct shell;
struct sites;

struct mapping {
	struct residency residency;
	struct kept kept;
};

/* Why P's memory cannot be told, in one line; NULL: it can. */
const char *mapping_refused(const struct shell *shell, const struct process *p);
/*
 * Of P, of which the caller holds a reference. SITES: as of shell_sites(), with `site`;
 * or NULL. 0, -EINTR, -ENOMEM, or what the kernel says.
 */
int mapping_make(struct shell *shell, struct process *p, struct sites *sites,
		 struct mapping *m) MUST_USE;
void mapping_release(struct mapping *m);

#endif
