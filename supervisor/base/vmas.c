/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * vmas.c - mappings, and pages in memory, without what is slow.
 *
 * A process may map 64 TB that it never touches, 65530 mappings (vm.max_map_count), files with long
 * names, and change all of that while we look. Reading /proc/PID/maps makes the kernel write every
 * name out, and /proc/PID/pagemap has eight bytes for each page, there or not. PROCMAP_QUERY (Linux
 * 6.11) tells a mapping without its name, in 0.8 us, where a short line of text takes 0.4.
 * PAGEMAP_SCAN (6.7) passes over page tables that do not exist: its cost is that of what is in
 * memory. On older kernels the two files are read, up to the deadline. A process that maps ahead of
 * us cannot keep us for longer than that.
 */
#include "base/vmas.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/pagemap.h"
#include "base/proc.h"
#include "base/search.h"

#define PAGE	  4096u
#define VMAS_MOST (1u << 20)

/* Of our own CPU time: a busy machine makes no answer poorer. */
static uint64_t now_us(void) { return clock_thread_ns() / 1000; }

/* ---- mappings ------------------------------------------------------------ */

/* As in linux/fs.h, which may be older than the kernel. */
struct procmap_query {
	uint64_t size, flags, address;
	uint64_t start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor;
	uint32_t name_size, build_id_size;
	uint64_t name, build_id;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
#define QUERY_ACCESS  7u  /* of vma_flags: readable, writable, executable */
#define QUERY_NEXT    16u /* flags: the mapping at the address, or the next one */

static int add(struct vmas *v, raddr_t start, raddr_t end, bool access, bool file, bool named)
{
	if (v->count == VMAS_MOST)
		return -ETIME;
	if (array_room(&v->vma, v->count, &v->room, sizeof(*v->vma)))
		return -ENOMEM;
	v->vma[v->count++] = (struct vma){
		.start = start, .end = end, .access = access, .file = file, .named = named
	};
	return 0;
}

uint64_t vma_page_size(int maps_fd, raddr_t addr)
{
	struct procmap_query q = { .size = sizeof(q), .address = addr };

	return ioctl(maps_fd, PROCMAP_QUERY, &q) ? 0 : q.page_size;
}

/* Only what is of no file is asked for its name: those are short. */
static bool has_name(int fd, raddr_t start)
{
	char name[128];
	struct procmap_query q = { .size = sizeof(q),
				   .address = start,
				   .name_size = sizeof(name),
				   .name = (uintptr_t)name };

	return ioctl(fd, PROCMAP_QUERY, &q) ? errno == ENAMETOOLONG : q.name_size > 0;
}

/* Those from address FROM on. */
static int query_from(struct vmas *v, int fd, raddr_t from, uint64_t until_us)
{
	struct procmap_query q = { .end = from };
	int err = 0;

	while (!err) {
		q = (struct procmap_query){ .size = sizeof(q),
					    .flags = QUERY_NEXT,
					    .address = q.end };
		if (ioctl(fd, PROCMAP_QUERY, &q))
			return errno == ENOENT ? 0 : -errno;
		err = add(v, q.start, q.end, q.vma_flags & QUERY_ACCESS, q.inode != 0,
			  q.inode != 0 || has_name(fd, q.start));
		if (!err && !(v->count % 256) && now_us() > until_us)
			err = -ETIME;
	}
	return err;
}

static raddr_t hex(const char **at)
{
	raddr_t value = 0;

	for (;; (*at)++) {
		unsigned digit = (unsigned)**at - '0';

		if (digit > 9)
			digit = **at >= 'a' && **at <= 'f' ? (unsigned)**at - 'a' + 10 : 16;
		if (digit > 15)
			return value;
		value = value << 4 | digit;
	}
}

/*
 * "55d0c8e1d000-55d0c8e1f000 r-xp 00002000 fe:00 1311    /usr/bin/true", LEN characters and a NUL.
 *                                                        Names begin at column 73 or later.
 */
static int add_line(struct vmas *v, const char *line, size_t len)
{
	const char *at = line, *name;
	raddr_t start = hex(&at), end;

	if (*at++ != '-')
		return 0;
	end = hex(&at);
	if (start >= end || (size_t)(at - line) + 6 > len)
		return 0;
	name = len < 73 ? NULL : strpbrk(at + 6, "/[");
	if (name && !strcmp(name, "[vsyscall]")) /* of the kernel */
		return 0;
	return add(v, start, end, at[1] == 'r' || at[2] == 'w' || at[3] == 'x',
		   name && *name == '/', name);
}

/* The lines of TEXT[*LEN]; what is left of it is the beginning of one more. */
static int add_lines(struct vmas *v, char *text, size_t *len)
{
	char *line = text, *end;
	int err = 0;

	while (!err && (end = memchr(line, '\n', *len - (size_t)(line - text)))) {
		*end = '\0';
		err = add_line(v, line, (size_t)(end - line));
		line = end + 1;
	}
	*len -= (size_t)(line - text);
	memmove(text, line, *len);
	return err;
}

/*
 * The text is quicker than questions, but for long names. -E2BIG: they are long; what is known so
 * far stays.
 */
static int read_text(struct vmas *v, int fd, uint64_t until_us)
{
	char text[16384];
	size_t len = 0, read_so_far = 0;
	ssize_t n;
	int err = 0;

	while (!err && (n = read(fd, text + len, sizeof(text) - 1 - len)) != 0) {
		if (n < 0)
			return -errno;
		len += (size_t)n;
		read_so_far += (size_t)n;
		err = add_lines(v, text, &len);
		if (!err && (len == sizeof(text) - 1 || read_so_far > 65536 + 256 * v->count))
			err = -E2BIG;
		else if (!err && now_us() > until_us)
			err = -ETIME;
	}
	return err;
}

int vmas_read(struct vmas *v, pid_t pid, uint64_t limit_us)
{
	uint64_t until = now_us() + limit_us;
	int err, fd = proc_open(pid, "maps", O_RDONLY);

	*v = (struct vmas){ 0 };
	if (fd < 0)
		return fd;
	err = read_text(v, fd, until);
	if (err == -E2BIG)
		err = query_from(v, fd, v->count ? v->vma[v->count - 1].end : 0, until);
	close(fd);
	if (err)
		vmas_release(v);
	return err;
}

void vmas_release(struct vmas *v)
{
	free(v->vma);
	*v = (struct vmas){ 0 };
}

size_t vmas_from(const struct vmas *v, raddr_t addr, size_t hint)
{
	if (hint < v->count && addr >= v->vma[hint].start && addr < v->vma[hint].end)
		return hint;
	return SEARCH(i, v->count, v->vma[i].end <= addr);
}

/* ---- pages in memory ----------------------------------------------------- */

/* bytes of addresses for the first call; where there is little, each is larger than the last */
#define STEP	  ((uint64_t)128 << 20)
#define STEP_MOST ((uint64_t)8 << 40)
#define SOON_US	  200u /* a call that takes less */

void residence_begin(struct residence *r, pid_t pid, uint64_t limit_us)
{
	struct pagemap_scan nothing = { .size = sizeof(nothing), .any_of = PAGEMAP_PRESENT };

	*r = (struct residence){ .fd = proc_open(pid, "pagemap", O_RDONLY),
				 .until_us = now_us() + limit_us };
	r->no_scan = r->fd >= 0 && ioctl(r->fd, PAGEMAP_SCAN, &nothing) && errno == ENOTTY;
}

void residence_end(struct residence *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

static bool in_time(struct residence *r)
{
	if (!r->late && now_us() > r->until_us)
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
	uint64_t step = STEP, began;

	while (start < end && in_time(r)) {
		struct pagemap_scan scan = { .size = sizeof(scan),
					     .start = start,
					     .end = end - start > step ? start + step : end,
					     .region = (uintptr_t)region,
					     .regions = 512,
					     .any_of = look->any,
					     .wanted = look->any | look->tell };
		int n;

		began = now_us();
		n = ioctl(r->fd, PAGEMAP_SCAN, &scan);
		if (n < 0)
			return;
		for (int i = 0; i < n; i++)
			look->fn(look->ctx, region[i].start, region[i].end, region[i].categories);
		if (scan.walk_end <= start)
			return;
		start = scan.walk_end;
		if (now_us() - began > SOON_US)
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
		ssize_t got = pread(r->fd, entry, n * 8, (off_t)(first * 8));

		if (got < 8)
			break;
		for (size_t i = 0; i < (size_t)got / 8; i++, first++) {
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
	start &= ~(raddr_t)(PAGE - 1);
	if (end > UINT64_MAX - PAGE)
		return;
	end = (end + PAGE - 1) & ~(raddr_t)(PAGE - 1);
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

uint64_t residence_of(struct residence *r, raddr_t start, raddr_t end, bool swapped)
{
	uint64_t bytes = 0;

	look_at(r, start, end,
		&(struct look){ .any = PAGEMAP_PRESENT | (swapped ? PAGEMAP_SWAPPED : 0),
				.fn = add_bytes,
				.ctx = &bytes });
	return bytes;
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
