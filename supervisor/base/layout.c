// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/search.h"
#include "base/units.h"
#include "base/utf8.h"

/*
 * layout.c - texts in the columns that a window has.
 *
 * A text is a run of units: a character that is shown as it is, or one escape. A unit is never
 * divided, so what is left of a shortened text is as safe to print as the whole. It is measured
 * first, then printed: the units that end within the first half, the ellipsis, and those that begin
 * within the last half.
 */

bool layout_unicode(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
	}
	return false;
}

const char *layout_size(const struct layout *l, struct text_buffer *b, uint64_t bytes)
{
	if (l->columns && !l->exact)
		return size_text(b, bytes);
	snprintf(b->text, sizeof(b->text), "%llu", (unsigned long long)bytes);
	return b->text;
}

const char *layout_bytes(const struct layout *l, struct text_buffer *b, uint64_t bytes)
{
	if (l->columns && !l->exact && bytes >= 1024)
		return size_text(b, bytes);
	snprintf(b->text, sizeof(b->text), "%" PRIu64 " byte%s", bytes, plural(bytes));
	return b->text;
}

const char *layout_amount(struct text_buffer *b, int64_t bytes)
{
	struct text_buffer size;

	if (bytes >= 0)
		return size_text(b, (uint64_t)bytes);
	snprintf(b->text, sizeof(b->text), "-%.30s", size_text(&size, 0 - (uint64_t)bytes));
	return b->text;
}

const char *layout_change(const struct layout *l, struct text_buffer *b, int64_t bytes)
{
	uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
	struct text_buffer amount;

	snprintf(b->text, sizeof(b->text), "%s%.30s",
		 bytes < 0 ? "-"
		 : bytes   ? "+"
			   : "",
		 layout_size(l, &amount, size));
	return b->text;
}

/* ---- units --------------------------------------------------------------- */

/* What terminals show in two columns (East Asian Width W and F), in order. */
static const struct {
	uint32_t first, last;
} wide[] = {
	{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0xa4cf },	  { 0xa960, 0xa97f },
	{ 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },	  { 0xff01, 0xff60 },
	{ 0xffe0, 0xffe6 },   { 0x16fe0, 0x18d08 }, { 0x1b000, 0x1b2fb }, { 0x1f300, 0x1f64f },
	{ 0x1f680, 0x1f6ff }, { 0x1f900, 0x1faff }, { 0x20000, 0x3fffd },
};

static bool is_wide(uint32_t c)
{
	const size_t rows = sizeof(wide) / sizeof(*wide);
	size_t at = SEARCH(i, rows, c > wide[i].last);

	return at < rows && c >= wide[at].first;
}

struct unit {
	size_t bytes, columns;
	char as[ESCAPE_UNIT]; /* empty: as it is */
};

/* SHOWN: TEXT has been escaped, its backslashes are its escapes'. */
static struct unit unit_at(const struct layout *l, const char *text, bool shown)
{
	struct unit u = { .columns = 1 };
	uint32_t c = 0;

	u.bytes = escape_unit(text, u.as);
	if (shown && *text == '\\')
		u.as[0] = '\0';
	if (!u.as[0] && u.bytes > 1)
		utf8_decode(text, &c);
	if (c && !l->unicode)
		snprintf(u.as, sizeof(u.as), c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
	else if (is_wide(c))
		u.columns = 2;
	if (u.as[0])
		u.columns = strlen(u.as);
	return u;
}

static void put_unit(FILE *out, const char *text, const struct unit *u)
{
	if (u->as[0])
		fwrite(u->as, 1, strlen(u->as), out);
	else
		fwrite(text, 1, u->bytes, out);
}

static size_t width_of(const struct layout *l, const char *text, bool shown)
{
	size_t columns = 0;

	while (*text) {
		struct unit u = unit_at(l, text, shown);

		columns += u.columns;
		text += u.bytes;
	}
	return columns;
}

size_t layout_width(const struct layout *l, const char *text) { return width_of(l, text, false); }

size_t layout_shown_width(const struct layout *l, const char *text)
{
	return width_of(l, text, true);
}

/* The units of TEXT that are within columns [FROM, TO). Returns how many columns they take. */
static size_t put_part(const struct layout *l, FILE *out, const char *text, bool shown, size_t from,
		       size_t to)
{
	size_t at = 0, done = 0;

	while (*text && at < to) {
		struct unit u = unit_at(l, text, shown);

		if (at >= from && at + u.columns <= to) {
			put_unit(out, text, &u);
			done += u.columns;
		}
		at += u.columns;
		text += u.bytes;
	}
	return done;
}

static size_t put_ellipsis(const struct layout *l, FILE *out)
{
	fputs(l->unicode ? "\342\200\246" : "...", out);
	return l->unicode ? 1 : 3;
}

/* HEAD: how many of the WIDTH columns are the text's beginning, when not all of it fits. */
static size_t put_within(const struct layout *l, FILE *out, const char *text, bool shown,
			 size_t width, size_t head)
{
	size_t columns = width_of(l, text, shown), dots = l->unicode ? 1 : 3, done;

	if (columns <= width)
		return put_part(l, out, text, shown, 0, columns);
	if (width <= dots)
		return put_part(l, out, text, shown, 0, width);
	head = head < width - dots ? head : width - dots;
	done = put_part(l, out, text, shown, 0, head);
	done += put_ellipsis(l, out);
	return done + put_part(l, out, text, shown, columns - (width - dots - head), columns);
}

size_t layout_put(const struct layout *l, FILE *out, const char *text, size_t width)
{
	return put_within(l, out, text, false, width, width / 2);
}

size_t layout_put_begin(const struct layout *l, FILE *out, const char *text, size_t width)
{
	return put_within(l, out, text, false, width, width);
}

size_t layout_put_source(const struct layout *l, FILE *out, const char *text, size_t width)
{
	return put_within(l, out, text, true, width, width);
}

size_t layout_put_shown(const struct layout *l, FILE *out, const char *text, size_t width)
{
	return put_within(l, out, text, true, width, width / 2);
}

size_t layout_put_path(const struct layout *l, FILE *out, const char *path, size_t width)
{
	size_t dots = l->unicode ? 1 : 3;
	const char *rest = path;

	if (layout_width(l, path) <= width)
		return layout_put(l, out, path, width);
	while ((rest = strchr(rest + 1, '/')))
		if (dots + layout_width(l, rest) <= width) {
			put_ellipsis(l, out);
			return dots + layout_put(l, out, rest, width);
		}
	rest = strrchr(path, '/');
	return layout_put(l, out, rest && rest[1] ? rest + 1 : path, width);
}

void layout_blanks(FILE *out, size_t n) { escape_printf(out, "%*s", (int)n, ""); }
