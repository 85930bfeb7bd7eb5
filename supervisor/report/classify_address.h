/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * classify_address.h - what an address that is in no block is: a thread's stack, a variable, a
 * function, the allocator's own memory, nothing at all.
 */
#ifndef MTRUN_CLASSIFY_ADDRESS_H
#define MTRUN_CLASSIFY_ADDRESS_H

#include "base/maps.h"

struct process;

/*
 * What /proc tells of process PID (a process' `via`) that is needed to say what ADDR is. Nothing is
 * stopped; it can take until it is given up, so nothing is to be locked. To be released in any case.
 */
struct address_view {
	int err; /* 0 or -errno: there is nothing */
	struct maps maps;
	const struct map *map; /* that ADDR is in; NULL: none */
	struct sleeper {
		pid_t tid;
		raddr_t rsp;
	} * sleeper; /* threads that sleep with their stack pointers in `map` */
	size_t sleepers;
};
void address_view_make(struct address_view *v, pid_t pid, raddr_t addr);
void address_view_release(struct address_view *v);
/* A phrase such as "the stack of thread 812", cut to LEN - 1 bytes. V: of P and ADDR. */
void classify_address(struct process *p, const struct address_view *v, raddr_t addr, char *text,
		      size_t len);
/* classify_address() for modules alone, also when P is gone. False: ADDR is in none. */
bool classify_in_module(struct process *p, raddr_t addr, char *text, size_t len);

/*
 * A place in a module's data, or in the thread-local data of the thread whose pointer is FS: its
 * variable, to be freed, and how many bytes into it; NULL: none is known, and then how many bytes
 * into the module, or below FS. False: it is in no module's.
 */
struct classified_variable {
	char *name;
	uint64_t offset;
	const char *section, *module; /* NULL: not known */
};
bool classify_variable(const struct process *p, raddr_t addr,
		       struct classified_variable *v) MUST_USE;
bool classify_thread_local(const struct process *p, raddr_t fs, raddr_t addr,
			   struct classified_variable *v) MUST_USE;

#endif
