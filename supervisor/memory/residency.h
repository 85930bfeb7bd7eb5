/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * residency.h - what a process' resident memory is made of. Each page that the kernel counts in its
 * RSS is in one row, so the rows add up to it:
 *
 *	LIVE      any byte of the page is of a live block of the heap
 *	FREE      anonymous; blocks have been in it, and no byte of it is live
 *	METADATA  other anonymous memory: the allocators' own data, what they or the kernel have
 *	          rounded up to, libc's and ld.so's; with an attached process also what was there
 *	MMAP      the program's own private anonymous mappings
 *	STACKS    of the threads, those too that libc keeps for the next ones
 *	IMAGE     the executable's text, data and .bss
 *	FILES     libraries with their data and .bss, other mapped files, the vdso
 *	SHARED    shared memory: memfd, shm_open, System V, MAP_SHARED | MAP_ANONYMOUS
 *	MTRUN     what mtrun has in the process
 *
 * What is swapped out is beside that. The process runs meanwhile: its pages are of one moment, its
 * live blocks of the milliseconds after it, so that of a program that is at work at most what it
 * has allocated and freed in them is in the wrong row.
 *
 * It is made in steps, as the session's lock may only be held for moments: those that need it are
 * marked. Caller's storage.
 */
#ifndef MTRUN_RESIDENCY_H
#define MTRUN_RESIDENCY_H

#include "base/maps.h"
#include "base/proc.h"
#include "base/residence.h"
#include "blocks/page_set.h"
#include "memory/areas.h"
#include "memory/page_tally.h"

struct block_list;
struct process;

enum residency_row {
	RESIDENCY_LIVE,
	RESIDENCY_FREE,
	RESIDENCY_METADATA,
	RESIDENCY_MMAP,
	RESIDENCY_STACKS,
	RESIDENCY_IMAGE,
	RESIDENCY_FILES,
	RESIDENCY_SHARED,
	RESIDENCY_MTRUN,
	RESIDENCY_ROWS
};
/* Its key in JSON, its name in texts, and what that means. */
struct residency_words {
	const char *key, *name, *meaning;
};
extern const struct residency_words residency_words[RESIDENCY_ROWS];

/* Pages that few live bytes keep: all of one stack, or of several in one group. */
struct residency_kept {
	uint32_t stack; /* of the first of its blocks that was laid over them */
	uint64_t pages, live_bytes;
};
/* A page counts if so many of its bytes are live at most. */
#define RESIDENCY_FEW (PAGE / 2)

struct residency { /* the answer */
	uint64_t rss, bytes[RESIDENCY_ROWS];
	uint64_t swapped;	     /* not in RSS */
	uint64_t live_bytes;	     /* of the blocks, in the pages of RESIDENCY_LIVE */
	bool late;		     /* the time was not enough: pages are missing */
	struct residency_kept *kept; /* by stack, in no order */
	size_t nkept;
	/* pages that few live bytes keep: all of them; and those of several groups */
	struct residency_kept all, several;
};
void residency_release(struct residency *r);

struct residency_run { /* of pages, as the kernel tells them */
	raddr_t start, end;
	unsigned kind; /* RESIDENCE_* */
};

struct residency_look { /* on the way there */
	pid_t pid;
	int maps_fd;
	struct residence residence;
	uint64_t swapped;
	struct maps maps;
	raddr_t *rsp;
	size_t nrsp, nrun, room;
	struct residency_run *run;
	struct page_set lain;
	struct areas areas;
	struct page_tally tally;
	int err;
};

/*
 * What is needed of process PID (P's `via`) is opened, which can take until it is given up: to be
 * called with nothing locked. 0 or -errno: its pages cannot be looked at.
 */
int residency_open(struct residency_look *l, pid_t pid) MUST_USE;
/* Locked: P is still what it was before that. 0 or -errno. */
int residency_begin(struct residency_look *l, const struct process *p) MUST_USE;
/* Its mappings and pages are read. 0 or -errno. */
int residency_read(struct residency_look *l) MUST_USE;
/* Locked: whose they are. 0 or -errno. */
int residency_divide(struct residency_look *l, const struct process *p) MUST_USE;
/*
 * Its live blocks. Those of one GROUP, by the number of their stack, are one (page_tally.h); NULL:
 * nobody asks. 0 or -ENOMEM.
 */
int residency_lay(struct residency_look *l, const struct block_list *blocks, const uint32_t *group,
		  size_t groups) MUST_USE;
/* 0 or -ENOMEM. */
int residency_sum(const struct residency_look *l, struct residency *out) MUST_USE;
/* In any case, at the end. */
void residency_end(struct residency_look *l);

#endif
