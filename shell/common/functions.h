/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * functions.h - the names of a process' functions, for completion. Gathered from the symbol tables
 * of its modules a slice at a time, while nobody waits; then every name is looked at, which takes a
 * millisecond for 10^5. Names are copies: they outlive the process.
 */
#ifndef MTRUN_FUNCTIONS_H
#define MTRUN_FUNCTIONS_H

#include "base/types.h"

struct process;
struct functions;

#define FUNCTIONS_SLICE_MS 2 /* between two turns of the loop */

struct functions *functions_new(void) MUST_USE;
void functions_free(struct functions *f);
/*
 * Goes on gathering those of P (from the start if P is another than before, or has new modules),
 * for at most MS. True: all are there.
 */
bool functions_gather(struct functions *f, const struct process *p, unsigned ms);
/* Calls FN with each name that begins with PREFIX. A name may come twice. */
void functions_match(const struct functions *f, const char *prefix,
		     void (*fn)(void *ctx, const char *name), void *ctx);

struct functions_cursor {
	size_t module, symbol;
};
/*
 * The same of P's symbol tables, where nothing is gathered: from *AT on, {0} at first, for about MS.
 * True: it is done. That is faster than to gather if PREFIX is searchable.
 */
bool functions_search(const struct process *p, const char *prefix, struct functions_cursor *at,
		      unsigned ms, void (*fn)(void *ctx, const char *name), void *ctx);
bool functions_searchable(const char *prefix);

/*
 * Where P has what is called NAME: a symbol as its table has it, or a function or an object by its
 * readable name, with its parameters or without.
 * Looks from *AT on, {0} at first, for about MS. 1: it is at *ADDRESS; 0: not yet found; -ENOENT:
 * there is none.
 */
int functions_find(const struct process *p, const char *name, struct functions_cursor *at,
		   unsigned ms, raddr_t *address) MUST_USE;

#endif
