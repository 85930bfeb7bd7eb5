// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Where libc's thread-local variables are in this process: errno is one of them, and the linker says
 * where all of them are.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include "base/maps.h"
#include "process/static_tls.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "test.h"

static struct modules list;
static struct static_tls found;

static uintptr_t thread_pointer(void)
{
	uintptr_t fs;

	__asm__("mov %%fs:0, %0" : "=r"(fs));
	return fs;
}

static const struct module *module_of(const void *address)
{
	return modules_find(&list, (raddr_t)(uintptr_t)address, UINT32_MAX);
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	uintptr_t *where = data;

	for (int i = 0; i < info->dlpi_phnum && size >= sizeof(*info); i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS && strstr(info->dlpi_name, "libc.so")) {
			where[0] = (uintptr_t)info->dlpi_tls_data;
			where[1] = info->dlpi_phdr[i].p_memsz;
		}
	return 0;
}

static void check_thread(void)
{
	uintptr_t where[2] = { 0 }, start = thread_pointer() - found.below;

	dl_iterate_phdr(visit, where);
	CHECK_EQ(start, where[0]);
	CHECK_EQ(found.bytes, where[1]);
	CHECK((uintptr_t)&errno >= start && (uintptr_t)&errno < start + found.bytes);
}

static NOINLINE void *other(void *arg)
{
	check_thread();
	return arg;
}

static void test_libc(void)
{
	pthread_t t;

	CHECK(static_tls_find(module_of((const void *)(uintptr_t)getpid), getpid(), &found));
	check_thread();
	CHECK_EQ(pthread_create(&t, NULL, other, NULL), 0);
	pthread_join(t, NULL);
}

/* A module with no such variables, and one whose memory is not there. */
static void test_none(void)
{
	const struct module *libc = module_of((const void *)(uintptr_t)getpid);
	struct module m = *libc;

	m.bias += (raddr_t)1 << 46;
	CHECK(!static_tls_find(&m, getpid(), &found) && !found.bytes && !found.below);
	m.elf = elf_empty();
	CHECK(!static_tls_find(&m, getpid(), &found) && !found.bytes);
	elf_unref(m.elf);
}

int main(void)
{
	struct maps maps;
	bool overlap;

	CHECK_EQ(maps_read(&maps, getpid()), 0);
	CHECK(modules_update(&list, getpid(), NULL, &maps, 0, &overlap) > 0);
	maps_release(&maps);
	RUN(test_libc);
	RUN(test_none);
	modules_release(&list);
	return test_status();
}
