/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * copy.h - pages of another process, copied: page by page, again and again as they change, found by
 * their addresses there. What it needs beside the pages is a thousandth of them.
 */
#ifndef MTRUN_COPY_H
#define MTRUN_COPY_H

#include "base/types.h"
#include "memory/pages.h"

struct copy;

/* Where pages are read. */
struct memory {
	pid_t pid;
	int mem; /* /proc/PID/mem */
	struct pages pages;
	/*
	 * By process_vm_readv(2) where that changes nothing: it is half as fast again, but makes
	 * the process copy each page that it shares with another since a fork.
	 */
	bool quick;
};
/* 0 or -errno. */
int memory_open(struct memory *m, pid_t pid, bool quick) MUST_USE;
void memory_close(struct memory *m);

/* At most MOST bytes of pages. NULL: out of memory. */
struct copy *copy_new(uint64_t most) MUST_USE;
void copy_free(struct copy *c);
void copy_allow(struct copy *c, uint64_t most); /* another limit */

/*
 * About BYTES more will be copied: until copy_expected() memory for them is touched beforehand,
 * where a core is free for that. copy_core_free() says whether one was, mostly, and may have to
 * wait for one; copy_expected() does not, as a process may stand still meanwhile.
 */
void copy_expect(struct copy *c, uint64_t bytes);
void copy_expected(struct copy *c);
bool copy_core_free(struct copy *c);

/*
 * The pages of N runs are copied, or copied again. FRESH: nobody shares them, they were written
 * just now. What cannot be read is not there. 0, -ENOMEM, or -E2BIG: more than the most.
 */
int copy_take(struct copy *c, const struct memory *from, const struct page_run *run, size_t n,
	      bool fresh) MUST_USE;
/* Of the pages in [START, END) only those in N runs, ascending, are there. */
void copy_keep(struct copy *c, raddr_t start, raddr_t end, const struct page_run *run, size_t n);

uint64_t copy_bytes(const struct copy *c); /* of the pages that are there */
/* As capture_next() (capture.h), without a buffer. */
const void *copy_next(const struct copy *c, raddr_t address, raddr_t end, raddr_t *at, size_t *len);

#endif
