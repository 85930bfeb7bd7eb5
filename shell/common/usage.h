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
	uint64_t unaccounted; /* anonymous memory that nothing here explains */
	/* of `other`: writable shared memory, memfd and the like, but for what was mapped as anonymous */
	uint64_t shared;
	bool resident_known;	/* the next one is */
	uint64_t mmap_resident; /* of its own mappings, in memory or swapped out */
	int64_t rss;		/* bytes without ours, -1 unknown */
};

/*
 * That alone, in two steps: with the session's lock what must be known of P, then without it the
 * answer, which releases what the first one took.
 */
struct rss_look {
	pid_t via;
	int64_t rss; /* bytes, ours included; -1 unknown */
	raddr_t agent;
	struct rss_span {
		raddr_t start, end;
	} * island;
	size_t islands;
};
void rss_look_begin(struct rss_look *l, const struct process *p);
int64_t rss_look_end(struct rss_look *l);
int64_t usage_rss(const struct process *p); /* both at once */
/* Beside TOTALS, which are of P. The session is unlocked meanwhile; the caller holds P. */
void usage_read(struct session *session, struct usage *u, const struct process *p,
		const struct ledger_totals *totals);

#endif
