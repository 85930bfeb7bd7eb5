/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * maps.h - a process' mappings, as in /proc/PID/maps. Errors are -errno; -EOVERFLOW: there are more
 * than a million; -ETIMEDOUT: they do not come (base/patient.h).
 */
#ifndef MTRUN_MAPS_H
#define MTRUN_MAPS_H

#include "base/types.h"

struct map {
	raddr_t start, end; /* end is exclusive */
	uint64_t offset;    /* in the file, in bytes */
	uint64_t inode;	    /* 0: of no file */
	uint32_t dev_major, dev_minor;
	bool read, write, exec, shared;
	/*
	 * "" if anonymous, "[stack]" and so on; " (deleted)" is stripped and kept in `deleted`. "?":
	 * longer than the kernel says.
	 */
	const char *path;
	bool deleted;
};
struct map_names;
struct maps {
	struct map *map; /* ascending */
	size_t count;
	struct map_names *names; /* what the paths point into */
};

/* The caller releases what it has read with maps_release(), which may be called twice. */
int maps_read(struct maps *maps, pid_t pid) MUST_USE;
/* maps_read() in at most LIMIT_US microseconds of CPU time; -ETIME: it takes longer. */
int maps_read_within(struct maps *maps, pid_t pid, uint64_t limit_us) MUST_USE;
/* maps_read() from FD, an open `maps` of PID, of which nothing was read: it stays that process'. */
int maps_read_from(struct maps *maps, pid_t pid, int fd) MUST_USE;
/* maps_read() from TEXT[LEN], which is of the form of `maps`. */
int maps_parse(struct maps *maps, const char *text, size_t len) MUST_USE;
void maps_release(struct maps *maps);

/* Whether it is memory by its name, not a file on a disk: memfd, System V, shm_open, /dev/zero. */
bool map_is_memory(const struct map *m);

/* The mapping that ADDR is in, or NULL. */
const struct map *maps_find(const struct maps *maps, raddr_t addr);
/* The index of the first mapping that ends above ADDR, or the count. HINT: where it may well be. */
size_t maps_from(const struct maps *maps, raddr_t addr, size_t hint);

/*
 * Bytes of a page of the mapping at ADDR; MAPS_FD: an open `maps`. 0: it is not known (before Linux
 * 6.11), or not mapped.
 */
uint64_t map_page_size(int maps_fd, raddr_t addr);

#endif
