/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * vmas.h - a process' mappings as numbers, and how much of them is in memory: for questions that
 * are asked often and must be answered soon, whatever is mapped. What a mapping is called is in
 * maps_read()'s rows (proc.h). Everything has a deadline, in CPU time of ours; errors are -errno,
 * -ETIME when it has passed.
 */
#ifndef MTRUN_VMAS_H
#define MTRUN_VMAS_H

#include "base/types.h"

struct vma {
	raddr_t start, end;
	bool access; /* it can be read, written or executed */
	bool file;   /* of a file, a memfd, shared memory */
	bool named;  /* it has a name: a file's, or [heap], [stack], ... */
};
struct vmas {
	struct vma *vma; /* ascending */
	size_t count, room;
};

/* In at most LIMIT_US microseconds of CPU time. 0 or -errno. The caller releases it. */
int vmas_read(struct vmas *v, pid_t pid, uint64_t limit_us) MUST_USE;
void vmas_release(struct vmas *v);
/*
 * Bytes of a page of the mapping at ADDR; MAPS_FD: an open `maps`. 0: it is not known (before Linux
 * 6.11), or not mapped.
 */
uint64_t vma_page_size(int maps_fd, raddr_t addr);
/* The first one that ends above ADDR, or V->count. HINT: where it may well be. */
size_t vmas_from(const struct vmas *v, raddr_t addr, size_t hint);

/* Pages in memory. */
struct residence {
	int fd; /* pagemap; -1: cannot be read */
	uint64_t until_us;
	bool late;    /* the time was not enough: sums are too small */
	bool no_scan; /* the kernel lacks PAGEMAP_SCAN (Linux 6.7) */
};
void residence_begin(struct residence *r, pid_t pid, uint64_t limit_us);
/*
 * FN for each run of pages of [START, END) in memory, ascending, that are alike in what of TELL is
 * asked for, as far as the time allows. ZERO: the kernel's page of zeros, which nobody pays for
 * (not told on kernels without PAGEMAP_SCAN). FILE: of a file or shared memory, not memory of its
 * own; to know that takes three times as long.
 */
#define RESIDENCE_ZERO 1u
#define RESIDENCE_FILE 2u
void residence_each(struct residence *r, raddr_t start, raddr_t end, unsigned tell,
		    void (*fn)(void *ctx, raddr_t start, raddr_t end, unsigned kind), void *ctx);
/* Bytes of [START, END) in memory, or (SWAPPED) also those swapped out. */
uint64_t residence_of(struct residence *r, raddr_t start, raddr_t end, bool swapped);
void residence_end(struct residence *r);

#endif
