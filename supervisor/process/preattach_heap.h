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

struct module;
struct process;

/*
 * P's modules must be known. It takes about 0.5 s for each GB in use, and gives up after 8 s of
 * CPU time, or 15 s where the lock of P's mappings, or processors, must be waited for. What
 * the process allocates and frees meanwhile may or may not be in it. MEANWHILE(CTX), if not NULL,
 * is called often; it may do anything but free P.
 */
void preattach_heap_measure(struct preattach_heap *b, const struct process *p,
			    void (*meanwhile)(void *ctx), void *ctx);

/* The module of P that libc's malloc is in, or would be. NULL: it has none. */
const struct module *preattach_heap_libc(const struct process *p);
/*
 * Finds where the malloc in LIBC, of process VIA, keeps its own figures, which last as long as the
 * program. False: it is not glibc's, or has not made a block yet. Can take until it is given up, so
 * nothing is to be locked.
 */
bool preattach_heap_find(const struct module *libc, pid_t via, struct glibc_malloc *to) MUST_USE;

/*
 * All blocks that G has handed out, by address, but for those that are mappings of their own: out
 * of MEMORY, which does not change meanwhile and which READ(ctx, at, buf, len) copies from (the
 * bytes that could be read, or -errno). Threads that were in the middle of malloc or free may have
 * one more or less. How many, and *OUT for the caller to free; -ENOTSUP: it is not as we know it.
 */
struct preattach_memory {
	ssize_t (*read)(void *ctx, raddr_t at, void *buf, size_t len);
	void *ctx;
};
struct preattach_block {
	raddr_t address;
	uint64_t size; /* that can be used */
};
ssize_t preattach_heap_blocks(const struct glibc_malloc *g, const struct preattach_memory *memory,
			      struct preattach_block **out) MUST_USE;

#endif
