// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/utf8.h"

/*
 * Escaping is done where text leaves, not where it enters: names are compared, searched for and
 * opened as they are, and what is composed of them is escaped once, whole. To make that hard to
 * forget it is the printf layer that does it: nobody has to know whether a %s is from outside, and
 * a test sees to it that nobody prints a %s in another way.
 *
 * The cost is one look at each byte: nearly all names are ASCII, of which whole runs are written at
 * once.
 */

/* ---- which --------------------------------------------------------------- */

/*
 * Ranges in order: controls, all of Unicode's format characters, and what else is seen nowhere.
 * Variation selectors and combining marks are of what they follow.
 */
static const struct {
	uint32_t first, last;
} unsafe[] = {
	{ 0x0000, 0x001f },
	{ 0x007f, 0x009f }, /* controls */
	{ 0x00ad, 0x00ad }, /* soft hyphen */
	{ 0x034f, 0x034f }, /* grapheme joiner */
	/* Arabic, Syriac */
	{ 0x0600, 0x0605 },
	{ 0x061c, 0x061c },
	{ 0x06dd, 0x06dd },
	{ 0x070f, 0x070f },
	{ 0x0890, 0x0891 },
	{ 0x08e2, 0x08e2 },
	{ 0x115f, 0x1160 },
	{ 0x17b4, 0x17b5 }, /* fillers, vowels that are not shown */
	/* Mongolian selectors and vowel separator */
	{ 0x180b, 0x180f },
	{ 0x200b, 0x200f }, /* zero width, marks of direction */
	/* line and paragraph separator, embeddings, overrides */
	{ 0x2028, 0x202e },
	{ 0x2060, 0x206f }, /* word joiner, isolates, deprecated ones */
	{ 0x3164, 0x3164 }, /* filler */
	{ 0xfdd0, 0xfdef }, /* noncharacters */
	{ 0xfeff, 0xfeff },
	{ 0xffa0, 0xffa0 }, /* byte order mark, filler */
	{ 0xfff0, 0xfffb }, /* unassigned, interlinear annotation */
	{ 0x110bd, 0x110bd },
	{ 0x110cd, 0x110cd },
	{ 0x13430, 0x1343f },
	{ 0x1bca0, 0x1bca3 },
	{ 0x1d173, 0x1d17a },
	{ 0xe0000, 0xe0fff }, /* tags */
};

bool escape_is_unsafe(uint32_t c)
{
	const size_t rows = sizeof(unsafe) / sizeof(*unsafe);
	size_t at = SEARCH(i, rows, c > unsafe[i].last);

	if (c > 0x10ffff || (c & 0xfffe) == 0xfffe)
		return true;
	return at < rows && c >= unsafe[at].first;
}

static bool is_ordinary(char c) { return c >= ' ' && c < 0x7f && c != '\\'; }

size_t escape_unit(const char *text, char as[ESCAPE_UNIT])
{
	uint32_t c;
	int n;

	as[0] = '\0';
	if (is_ordinary(*text))
		return 1;
	n = utf8_decode(text, &c);
	if (n == 0)
		snprintf(as, ESCAPE_UNIT, "\\x%02x", (unsigned char)*text);
	else if (c == '\n' || c == '\t' || c == '\r')
		snprintf(as, ESCAPE_UNIT, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
	else if (c == '\\')
		strcpy(as, "\\\\");
	else if (escape_is_unsafe(c))
		snprintf(as, ESCAPE_UNIT,
			 c < 0x80      ? "\\x%02" PRIx32
			 : c < 0x10000 ? "\\u%04" PRIx32
				       : "\\U%08" PRIx32,
			 c);
	return n ? (size_t)n : 1;
}

bool escape_is_plain(const char *text)
{
	char as[ESCAPE_UNIT];

	while (*text) {
		while (is_ordinary(*text) || *text == '\\')
			text++;
		if (!*text)
			break;
		text += escape_unit(text, as);
		if (*as)
			return false;
	}
	return true;
}

/* ---- texts --------------------------------------------------------------- */

enum keep { KEEP_NOTHING, KEEP_LINE }; /* KEEP_LINE: tabs and backslashes are themselves */

/*
 * How many of the LEN bytes at TEXT are ordinary before one is not. Eight at a time: a byte's high
 * bit is set by 0x80, or by a borrow.
 */
static size_t ordinary_run(const char *text, size_t len)
{
	const uint64_t ones = 0x0101010101010101, high = ones << 7;
	size_t n = 0;

	for (uint64_t x; n + 8 <= len; n += 8) {
		memcpy(&x, text + n, 8);
		if ((x | (x - ones * ' ') | ((x ^ ones * 0x7f) - ones) |
		     ((x ^ ones * '\\') - ones)) &
		    high)
			break;
	}
	while (n < len && is_ordinary(text[n]))
		n++;
	return n;
}

/* OUT may be NULL, to count only. Returns the number of characters. */
static size_t put(FILE *out, const char *text, enum keep keep)
{
	size_t left = strlen(text), columns = 0;
	char as[ESCAPE_UNIT];

	while (left) {
		size_t n = ordinary_run(text, left);

		columns += n;
		if (out && n)
			fwrite_unlocked(text, 1, n, out);
		text += n;
		left -= n;
		if (!left)
			break;
		n = escape_unit(text, as);
		if (keep == KEEP_LINE && (*text == '\\' || *text == '\t'))
			*as = '\0';
		if (out)
			fwrite_unlocked(*as ? as : text, 1, *as ? strlen(as) : n, out);
		columns += *as ? strlen(as) : 1;
		text += n;
		left -= n;
	}
	return columns;
}

void escape_put(FILE *out, const char *text) { put(out, text, KEEP_NOTHING); }

/* Where at most LEN bytes of TEXT end, without a part of a character. */
static size_t end_of(const char *text, size_t len)
{
	size_t end = strnlen(text, len), first = end;

	while (first && end - first < 3 && ((unsigned char)text[first - 1] & 0xc0) == 0x80)
		first--;
	if (end == len && first && (unsigned char)text[first - 1] >= 0xc2) {
		unsigned char c = (unsigned char)text[first - 1];
		size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

		if (end - (first - 1) < need)
			return first - 1;
	}
	return end;
}

/* The first LEN bytes of TEXT, which need not end there. */
static size_t put_bytes(FILE *out, const char *text, size_t len, enum keep keep)
{
	char *copy = strndup(text, len);
	size_t columns = copy ? put(out, copy, keep) : 0;

	free(copy);
	return columns;
}

/* A text that is too long for people: what is in the middle is left out. */
static size_t put_short(FILE *out, const char *text, enum keep keep)
{
	size_t len = strlen(text), columns;
	const char *tail = text + len - ESCAPE_LONGEST / 2;

	if (len <= ESCAPE_LONGEST)
		return put(out, text, keep);
	columns = put_bytes(out, text, end_of(text, ESCAPE_LONGEST / 2), keep);
	if (out)
		fputs("\342\200\246", out);
	for (int i = 0; i < 3 && ((unsigned char)*tail & 0xc0) == 0x80; i++)
		tail++;
	return columns + 1 + put(out, tail, keep);
}

size_t escape_columns(const char *text) { return put_short(NULL, text, KEEP_NOTHING); }

void escape_put_line(FILE *out, const char *text, size_t len)
{
	char *copy = strndup(text, len);

	if (copy)
		put_short(out, copy, KEEP_LINE);
	free(copy);
}

char *escape_copy(const char *text)
{
	char *copy = NULL;
	size_t len;
	FILE *out;

	if (escape_is_plain(text) && !strchr(text, '\\'))
		return strdup(text);
	out = open_memstream(&copy, &len);
	if (!out)
		return NULL;
	put(out, text, KEEP_NOTHING);
	if (fclose(out)) {
		free(copy);
		return NULL;
	}
	return copy;
}

/* ---- printf -------------------------------------------------------------- */

struct arguments {
	va_list list;
}; /* so that a function can take from the caller's */

struct directive {
	bool left, zero, sign, blank, form;
	int width, precision; /* precision: -1: none */
	char length;	      /* 'H' for hh, 'h', 'l', 'L' for ll, 'z', 'j', 't', or 0 */
	char conversion;
};

static int take_number(const char **at, struct arguments *a)
{
	int n = 0;

	if (**at == '*') {
		++*at;
		return va_arg(a->list, int);
	}
	while (**at >= '0' && **at <= '9' && n < 1000000)
		n = n * 10 + *(*at)++ - '0';
	return n;
}

/* What is behind the `%` at AT. */
static const char *parse(struct directive *d, const char *at, struct arguments *a)
{
	*d = (struct directive){ .precision = -1 };
	for (; *at == '-' || *at == '0' || *at == '+' || *at == ' ' || *at == '#'; at++) {
		d->left |= *at == '-';
		d->zero |= *at == '0';
		d->sign |= *at == '+';
		d->blank |= *at == ' ';
		d->form |= *at == '#';
	}
	d->width = take_number(&at, a);
	if (d->width < 0) {
		d->left = true;
		d->width = -d->width;
	}
	if (*at == '.') {
		at++;
		d->precision = take_number(&at, a);
	}
	if ((*at == 'h' || *at == 'l') && at[1] == *at) {
		d->length = *at == 'h' ? 'H' : 'L';
		at += 2;
	} else if (*at == 'h' || *at == 'l' || *at == 'z' || *at == 'j' || *at == 't') {
		d->length = *at++;
	}
	d->conversion = *at ? *at++ : '\0';
	return at;
}

static intmax_t take_signed(struct arguments *a, char length)
{
	switch (length) {
	case 'H': return (signed char)va_arg(a->list, int);
	case 'h': return (short)va_arg(a->list, int);
	case 'l': return va_arg(a->list, long);
	case 'L': return va_arg(a->list, long long);
	case 'z': return va_arg(a->list, ssize_t);
	case 'j': return va_arg(a->list, intmax_t);
	case 't': return va_arg(a->list, ptrdiff_t);
	default: return va_arg(a->list, int);
	}
}

static uintmax_t take_unsigned(struct arguments *a, char length)
{
	switch (length) {
	case 'H': return (unsigned char)va_arg(a->list, unsigned);
	case 'h': return (unsigned short)va_arg(a->list, unsigned);
	case 'l': return va_arg(a->list, unsigned long);
	case 'L': return va_arg(a->list, unsigned long long);
	case 'z': return va_arg(a->list, size_t);
	case 'j': return va_arg(a->list, uintmax_t);
	case 't': return (uintmax_t)va_arg(a->list, ptrdiff_t);
	default: return va_arg(a->list, unsigned);
	}
}

/* D for the C library, with `*.*` for the numbers; LENGTH as it shall be there. */
static void respell(char text[16], const struct directive *d, const char *length)
{
	snprintf(text, 16, "%%%s%s%s%s%s*.*%s%c", d->left ? "-" : "", d->zero ? "0" : "",
		 d->sign ? "+" : "", d->blank ? " " : "", d->form ? "#" : "", length,
		 d->conversion);
}

static void pad(FILE *out, size_t n, size_t width)
{
	for (; n < width; n++)
		putc_unlocked(' ', out);
}

/* Reports are mostly numbers: those without anything special go out directly. */
static bool is_simple(const struct directive *d)
{
	return d->precision < 0 && !d->zero && !d->sign && !d->blank;
}

static void put_decimal(FILE *out, const struct directive *d, uintmax_t value, bool negative)
{
	char text[24], *p = text + sizeof(text);
	size_t n;

	do
		*--p = (char)('0' + value % 10);
	while (value /= 10);
	if (negative)
		*--p = '-';
	n = (size_t)(text + sizeof(text) - p);
	if (!d->left)
		pad(out, n, (size_t)d->width);
	fwrite_unlocked(p, 1, n, out);
	if (d->left)
		pad(out, n, (size_t)d->width);
}

static void put_string(FILE *out, const struct directive *d, const char *text)
{
	char *copy = NULL;
	size_t columns = 0;

	if (!text)
		text = "(null)";
	if (d->precision >= 0) {
		copy = strndup(text, end_of(text, (size_t)d->precision));
		text = copy ? copy : "";
	}
	if (d->width)
		columns = escape_columns(text);
	if (!d->left)
		pad(out, columns, (size_t)d->width);
	put_short(out, text, KEEP_NOTHING);
	if (d->left)
		pad(out, columns, (size_t)d->width);
	free(copy);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_one(FILE *out, const struct directive *d, struct arguments *a)
{
	char format[16];
	uintmax_t value;
	intmax_t number;

	switch (d->conversion) {
	case 's': put_string(out, d, va_arg(a->list, const char *)); break;
	case 'd':
	case 'i':
		number = take_signed(a, d->length);
		if (is_simple(d)) {
			put_decimal(out, d, number < 0 ? -(uintmax_t)number : (uintmax_t)number,
				    number < 0);
			break;
		}
		respell(format, d, "j");
		fprintf(out, format, d->width, d->precision, number);
		break;
	case 'u':
	case 'x':
	case 'X':
	case 'o':
		value = take_unsigned(a, d->length);
		if (is_simple(d) && d->conversion == 'u') {
			put_decimal(out, d, value, false);
			break;
		}
		respell(format, d, "j");
		fprintf(out, format, d->width, d->precision, value);
		break;
	case 'c': put_string(out, d, (char[]){ (char)va_arg(a->list, int), '\0' }); break;
	case 'f':
	case 'F':
	case 'g':
	case 'e':
		respell(format, d, "");
		fprintf(out, format, d->width, d->precision, va_arg(a->list, double));
		break;
	case 'p':
		respell(format, d, "");
		fprintf(out, format, d->width, d->precision, va_arg(a->list, void *));
		break;
	default: /* `%%` */ putc_unlocked('%', out);
	}
}
#pragma GCC diagnostic pop

void escape_vprintf(FILE *out, const char *format, va_list args)
{
	struct arguments a;
	struct directive d;

	va_copy(a.list, args);
	while (*format) {
		const char *text = format;

		format = strchrnul(text, '%');
		if (format > text)
			fwrite_unlocked(text, 1, (size_t)(format - text), out);
		if (!*format)
			break;
		format = parse(&d, format + 1, &a);
		put_one(out, &d, &a);
	}
	va_end(a.list);
}

void escape_printf(FILE *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	escape_vprintf(out, format, args);
	va_end(args);
}
