/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * functions.h - the names of a process' functions, for completion. Gathered from the symbol tables of its modules a slice at a time, while nobody
 * waits; then every name is looked at, which takes a millisecond for 10^5. Names are copies: they outlive the process.
 */
#ifndef MTRUN_FUNCTIONS_H
#define MTRUN_FUNCTIONS_H

#include "../supervisor/types.h"

struct process;
struct functions;

struct functions *functions_new(void) MUST_USE;
void functions_free(struct functions *f);
/* Goes on gathering those of P (from the start if P is another than before, or has new modules), for at most MS. True: all are there. */
bool functions_gather(struct functions *f, const struct process *p, unsigned ms);
/* Calls FN with each name that begins with PREFIX, until it returns false. A name may come twice. */
void functions_match(const struct functions *f, const char *prefix, bool (*fn)(void *ctx, const char *name), void *ctx);

#endif
