// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/residence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pagemap.h"
#include "base/patient.h"

/*
 * residence.c - pages in memory, without what is slow.
 *
 * A process may map 64 TB that it never touches, and /proc/PID/pagemap has eight bytes for each
 * page, there or not. PAGEMAP_SCAN (Linux 6.7) passes over page tables that do not exist: its cost
 * is that of what is in memory. On older kernels the file is read, up to the deadline. A process
 * that maps ahead of us cannot keep us for longer than that.
 */

/* bytes of addresses for the first call; where there is little, each is larger than the last */
#define STEP	  ((uint64_t)128 << 20)
#define STEP_MOST ((uint64_t)8 << 40)
#define SOON_US	  200u /* a call that takes less */

void residence_begin(struct residence *r, pid_t pid, uint64_t limit_us)
{
	struct pagemap_scan nothing = { .any_of = PAGEMAP_PRESENT };

	*r = (struct residence){ .pid = pid,
				 .fd = patient_open(pid, "pagemap", O_RDONLY),
				 .until_us = clock_thread_us() + limit_us };
	r->no_scan = r->fd >= 0 && pagemap_scan(pid, r->fd, &nothing, NULL, 0, NULL) == -ENOTTY;
}

void residence_end(struct residence *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

static bool in_time(struct residence *r)
{
	if (!r->late && clock_thread_us() + r->asked_us > r->until_us)
		r->late = true;
	return !r->late;
}

/* ANY: which pages; TELL: by what they are told apart. Both of PAGEMAP_*. */
struct look {
	uint64_t any, tell;
	void (*fn)(void *ctx, raddr_t start, raddr_t end, uint64_t categories);
	void *ctx;
};

static void scan_pages(struct residence *r, raddr_t start, raddr_t end, const struct look *look)
{
	struct pagemap_region region[512];
	uint64_t step = STEP;

	while (start < end && in_time(r)) {
		struct pagemap_scan scan = { .start = start,
					     .end = end - start > step ? start + step : end,
					     .any_of = look->any,
					     .wanted = look->any | look->tell };
		uint64_t before = clock_thread_us() + r->asked_us;
		int n = pagemap_scan(r->pid, r->fd, &scan, region, 512, &r->asked_us);

		r->late |= n == -ETIMEDOUT;
		if (n < 0)
			return;
		for (int i = 0; i < n; i++)
			look->fn(look->ctx, region[i].start, region[i].end, region[i].categories);
		if (scan.walk_end <= start)
			return;
		start = scan.walk_end;
		if (clock_thread_us() + r->asked_us - before > SOON_US)
			step = STEP;
		else if (step < STEP_MOST)
			step *= 2;
	}
}

static uint64_t categories_of(uint64_t entry)
{
	return (entry & PAGEMAP_ENTRY_PRESENT ? PAGEMAP_PRESENT : 0) |
	       (entry & PAGEMAP_ENTRY_SWAPPED ? PAGEMAP_SWAPPED : 0) |
	       (entry & PAGEMAP_ENTRY_FILE ? PAGEMAP_FILE : 0);
}

static void read_pages(struct residence *r, raddr_t start, raddr_t end, const struct look *look)
{
	uint64_t entry[512], first = start / PAGE, last = end / PAGE, alike = 0, from = first;

	while (first < last && in_time(r)) {
		size_t n = last - first < 512 ? (size_t)(last - first) : 512;
		ssize_t got = pagemap_read(r->pid, r->fd, first, entry, n, &r->asked_us);

		r->late |= got == -ETIMEDOUT;
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++, first++) {
			uint64_t is = categories_of(entry[i]);

			is = is & look->any ? is & (look->any | look->tell) : 0;
			if (is == alike)
				continue;
			if (alike)
				look->fn(look->ctx, from * PAGE, first * PAGE, alike);
			alike = is;
			from = first;
		}
	}
	if (alike)
		look->fn(look->ctx, from * PAGE, first * PAGE, alike);
}

static void look_at(struct residence *r, raddr_t start, raddr_t end, const struct look *look)
{
	start = page_down(start);
	if (end > UINT64_MAX - PAGE)
		return;
	end = page_up(end);
	if (r->fd < 0 || start >= end)
		return;
	if (r->no_scan)
		read_pages(r, start, end, look);
	else
		scan_pages(r, start, end, look);
}

static void add_bytes(void *ctx, raddr_t start, raddr_t end, uint64_t categories)
{
	(void)categories;
	*(uint64_t *)ctx += end - start;
}

struct sum {
	uint64_t limit_us, bytes;
	bool swapped, known;
	size_t n;
	struct residence_span span[];
};

static void add_up(pid_t pid, void *sum)
{
	struct sum *s = sum;
	struct residence r;

	residence_begin(&r, pid, s->limit_us);
	for (size_t i = 0; i < s->n; i++)
		look_at(&r, s->span[i].start, s->span[i].end,
			&(struct look){ .any = PAGEMAP_PRESENT | (s->swapped ? PAGEMAP_SWAPPED : 0),
					.fn = add_bytes,
					.ctx = &s->bytes });
	s->known = r.fd >= 0 && !r.late;
	residence_end(&r);
}

bool residence_sum(pid_t pid, const struct residence_span *span, size_t n, bool swapped,
		   uint64_t limit_us, uint64_t *bytes)
{
	static const struct patient_work work = { add_up, free };
	struct sum *s = malloc(sizeof(*s) + n * sizeof(*span));
	bool known;

	*bytes = 0;
	if (!s)
		return false;
	*s = (struct sum){ .limit_us = limit_us, .swapped = swapped, .n = n };
	if (n)
		memcpy(s->span, span, n * sizeof(*span));
	if (patient_do(pid, &work, s))
		return false;
	*bytes = s->bytes;
	known = s->known;
	free(s);
	return known;
}

struct run {
	void (*fn)(void *ctx, raddr_t start, raddr_t end, unsigned kind);
	void *ctx;
};

static void tell_run(void *ctx, raddr_t start, raddr_t end, uint64_t categories)
{
	const struct run *run = ctx;

	run->fn(run->ctx, start, end,
		(categories & PAGEMAP_ZERO ? RESIDENCE_ZERO : 0) |
			(categories & PAGEMAP_FILE ? RESIDENCE_FILE : 0));
}

void residence_each(struct residence *r, raddr_t start, raddr_t end, unsigned tell,
		    void (*fn)(void *ctx, raddr_t start, raddr_t end, unsigned kind), void *ctx)
{
	look_at(r, start, end,
		&(struct look){ .any = PAGEMAP_PRESENT,
				.tell = (tell & RESIDENCE_ZERO ? PAGEMAP_ZERO : 0) |
					(tell & RESIDENCE_FILE ? PAGEMAP_FILE : 0),
				.fn = tell_run,
				.ctx = &(struct run){ fn, ctx } });
}
