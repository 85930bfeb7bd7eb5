// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_elf.c - the ELF reader: what it says of files whose contents are known, and that no file
 * makes it stumble.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "symbols/elf.h"
#include "test.h"

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define LDSO "/lib64/ld-linux-x86-64.so.2"
#define MUSL "/usr/lib/x86_64-linux-musl/libc.so"

static struct elf *open_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct elf *e;

	if (fd < 0)
		return NULL;
	e = elf_open(fd, &err);
	close(fd);
	return e;
}

static bool find(const struct elf *e, const char *name, struct elf_symbol *s)
{
	size_t cursor = 0;

	return elf_find(e, name, &cursor, s);
}

static void test_libc(void)
{
	struct elf *e = open_path(LIBC);
	struct elf_symbol s, other;
	struct elf_bytes frame, hdr;
	const uint8_t *id;
	size_t cursor = 0;
	int n = 0;

	CHECK(e != NULL);
	if (!e)
		return;
	CHECK_EQ(elf_type(e), ET_DYN);
	CHECK(!elf_is_static(e));
	CHECK_STR(elf_soname(e), "libc.so.6");
	CHECK(elf_has_hash(e));
	CHECK(elf_has_functions(e));
	CHECK_EQ(elf_build_id(e, &id), 20);
	CHECK(elf_eh_frame(e, &frame, &hdr));
	CHECK(frame.size > 10000 && hdr.size > 1000);
	CHECK(find(e, "malloc", &s) && s.dynamic && s.type == STT_FUNC && s.size > 100);
	CHECK(find(e, "__libc_malloc", &other) && other.value == s.value);
	CHECK(!find(e, "mallo", &s));
	CHECK(!find(e, "malloc2", &s));
	CHECK(!find(e, "", &s));
	/* several versions of one name */
	while (elf_find(e, "pthread_cond_wait", &cursor, &s))
		n++;
	CHECK_EQ(n, 2);
	elf_unref(e);
}

/* The hash table and the walk find the same. */
static void test_hash_against_walk(void)
{
	static const char *const paths[] = { LIBC, LDSO, MUSL,
					     "/usr/lib/x86_64-linux-gnu/libstdc++.so.6" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct elf *e = open_path(paths[i]);
		struct elf_symbol s, found;
		size_t cursor = 0, count = 0, missing = 0;

		while (e && elf_next_symbol(e, &cursor, &s) && s.dynamic) {
			size_t at = 0;
			bool same = false;

			while (!same && elf_find_exported(e, s.name, &at, &found))
				same = found.value == s.value && strcmp(found.name, s.name) == 0;
			count++;
			missing += !same;
		}
		printf("# %s: %zu symbols\n", paths[i], count);
		CHECK_EQ(missing, 0);
		elf_unref(e);
	}
}

static void test_same_file_once(void)
{
	struct elf *a = open_path(LIBC), *b = open_path(LIBC), *c = open_path(LDSO);

	CHECK(a && a == b);
	CHECK(a != c);
	elf_unref(b);
	CHECK_STR(elf_soname(a), "libc.so.6");
	elf_unref(a);
	elf_unref(c);
	elf_unref(NULL);
}

static void test_no_elf(void)
{
	int err = 0, fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	struct elf *e;

	CHECK(!elf_open(fd, &err));
	CHECK_EQ(err, -ENOEXEC);
	close(fd);
	fd = open("/", O_RDONLY | O_CLOEXEC);
	CHECK(!elf_open(fd, &err));
	CHECK_EQ(err, -ENOEXEC);
	close(fd);
	CHECK(!elf_open(-1, &err));
	CHECK_EQ(err, -EBADF);
	e = elf_empty();
	CHECK(e && !elf_has_functions(e) && !elf_at(e, 0, 0, NULL) && !elf_symbols(e));
	elf_unref(e);
}

/* A 32-bit file, another processor's. */
static void test_wrong_machine(void)
{
	struct elf *e = open_path("/bin/true");
	uint8_t copy[4096];
	size_t size;
	int err = 0;

	CHECK(e != NULL);
	if (!e)
		return;
	memcpy(copy, elf_file(e, &size), sizeof(copy));
	copy[EI_CLASS] = ELFCLASS32;
	CHECK(!elf_from_bytes(copy, sizeof(copy), &err) && err == -ENOEXEC);
	copy[EI_CLASS] = ELFCLASS64;
	copy[18] = EM_AARCH64;
	CHECK(!elf_from_bytes(copy, sizeof(copy), &err) && err == -ENOEXEC);
	elf_unref(e);
}

static void test_executable(void)
{
	struct elf *e = open_path("/bin/true");
	size_t left = 0;

	CHECK(e != NULL);
	if (!e)
		return;
	CHECK(!elf_is_static(e));
	CHECK(elf_at(e, elf_entry(e), 1, &left) && left > 16);
	CHECK(!elf_at(e, elf_entry(e), left + 1, NULL));
	CHECK(elf_section(e, ".text") && !elf_section(e, ".nothing"));
	elf_unref(e);
	/* a library that can be run, and has no name */
	e = open_path(MUSL);
	CHECK(!e || !elf_is_static(e));
	elf_unref(e);
}

/* ---- hostile files ------------------------------------------------------- */

static volatile uint64_t sink;

static void touch(const struct elf_bytes *b)
{
	if (b->size)
		sink += b->bytes[0] + b->bytes[b->size - 1];
}

/* Everything that can be asked. */
static void exercise(const struct elf *e)
{
	struct elf_bytes frame = { 0 }, hdr = { 0 };
	const struct elf_section *sec;
	const uint8_t *id;
	struct elf_symbol s;
	size_t cursor = 0, left;

	if (elf_eh_frame(e, &frame, &hdr))
		touch(&frame);
	touch(&hdr);
	while (elf_next_symbol(e, &cursor, &s)) {
		const uint8_t *p = elf_at(e, s.value, 4, &left);

		sink += strlen(s.name) + (p ? p[0] + p[left - 1] : 0);
	}
	sink += find(e, "malloc", &s) + find(e, "free", &s) + find(e, "_Znwm", &s);
	sink += elf_soname(e) ? strlen(elf_soname(e)) : 0;
	for (size_t n = elf_sections(e, &sec); n-- > 0;)
		sink += strlen(sec[n].name);
	for (unsigned n = elf_build_id(e, &id); n-- > 0;)
		sink += id[n];
	sink += elf_next_address(e, 0) + elf_is_static(e) + elf_has_functions(e);
}

static void try_bytes(const uint8_t *bytes, size_t size)
{
	int err = 0;
	struct elf *e = elf_from_bytes(bytes, size, &err);

	if (e)
		exercise(e);
	else if (err != -ENOEXEC)
		CHECK_EQ(err, -ENOEXEC);
	elf_unref(e);
}

/* A small library with everything in it: ld.so's own symbols are few enough; /bin/true has none. */
static uint8_t *sample(size_t *size)
{
	struct elf *e = open_path("/usr/lib/x86_64-linux-gnu/libdl.so.2");
	const uint8_t *bytes;
	uint8_t *copy;

	if (!e)
		e = open_path("/bin/true");
	if (!e)
		return NULL;
	bytes = elf_file(e, size);
	copy = malloc(*size);
	if (copy)
		memcpy(copy, bytes, *size);
	elf_unref(e);
	return copy;
}

static void test_truncated_at_every_byte(void)
{
	size_t size;
	uint8_t *bytes = sample(&size);

	CHECK(bytes != NULL);
	for (size_t n = 0; bytes && n <= size; n++)
		try_bytes(bytes, n);
	free(bytes);
}

static uint64_t random_state = 88172645463325252ull;
static uint64_t random64(void) { return test_random(&random_state); }

static void test_mutated(void)
{
	static const uint8_t odd[] = { 0x00, 0xff, 0x7f, 0x80, 0x01, 0xfe };
	size_t size;
	uint8_t *bytes = sample(&size), *copy = malloc(size);

	CHECK(bytes && copy);
	for (int i = 0; bytes && copy && i < 20000; i++) {
		memcpy(copy, bytes, size);
		for (uint64_t n = 1 + random64() % 8; n-- > 0;) {
			uint64_t where = random64() % 4 ? 20 + random64() % 1024
							: random64() % size;

			if (random64() % 8 == 0) /* the section headers are at the end */
				where = size - 1 - random64() % 1800;
			copy[where % size] = random64() % 2 ? odd[random64() % sizeof(odd)]
							    : (uint8_t)random64();
		}
		try_bytes(copy, size);
	}
	free(bytes);
	free(copy);
}

/* The file shrinks while it is mapped: it reads as zeros, and nothing dies. */
static void test_truncated_while_mapped(void)
{
	char path[] = "/tmp/test_elf.XXXXXX";
	int fd = mkstemp(path), err = 0;
	struct elf *libc = open_path(LIBC), *e;
	const uint8_t *bytes;
	struct elf_symbol s;
	size_t size = 0;

	CHECK(fd >= 0 && libc);
	if (fd < 0 || !libc)
		return;
	bytes = elf_file(libc, &size);
	CHECK(write(fd, bytes, size) == (ssize_t)size);
	e = elf_open(fd, &err);
	CHECK(e && e != libc);
	CHECK(ftruncate(fd, 8192) == 0);
	if (e) {
		exercise(e);
		CHECK(!find(e, "malloc", &s));
		elf_unref(e);
	}
	CHECK(find(libc, "malloc", &s));
	elf_unref(libc);
	close(fd);
	unlink(path);
}

/* What a start of a program asks, on files that are in the page cache. */
static void test_quick(void)
{
	struct timespec a, b;
	double best = 1e9;

	for (int i = 0; i < 20; i++) {
		struct elf *e;
		struct elf_symbol s;
		double t;

		clock_gettime(CLOCK_MONOTONIC, &a);
		e = open_path(LIBC);
		for (int k = 0; k < 200; k++)
			sink += e && find(e, k & 1 ? "malloc" : "no_such_function", &s);
		elf_unref(e);
		clock_gettime(CLOCK_MONOTONIC, &b);
		t = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
		best = t < best ? t : best;
	}
	printf("# libc opened and 200 names looked up: %.0f us\n", best);
	CHECK(best < 5000);
}

int main(void)
{
	RUN(test_libc);
	RUN(test_hash_against_walk);
	RUN(test_same_file_once);
	RUN(test_no_elf);
	RUN(test_wrong_machine);
	RUN(test_executable);
	RUN(test_truncated_at_every_byte);
	RUN(test_mutated);
	RUN(test_truncated_while_mapped);
	RUN(test_quick);
	return test_status();
}
