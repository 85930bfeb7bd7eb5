/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * areas.h - what the mappings of a process are there for: ranges of addresses, each of one kind,
 * out of the kernel's list, the process' modules and threads and the ledger's ranges. Caller's
 * storage.
 */
#ifndef MTRUN_AREAS_H
#define MTRUN_AREAS_H

#include "base/types.h"

struct maps;
struct page_set;
struct process;

enum area_kind {
	AREA_BLOCKS, /* anonymous, and nobody else's: where allocators have their blocks */
	AREA_OWN,    /* the program's own anonymous mappings, private ones */
	AREA_STACK,
	AREA_IMAGE, /* the executable: text, data, .bss */
	AREA_FILE,  /* libraries with their data and .bss, other files, the vdso */
	AREA_SHARED,
	AREA_MTRUN,
	AREA_KINDS
};

struct area {
	raddr_t start, end;
	enum area_kind kind;
	/* pages that are memory of its own are none that the kernel counts: a device's */
	bool shared;
};
struct areas {		   /* zeros: none */
	struct area *area; /* ascending, without overlap */
	size_t count, room;
};

/*
 * Out of MAPS, P's as just read from MAPS_FD. LAIN: ledger_lain(). RSP: the N stack pointers of
 * threads that sleep. 0 or -ENOMEM. What the kernel does not count in RSS (huge pages of hugetlbfs,
 * its own pages) is in none.
 */
int areas_make(struct areas *a, const struct process *p, const struct maps *maps, int maps_fd,
	       const struct page_set *lain, const raddr_t *rsp, size_t n) MUST_USE;
void areas_release(struct areas *a);

#endif
