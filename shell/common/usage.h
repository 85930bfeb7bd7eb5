/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * usage.h - the memory of a process as the kernel has it, set beside what its ledger says. Reads
 * /proc only when asked.
 */
#ifndef MTRUN_USAGE_H
#define MTRUN_USAGE_H

#include "process/process.h"

struct session;

struct usage {
	/* the maps could be read: the process is there, or held at its last instant */
	bool mapped_known;
	size_t mappings;
	/*
	 * all accessible bytes of its address space, ours left out: heap + mmap + image + other +
	 * unaccounted
	 */
	uint64_t mapped;
	/* libraries, files, stacks, and what allocators hold beyond the live blocks */
	uint64_t other;
	uint64_t unaccounted;	/* anonymous memory that nothing here explains */
	bool resident_known;	/* the next one is */
	uint64_t mmap_resident; /* of its own mappings, in memory or swapped out */
	int64_t rss;		/* bytes without ours, -1 unknown */
};

int64_t usage_rss(const struct process *p); /* that alone */
/* Beside TOTALS, which are of P. The session is unlocked meanwhile; the caller holds P. */
void usage_read(struct session *session, struct usage *u, const struct process *p,
		const struct ledger_totals *totals);

#endif
