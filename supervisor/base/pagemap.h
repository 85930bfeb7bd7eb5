/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * pagemap.h - /proc/PID/pagemap as the kernel has it: eight bytes for each page, and PAGEMAP_SCAN
 * (Linux 6.7), which passes over page tables that do not exist. As in linux/fs.h, which may be
 * older than the kernel.
 */
#ifndef MTRUN_PAGEMAP_H
#define MTRUN_PAGEMAP_H

#include <sys/ioctl.h>

#include "base/types.h"

struct pagemap_region {
	uint64_t start, end, categories;
};
struct pagemap_scan {
	uint64_t size, flags, start, end, walk_end, region, regions, max_pages;
	uint64_t inverted, all_of, any_of, wanted;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pagemap_scan)

/* categories */
#define PAGEMAP_WRITTEN 2u /* since it was protected by a userfaultfd, or never protected */
#define PAGEMAP_FILE	4u
#define PAGEMAP_PRESENT 8u
#define PAGEMAP_SWAPPED 16u
#define PAGEMAP_ZERO	32u /* the kernel's page of zeros */
/* flags */
#define PAGEMAP_PROTECT 1u /* those that match are protected */
#define PAGEMAP_TRACKED 2u /* -EPERM at a mapping that is not registered for that */

/* of the eight bytes of a page */
#define PAGEMAP_ENTRY_EXCLUSIVE (1ull << 56) /* mapped here alone */
#define PAGEMAP_ENTRY_FILE	(1ull << 61)
#define PAGEMAP_ENTRY_SWAPPED	(1ull << 62)
#define PAGEMAP_ENTRY_PRESENT	(1ull << 63)

/*
 * SCAN by FD, the `pagemap` of PID: up to MOST of struct pagemap_region (size, region and regions
 * are filled in here). How many there are, or -errno; -ENOTTY: this kernel cannot; -ETIMEDOUT: they
 * do not come (base/patient.h). The CPU time that another thread took for it, in microseconds, is
 * added to *US (NULL: nowhere).
 */
int pagemap_scan(pid_t pid, int fd, struct pagemap_scan *scan, void *region, size_t most,
		 uint64_t *us) MUST_USE;
/* The words of N pages from the number FIRST on: how many were read, or -errno. 0: it has ended. */
ssize_t pagemap_read(pid_t pid, int fd, uint64_t first, uint64_t *entry, size_t n,
		     uint64_t *us) MUST_USE;

#endif
