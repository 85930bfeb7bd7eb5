/* SPDX-License-Identifier: GPL-3.0-or-later */
/* limit_text.h - what is said of a request that met the limit, and of those that were refused. */
#ifndef MTRUN_LIMIT_TEXT_H
#define MTRUN_LIMIT_TEXT_H

#include "process/profile.h"
#include <stdio.h>

struct shell;
struct process;
struct limit_hit;

/* The line that others parse. */
void limit_line(FILE *out, const struct limit_hit *hit);
/*
 * Whose request it was, its stack, and what the process holds. SHELL asks: the session is unlocked
 * meanwhile.
 */
void limit_text(struct shell *shell, FILE *out, const struct limit_hit *hit);

/* P's refused requests as a profile: size and count are theirs. 0 or -ENOMEM. */
int limit_refusals(const struct process *p, struct profile *profile) MUST_USE;
uint64_t limit_refused_count(const struct process *p);
/* What P may still ask for; LIMIT is not 0. */
uint64_t limit_room(uint64_t limit, uint64_t allocated);

#endif
