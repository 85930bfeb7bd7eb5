// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/bounds.h"
#include "base/search.h"
#include "memory/capture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "memory/capture_state.h"

/*
 * capture_read.c - what is in a capture: in the copy that it has; or, without one, in a process
 * that stands still. Any thread may be here at any time.
 */

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

/* The part that ADDRESS is in, or the next one. */
static const struct part *part_from(const struct making *m, raddr_t address)
{
	const struct part *p = m->part;
	size_t n = m->parts;

	while (n) {
		size_t half = n / 2;

		if (address >= p[half].end) {
			p += half + 1;
			n -= half + 1;
		} else
			n = half;
	}
	return p;
}

/* [ADDRESS, END) is in P. */
static const void *next_there(const struct making *m, const struct part *p, raddr_t address,
			      raddr_t end, void *buffer, size_t size, raddr_t *at, size_t *len)
{
	while (address < end && !capture_error(&m->c)) {
		raddr_t from = page_down(address);
		struct page_run run;
		ssize_t n = pages_next(&m->from.pages, &from, page_up(end), p->wanted | PAGES_PIECE,
				       &run, 1);

		if (n < 0)
			failed(m, (int)n);
		if (n <= 0) {
			address = from;
			continue;
		}
		*at = address > run.start ? address : run.start;
		if (*at >= end)
			break;
		*len = read_there(m, *at, buffer, least(size, least(run.end, end) - *at));
		if (*len)
			return buffer;
		address = (*at | (PAGE - 1)) + 1;
	}
	return NULL;
}

const void *capture_next(const struct capture *c, raddr_t address, raddr_t end, void *buffer,
			 size_t size, raddr_t *at, size_t *len)
{
	const struct making *m = capture_made(c);
	const void *found = NULL;

	if (c->copied)
		return copy_next(m->copy, address, end, at, len);
	for (const struct part *p = part_from(m, address), *last = m->part + m->parts;
	     p < last && p->start < end && !found && !capture_error(c); p++) {
		raddr_t from = address > p->start ? address : p->start, to = least(end, p->end);

		found = p->held ? copy_next(m->copy, from, to, at, len)
				: next_there(m, p, from, to, buffer, size, at, len);
	}
	return found;
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
		memset(there, 0, at - next);
	}
	return capture_error(c) ? 0 : end - address;
}
