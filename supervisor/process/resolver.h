/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * resolver.h - the worker thread that reads symbols while the main thread serves the target: the
 * tables of one library can take seconds. It asks symbols_resolve() and forgets the answers, which
 * are cached then. It touches nothing else, and makes no ptrace or wait calls.
 */
#ifndef MTRUN_RESOLVER_H
#define MTRUN_RESOLVER_H

#include "base/types.h"
#include "process/process.h"

struct resolver;

/*
 * Starts on QUESTION[N], in order; both are borrowed until resolver_finish(). Questions of one
 * stack follow each other, FIRST marks the innermost one; UNTIL_SITE: once one has been answered by
 * a frame that may be a site, the rest of that stack is left out. NULL: no thread can be had.
 */
struct resolver_question {
	struct symbol_question q;
	bool first;
};
struct resolver *resolver_start(struct symbols *symbols, const struct resolver_question *question,
				size_t n, bool until_site) MUST_USE;
/* How many questions are done with; N: it is ready. */
size_t resolver_done(const struct resolver *r);
/* It is to end after the answer it is at. */
void resolver_stop(struct resolver *r);
/* Waits for the end and frees R. */
void resolver_finish(struct resolver *r);

#endif
