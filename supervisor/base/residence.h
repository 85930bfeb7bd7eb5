/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * residence.h - how much of a process' mappings is in memory: for questions that are asked often,
 * and must be answered soon, whatever is mapped. There is a deadline, in CPU time of ours.
 */
#ifndef MTRUN_RESIDENCE_H
#define MTRUN_RESIDENCE_H

#include "base/types.h"

struct residence {
	pid_t pid;
	int fd;			     /* pagemap; below 0: -errno, it cannot be read */
	uint64_t until_us, asked_us; /* asked_us: that others took to ask the kernel for us */
	bool late; /* the time was not enough, or the kernel does not answer: sums are too small */
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
void residence_end(struct residence *r);

struct residence_span {
	raddr_t start, end;
};
/*
 * *BYTES of N spans of PID in memory, or (SWAPPED) also swapped out, as one question. False: the
 * time was not enough, or it cannot be known: they are too few.
 */
bool residence_sum(pid_t pid, const struct residence_span *span, size_t n, bool swapped,
		   uint64_t limit_us, uint64_t *bytes);

#endif
