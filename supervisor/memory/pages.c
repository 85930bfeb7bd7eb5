// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/patient.h"

/*
 * pages.c - asking the kernel which pages are there.
 *
 * Reading a page that is not there would make it: a table in the target's memory, a page in its
 * file. So only those are read that PAGEMAP_SCAN tells of. It passes over what has no page tables:
 * its cost is that of what is in memory, whatever is mapped. On kernels before 6.7 eight bytes are
 * read for each page that could be there.
 */

/* A call holds the lock on the process' mappings. */
#define STEP  ((uint64_t)1 << 30)
#define PIECE ((1u << 20) / PAGE)

_Static_assert(sizeof(struct page_run) == sizeof(struct pagemap_region), "the kernel writes these");

int pages_open(struct pages *p, pid_t pid)
{
	struct pagemap_scan scan = { .size = sizeof(scan), .any_of = PAGEMAP_PRESENT };
	int fd = patient_open(pid, "pagemap", O_RDONLY);

	if (fd < 0)
		return fd;
	*p = (struct pages){ .fd = fd, .no_scan = ioctl(fd, PAGEMAP_SCAN, &scan) < 0 };
	return 0;
}

void pages_close(struct pages *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

static ssize_t scan(const struct pages *p, raddr_t *at, raddr_t end, unsigned what,
		    struct page_run *run, size_t most)
{
	struct pagemap_scan scan = {
		.size = sizeof(scan),
		.flags = what & PAGES_PROTECT	? PAGEMAP_PROTECT | PAGEMAP_TRACKED
			 : what & PAGES_TRACKED ? PAGEMAP_TRACKED
						: 0,
		.start = *at,
		.end = end - *at > STEP ? *at + STEP : end,
		.region = (uintptr_t)run,
		.regions = most,
		.max_pages = what & PAGES_ANY	  ? 1
			     : what & PAGES_PIECE ? PIECE
						  : 0,
		.inverted = PAGEMAP_ZERO | (what & PAGES_NOT_FILES ? PAGEMAP_FILE : 0),
		.any_of = PAGEMAP_PRESENT | PAGEMAP_SWAPPED,
		.wanted = PAGEMAP_WRITTEN,
	};
	int n;

	scan.all_of = scan.inverted | (what & PAGES_PROTECT ? PAGEMAP_WRITTEN : 0);
	do
		n = ioctl(p->fd, PAGEMAP_SCAN, &scan);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (scan.walk_end <= *at)
		return -EIO;
	*at = scan.walk_end;
	return n;
}

#define ENTRIES 512u

static bool is_there(uint64_t entry, unsigned what)
{
	return (entry & (PAGEMAP_ENTRY_PRESENT | PAGEMAP_ENTRY_SWAPPED)) &&
	       !(what & PAGES_NOT_FILES && entry & PAGEMAP_ENTRY_FILE);
}

/* How many entries were read; 0: the process has no memory any more. */
static ssize_t read_entries(const struct pages *p, raddr_t at, uint64_t *entry, size_t n)
{
	ssize_t got;

	do
		got = pread(p->fd, entry, n * sizeof(*entry), (off_t)(at / PAGE * sizeof(*entry)));
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got / (ssize_t)sizeof(*entry);
}

static ssize_t read_runs(const struct pages *p, raddr_t *at, raddr_t end, unsigned what,
			 struct page_run *run, size_t most)
{
	uint64_t entry[ENTRIES], left = (end - *at) / PAGE;
	ssize_t got = read_entries(p, *at, entry, left < ENTRIES ? left : ENTRIES);
	size_t n = 0;

	if (got <= 0)
		return got ? got : -ESRCH;
	for (ssize_t i = 0; i < got; i++, *at += PAGE) {
		if (!is_there(entry[i], what))
			continue;
		if (n && run[n - 1].end == *at) {
			run[n - 1].end += PAGE;
			continue;
		}
		if (n == most)
			break;
		run[n++] = (struct page_run){ *at, *at + PAGE, PAGEMAP_WRITTEN };
	}
	return (ssize_t)n;
}

ssize_t pages_next(const struct pages *p, raddr_t *at, raddr_t end, unsigned what,
		   struct page_run *run, size_t most)
{
	if (!p->no_scan)
		return scan(p, at, end, what, run, most);
	return what & (PAGES_PROTECT | PAGES_TRACKED) ? -ENOSYS
						      : read_runs(p, at, end, what, run, most);
}

int pages_shared(const struct pages *p, raddr_t start, size_t n, bool *shared)
{
	uint64_t entry[ENTRIES];

	for (size_t done = 0; done < n;) {
		ssize_t got = read_entries(p, start + done * PAGE, entry,
					   n - done < ENTRIES ? n - done : ENTRIES);

		if (got <= 0)
			return got ? (int)got : -ESRCH;
		for (ssize_t i = 0; i < got; i++)
			shared[done++] =
				(entry[i] & PAGEMAP_ENTRY_PRESENT) &&
				!(entry[i] & (PAGEMAP_ENTRY_EXCLUSIVE | PAGEMAP_ENTRY_FILE));
	}
	return 0;
}
