/* SPDX-License-Identifier: GPL-3.0-or-later */
/* usable_rule.h - by which allocator's rule the usable size of a process' blocks is known. */
#ifndef MTRUN_USABLE_RULE_H
#define MTRUN_USABLE_RULE_H

#include "process/usable.h"

struct process;

struct module;

/* Whether M is a jemalloc whose size classes are known. */
bool usable_is_jemalloc(const struct module *m);
/* P is borrowed as long as U is used. */
void usable_init(struct usable *u, const struct process *p);

#endif
