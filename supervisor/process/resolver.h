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
 * Starts on QUESTION[N], in order; both are borrowed until resolver_finish(). NULL: no thread can
 * be had.
 */
struct resolver *resolver_start(struct symbols *symbols, const struct symbol_question *question,
				size_t n) MUST_USE;
/* How many questions are answered; N: all. */
size_t resolver_done(const struct resolver *r);
/* Waits for the end and frees R. */
void resolver_finish(struct resolver *r);

#endif
