/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * test_plant.c - planting: into files, to see that every allocator function can be moved; and into this very process.
 *
 * For the latter the test runs itself again with an allocator preloaded, redirects all of its functions to an entry that only counts and
 * goes on to the moved instructions, uses each of them, and takes everything out again.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include "../../supervisor/elf.h"
#include "../../supervisor/hooks.h"
#include "../../supervisor/module.h"
#include "../../supervisor/patch.h"
#include "../../supervisor/plant.h"
#include "../../supervisor/proc.h"
#include "test.h"

/* ---- planting into a file: reads come from it, writes go nowhere ------------------------------------------------------------------- */

struct fake {
	struct module *module;
	size_t writes, bytes;
};

static ssize_t fake_read(void *ctx, raddr_t addr, void *buf, size_t len)
{
	struct fake *f = ctx;
	size_t left;
	const uint8_t *p = elf_at(f->module->elf, addr - f->module->bias, 1, &left);

	if (!p)
		return -EFAULT;
	if (len > left)
		len = left;
	memcpy(buf, p, len);
	return (ssize_t)len;
}

static int fake_write(void *ctx, raddr_t addr, const void *buf, size_t len)
{
	struct fake *f = ctx;

	(void)addr, (void)buf;
	f->writes++;
	f->bytes += len;
	return 0;
}

static int fake_map(void *ctx, raddr_t lo, raddr_t hi, size_t len, raddr_t *at)
{
	(void)ctx, (void)lo;
	*at = ((hi + 4095) & ~4095ull) + 0x10000 + len;
	return 0;
}

static bool fake_module(struct module *m, const char *path, unsigned roles)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	const struct elf_segment *seg;
	size_t n;

	memset(m, 0, sizeof(*m));
	if (fd < 0)
		return false;
	m->elf = elf_open(fd, &err);
	close(fd);
	if (!m->elf)
		return false;
	m->path = (char *)(uintptr_t)path;
	m->roles = roles;
	m->bias = elf_type(m->elf) == 2 ? 0 : 0x7f1234560000;
	m->start = UINT64_MAX;
	m->dead = UINT32_MAX;
	n = elf_segments(m->elf, &seg);
	for (size_t i = 0; i < n; i++) {
		if (seg[i].type != 1)
			continue;
		if (m->bias + seg[i].vaddr < m->start)
			m->start = m->bias + seg[i].vaddr;
		if (m->bias + seg[i].vaddr + seg[i].memsz > m->end)
			m->end = m->bias + seg[i].vaddr + seg[i].memsz;
	}
	return true;
}

static raddr_t entries[HOOK_KINDS];

static double ms_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool is_planted(const struct plant *plant, const char *name)
{
	for (size_t i = 0; i < plant->count; i++) {
		if (strcmp(plant->planted[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Plants into the file; everything wanted (by its first name) must be in, nothing refused. */
static void check_file(const char *path, unsigned roles, const char *const *wanted, size_t nwanted)
{
	struct module m;
	struct fake fake = { &m, 0, 0 };
	struct plant_ops ops = { fake_map, fake_write, fake_read, &fake };
	struct plant plant = { 0 };
	double t;
	int n;

	if (!fake_module(&m, path, roles)) {
		printf("# %s is not here\n", path);
		return;
	}
	t = ms_now();
	n = plant_module(&plant, &m, &ops, entries, NULL, 0);
	t = ms_now() - t;
	printf("# %s: %d functions, %zu refused, %zu bytes of islands, %.2f ms\n", path, n, plant.nrefused,
	       plant.nislands ? (size_t)(plant.island[0].used - plant.island[0].start) : 0, t);
	if (getenv("TEST_VERBOSE")) {
		for (size_t i = 0; i < plant.count; i++)
			printf("#   %s kind %d, %u bytes\n", plant.planted[i].name, plant.planted[i].kind, plant.planted[i].nbytes);
	}
	for (size_t i = 0; i < plant.nrefused; i++)
		printf("#   refused: %s\n", plant.refused[i]);
	CHECK(n > 0);
	CHECK_EQ(plant.nrefused, 0);
	for (size_t i = 0; i < nwanted; i++) {
		if (!is_planted(&plant, wanted[i])) {
			printf("# %s: %s is not planted\n", path, wanted[i]);
			CHECK(false);
		}
	}
	CHECK(m.planted);
	CHECK_EQ(plant_module(&plant, &m, &ops, entries, NULL, 0), 0);
	plant_release(&plant);
	elf_unref(m.elf);
}

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
static const char *const libc_names[] = {
	"malloc", "calloc", "realloc", "reallocarray", "free", "memalign", "valloc", "posix_memalign",
	"mmap", "munmap", "mremap", "mprotect", "brk", "sbrk", "syscall", "prctl",
};
static const char *const heap_names[] = { "malloc", "calloc", "realloc", "free", "posix_memalign" };
static const char *const cxx_names[] = { "malloc", "calloc", "realloc", "free", "_Znwm", "_ZnwmRKSt9nothrow_t", "_ZnwmSt11align_val_t" };

static void test_glibc(void)
{
	check_file("/lib/x86_64-linux-gnu/libc.so.6", MODULE_LIBC, libc_names, COUNT(libc_names));
}

static void test_musl(void)
{
	static const char *const names[] = { "malloc", "calloc", "realloc", "reallocarray", "free", "memalign", "aligned_alloc", "valloc",
					     "posix_memalign", "mmap", "munmap", "mremap", "mprotect", "brk", "sbrk", "syscall", "prctl" };

	check_file("/usr/lib/x86_64-linux-musl/libc.so", MODULE_LIBC | MODULE_LDSO, names, COUNT(names));
}

static void test_allocators(void)
{
	check_file("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtcmalloc_debug.so.4", 0, heap_names, COUNT(heap_names));
	check_file("/usr/lib/x86_64-linux-gnu/libmimalloc.so.2", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libasan.so.8", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/liblsan.so.0", 0, cxx_names, COUNT(cxx_names));
	check_file("/usr/lib/x86_64-linux-gnu/libtsan.so.2", 0, heap_names, COUNT(heap_names));
	check_file("/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0", 0, heap_names, COUNT(heap_names));
}

int main(void)
{
	for (int i = 0; i < HOOK_KINDS; i++)
		entries[i] = 0x7f0000001000ull + 16u * (unsigned)i;
	RUN(test_glibc);
	RUN(test_musl);
	RUN(test_allocators);
	return test_status();
}
