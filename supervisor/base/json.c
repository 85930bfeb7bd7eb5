// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/utf8.h"

/*
 * A writer without a tree: reports may have 10^5 rows with a stack each, so nothing is kept but
 * whether a comma is due. Nesting is the caller's: what it opens it closes.
 */
void json_init(struct json *j, FILE *out)
{
	j->out = out;
	j->comma = false;
	j->shown = false;
	j->in_page = false;
}

static bool plain(unsigned char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

/* A code point that nobody shall see unescaped. Beyond U+FFFF it is a pair of surrogates. */
static void hidden(FILE *out, uint32_t c)
{
	if (c < 0x10000)
		fprintf(out, "\\u%04" PRIx32, c);
	else
		fprintf(out, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (c >> 10),
			0xdc00 + (c & 0x3ff));
}

static void quoted(FILE *out, const char *text, bool in_page)
{
	const unsigned char *s = (const unsigned char *)text, *run;

	putc_unlocked('"', out);
	while (*s) {
		uint32_t c;
		int n;

		for (run = s; plain(*s) && !(in_page && *s == '<'); s++)
			;
		if (s > run)
			fwrite_unlocked(run, 1, (size_t)(s - run), out);
		if (!*s)
			break;
		n = utf8_decode((const char *)s, &c);
		if (n == 0) {
			fputs("\\ufffd", out);
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			putc_unlocked('\\', out);
			putc_unlocked(*s, out);
		} else if (*s == '<' || escape_is_unsafe(c)) {
			hidden(out, c);
		} else {
			fwrite_unlocked(s, 1, (size_t)n, out);
		}
		s += n;
	}
	putc_unlocked('"', out);
}

static void quoted_escaped(struct json *j, const char *text)
{
	char *copy = escape_copy(text);

	quoted(j->out, copy ? copy : "", j->in_page);
	free(copy);
}

static void before(struct json *j, const char *key)
{
	if (j->comma)
		putc_unlocked(',', j->out);
	j->comma = true;
	if (key) { /* ours: nothing in it needs an escape */
		putc_unlocked('"', j->out);
		fputs_unlocked(key, j->out);
		putc_unlocked('"', j->out);
		putc_unlocked(':', j->out);
	}
}

void json_newline(struct json *j)
{
	if (j->comma)
		putc_unlocked(',', j->out);
	putc_unlocked('\n', j->out);
	j->comma = false;
}

static void begin(struct json *j, const char *key, int c)
{
	before(j, key);
	putc_unlocked(c, j->out);
	j->comma = false;
}

static void end(struct json *j, int c)
{
	putc_unlocked(c, j->out);
	j->comma = true;
}

void json_object(struct json *j, const char *key) { begin(j, key, '{'); }
void json_end_object(struct json *j) { end(j, '}'); }
void json_array(struct json *j, const char *key) { begin(j, key, '['); }
void json_end_array(struct json *j) { end(j, ']'); }

void json_string(struct json *j, const char *key, const char *value)
{
	before(j, key);
	if (!value)
		fputs_unlocked("null", j->out);
	else if (j->shown && (!escape_is_plain(value) || strchr(value, '\\')))
		quoted_escaped(j, value);
	else
		quoted(j->out, value, j->in_page);
}

/* Without printf: most of a large report is small numbers. */
static void decimal(FILE *out, uint64_t value)
{
	char text[24], *p = text + sizeof(text);

	do
		*--p = (char)('0' + value % 10);
	while (value /= 10);
	fwrite_unlocked(p, 1, (size_t)(text + sizeof(text) - p), out);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	before(j, key);
	decimal(j->out, value);
}

void json_int(struct json *j, const char *key, int64_t value)
{
	before(j, key);
	if (value < 0)
		putc_unlocked('-', j->out);
	decimal(j->out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_fixed(struct json *j, const char *key, uint64_t value, unsigned digits)
{
	uint64_t one = 1;

	for (unsigned i = 0; i < digits; i++)
		one *= 10;
	before(j, key);
	decimal(j->out, value / one);
	if (!digits)
		return;
	putc_unlocked('.', j->out);
	for (one /= 10; one; one /= 10)
		putc_unlocked((int)('0' + value / one % 10), j->out);
}

void json_bool(struct json *j, const char *key, bool value)
{
	before(j, key);
	fputs_unlocked(value ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key)
{
	before(j, key);
	fputs_unlocked("null", j->out);
}

void json_uint_known(struct json *j, const char *key, bool known, uint64_t value)
{
	if (known)
		json_uint(j, key, value);
	else
		json_null(j, key);
}

void json_nulls(struct json *j, const char *const *key, size_t count)
{
	for (size_t i = 0; i < count; i++)
		json_null(j, key[i]);
}

void json_address(struct json *j, const char *key, raddr_t value)
{
	char text[24], *p = text + sizeof(text);

	before(j, key);
	*--p = '"';
	do
		*--p = "0123456789abcdef"[value & 15];
	while (value >>= 4);
	*--p = 'x';
	*--p = '0';
	*--p = '"';
	fwrite_unlocked(p, 1, (size_t)(text + sizeof(text) - p), j->out);
}

void json_finish(struct json *j)
{
	putc_unlocked('\n', j->out);
	j->comma = false;
}
