// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_libc_signature.c - the allocator in stripped static programs, built here with the libc.a
 * that we were linked with.
 */
#include <fcntl.h>
#include <unistd.h>

#include "patch/libc_signature.h"
#include "symbols/elf.h"
#include "test.h"

static struct elf *open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	struct elf *e = fd < 0 ? NULL : elf_open(fd, &err);

	if (fd >= 0)
		close(fd);
	return e;
}

/* Programs that have symbols are not searched, whatever they are. */
static void test_not_stripped(void)
{
	struct libc_function found[LIBC_FUNCTIONS_MOST];
	struct elf *e = open_file("/proc/self/exe");

	CHECK(e != NULL);
	if (e)
		CHECK_EQ(libc_signature_find(e, found), 0);
	elf_unref(e);
}

static void test_dynamic(void)
{
	struct libc_function found[LIBC_FUNCTIONS_MOST];
	struct elf *e = open_file("/bin/sh");

	if (e)
		CHECK_EQ(libc_signature_find(e, found), 0);
	elf_unref(e);
}

static void test_nonsense(void)
{
	struct libc_function found[LIBC_FUNCTIONS_MOST];
	struct elf *e = elf_empty();

	CHECK(e != NULL);
	CHECK_EQ(libc_signature_find(e, found), 0);
	elf_unref(e);
}

int main(void)
{
	RUN(test_not_stripped);
	RUN(test_dynamic);
	RUN(test_nonsense);
	return test_status();
}
