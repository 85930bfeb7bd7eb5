/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fold.h - what a command prints on a terminal, so that no line of it is wider than that: a longer
 * one goes on in the next, between two words. Tables fit by themselves (report/grid.h) and pass
 * unchanged; this is for sentences.
 */
#ifndef MTRUN_FOLD_H
#define MTRUN_FOLD_H

#include <stdio.h>

#include "base/types.h"

struct call;
struct layout;

/*
 * A stream that writes to OUT by CALL's layout; both are borrowed until it is closed, which closes
 * nothing else. What CALL says to be for programs (JSON) passes as it is. NULL: out of memory.
 */
FILE *fold_open(FILE *out, const struct call *call) MUST_USE;
/*
 * fold_open() for what no command prints. NULL also if L is of no terminal: nothing is folded then.
 */
FILE *fold_sentences(FILE *out, const struct layout *l) MUST_USE;

#endif
