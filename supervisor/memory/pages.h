/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pages.h - which pages of a process are there, in memory or swapped out, run by run. Pages that
 * only hold the zeros that they began with are not.
 */
#ifndef MTRUN_PAGES_H
#define MTRUN_PAGES_H

#include "base/pagemap.h"
#include "base/types.h"

struct pages { /* of one process */
	int fd;
	bool no_scan; /* the kernel lacks PAGEMAP_SCAN */
};

/* 0 or -errno. */
int pages_open(struct pages *p, pid_t pid) MUST_USE;
void pages_close(struct pages *p);

/* Pages in a row; as struct pagemap_region. */
struct page_run {
	raddr_t start, end;
	uint64_t is; /* PAGEMAP_WRITTEN, where the kernel has PAGEMAP_SCAN */
};

/*
 * Those that are a file's own are not wanted: of a private mapping. To tell takes 50 ns a page;
 * where there is no file there are none.
 */
#define PAGES_NOT_FILES 1u
#define PAGES_PROTECT	2u /* those written since they were protected alone; now they are protected */
#define PAGES_ANY	4u /* one page is enough */
#define PAGES_TRACKED	8u /* -EPERM: where pages cannot be protected */
/*
 * 1 MB of them is enough: who reads a piece at a time would have a large mapping looked through
 * again for each
 */
#define PAGES_PIECE 16u
/*
 * The runs in [*AT, END), MOST at most: how many, or -errno. *AT moves to where they were looked
 * for: END, or there are more to be asked for.
 */
ssize_t pages_next(const struct pages *p, raddr_t *at, raddr_t end, unsigned what,
		   struct page_run *run, size_t most) MUST_USE;

/*
 * Of the N pages from START on: which are in memory, and not in this process' alone, as those that
 * were there at a fork and that nobody has written since. 0 or -errno.
 */
int pages_shared(const struct pages *p, raddr_t start, size_t n, bool *shared) MUST_USE;

#endif
