// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_module.c - what is mapped where: in this process, whose own linker is the judge, and in maps
 * that are made up.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/maps.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "test.h"

static int update(struct modules *list, uint32_t node, bool *overlap)
{
	struct maps maps;
	int n;

	CHECK_EQ(maps_read(&maps, getpid()), 0);
	n = modules_update(list, getpid(), NULL, &maps, node, overlap);
	maps_release(&maps);
	return n;
}

static const struct module *module_of(const struct modules *list, const void *address)
{
	return modules_find(list, (raddr_t)(uintptr_t)address, UINT32_MAX);
}

/* The address that the linker gave a symbol is the file's plus the bias. */
static void check_symbol(const struct modules *list, const char *name)
{
	void *address = dlsym(RTLD_DEFAULT, name);
	const struct module *m = module_of(list, address);
	struct elf_symbol s;
	size_t cursor = 0;

	CHECK(address && m);
	if (m && elf_find(m->elf, name, &cursor, &s))
		CHECK(s.value + m->bias == (raddr_t)(uintptr_t)address);
	else
		CHECK(false);
}

static unsigned roles_at(const struct modules *list, const void *address)
{
	const struct module *m = module_of(list, address);

	return m ? m->roles : 0;
}

static void test_own_process(void)
{
	struct modules list = { 0 };
	bool overlap = true;
	int n = update(&list, 5, &overlap);
	unsigned vdso = 0, exe = 0;

	CHECK(n >= 4);
	CHECK_EQ(list.count, n);
	CHECK(!overlap);
	CHECK_EQ(roles_at(&list, (void *)(uintptr_t)test_own_process), MODULE_EXE);
	CHECK_EQ(roles_at(&list, dlsym(RTLD_DEFAULT, "getpagesize")) & MODULE_LIBC, MODULE_LIBC);
	CHECK_EQ(roles_at(&list, dlsym(RTLD_DEFAULT, "_dl_find_dso_for_object")), MODULE_LDSO);
	for (size_t i = 0; i < list.count; i++) {
		const struct module *m = list.module[i];

		CHECK(m->elf && m->start <= m->text_start && m->text_start < m->text_end &&
		      m->text_end <= m->end);
		CHECK_EQ(m->born, 5);
		CHECK(m->dead == UINT32_MAX);
		CHECK(elf_segments(m->elf, &(const struct elf_segment *){ NULL }) > 0);
		vdso += !!(m->roles & MODULE_VDSO);
		exe += !!(m->roles & MODULE_EXE);
	}
	CHECK_EQ(vdso, 1);
	CHECK_EQ(exe, 1);
	check_symbol(&list, "getpagesize");
	check_symbol(&list, "hcreate");
	CHECK_EQ(update(&list, 6, &overlap), 0);
	CHECK_EQ(list.count, n);
	modules_release(&list);
	CHECK_EQ(list.count, 0);
}

/* Only if it is the library's own. */
static void *module_symbol(void *library, const char *name)
{
	struct link_map *map = NULL;
	void *symbol = dlsym(library, name);
	Dl_info info;

	if (!symbol || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !dladdr(symbol, &info) ||
	    (uintptr_t)info.dli_fbase != map->l_addr)
		return NULL;
	return symbol;
}

/* Any library that is not here yet, and can go again. */
static const char *const libraries[][2] = {
	{ "libdl.so.2", "dlopen" },	    { "libnss_files.so.2", "_nss_files_init" },
	{ "librt.so.1", "timer_create" },   { "libanl.so.1", "gai_error" },
	{ "libutil.so.1", "openpty" },	    { "libBrokenLocale.so.1", "__ctype_get_mb_cur_max" },
	{ "libthread_db.so.1", "td_init" },
};

static void *open_library(size_t *which)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
		void *library;

		if (dlopen(libraries[i][0], RTLD_NOW | RTLD_NOLOAD))
			continue;
		library = dlopen(libraries[i][0], RTLD_NOW | RTLD_LOCAL);
		*which = i;
		if (library && module_symbol(library, libraries[i][1]))
			return library;
	}
	return NULL;
}

static void test_dlopen(void)
{
	struct modules list = { 0 }, copy = { 0 };
	void *library, *symbol;
	const struct module *m;
	size_t count, which = 0;
	bool overlap;

	CHECK(update(&list, 1, &overlap) > 0);
	library = open_library(&which);
	if (!library) {
		printf("# no library to be had\n");
		modules_release(&list);
		return;
	}
	symbol = module_symbol(library, libraries[which][1]);
	CHECK(update(&list, 100, &overlap) >= 1);
	m = module_of(&list, symbol);
	CHECK(m && m->born == 100 && !m->roles && m->build_id_len == 20 && !m->planted);
	CHECK(!modules_find(&list, (raddr_t)(uintptr_t)symbol, 99));
	CHECK(modules_find(&list, (raddr_t)(uintptr_t)symbol, 100) == m);
	count = list.count;
	if (m)
		((struct module *)(uintptr_t)m)->planted = true;
	dlclose(library);
	if (dlopen(libraries[which][0], RTLD_NOW | RTLD_NOLOAD)) {
		printf("# it cannot be unloaded\n");
		goto out;
	}
	CHECK_EQ(update(&list, 200, &overlap), 0);
	CHECK_EQ(list.count, count);
	CHECK(!module_of(&list, symbol));
	CHECK(modules_find(&list, (raddr_t)(uintptr_t)symbol, 150) == m);
	CHECK(!modules_find(&list, (raddr_t)(uintptr_t)symbol, 200));
	CHECK(m && m->dead == 200);
	CHECK_EQ(modules_copy(&copy, &list), 0);
	library = dlopen(libraries[which][0], RTLD_NOW | RTLD_LOCAL);
	CHECK(update(&list, 300, &overlap) >= 1);
	m = module_of(&list, module_symbol(library, libraries[which][1]));
	CHECK(m && m->dead == UINT32_MAX && !m->planted);
	if (module_symbol(library, libraries[which][1]) == symbol) {
		CHECK_EQ(list.count, count);
		CHECK(!overlap);
	}
	CHECK(copy.count == count && !module_of(&copy, symbol));
out:
	modules_release(&copy);
	modules_release(&list);
}

/* ---- made-up maps -------------------------------------------------------- */

#define ROW(lo, hi, off, x, ino, name)                                                  \
	{                                                                               \
		.start = (lo), .end = (hi), .offset = (off), .read = true, .exec = (x), \
		.inode = (ino), .dev_major = 8, .path = (char *)(uintptr_t)(name)       \
	}

static int update_with(struct modules *list, struct map *rows, size_t n, uint32_t node,
		       bool *overlap)
{
	struct maps maps = { .map = rows, .count = n };

	return modules_update(list, getpid(), NULL, &maps, node, overlap);
}

static void test_spans(void)
{
	/*
	 * a library with .bss and a gap; the same one again right behind it; a data file; a file
	 * that cannot be opened
	 */
	struct map rows[] = {
		ROW(0x1000000, 0x1001000, 0, false, 7, "/no/a.so"),
		ROW(0x1001000, 0x1003000, 0x1000, true, 7, "/no/a.so"),
		ROW(0x1003000, 0x1004000, 0, false, 0, ""),
		ROW(0x1004000, 0x1005000, 0x3000, false, 7, "/no/a.so"),
		ROW(0x1005000, 0x1006000, 0, false, 0, ""),
		ROW(0x1006000, 0x1007000, 0, false, 7, "/no/a.so"),
		ROW(0x1007000, 0x1009000, 0x1000, true, 7, "/no/a.so"),
		ROW(0x2000000, 0x2001000, 0, false, 9, "/no/locale"),
		ROW(0x2001000, 0x2002000, 0, false, 0, "[heap]"),
		ROW(0x3000000, 0x3001000, 0x5000, true, 11, "/memfd:jit"),
	};
	struct modules list = { 0 };
	bool overlap;

	CHECK_EQ(update_with(&list, rows, 10, 1, &overlap), 3);
	CHECK_EQ(list.count, 3);
	if (list.count == 3) {
		CHECK_EQ(list.module[0]->start, 0x1000000);
		CHECK_EQ(list.module[0]->end, 0x1005000);
		CHECK_EQ(list.module[0]->text_start, 0x1001000);
		CHECK_EQ(list.module[0]->text_end, 0x1003000);
		CHECK_EQ(list.module[1]->start, 0x1006000);
		CHECK_EQ(list.module[1]->end, 0x1009000);
		CHECK_EQ(list.module[2]->bias, 0x3000000 - 0x5000);
		CHECK(!elf_has_functions(list.module[2]->elf));
	}
	/* the first one goes, another file comes to where it was */
	rows[0].inode = rows[1].inode = rows[3].inode = 8;
	CHECK_EQ(update_with(&list, rows, 10, 50, &overlap), 1);
	CHECK(overlap);
	CHECK_EQ(list.count, 4);
	CHECK(modules_find(&list, 0x1001500, 20) == list.module[0]);
	CHECK(modules_find(&list, 0x1001500, 50) == list.module[3]);
	CHECK(modules_find(&list, 0x1001500, UINT32_MAX) == list.module[3]);
	/* and back: the old one lives again, over the other, which is dead now */
	rows[0].inode = rows[1].inode = rows[3].inode = 7;
	CHECK_EQ(update_with(&list, rows, 10, 80, &overlap), 1);
	CHECK(overlap);
	CHECK_EQ(list.count, 4);
	CHECK(modules_find(&list, 0x1001500, UINT32_MAX) == list.module[0]);
	/* everything gone */
	CHECK_EQ(update_with(&list, rows, 0, 90, &overlap), 0);
	CHECK(!modules_find(&list, 0x1001500, UINT32_MAX));
	modules_release(&list);
}

#define MANY	     30000u
#define MANY_SECONDS 4 /* 0.3 s; comparing each with each takes 12 s */

/* Place I of MANY holds the file of inode INODE, or nothing (0). Returns how many rows. */
static size_t many_rows(struct map *rows, uint64_t (*inode)(size_t i))
{
	size_t n = 0;

	for (size_t i = 0; i < MANY; i++) {
		raddr_t start = 0x1000000 + i * 0x2000;

		if (inode(i))
			rows[n++] = (struct map)ROW(start, start + 0x1000, 0, true, inode(i),
						    "/no/many.so");
	}
	return n;
}

static uint64_t all_there(size_t i) { return 1 + i; }
static uint64_t third_gone(size_t i) { return i % 3 ? 1 + i : 0; }
static uint64_t tenth_other(size_t i) { return i % 10 ? 1 + i : 1 + MANY + i; }

static void test_many(void)
{
	struct map *rows = calloc(MANY, sizeof(*rows));
	struct modules list = { 0 };
	clock_t began = clock();
	bool overlap;

	CHECK_EQ(update_with(&list, rows, many_rows(rows, all_there), 1, &overlap), MANY);
	CHECK(!overlap);
	CHECK_EQ(update_with(&list, rows, many_rows(rows, third_gone), 10, &overlap), 0);
	CHECK(!overlap);
	for (size_t i = 0; i < MANY && list.count == MANY; i++)
		CHECK_EQ(list.module[i]->dead, i % 3 ? UINT32_MAX : 10);
	CHECK_EQ(update_with(&list, rows, many_rows(rows, all_there), 20, &overlap), MANY / 3);
	CHECK(!overlap);
	CHECK_EQ(update_with(&list, rows, many_rows(rows, tenth_other), 30, &overlap), MANY / 10);
	CHECK(overlap);
	CHECK_EQ(list.count, MANY + MANY / 10);
	for (size_t i = 0; i < MANY && list.count > MANY; i++) {
		CHECK_EQ(list.module[i]->inode, 1 + i);
		CHECK_EQ(list.module[i]->dead, i % 10 ? UINT32_MAX : 30);
	}
	for (size_t i = 0; i < MANY && list.count > MANY; i++) {
		raddr_t pc = 0x1000000 + i * 0x2000 + 0x800;

		CHECK(modules_find(&list, pc, 25) == list.module[i]);
		CHECK(modules_find(&list, pc, UINT32_MAX) ==
		      list.module[i % 10 ? i : MANY + i / 10]);
		CHECK(!modules_find(&list, pc + 0x1000, UINT32_MAX));
	}
	CHECK(clock() - began < MANY_SECONDS * CLOCKS_PER_SEC);
	modules_release(&list);
	free(rows);
}

/* What modules_find() is to say: of all that hold PC then, the one that came last. */
static const struct module *one_by_one(const struct modules *list, raddr_t pc, uint32_t node)
{
	for (size_t i = list->count; i-- > 0;) {
		const struct module *m = list->module[i];

		if (pc >= m->start && pc < m->end &&
		    (node == UINT32_MAX ? m->dead == UINT32_MAX
					: node >= m->born && node < m->dead))
			return m;
	}
	return NULL;
}

/* Any order, over each other, dead and alive, as a file may say. */
static void test_any_order(void)
{
	static uint64_t seed = 88172645463325252ull;

	for (int round = 0; round < 50; round++) {
		struct modules list = { 0 };
		size_t n = (size_t)(test_random(&seed) % 60);

		for (size_t i = 0; i < n; i++) {
			struct module m = { .path = (char *)"/no/such.so",
					    .start = test_random(&seed) % 200,
					    .born = (uint32_t)(test_random(&seed) % 10) };

			m.end = m.start + test_random(&seed) % 40;
			m.dead = test_random(&seed) % 2
					 ? UINT32_MAX
					 : m.born + (uint32_t)(test_random(&seed) % 10);
			CHECK_EQ(modules_add(&list, &m), 0);
		}
		modules_sort(&list);
		for (raddr_t pc = 0; pc < 250; pc++)
			for (uint32_t node = 0; node < 21; node++) {
				uint32_t at = node < 20 ? node : UINT32_MAX;

				CHECK(modules_find(&list, pc, at) == one_by_one(&list, pc, at));
			}
		modules_release(&list);
	}
}

/* A library that was replaced on disk, or deleted, is read through the mapping, not by its name. */
static void test_replaced_file(void)
{
	char dir[] = "/tmp/test_module.XXXXXX", path[64], command[256];
	struct modules list = { 0 };
	const struct module *m;
	bool overlap;
	void *library;

	if (!mkdtemp(dir))
		return;
	snprintf(path, sizeof(path), "%s/libx.so", dir);
	snprintf(command, sizeof(command), "cp -L /usr/lib/x86_64-linux-gnu/libdl.so.2 %s", path);
	CHECK_EQ(system(command), 0);
	library = dlopen(path, RTLD_NOW);
	CHECK(library != NULL);
	snprintf(command, sizeof(command),
		 "cp -L /usr/lib/x86_64-linux-gnu/libm.so.6 %s.new && mv %s.new %s", path, path,
		 path);
	CHECK_EQ(system(command), 0);
	CHECK(update(&list, 1, &overlap) > 0);
	for (size_t i = 0; i < list.count; i++) {
		m = list.module[i];
		if (strcmp(m->path, path) != 0)
			continue;
		if (elf_has_functions(m->elf) || elf_soname(m->elf))
			CHECK_STR(elf_soname(m->elf), "libdl.so.2");
		else
			printf("# not permitted here: /proc/PID/map_files\n");
	}
	modules_release(&list);
	if (library)
		dlclose(library);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK_EQ(system(command), 0);
}

int main(void)
{
	RUN(test_own_process);
	RUN(test_dlopen);
	RUN(test_spans);
	RUN(test_many);
	RUN(test_any_order);
	RUN(test_replaced_file);
	return test_status();
}
