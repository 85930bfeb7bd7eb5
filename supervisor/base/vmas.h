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
/* Bytes of [START, END) in memory, or (SWAPPED) also those swapped out. */
uint64_t residence_of(struct residence *r, raddr_t start, raddr_t end, bool swapped);
void residence_end(struct residence *r);

#endif
