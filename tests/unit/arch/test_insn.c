// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_insn.c - our instruction lengths and branch displacements against capstone's, over the code
 * of libraries that use every corner of the instruction set.
 */
#include <capstone/capstone.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/insn.h"
#include "symbols/elf.h"
#include "test.h"

#define LIB   "/usr/lib/x86_64-linux-gnu/"
#define LIMIT 400000 /* instructions of one file */

static void compare(csh cs, const uint8_t *bytes, size_t size, uint64_t vaddr)
{
	cs_insn *theirs = cs_malloc(cs);
	const uint8_t *p = bytes;
	uint64_t address = vaddr;
	size_t left = size, wrong = 0, n = 0, refused = 0;

	while (left && n < LIMIT) {
		const uint8_t *at = p;
		size_t at_left = left;
		struct insn ours;
		bool ok = decode(at, at_left, &ours);

		n++;
		if (!cs_disasm_iter(cs, &p, &left, &address, theirs)) {
			/* data between functions, or an instruction that capstone does not know */
			p = at + 1;
			left = at_left - 1;
			address++;
			continue;
		}
		if (at[0] == 0x8f && at[1] & 0x38)
			continue; /* AMD's XOP: refused */
		if (!ok || ours.len != theirs->size) {
			if (!ok)
				refused++;
			if (wrong++ < 10)
				printf("# %#llx: %s %s: %u bytes, not %u\n",
				       (unsigned long long)theirs->address, theirs->mnemonic,
				       theirs->op_str, theirs->size, ok ? ours.len : 0);
		}
	}
	printf("# %zu instructions, %zu differ, %zu of them refused\n", n, wrong, refused);
	CHECK(wrong <= n / 20000);
	cs_free(theirs, 1);
}

static void compare_file(const char *path)
{
	int error, fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct elf_section *text;
	struct elf *elf;
	size_t size;
	csh cs;

	if (fd < 0) {
		printf("# %s: not here\n", path);
		return;
	}
	elf = elf_open(fd, &error);
	close(fd);
	CHECK(elf && cs_open(CS_ARCH_X86, CS_MODE_64, &cs) == CS_ERR_OK);
	if (!elf)
		return;
	text = elf_section(elf, ".text");
	CHECK(text != NULL);
	if (text)
		compare(cs, elf_file(elf, &size) + text->offset, text->size, text->addr);
	cs_close(&cs);
	elf_unref(elf);
}

static void test_libc(void) { compare_file(LIB "libc.so.6"); }
static void test_libm(void) { compare_file(LIB "libm.so.6"); }
static void test_libcrypto(void) { compare_file(LIB "libcrypto.so.3"); }
static void test_musl(void) { compare_file("/usr/lib/x86_64-linux-musl/libc.so"); }

/* Any bytes: never beyond what is there. */
static void test_any_bytes(void)
{
	uint8_t *page =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct insn insn;

	mprotect(page + 4096, 4096, PROT_NONE);
	srand(7);
	for (int i = 0; i < 300000; i++) {
		size_t size = (size_t)(rand() % 20);

		for (size_t k = 0; k < size; k++)
			page[4096 - size + k] = (uint8_t)(rand() >> 7);
		if (decode(page + 4096 - size, size, &insn))
			CHECK(insn.len && insn.len <= size && insn.len <= 15);
	}
	munmap(page, 8192);
}

int main(void)
{
	RUN(test_libc);
	RUN(test_libm);
	RUN(test_libcrypto);
	RUN(test_musl);
	RUN(test_any_bytes);
	return test_status();
}
