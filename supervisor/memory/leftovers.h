/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * leftovers.h - writable memory in which no pointer of the program's is: what it has given back,
 * and libc keeps. Words that were left there would hide leaks: a list whose head was freed is what
 * they look like.
 */
#ifndef MTRUN_LEFTOVERS_H
#define MTRUN_LEFTOVERS_H

#include "memory/capture.h"

struct process;

/*
 * Marks the ranges of C, a capture of P, accordingly: they are split, and what nothing of the
 * program's is in is no root. ALL_KNOWN: each block of the heap is in C. 0 or -ENOMEM.
 */
int leftovers_mark(struct capture *c, const struct process *p, bool all_known) MUST_USE;

#endif
