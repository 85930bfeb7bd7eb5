// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_go_functions.c - Go's table of functions: tables made by hand of each format, cut anywhere,
 * and with any word changed.
 */
#include "symbols/go_functions.h"

#include <string.h>

#include "test.h"

#define TEXT 0x401000u
enum { NAMES = 80, FUNCTIONS = 112, SIZE = 200 };

static size_t put(uint8_t *to, uint64_t value, size_t width)
{
	memcpy(to, &value, width);
	return width;
}

/* Two functions: main.a at 0x10 of the text, main.b at 0x40 to 0x90. */
static void make(uint8_t b[SIZE], uint32_t magic, uint64_t text)
{
	size_t wide = magic == 0xfffffffa ? 8 : 4, at = wide == 8 ? 24 : 32,
	       from = wide == 8 ? TEXT : 0;
	uint8_t *f = b + FUNCTIONS;

	memset(b, 0, SIZE);
	put(b, magic, 4);
	b[6] = 1;
	b[7] = 8;
	put(b + 8, 2, 8);
	if (wide == 4)
		put(b + 24, text, 8);
	put(b + at, NAMES, 8);
	put(b + at + 32, FUNCTIONS, 8);
	memcpy(b + NAMES, "\0main.a\0main.b", 15);
	f += put(f, from + 0x10, wide);
	f += put(f, 5 * wide, wide);
	f += put(f, from + 0x40, wide);
	f += put(f, 5 * wide + 16, wide);
	put(f, from + 0x90, wide);
	put(b + FUNCTIONS + 5 * wide + wide, 1, 4);
	put(b + FUNCTIONS + 5 * wide + 16 + wide, 8, 4);
}

static void test_formats(void)
{
	static const uint32_t magic[] = { 0xfffffffa, 0xfffffff0, 0xfffffff1 };
	uint8_t b[SIZE];
	struct gotab_function f;
	struct gotab t;

	for (int i = 0; i < 3; i++)
		for (int said = 0; said < 2; said++) {
			make(b, magic[i], said ? TEXT : 0);
			CHECK(gotab_open(&t, b, SIZE, said ? 0 : TEXT) && t.count == 2);
			CHECK(gotab_function(&t, 0, &f));
			CHECK_STR(f.name, "main.a");
			CHECK_EQ(f.start, TEXT + 0x10);
			CHECK_EQ(f.end, TEXT + 0x40);
			CHECK(gotab_function(&t, 1, &f));
			CHECK_STR(f.name, "main.b");
			CHECK_EQ(f.end, TEXT + 0x90);
			CHECK(!gotab_function(&t, 2, &f));
		}
	make(b, 0xfffffffb, TEXT);
	CHECK(!gotab_open(&t, b, SIZE, TEXT));
}

/* Every name that is handed on ends within the bytes. */
static void look(const uint8_t *b, size_t size)
{
	struct gotab_function f;
	struct gotab t;

	if (!gotab_open(&t, b, size, TEXT))
		return;
	CHECK(t.count <= size);
	for (size_t i = 0; i < t.count; i++)
		if (gotab_function(&t, i, &f))
			CHECK(f.end > f.start && (const uint8_t *)f.name >= b &&
			      (const uint8_t *)f.name + strlen(f.name) < b + size);
}

static void test_damage(void)
{
	static const uint64_t odd[] = {
		1,	    2,		0x7f,	    0xffff,	0x7fffffff,
		0xffffffff, 1ull << 40, 1ull << 63, UINT64_MAX, UINT64_MAX - 7
	};
	uint8_t good[SIZE];

	for (int wide = 0; wide < 2; wide++) {
		make(good, wide ? 0xfffffffa : 0xfffffff1, TEXT);
		for (size_t size = 0; size <= SIZE; size++) {
			uint8_t *cut = malloc(size + 1);

			memcpy(cut, good, size);
			look(cut, size);
			free(cut);
		}
		for (size_t at = 0; at + 8 <= SIZE; at += 4)
			for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
				uint8_t *bad = malloc(SIZE);

				memcpy(bad, good, SIZE);
				memcpy(bad + at, &odd[i], i % 2 ? 8 : 4);
				look(bad, SIZE);
				free(bad);
			}
	}
}

int main(void)
{
	RUN(test_formats);
	RUN(test_damage);
	return test_status();
}
