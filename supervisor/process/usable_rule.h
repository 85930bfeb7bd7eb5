/* SPDX-License-Identifier: GPL-3.0-or-later */
/* usable_rule.h - by which allocator's rule the usable size of a process' blocks is known. */
#ifndef MTRUN_USABLE_RULE_H
#define MTRUN_USABLE_RULE_H

#include "process/usable.h"

struct process;

struct module;

/* Whether M is a jemalloc whose size classes are known. */
bool usable_is_jemalloc(const struct module *m);
/* Such a library that P has loaded now; NULL: none. It lives as long as P's record. */
const struct module *usable_jemalloc_library(const struct process *p);
/*
 * In what order ld.so has loaded a process' modules tells whose malloc it calls, if one of them is
 * an allocator's. It is in the process' memory: who holds a lock reads it without.
 */
struct load_order {
	pid_t via;
	raddr_t exe;	  /* its dynamic section; 0: the order is not needed */
	raddr_t *dynamic; /* those of the modules, in that order */
	size_t count;
};
void load_order_begin(struct load_order *o, const struct process *p);
/* Without any lock. Short, if P's memory cannot be read. */
void load_order_read(struct load_order *o);
void load_order_release(struct load_order *o);
/* O: P's, and read. P is borrowed as long as U is used. */
void usable_init(struct usable *u, const struct process *p, const struct load_order *o);

#endif
