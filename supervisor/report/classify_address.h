/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * classify_address.h - what an address that is in no block is: a thread's stack, a variable, a
 * function, the allocator's own memory, nothing at all.
 */
#ifndef MTRUN_CLASSIFY_ADDRESS_H
#define MTRUN_CLASSIFY_ADDRESS_H

#include "base/types.h"

struct process;

/*
 * A phrase such as "the stack of thread 812", cut to LEN - 1 bytes. Reads /proc and the process'
 * memory, stops nothing.
 */
void classify_address(struct process *p, raddr_t addr, char *text, size_t len);

#endif
