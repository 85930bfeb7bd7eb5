/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * compare.h - profiles of several sources (files, processes) brought together, so that one can be
 * subtracted from the other: two stacks are the same if all their functions, files, lines and
 * modules are. Addresses may differ, from run to run or from build to build.
 */
#ifndef MTRUN_COMPARE_H
#define MTRUN_COMPARE_H

#include "base/types.h"
#include "process/profile.h"
#include "report/sites.h"

struct compare;

struct compare *compare_new(void) MUST_USE; /* NULL: out of memory */
void compare_free(struct compare *c);
/*
 * The stacks of P, which are SITES', become C's. The symbols under SITES stay in use by C. 0,
 * -ENOMEM, -ENOSPC (too many).
 */
int compare_add(struct compare *c, struct profile *p, struct sites *sites) MUST_USE;
/* C's stacks; C's. */
struct sites *compare_sites(struct compare *c);

#endif
