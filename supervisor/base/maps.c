// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/patient.h"
#include "base/proc.h"
#include "base/search.h"
#include "base/text.h"

/*
 * maps.c - a process' mappings.
 *
 * A process may have 65530 of them (vm.max_map_count), of files with names of any length, and
 * change all of that while they are read. To read /proc/PID/maps makes the kernel write every name
 * out, a byte at a time: 0.4 us for a short line, 14 us for one of 4 kB. PROCMAP_QUERY (Linux 6.11)
 * tells a mapping without its name in 0.8 us. So the text is read until it turns out long; from
 * there on, mappings are asked for, and names only of files that were not met lately. A name is
 * stored once for the mappings of a file that follow each other, and all names together take
 * 16 MB and 256 bytes a mapping at most. A process that maps ahead of us keeps us for a million
 * mappings.
 */

#define MAPS_MOST   (1u << 20)
#define NAMES_BLOCK 65536u
#define NAMES_MOST  ((size_t)16 << 20) /* bytes; then a name is cut to */
#define NAME_SHORT  255u
#define SETS	    16u /* of names that may be met again */
#define WAYS	    4u

struct map_names {
	struct map_names *next;
	size_t used;
	char text[NAMES_BLOCK];
};

struct known {
	const char *path; /* NULL: none yet */
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	bool deleted;
};

struct reading {
	struct maps *maps;
	size_t room, names; /* bytes of names */
	uint64_t until_us;
	char text[3 * PATH_MAX];
	struct known known[SETS][WAYS];
};

/* ---- rows ---------------------------------------------------------------- */

/* Where the name of M's file is known, or NULL. */
static struct known *known_of(struct reading *r, const struct map *m)
{
	struct known *set = r->known[m->inode % SETS];

	for (size_t i = 0; i < WAYS && m->inode; i++)
		if (set[i].path && set[i].inode == m->inode && set[i].dev_major == m->dev_major &&
		    set[i].dev_minor == m->dev_minor)
			return &set[i];
	return NULL;
}

static void remember(struct reading *r, const struct map *m)
{
	struct known *k = known_of(r, m);

	if (!k)
		k = &r->known[m->inode % SETS][r->maps->count % WAYS];
	if (m->inode)
		*k = (struct known){ m->path, m->inode, m->dev_major, m->dev_minor, m->deleted };
}

static int add_block(struct maps *maps)
{
	struct map_names *block = malloc(sizeof(*block));

	if (!block)
		return -ENOMEM;
	block->next = maps->names;
	block->used = 0;
	maps->names = block;
	return 0;
}

/* NAME[LEN] for as long as the rows live. NULL: no memory. */
static const char *store(struct reading *r, const char *name, size_t len)
{
	struct map_names *block = r->maps->names;
	char *at;

	if (!len)
		return "";
	if (r->names > NAMES_MOST && len > NAME_SHORT)
		len = NAME_SHORT;
	if (len >= NAMES_BLOCK)
		len = NAMES_BLOCK - 1;
	if (!block || NAMES_BLOCK - block->used <= len) {
		if (add_block(r->maps))
			return NULL;
		block = r->maps->names;
	}
	at = block->text + block->used;
	memcpy(at, name, len);
	at[len] = '\0';
	block->used += len + 1;
	r->names += len + 1;
	return at;
}

/* Row M, whose path is NAME[LEN]. */
static int add(struct reading *r, struct map *m, const char *name, size_t len)
{
	const struct known *k = known_of(r, m);

	if (r->maps->count == MAPS_MOST)
		return -EOVERFLOW;
	m->path = k && !strncmp(k->path, name, len) && !k->path[len] ? k->path
								     : store(r, name, len);
	if (!m->path || array_room(&r->maps->map, r->maps->count, &r->room, sizeof(*m)))
		return -ENOMEM;
	remember(r, m);
	r->maps->map[r->maps->count++] = *m;
	return !(r->maps->count % 256) && clock_thread_us() > r->until_us ? -ETIME : 0;
}

/* As the kernel names it. What is in its own half, [vsyscall], is not of the process. */
static int add_named(struct reading *r, struct map *m, const char *name)
{
	static const char deleted[] = " (deleted)";
	const size_t tail = sizeof(deleted) - 1;
	size_t len = strlen(name);

	if (m->start >> 63)
		return 0;
	m->deleted = *name == '/' && len > tail && !strcmp(name + len - tail, deleted);
	return add(r, m, name, m->deleted ? len - tail : len);
}

/* ---- text ---------------------------------------------------------------- */

static uint64_t number(const char **p, unsigned base)
{
	uint64_t value = 0;

	for (;; (*p)++) {
		unsigned digit = (unsigned)**p - '0';

		if (digit > 9)
			digit = **p >= 'a' && **p <= 'f' ? (unsigned)**p - 'a' + 10 : 16;
		if (digit >= base)
			return value;
		value = value * base + digit;
	}
}

static bool expect(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

/* The kernel writes a newline in a path as \012, and nothing else that way. */
static void unescape_newlines(char *s)
{
	char *out = s;

	while (*s) {
		if (strncmp(s, "\\012", 4) == 0) {
			*out++ = '\n';
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = 0;
}

/* "55d0c8e1d000-55d0c8e1f000 r-xp 00002000 fe:00 1311    /usr/bin/true": *P is left at the name. */
static bool read_numbers(const char **p, struct map *m)
{
	m->start = number(p, 16);
	if (!expect(p, '-'))
		return false;
	m->end = number(p, 16);
	if (!expect(p, ' ') || strnlen(*p, 5) < 5 || (*p)[4] != ' ')
		return false;
	m->read = (*p)[0] == 'r';
	m->write = (*p)[1] == 'w';
	m->exec = (*p)[2] == 'x';
	m->shared = (*p)[3] == 's';
	*p += 5;
	m->offset = number(p, 16);
	if (!expect(p, ' '))
		return false;
	m->dev_major = (uint32_t)number(p, 16);
	if (!expect(p, ':'))
		return false;
	m->dev_minor = (uint32_t)number(p, 16);
	if (!expect(p, ' '))
		return false;
	m->inode = number(p, 10);
	*p += strspn(*p, " ");
	return m->start < m->end;
}

/* What is no line of `maps` is passed over. */
static int add_line(struct reading *r, char *line)
{
	const char *at = line;
	struct map m = { 0 };
	char *name;

	if (!read_numbers(&at, &m))
		return 0;
	name = line + (at - line);
	if (strchr(name, '\\'))
		unescape_newlines(name);
	return add_named(r, &m, name);
}

/* The lines of TEXT[*LEN]; what is left of it is the beginning of one more. */
static int add_lines(struct reading *r, char *text, size_t *len)
{
	char *line = text, *end;
	int err = 0;

	while (!err && (end = memchr(line, '\n', *len - (size_t)(line - text)))) {
		*end = '\0';
		err = add_line(r, line);
		line = end + 1;
	}
	*len -= (size_t)(line - text);
	memmove(text, line, *len);
	return err;
}

/* ---- questions ----------------------------------------------------------- */

/* As in linux/fs.h, which may be older than the kernel. */
struct procmap_query {
	uint64_t size, flags, address;
	uint64_t start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor;
	uint32_t name_size, build_id_size;
	uint64_t name, build_id;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
#define QUERY_READ    1u /* of vma_flags */
#define QUERY_WRITE   2u
#define QUERY_EXEC    4u
#define QUERY_SHARED  8u
#define QUERY_NEXT    16u /* flags: the mapping at the address, or the next one */

uint64_t map_page_size(int maps_fd, raddr_t addr)
{
	struct procmap_query q = { .size = sizeof(q), .address = addr };

	return ioctl(maps_fd, PROCMAP_QUERY, &q) ? 0 : q.page_size;
}

/* A row from Q. What is gone by the time that its name is asked for is passed over. */
static int add_answer(struct reading *r, int fd, const struct procmap_query *q)
{
	struct map m = { .start = q->start,
			 .end = q->end,
			 .offset = q->offset,
			 .inode = q->inode,
			 .dev_major = q->major,
			 .dev_minor = q->minor,
			 .read = q->vma_flags & QUERY_READ,
			 .write = q->vma_flags & QUERY_WRITE,
			 .exec = q->vma_flags & QUERY_EXEC,
			 .shared = q->vma_flags & QUERY_SHARED };
	const struct known *k = known_of(r, &m);
	char name[PATH_MAX];
	struct procmap_query named = { .size = sizeof(named),
				       .address = q->start,
				       .name_size = sizeof(name),
				       .name = (uintptr_t)name };

	if (k) {
		m.deleted = k->deleted;
		return add(r, &m, k->path, strlen(k->path));
	}
	if (ioctl(fd, PROCMAP_QUERY, &named)) {
		if (errno != ENAMETOOLONG)
			return errno == ENOENT ? 0 : -errno;
		strcpy(name, "?");
	} else if (!named.name_size) {
		*name = '\0';
	}
	return add_named(r, &m, name);
}

/* From address FROM on. -ENOTTY: this kernel cannot be asked. */
static int ask_from(struct reading *r, int fd, raddr_t from)
{
	struct procmap_query q = { .end = from };
	int err = 0;

	while (!err) {
		q = (struct procmap_query){ .size = sizeof(q),
					    .flags = QUERY_NEXT,
					    .address = q.end };
		if (ioctl(fd, PROCMAP_QUERY, &q))
			return errno == ENOENT ? 0 : -errno;
		err = add_answer(r, fd, &q);
	}
	return err;
}

/* ---- reading ------------------------------------------------------------- */

static int read_rows(struct reading *r, int fd)
{
	const size_t most = sizeof(r->text) - 1;
	char *text = r->text;
	size_t len = 0, sum = 0;
	bool can_ask = true;
	ssize_t n;
	int err;

	for (;;) {
		n = read(fd, text + len, most - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : 0;
		len += (size_t)n;
		sum += (size_t)n;
		err = add_lines(r, text, &len);
		if (err)
			return err;
		if (can_ask && (len == most || sum > 65536 + 256 * r->maps->count)) {
			err = ask_from(r, fd,
				       r->maps->count ? r->maps->map[r->maps->count - 1].end : 0);
			if (err != -ENOTTY)
				return err;
			can_ask = false;
		}
		if (len == most) /* a name without end: what fits of it */
			len = 2 * PATH_MAX;
	}
}

static int begin_reading(struct reading **r, struct maps *maps)
{
	*maps = (struct maps){ 0 };
	*r = malloc(sizeof(**r));
	if (!*r)
		return -ENOMEM;
	(*r)->maps = maps;
	(*r)->room = (*r)->names = 0;
	(*r)->until_us = UINT64_MAX;
	memset((*r)->known, 0, sizeof((*r)->known));
	return 0;
}

static int end_reading(struct reading *r, int err)
{
	if (err)
		maps_release(r->maps);
	free(r);
	return err;
}

/*
 * What most processes have fits into what is made here, and the reader allocates nothing: it would
 * have an arena of its own for that.
 */
#define ROWS 64

struct look {
	struct maps maps;
	struct reading *reading;
	int fd, err;
	uint64_t limit_us;
};

static void drop(void *look)
{
	struct look *l = look;

	free(l->reading);
	maps_release(&l->maps);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

static void read_file(pid_t pid, void *look)
{
	struct look *l = look;

	if (l->limit_us != UINT64_MAX)
		l->reading->until_us = clock_thread_us() + l->limit_us;
	if (l->fd < 0)
		l->fd = proc_open(pid, "maps", O_RDONLY);
	l->err = l->fd < 0 ? l->fd : read_rows(l->reading, l->fd);
}

static struct look *new_look(void)
{
	struct look *l = malloc(sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct look){ .fd = -1 };
	if (begin_reading(&l->reading, &l->maps) || add_block(&l->maps)) {
		drop(l);
		return NULL;
	}
	l->maps.map = malloc(ROWS * sizeof(*l->maps.map));
	l->reading->room = l->maps.map ? ROWS : 0;
	return l;
}

/* From FD, or -1: as of now. */
static int read_within(struct maps *maps, pid_t pid, int fd, uint64_t limit_us)
{
	static const struct patient_work work = { read_file, drop };
	struct look *l = new_look();
	int err;

	*maps = (struct maps){ 0 };
	if (!l)
		return -ENOMEM;
	l->limit_us = limit_us;
	if (fd >= 0 && (l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
		err = -errno;
		drop(l);
		return err;
	}
	err = patient_do(pid, &work, l);
	if (err)
		return err;
	err = l->err;
	if (!err) {
		*maps = l->maps;
		l->maps = (struct maps){ 0 };
	}
	drop(l);
	return err;
}

int maps_read_from(struct maps *maps, pid_t pid, int fd)
{
	return read_within(maps, pid, fd, UINT64_MAX);
}

int maps_read_within(struct maps *maps, pid_t pid, uint64_t limit_us)
{
	return read_within(maps, pid, -1, limit_us);
}

int maps_read(struct maps *maps, pid_t pid) { return maps_read_within(maps, pid, UINT64_MAX); }

int maps_parse(struct maps *maps, const char *text, size_t len)
{
	struct reading *r;
	char *copy = malloc(len + 2);
	int err = copy ? begin_reading(&r, maps) : -ENOMEM;

	if (!err) {
		memcpy(copy, text, len);
		copy[len++] = '\n'; /* the last line may lack it */
		err = end_reading(r, add_lines(r, copy, &len));
	}
	free(copy);
	return err;
}

void maps_release(struct maps *maps)
{
	struct map_names *next;

	for (struct map_names *block = maps->names; block; block = next) {
		next = block->next;
		free(block);
	}
	free(maps->map);
	*maps = (struct maps){ 0 };
}

/* ---- looking up ---------------------------------------------------------- */

size_t maps_from(const struct maps *maps, raddr_t addr, size_t hint)
{
	if (hint < maps->count && addr >= maps->map[hint].start && addr < maps->map[hint].end)
		return hint;
	return SEARCH(i, maps->count, maps->map[i].end <= addr);
}

bool map_is_memory(const struct map *m)
{
	return text_begins(m->path, "/dev/zero") || text_begins(m->path, "/memfd:") ||
	       text_begins(m->path, "/SYSV") || text_begins(m->path, "/dev/shm/") ||
	       text_begins(m->path, "[anon_shmem");
}

const struct map *maps_find(const struct maps *maps, raddr_t addr)
{
	size_t at = maps_from(maps, addr, 0);

	return at < maps->count && addr >= maps->map[at].start ? &maps->map[at] : NULL;
}
