// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_note.c - this program uses mtrun.h: its own notes are found, and name its functions; forged
 * ones are not believed.
 */
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include "inject/mtrun.h"
#include "symbols/elf.h"
#include "symbols/note.h"
#include "test.h"

static const uint8_t *self(size_t *size)
{
	static uint8_t bytes[64 << 20];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	*size = 0;
	while (fd >= 0 && (n = read(fd, bytes + *size, sizeof(bytes) - *size)) > 0)
		*size += (size_t)n;
	if (fd >= 0)
		close(fd);
	return bytes;
}

/* How many notes there are, of what, one bit each. */
static int count(const void *bytes, size_t size, unsigned *kinds, struct note *last)
{
	int err, n = 0;
	struct elf *e = elf_from_bytes(bytes, size, &err);
	size_t cursor = 0;
	struct note note;

	*kinds = 0;
	while (e && note_next(e, &cursor, &note)) {
		*kinds |= 1u << note.what;
		*last = note;
		n++;
	}
	elf_unref(e);
	return n;
}

static void test_own(void)
{
	size_t size;
	const uint8_t *bytes = self(&size);
	struct note last;
	unsigned kinds;

	CHECK_EQ(mtrun_allocated_memory() + mtrun_meta_memory() + mtrun_memory_limit(), 0);
	mtrun_mark("a");
	/* mtrun_snapshot is not used, so it is not there */
	CHECK_EQ(count(bytes, size, &kinds, &last), 4);
	CHECK_EQ(kinds, 1u << API_ALLOCATED | 1u << API_META | 1u << API_LIMIT | 1u << API_MARK);
	CHECK_STR(note_name(API_MARK), "mtrun_mark");
	CHECK(note_name((enum wire_api)0) == NULL && note_name(API_KINDS) == NULL);
}

/* The function is another one than it says: the note is passed over. */
static void test_forged(void)
{
	size_t size;
	uint8_t *bytes = (uint8_t *)self(&size);
	struct note last = { 0 };
	unsigned kinds;
	int n = count(bytes, size, &kinds, &last);
	int err;
	struct elf *e = elf_from_bytes(bytes, size, &err);
	const uint8_t *code = e ? elf_at(e, last.vaddr, NOTE_BODY, NULL) : NULL;
	size_t whole;

	CHECK(n > 0 && code);
	if (code) {
		bytes[code - elf_file(e, &whole) + 3] ^= 1;
		CHECK_EQ(count(bytes, size, &kinds, &last), n - 1);
	}
	elf_unref(e);
}

static void test_none(void)
{
	struct elf *e = elf_empty();
	size_t cursor = 0;
	struct note note;

	CHECK(e && !note_next(e, &cursor, &note));
	elf_unref(e);
}

int main(void)
{
	RUN(test_own);
	RUN(test_forged);
	RUN(test_none);
	return test_status();
}
