// SPDX-License-Identifier: GPL-3.0-or-later
#include "memory/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/bounds.h"
#include "base/patient.h"
#include "memory/ahead.h"

/*
 * copy.c - pages of another process, found by their addresses.
 *
 * The copies lie in segments of 64 MB, of huge pages if there are any, in the order in which they
 * were made: mostly that of the addresses, so that neighbours are neighbours here, too. Which copy
 * a page has is in a tree like the processor's own: 512 branches on each level, one leaf for 2 MB.
 * However sparse the process is, it costs what is there.
 */

#define SEGMENT_PAGES 16384u
#define SEGMENT_BYTES (SEGMENT_PAGES * PAGE)
#define BRANCHES      512u
#define LEVELS	      4 /* of 9 bits, above 12: addresses of 48 bits */
#define ADDRESSES     (1ull << 48)

struct leaf {
	uint32_t page[BRANCHES]; /* number of the copy; 0: not there */
};
struct node {
	void *below[BRANCHES]; /* NULL: nothing */
};

struct copy {
	struct node top;
	char **segment;
	size_t segments, room;
	uint32_t used; /* pages of the segments, but the first one, which is none */
	uint64_t most; /* pages that may be used */
	uint64_t there;
	struct ahead *ahead; /* who touches segments that are not in use yet; or NULL */
	bool core_free;	     /* as that said */
};

int memory_open(struct memory *m, pid_t pid, bool quick)
{
	int err = pages_open(&m->pages, pid);

	if (err)
		return err;
	m->pid = pid;
	m->quick = quick;
	m->mem = patient_open(pid, "mem", O_RDONLY);
	if (m->mem < 0)
		pages_close(&m->pages);
	return m->mem < 0 ? m->mem : 0;
}

void memory_close(struct memory *m)
{
	if (m->mem < 0)
		return;
	close(m->mem);
	pages_close(&m->pages);
	m->mem = -1;
}

struct copy *copy_new(uint64_t most)
{
	struct copy *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->used = 1;
	copy_allow(c, most);
	return c;
}

void copy_allow(struct copy *c, uint64_t most)
{
	uint64_t pages = most / PAGE;

	c->most = pages < UINT32_MAX - SEGMENT_PAGES ? pages : UINT32_MAX - SEGMENT_PAGES;
}

static void free_below(struct node *n, int level)
{
	for (size_t i = 0; i < BRANCHES; i++) {
		if (n->below[i] && level > 1)
			free_below(n->below[i], level - 1);
		free(n->below[i]);
	}
}

void copy_free(struct copy *c)
{
	if (!c)
		return;
	copy_core_free(c);
	free_below(&c->top, LEVELS - 1);
	for (size_t i = 0; i < c->segments; i++)
		munmap(c->segment[i], SEGMENT_BYTES);
	free(c->segment);
	free(c);
}

uint64_t copy_bytes(const struct copy *c) { return c->there * PAGE; }

/* ---- the tree ------------------------------------------------------------ */

static size_t branch(raddr_t address, int level)
{
	return address >> (12 + 9 * level) & (BRANCHES - 1);
}

/* The leaf that ADDRESS is in. NULL: none; *EMPTY: up to there is none. */
static struct leaf *find_leaf(const struct copy *c, raddr_t address, raddr_t *empty)
{
	const struct node *n = &c->top;

	for (int level = LEVELS - 1; level > 0; level--) {
		void *below = n->below[branch(address, level)];

		if (!below) {
			*empty = ((address >> (12 + 9 * level)) + 1) << (12 + 9 * level);
			return NULL;
		}
		n = below;
	}
	return (struct leaf *)(uintptr_t)n;
}

static struct leaf *make_leaf(struct copy *c, raddr_t address)
{
	struct node *n = &c->top;

	for (int level = LEVELS - 1; level > 0; level--) {
		void **below = &n->below[branch(address, level)];

		if (!*below)
			*below = calloc(1, level > 1 ? sizeof(struct node) : sizeof(struct leaf));
		if (!*below)
			return NULL;
		n = *below;
	}
	return (struct leaf *)(void *)n;
}

static char *page_at(const struct copy *c, uint32_t number)
{
	return c->segment[number / SEGMENT_PAGES] + number % SEGMENT_PAGES * PAGE;
}

static int add_segment(struct copy *c)
{
	int err = array_room(&c->segment, c->segments, &c->room, sizeof(*c->segment));
	char *at;

	if (err)
		return err;
	at = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	madvise(at, SEGMENT_BYTES, MADV_HUGEPAGE);
	c->segment[c->segments++] = at;
	return 0;
}

/* A page for a copy. 0: *ERR says why not. */
static uint32_t new_page(struct copy *c, int *err)
{
	*err = c->used > c->most ? -E2BIG : 0;
	if (!*err && c->used / SEGMENT_PAGES >= c->segments)
		*err = add_segment(c);
	return *err ? 0 : c->used++;
}

void copy_expect(struct copy *c, uint64_t bytes)
{
	uint64_t pages = bytes / PAGE < c->most ? bytes / PAGE : c->most;
	size_t segments = (c->used + pages) / SEGMENT_PAGES;

	while (c->segments < segments && !add_segment(c))
		;
	if (!c->ahead && c->segments)
		c->ahead = ahead_begin(c->segment, c->segments, SEGMENT_BYTES, c->used * PAGE);
}

void copy_expected(struct copy *c)
{
	if (c->ahead)
		ahead_stop(c->ahead);
}

bool copy_core_free(struct copy *c)
{
	if (c->ahead)
		c->core_free = ahead_end(c->ahead);
	c->ahead = NULL;
	return c->core_free;
}

/* ---- copying ------------------------------------------------------------- */

#define BATCH_PIECES 512u  /* the kernel takes 1024 */
#define BATCH_PAGES  1024u /* with one call */

struct batch {
	struct copy *copy;
	const struct memory *from;
	struct iovec local[BATCH_PIECES], remote[BATCH_PIECES];
	size_t locals, remotes, pages;
};

static void forget(struct copy *c, raddr_t address)
{
	raddr_t empty;
	struct leaf *leaf = find_leaf(c, address, &empty);

	if (!leaf || !leaf->page[branch(address, 0)])
		return;
	leaf->page[branch(address, 0)] = 0;
	c->there--;
}

/* One page as the process itself would see it, shared or not. */
static void read_page(const struct memory *from, struct copy *c, raddr_t address, char *to)
{
	ssize_t n;

	do
		n = pread(from->mem, to, PAGE, (off_t)address);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)PAGE)
		forget(c, address);
}

/* The first DONE bytes are done. Returns what is left of the vector. */
static size_t pass(struct iovec **v, size_t n, size_t done)
{
	for (; n && done >= (*v)->iov_len; n--, (*v)++)
		done -= (*v)->iov_len;
	if (n && done) {
		(*v)->iov_base = (char *)(*v)->iov_base + done;
		(*v)->iov_len -= done;
	}
	return n;
}

/* A page that cannot be read ends a call: it is looked at by itself. */
static void read_batch(struct batch *b)
{
	struct iovec *local = b->local, *remote = b->remote;
	size_t locals = b->locals, remotes = b->remotes;

	while (locals) {
		ssize_t n = process_vm_readv(b->from->pid, local, locals, remote, remotes, 0);
		size_t done = n > 0 ? page_down((raddr_t)n) : 0;

		if (n < 0 && errno == EINTR)
			continue;
		locals = pass(&local, locals, done);
		remotes = pass(&remote, remotes, done);
		if (!locals)
			break;
		read_page(b->from, b->copy, (raddr_t)(uintptr_t)remote->iov_base, local->iov_base);
		locals = pass(&local, locals, PAGE);
		remotes = pass(&remote, remotes, PAGE);
	}
	b->locals = b->remotes = b->pages = 0;
}

static void append(struct iovec *v, size_t *n, void *base)
{
	if (*n && (char *)v[*n - 1].iov_base + v[*n - 1].iov_len == base)
		v[*n - 1].iov_len += PAGE;
	else
		v[(*n)++] = (struct iovec){ base, PAGE };
}

static void put(struct batch *b, raddr_t address, char *to)
{
	append(b->local, &b->locals, to);
	append(b->remote, &b->remotes, (void *)(uintptr_t)address);
	if (b->locals == BATCH_PIECES || b->remotes == BATCH_PIECES || ++b->pages == BATCH_PAGES)
		read_batch(b);
}

/*
 * Pages in a row on both sides: /proc/PID/mem has no vectors. A short read: there is one that
 * cannot be read.
 */
static void read_row(const struct memory *from, struct copy *c, raddr_t address, char *to,
		     size_t len)
{
	ssize_t n;

	while (len) {
		do
			n = pread(from->mem, to, len, (off_t)address);
		while (n < 0 && errno == EINTR);
		n = n > 0 ? (ssize_t)page_down((raddr_t)n) : 0;
		if (!n) {
			forget(c, address);
			n = PAGE;
		}
		address += (size_t)n;
		to += n;
		len -= (size_t)n;
	}
}

struct row {
	raddr_t address;
	char *to;
	size_t len;
};

static void end_row(struct batch *b, struct row *r)
{
	if (r->len)
		read_row(b->from, b->copy, r->address, r->to, r->len);
	r->len = 0;
}

static void extend(struct batch *b, struct row *r, raddr_t address, char *to)
{
	if (r->len && (r->address + r->len != address || r->to + r->len != to))
		end_row(b, r);
	if (!r->len)
		*r = (struct row){ .address = address, .to = to };
	r->len += PAGE;
}

/* The copy of the page at ADDRESS, its I-th in LEAF; made if there is none. */
static char *copy_of(struct copy *c, struct leaf *leaf, size_t i, int *err)
{
	if (!leaf->page[i]) {
		leaf->page[i] = new_page(c, err);
		c->there += leaf->page[i] != 0;
	}
	return leaf->page[i] ? page_at(c, leaf->page[i]) : NULL;
}

/* [START, END) is within one leaf. */
static int take_in_leaf(struct batch *b, raddr_t start, raddr_t end, bool fresh)
{
	struct leaf *leaf = make_leaf(b->copy, start);
	bool shared[BRANCHES] = { false };
	struct row row = { .len = 0 };
	bool by_row = !b->from->quick;
	int err = leaf ? 0 : -ENOMEM;

	if (b->copy->ahead)
		ahead_pass(b->copy->ahead, b->copy->used * PAGE);
	if (!err && !by_row && !fresh)
		by_row = pages_shared(&b->from->pages, start, (end - start) / PAGE, shared) < 0;
	for (raddr_t at = start; at < end && !err; at += PAGE) {
		char *to = copy_of(b->copy, leaf, branch(at, 0), &err);

		if (!err && (by_row || shared[(at - start) / PAGE]))
			extend(b, &row, at, to);
		else if (!err)
			put(b, at, to);
	}
	end_row(b, &row);
	return err;
}

#define LEAF_BYTES (BRANCHES * PAGE)

int copy_take(struct copy *c, const struct memory *from, const struct page_run *run, size_t n,
	      bool fresh)
{
	struct batch b = { .copy = c, .from = from };
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		raddr_t end = least(run[i].end, ADDRESSES);

		for (raddr_t at = run[i].start, next; at < end && !err; at = next) {
			next = least(end, (at | (LEAF_BYTES - 1)) + 1);
			err = take_in_leaf(&b, at, next, fresh);
		}
	}
	read_batch(&b);
	return err;
}

/* Pages in [START, END) are not there. */
static void drop(struct copy *c, raddr_t start, raddr_t end)
{
	for (raddr_t at = start; at < end;) {
		raddr_t next = least(end, (at | (LEAF_BYTES - 1)) + 1);
		struct leaf *leaf = find_leaf(c, at, &next);

		for (; leaf && at < next; at += PAGE) {
			c->there -= leaf->page[branch(at, 0)] != 0;
			leaf->page[branch(at, 0)] = 0;
		}
		at = next;
	}
}

void copy_keep(struct copy *c, raddr_t start, raddr_t end, const struct page_run *run, size_t n)
{
	raddr_t at = start;

	for (size_t i = 0; i < n; i++) {
		drop(c, at, run[i].start);
		at = run[i].end;
	}
	drop(c, at, least(end, ADDRESSES));
}

/* ---- reading ------------------------------------------------------------- */

/* The first page in [AT, END) that is there; END: none. */
static raddr_t first_there(const struct copy *c, raddr_t at, raddr_t end, uint32_t *number)
{
	while (at < end) {
		raddr_t next = (at | (LEAF_BYTES - 1)) + 1;
		const struct leaf *leaf = find_leaf(c, at, &next);

		for (; leaf && at < least(end, next); at += PAGE)
			if (leaf->page[branch(at, 0)]) {
				*number = leaf->page[branch(at, 0)];
				return at;
			}
		at = next;
	}
	return end;
}

const void *copy_next(const struct copy *c, raddr_t address, raddr_t end, raddr_t *at, size_t *len)
{
	raddr_t first = page_down(address), page, to, empty;
	uint32_t number = 0, last;
	const struct leaf *leaf;
	char *start;

	end = least(end, ADDRESSES);
	page = address < end ? first_there(c, first, end, &number) : end;
	if (page >= end)
		return NULL;
	start = page_at(c, number);
	last = number;
	leaf = find_leaf(c, page, &empty);
	for (to = page + PAGE; to < end && leaf; to += PAGE) {
		if (!branch(to, 0))
			leaf = find_leaf(c, to, &empty);
		if (!leaf || leaf->page[branch(to, 0)] != last + 1 ||
		    (last + 1) % SEGMENT_PAGES == 0)
			break;
		last++;
	}
	*at = page < address ? address : page;
	*len = least(to, end) - *at;
	return start + (*at - page);
}
