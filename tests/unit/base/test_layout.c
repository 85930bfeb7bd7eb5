// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/layout.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const struct layout utf8 = { .columns = 80, .unicode = true }, ascii = { .columns = 80 };

/* What PUT makes of TEXT in WIDTH columns; *COLUMNS: what it says that it took. */
static const char *made(size_t (*put)(const struct layout *, FILE *, const char *, size_t),
			const struct layout *l, const char *text, size_t width)
{
	static char got[512];
	FILE *out = fmemopen(memset(got, 0, sizeof(got)), sizeof(got), "w");
	size_t columns = put(l, out, text, width);

	fclose(out);
	CHECK(columns <= width);
	CHECK_EQ(columns, layout_shown_width(l, got));
	return got;
}

static void test_shortened(void)
{
	CHECK_STR(made(layout_put, &utf8, "operator new", 12), "operator new");
	CHECK_STR(made(layout_put, &utf8, "operator new", 11), "opera\342\200\246r new");
	CHECK_STR(made(layout_put, &ascii, "operator new", 11), "opera...new");
	CHECK_STR(made(layout_put, &ascii, "operator new", 3), "ope");
	CHECK_STR(made(layout_put, &utf8, "operator new", 0), "");
	CHECK_STR(made(layout_put_begin, &utf8, "operator new", 6), "opera\342\200\246");
	CHECK_STR(made(layout_put, &utf8, "", 5), "");
}

/* No escape and no character is divided. */
static void test_units(void)
{
	CHECK_STR(made(layout_put, &utf8, "abc\033def", 10), "abc\\x1bdef");
	CHECK_STR(made(layout_put, &utf8, "abc\033def", 9), "abc\342\200\246def");
	CHECK_STR(made(layout_put, &ascii, "gr\303\266\303\237e", 20), "gr\\u00f6\\u00dfe");
	CHECK_STR(made(layout_put, &utf8, "gr\303\266\303\237e", 5), "gr\303\266\303\237e");
	CHECK_EQ(layout_width(&utf8, "\346\274\242\345\255\227"), 4);
	CHECK_STR(made(layout_put_begin, &utf8, "\346\274\242\345\255\227", 3),
		  "\346\274\242\342\200\246");
	CHECK_STR(made(layout_put, &utf8, "a\\b", 10), "a\\\\b");
	CHECK_STR(made(layout_put_shown, &utf8, "a\\\\b", 10), "a\\\\b");
}

static void test_paths(void)
{
	CHECK_STR(made(layout_put_path, &utf8, "/usr/lib/libfoo.so", 18), "/usr/lib/libfoo.so");
	CHECK_STR(made(layout_put_path, &utf8, "/usr/lib/libfoo.so", 16),
		  "\342\200\246/lib/libfoo.so");
	CHECK_STR(made(layout_put_path, &ascii, "/usr/lib/libfoo.so", 14), ".../libfoo.so");
	CHECK_STR(made(layout_put_path, &utf8, "/usr/lib/libfoo.so", 9), "libfoo.so");
	CHECK_STR(made(layout_put_path, &utf8, "/usr/lib/libfoo.so", 5), "li\342\200\246so");
}

static void test_sizes(void)
{
	const struct layout exact = { .columns = 80, .exact = true }, none = { 0 };
	struct text_buffer b;

	CHECK_STR(layout_size(&utf8, &b, 4096), "4.0K");
	CHECK_STR(layout_size(&exact, &b, 4096), "4096");
	CHECK_STR(layout_size(&none, &b, UINT64_MAX), "18446744073709551615");
	CHECK_STR(layout_change(&utf8, &b, -4096), "-4.0K");
	CHECK_STR(layout_change(&exact, &b, INT64_MIN), "-9223372036854775808");
	CHECK_STR(layout_change(&utf8, &b, 0), "0");
}

int main(void)
{
	RUN(test_shortened);
	RUN(test_units);
	RUN(test_paths);
	RUN(test_sizes);
	return test_status();
}
