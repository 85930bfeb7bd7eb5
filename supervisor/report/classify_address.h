/* SPDX-License-Identifier: GPL-3.0-or-later */
/* place.h - what an address that is in no block is: a thread's stack, a variable, a function, the allocator's own memory, nothing at all. */
#ifndef MTRUN_PLACE_H
#define MTRUN_PLACE_H

#include "base/types.h"

struct process;

/* A phrase such as "the stack of thread 812", cut to LEN - 1 bytes. Reads /proc and the process' memory, stops nothing. */
void place_describe(struct process *p, raddr_t addr, char *text, size_t len);

#endif
