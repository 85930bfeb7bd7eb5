/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * preattach_heap.h - the heap that a process had before mtrun came to it: how much of it was in
 * use, as glibc's mallinfo2() would say (uordblks + hblkhd). Read from outside while the process
 * runs; nothing is called in it. Of other allocators it is not known, and why is said.
 */
#ifndef MTRUN_PREATTACH_HEAP_H
#define MTRUN_PREATTACH_HEAP_H

#include "base/types.h"
#include "process/preattach.h"

struct process;

/*
 * P's modules must be known. It takes about 0.4 s for each GB in use, and gives up after 5 s. What
 * the process allocates and frees meanwhile may or may not be in it. MEANWHILE(CTX), if not NULL,
 * is called often; it may do anything but free P.
 */
void preattach_heap_measure(struct preattach_heap *b, const struct process *p,
			    void (*meanwhile)(void *ctx), void *ctx);

/*
 * Finds where P's malloc keeps its own figures, which last as long as the program. False: it is not
 * glibc's, or has not made a block yet.
 */
bool preattach_heap_find(const struct process *p, struct glibc_malloc *to) MUST_USE;

#endif
