// SPDX-License-Identifier: GPL-3.0-or-later
/* test_maps.c - mappings of this very process. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/maps.h"
#include "base/proc.h"
#include "test.h"

static void test_maps(void)
{
	int local = 0, in_libc = 0;
	const struct map *m;
	struct maps maps;
	void *block = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_EQ(mprotect((char *)block + 4096, 4096, PROT_READ | PROT_WRITE), 0);
	CHECK_EQ(maps_read(&maps, getpid()), 0);
	m = maps_find(&maps, (raddr_t)(uintptr_t)&local);
	CHECK(m && strcmp(m->path, "[stack]") == 0 && m->read && m->write && !m->shared);
	m = maps_find(&maps, (raddr_t)(uintptr_t)test_maps);
	CHECK(m && m->exec && !m->write && strstr(m->path, "test_maps") && m->inode && !m->deleted);
	m = maps_find(&maps, (raddr_t)(uintptr_t)block + 4096 + 17);
	CHECK(m && m->start == (raddr_t)(uintptr_t)block + 4096 && m->end == m->start + 4096 &&
	      m->write && !*m->path && !m->inode);
	m = maps_find(&maps, (raddr_t)(uintptr_t)block);
	CHECK(m && !m->read && !m->write && !m->exec);
	CHECK(!maps_find(&maps, 0) && !maps_find(&maps, UINT64_MAX));
	for (size_t i = 0; i < maps.count; i++) {
		CHECK(i == 0 || maps.map[i].start >= maps.map[i - 1].end);
		in_libc += strstr(maps.map[i].path, "libc.so") != NULL;
	}
	CHECK(in_libc > 2);
	maps_release(&maps);
	maps_release(&maps);
	munmap(block, 3 * 4096);
}

/* Names that make a row hard to read. */
static void test_odd_names(void)
{
	static const char *const names[] = { "a b", "new\nline", "x (deleted)", "gone" };
	char dir[] = "/tmp/test_maps.XXXXXX", path[64];
	struct maps maps;

	if (!mkdtemp(dir))
		return;
	for (size_t i = 0; i < 4; i++) {
		const struct map *m;
		void *p;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		CHECK(write(fd, "x", 1) == 1);
		p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (i == 3)
			unlink(path);
		CHECK_EQ(maps_read(&maps, getpid()), 0);
		m = maps_find(&maps, (raddr_t)(uintptr_t)p);
		CHECK(m && m->shared);
		if (m && i != 2)
			CHECK_STR(m->path, path);
		/* a file that is called so cannot be told from a deleted one */
		CHECK(m && m->deleted == (i >= 2));
		maps_release(&maps);
		munmap(p, 4096);
		unlink(path);
	}
	rmdir(dir);
}

/* PATH: a directory for one whose name takes nearly all that a path may have, and its file. */
static void make_long(char *path, size_t size)
{
	while (strlen(path) < size - 256) {
		size_t len = strlen(path);

		path[len] = '/';
		memset(path + len + 1, 'd', 200);
		path[len + 201] = '\0';
		CHECK_EQ(mkdir(path, 0700), 0);
	}
	strcat(path, "/file");
}

static void remove_long(char *path, size_t first)
{
	unlink(path);
	for (;;) {
		*strrchr(path, '/') = '\0';
		if (strlen(path) < first)
			return;
		rmdir(path);
	}
}

static bool same(const struct map *a, const struct map *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->read == b->read && a->write == b->write &&
	       a->exec == b->exec && a->shared == b->shared && a->deleted == b->deleted &&
	       !strcmp(a->path, b->path);
}

static size_t names_of(const struct maps *maps, const char *path)
{
	const char *last = NULL;
	size_t n = 0;

	for (size_t i = 0; i < maps->count; i++) {
		const char *p = maps->map[i].path;

		if (strcmp(p, path) != 0)
			continue;
		n += p != last;
		last = p;
	}
	return n;
}

/*
 * A file of a long name is mapped many times, a deleted one and memory between: what is asked of
 * the kernel is what its text says, and the name is stored once.
 */
static void test_long_names(void)
{
	enum { MANY = 600 };
	char dir[] = "/tmp/test_maps.XXXXXX", path[PATH_MAX];
	static void *at[MANY];
	struct maps maps, text_maps;
	size_t other = 0;
	char *text;
	ssize_t len;
	int fd, gone;

	if (!mkdtemp(dir))
		return;
	strcpy(path, dir);
	gone = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	make_long(path, sizeof(path));
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && gone >= 0);
	for (size_t i = 0; i < MANY; i++)
		at[i] = mmap(NULL, 8192, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
			     i % 5 ? MAP_PRIVATE : MAP_SHARED | (i % 25 ? 0 : MAP_ANONYMOUS),
			     i % 25 ? (i % 7 ? fd : gone) : -1, (off_t)(i % 3) * 4096);
	CHECK_EQ(maps_read(&maps, getpid()), 0);
	len = proc_read(getpid(), "maps", &text);
	CHECK(len > MANY * 3000);
	CHECK_EQ(maps_parse(&text_maps, text, (size_t)len), 0);
	for (size_t i = 0; i < MANY; i++) {
		const struct map *m = maps_find(&maps, (uintptr_t)at[i]);
		const struct map *by_text = maps_find(&text_maps, (uintptr_t)at[i]);

		other += !m || !by_text || !same(m, by_text);
	}
	CHECK_EQ(other, 0);
	/* one that was forgotten, as others came between, is stored again */
	CHECK(names_of(&maps, path) < MANY / 20);
	free(text);
	maps_release(&maps);
	maps_release(&text_maps);
	for (size_t i = 0; i < MANY; i++)
		munmap(at[i], 8192);
	close(fd);
	close(gone);
	remove_long(path, sizeof(dir) - 1);
}

static void test_limit(void)
{
	enum { MANY = 4000 };
	struct maps maps;
	char *at = mmap(NULL, MANY * 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < MANY; i++)
		CHECK_EQ(mprotect(at + i * 8192, 4096, PROT_NONE), 0);
	CHECK_EQ(maps_read_within(&maps, getpid(), 1), -ETIME);
	CHECK(!maps.map && !maps.count);
	CHECK_EQ(maps_read_within(&maps, getpid(), 10000000), 0);
	CHECK(maps.count > 2 * MANY);
	CHECK_EQ(maps_from(&maps, 0, 0), 0);
	CHECK_EQ(maps_from(&maps, UINT64_MAX, 7), maps.count);
	for (size_t i = 0; i < maps.count; i++)
		if (maps_from(&maps, maps.map[i].end - 1, i / 2) != i)
			CHECK_EQ(maps_from(&maps, maps.map[i].end - 1, i / 2), i);
	maps_release(&maps);
	munmap(at, MANY * 8192);
}

static void test_page_size(void)
{
	int fd = proc_open(getpid(), "maps", 0);
	uint64_t size = map_page_size(fd, (uintptr_t)stdout);

	CHECK(size == 0 || size == 4096);
	CHECK_EQ(map_page_size(fd, 0), 0);
	close(fd);
}

int main(void)
{
	RUN(test_maps);
	RUN(test_odd_names);
	RUN(test_long_names);
	RUN(test_limit);
	RUN(test_page_size);
	return test_status();
}
