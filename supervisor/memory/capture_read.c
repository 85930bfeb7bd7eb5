// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * capture_read.c - what is in a capture: in the copy that it has; or, without one, in a process that
 * stands still. Any thread may be here at any time.
 */
#include "base/search.h"
#include "memory/capture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "memory/capture_state.h"

const char *capture_way_name(enum capture_way way)
{
	static const char *const name[] = { [CAPTURE_AUTO] = "auto",
					    [CAPTURE_WRITE_PROTECT] = "write protection",
					    [CAPTURE_CLONE] = "clone",
					    [CAPTURE_STOP] = "stop" };

	return name[way];
}

const struct capture_range *capture_range_at(const struct capture *c, raddr_t address)
{
	size_t at = SEARCH(i, c->ranges, address >= c->range[i].end);

	return at < c->ranges && address >= c->range[at].start ? &c->range[at] : NULL;
}

int capture_error(const struct capture *c)
{
	return __atomic_load_n(&capture_made(c)->error, __ATOMIC_RELAXED);
}

static void failed(const struct making *m, int err)
{
	__atomic_store_n(&((struct making *)(uintptr_t)m)->error, err, __ATOMIC_RELAXED);
}

/* Bytes from ADDRESS on: at most LEN. 0: the page cannot be read. */
static size_t read_there(const struct making *m, raddr_t address, void *to, size_t len)
{
	ssize_t n;

	do
		n = pread(m->from.mem, to, len, (off_t)address);
	while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno != EIO && errno != EFAULT))
		failed(m, n ? -errno : -ESRCH);
	return n > 0 ? (size_t)n : 0;
}

/* The range that ADDRESS is in, or the next one. */
static const struct capture_range *range_from(const struct capture *c, raddr_t address)
{
	const struct capture_range *end = c->range + c->ranges, *r = c->range;
	size_t n = c->ranges;

	while (n) {
		size_t half = n / 2;

		if (address >= r[half].end) {
			r += half + 1;
			n -= half + 1;
		} else
			n = half;
	}
	return r < end ? r : NULL;
}

static raddr_t least(raddr_t a, raddr_t b) { return a < b ? a : b; }

static raddr_t page_end(raddr_t address)
{
	return (address + MEMORY_PAGE - 1) & ~(raddr_t)(MEMORY_PAGE - 1);
}

static const void *next_there(const struct making *m, raddr_t address, raddr_t end, void *buffer,
			      size_t size, raddr_t *at, size_t *len)
{
	const struct capture_range *r = range_from(&m->c, address);

	while (r && r->start < end && address < end && !capture_error(&m->c)) {
		raddr_t begin = address > r->start ? address : r->start, last = least(end, r->end),
			from = begin & ~(raddr_t)(MEMORY_PAGE - 1);
		struct page_run run;
		ssize_t n = pages_next(&m->pages, &from, page_end(last), capture_pages_wanted(r),
				       &run, 1);

		if (n < 0) {
			failed(m, (int)n);
			break;
		}
		if (n) {
			*at = begin > run.start ? begin : run.start;
			*len = *at >= last ? 0
					   : read_there(m, *at, buffer,
							least(size, least(run.end, last) - *at));
			if (*len)
				return buffer;
			from = (*at | (MEMORY_PAGE - 1)) + 1;
		}
		address = least(from, last);
		r = address < r->end ? r : range_from(&m->c, address);
	}
	return NULL;
}

const void *capture_next(const struct capture *c, raddr_t address, raddr_t end, void *buffer,
			 size_t size, raddr_t *at, size_t *len)
{
	const struct making *m = capture_made(c);

	return m->copy ? copy_next(m->copy, address, end, at, len)
		       : next_there(m, address, end, buffer, size, at, len);
}

size_t capture_read(const struct capture *c, raddr_t address, void *to, size_t size)
{
	const struct capture_range *r = capture_range_at(c, address);
	raddr_t end = address, at;
	size_t len;

	while (r && end - address < size) {
		end = least(address + size, r->end);
		r = capture_range_at(c, end);
	}
	memset(to, 0, end - address);
	for (raddr_t next = address; next < end; next = at + len) {
		char *there = (char *)to + (next - address);
		const void *from = capture_next(c, next, end, there, end - next, &at, &len);

		if (!from)
			break;
		memmove((char *)to + (at - address), from, len);
	}
	return capture_error(c) ? 0 : end - address;
}
