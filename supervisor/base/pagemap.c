// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patient.h"

/*
 * pagemap.c - both ways to ask, each with the lock of the process' mappings held by the kernel: so
 * a reader of patient.c does it, into memory of its own, by a descriptor of its own.
 */

struct question {
	int fd, err;
	bool scans;
	struct pagemap_scan scan;
	uint64_t first;
	ssize_t got;
	uint64_t us; /* of the reader's CPU time */
	size_t bytes;
	char room[]; /* regions, or the words of pages */
};

static void answer(pid_t pid, void *question)
{
	struct question *q = question;
	uint64_t began = clock_thread_us();

	(void)pid;
	do {
		q->got = q->scans ? ioctl(q->fd, PAGEMAP_SCAN, &q->scan)
				  : pread(q->fd, q->room, q->bytes, (off_t)(q->first * 8));
		q->err = q->got < 0 ? -errno : 0;
	} while (q->err == -EINTR);
	q->us = clock_thread_us() - began;
}

static void drop(void *question)
{
	struct question *q = question;

	close(q->fd);
	free(q);
}

static struct question *new_question(int fd, size_t bytes)
{
	struct question *q = malloc(sizeof(*q) + bytes);
	int own = q ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (own < 0) {
		free(q);
		return NULL;
	}
	q->fd = own;
	q->bytes = bytes;
	return q;
}

/* Q is put; what there is of OUT is filled. What the kernel returned, or -errno. */
static ssize_t put(pid_t pid, struct question *q, struct pagemap_scan *scan, void *out, size_t unit,
		   uint64_t *us)
{
	static const struct patient_work work = { answer, drop };
	int err = patient_do(pid, &work, q);
	ssize_t got;

	if (err)
		return err;
	got = q->err ? q->err : q->got;
	if (got > 0)
		memcpy(out, q->room, (size_t)got * unit);
	if (scan)
		scan->walk_end = q->scan.walk_end;
	if (us)
		*us += q->us;
	drop(q);
	return got;
}

int pagemap_scan(pid_t pid, int fd, struct pagemap_scan *scan, void *region, size_t most,
		 uint64_t *us)
{
	struct question *q;
	int n;

	if (patient_at_once(pid)) {
		scan->size = sizeof(*scan);
		scan->region = (uintptr_t)region;
		scan->regions = most;
		do
			n = ioctl(fd, PAGEMAP_SCAN, scan);
		while (n < 0 && errno == EINTR);
		return n < 0 ? -errno : n;
	}
	q = new_question(fd, most * sizeof(struct pagemap_region));
	if (!q)
		return -ENOMEM;
	q->scans = true;
	q->scan = *scan;
	q->scan.size = sizeof(q->scan);
	q->scan.region = (uintptr_t)q->room;
	q->scan.regions = most;
	return (int)put(pid, q, scan, region, sizeof(struct pagemap_region), us);
}

ssize_t pagemap_read(pid_t pid, int fd, uint64_t first, uint64_t *entry, size_t n, uint64_t *us)
{
	struct question *q;
	ssize_t got;

	if (patient_at_once(pid)) {
		do
			got = pread(fd, entry, n * sizeof(*entry), (off_t)(first * sizeof(*entry)));
		while (got < 0 && errno == EINTR);
		return got < 0 ? -errno : got / (ssize_t)sizeof(*entry);
	}
	q = new_question(fd, n * sizeof(*entry));
	if (!q)
		return -ENOMEM;
	q->scans = false;
	q->first = first;
	got = put(pid, q, NULL, entry, 1, us);
	return got < 0 ? got : got / (ssize_t)sizeof(*entry);
}
