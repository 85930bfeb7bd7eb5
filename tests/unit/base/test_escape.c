// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * test_escape.c - what is printed of a text: whatever its bytes are it is UTF-8 on one line,
 * without anything unsafe, and what it was can be told from it.
 */
#include "base/escape.h"
#include "base/utf8.h"
#include "test.h"

static const char *shown(const char *text)
{
	static char *copy;

	free(copy);
	return copy = escape_copy(text);
}

static const char *PRINTF(1, 2) printed(const char *format, ...)
{
	static char *text;
	size_t len;
	va_list args;
	FILE *out;

	free(text);
	out = open_memstream(&text, &len);
	va_start(args, format);
	escape_vprintf(out, format, args);
	va_end(args);
	fclose(out);
	return text;
}

static const char *line(const char *text, size_t len)
{
	static char *copy;
	size_t n;
	FILE *out;

	free(copy);
	out = open_memstream(&copy, &n);
	escape_put_line(out, text, len);
	fclose(out);
	return copy;
}

static void test_ordinary(void)
{
	static const char *const same[] = {
		"",
		"main",
		"std::map<int, char const*>::operator[](int&&) const",
		"/usr/lib/x86_64-linux-gnu/libc.so.6",
		"a b \"c\" 'd' `e` $(f) <g> {h};#%",
		"gr\303\266\303\237e",
		"\321\204\321\203\320\275\320\272\321\206\320\270\321\217",
		"\345\220\215\345\211\215",
		"\360\237\230\200",
		"e\314\201",
	};

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		CHECK_STR(shown(same[i]), same[i]);
		CHECK(escape_is_plain(same[i]));
	}
}

static void test_escapes(void)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "\n\t\r", "\\n\\t\\r" },
		{ "\033]0;x\a", "\\x1b]0;x\\x07" },
		{ "\177", "\\x7f" },
		{ "a\\n", "a\\\\n" },
		{ "\\", "\\\\" },
		{ "\302\205", "\\u0085" },
		{ "\302\233"
		  "31m",
		  "\\u009b31m" },
		{ "\233"
		  "31m",
		  "\\x9b31m" },
		{ "\302\255", "\\u00ad" },
		{ "\342\200\256", "\\u202e" },
		{ "\342\200\250\342\200\251", "\\u2028\\u2029" },
		{ "\342\201\246\342\201\251", "\\u2066\\u2069" },
		{ "\342\200\216\342\200\217", "\\u200e\\u200f" },
		{ "\330\234", "\\u061c" },
		{ "\357\273\277", "\\ufeff" },
		{ "\357\277\277", "\\uffff" },
		{ "\363\240\201\201", "\\U000e0041" },
		{ "\364\217\277\277", "\\U0010ffff" },
		{ "\377", "\\xff" },
		{ "\303", "\\xc3" },
		{ "\303(", "\\xc3(" },
		{ "\300\212", "\\xc0\\x8a" },
		{ "\355\240\200", "\\xed\\xa0\\x80" },
		{ "\360\237\230", "\\xf0\\x9f\\x98" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		CHECK_STR(shown(cases[i].text), cases[i].want);
		CHECK_STR(printed("%s", cases[i].text), cases[i].want);
		CHECK_EQ(escape_is_plain(cases[i].text),
			 cases[i].text[strlen(cases[i].text) - 1] == '\\' ||
				 cases[i].text[0] == 'a');
	}
	CHECK_STR(line("\tputs(\"a\\n\");\033[1m", 18), "\tputs(\"a\\n\");\\x1b[1m");
	CHECK_STR(line("abc", 2), "ab");
}

/* The reverse, for the test. False: it was none of ours. */
static bool back(const char *from, char *to)
{
	while (*from) {
		unsigned value, n;

		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		from++;
		if (strchr("ntr\\", *from)) {
			*to++ = *from == 'n'   ? '\n'
				: *from == 't' ? '\t'
				: *from == 'r' ? '\r'
					       : '\\';
			from++;
			continue;
		}
		n = *from == 'x' ? 2 : *from == 'u' ? 4 : *from == 'U' ? 8 : 0;
		if (!n || strspn(from + 1, "0123456789abcdef") < n)
			return false;
		sscanf(from + 1, n == 2 ? "%2x" : n == 4 ? "%4x" : "%8x", &value);
		from += 1 + n;
		if (n == 2) {
			*to++ = (char)value;
		} else if (value < 0x800) {
			*to++ = (char)(0xc0 | value >> 6);
			*to++ = (char)(0x80 | (value & 0x3f));
		} else if (value < 0x10000) {
			*to++ = (char)(0xe0 | value >> 12);
			*to++ = (char)(0x80 | (value >> 6 & 0x3f));
			*to++ = (char)(0x80 | (value & 0x3f));
		} else {
			*to++ = (char)(0xf0 | value >> 18);
			*to++ = (char)(0x80 | (value >> 12 & 0x3f));
			*to++ = (char)(0x80 | (value >> 6 & 0x3f));
			*to++ = (char)(0x80 | (value & 0x3f));
		}
	}
	*to = '\0';
	return true;
}

static bool is_safe(const char *text)
{
	uint32_t c;
	int n;

	for (; *text; text += n) {
		n = utf8_decode(text, &c);
		if (!n || escape_is_unsafe(c))
			return false;
	}
	return true;
}

/* Pieces that are near what matters, put together by chance. */
static void random_text(uint64_t *x, char *text, size_t most)
{
	static const char *const piece[] = { "\\",
					     "\\n",
					     "n",
					     "x1b",
					     "\033[",
					     "\342\200",
					     "\342\200\256",
					     "\256",
					     "\302",
					     "\302\205",
					     "\363\240\201\201",
					     "\360\237",
					     "u202e",
					     "\357\273\277",
					     "a" };
	size_t n = 0, want = test_random(x) % most;

	while (n < want) {
		const char *p = piece[test_random(x) % (sizeof(piece) / sizeof(*piece))];

		if (test_random(x) % 2)
			text[n++] = (char)(1 + test_random(x) % 255);
		else if (n + strlen(p) < most)
			n = (size_t)(stpcpy(text + n, p) - text);
	}
	text[n] = '\0';
}

static void test_any_bytes(void)
{
	uint64_t x = 88172645463325252ull;
	char text[200], again[200];

	for (int i = 0; i < 100000; i++) {
		const char *out;

		random_text(&x, text, sizeof(text) - 10);
		out = shown(text);
		CHECK(is_safe(out));
		CHECK(back(out, again));
		CHECK_STR(again, text); /* so no two texts look the same */
		CHECK_STR(printed("%s", text), out);
		CHECK(is_safe(printed("%.*s", (int)(test_random(&x) % 20), text)));
		if (escape_is_plain(text) && !strchr(text, '\\'))
			CHECK_STR(out, text);
		if (test_bad)
			break;
	}
}

static void test_printf(void)
{
	char want[200];

	snprintf(want, sizeof(want),
		 "%d|%5d|%-5d|%05d|%+d|%u|%zu|%lx|%#x|%llu|%8.3f|%.1f|%%|%hhx|%jd|%X|%2zu|%*d", -1,
		 2, 3, 4, 5, 6u, (size_t)7, 8ul, 9u, 10ull, 1.5, 2.25, (unsigned char)200,
		 (intmax_t)-11, 0xabu, (size_t)1, 4, 7);
	CHECK_STR(
		printed("%d|%5d|%-5d|%05d|%+d|%u|%zu|%lx|%#x|%llu|%8.3f|%.1f|%%|%hhx|%jd|%X|%2zu|%*d",
			-1, 2, 3, 4, 5, 6u, (size_t)7, 8ul, 9u, 10ull, 1.5, 2.25,
			(unsigned char)200, (intmax_t)-11, 0xabu, (size_t)1, 4, 7),
		want);
	CHECK_STR(printed("%" PRIu64 " %" PRId64 " %" PRIx64, UINT64_MAX, INT64_MIN, UINT64_MAX),
		  "18446744073709551615 -9223372036854775808 ffffffffffffffff");
	CHECK_STR(printed("%-6s|%6s|%.2s|%-4.1s|%s", "ab", "ab", "abc", "xyz", ""),
		  "ab    |    ab|ab|x   |");
	CHECK_STR(printed("%-6s|%4s|", "\303\266", "\n"), "\303\266     |  \\n|");
	CHECK_STR(printed("%.3s|", "a\342\202\254"), "a|"); /* not within a character */
	CHECK_STR(printed("%c%c%c", 'a', '\033', '\377'), "a\\x1b\\xff");
	CHECK_STR(printed("a\tb\n"), "a\tb\n"); /* the format is ours */
}

static void test_long(void)
{
	char *text = malloc(1000001), *copy;
	const char *out;

	for (size_t i = 0; i < 1000000; i++)
		text[i] = (char)('a' + i % 26);
	text[1000000] = '\0';
	out = printed("'%s'", text);
	CHECK_EQ(strlen(out), ESCAPE_LONGEST + 5);
	CHECK(strstr(out, "\342\200\246") && !strncmp(out + 1, text, 1000) &&
	      !strncmp(out + strlen(out) - 1001, text + 999000, 1000));
	CHECK_EQ(escape_columns(text), ESCAPE_LONGEST + 1);
	CHECK_EQ(strlen(line(text, 1000000)), ESCAPE_LONGEST + 3);
	copy = escape_copy(text);
	CHECK_STR(copy, text);
	free(copy);
	for (size_t i = 0; i + 2 < 1000000; i += 3)
		memcpy(text + i, "\342\202\254", 3);
	/* not within a character */
	CHECK(is_safe(printed("%s", text)) && !strchr(printed("%s", text), '\\'));
	memset(text, '\200', 1000000);
	CHECK(is_safe(printed("%s", text)));
	CHECK(strlen(printed("%s", text)) < 5 * ESCAPE_LONGEST);
	free(text);
}

int main(void)
{
	RUN(test_ordinary);
	RUN(test_escapes);
	RUN(test_any_bytes);
	RUN(test_printf);
	RUN(test_long);
	return test_status();
}
