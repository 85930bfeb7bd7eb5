// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "export/export.h"

/*
 * The rows of `report --by site` for spreadsheets, as RFC 4180 has it: what needs it is in quotes,
 * lines end in CR LF. Spreadsheets compute a cell that begins as a formula does, also with what a
 * name makes them fetch or run; an apostrophe in front keeps it a text.
 */
static void put_text(FILE *out, const char *text)
{
	bool quotes = text && strpbrk(text, ",\"");
	char as[ESCAPE_UNIT];

	if (quotes)
		putc('"', out);
	if (text && *text && strchr("=+-@", *text))
		putc('\'', out);
	for (size_t len; text && *text; text += len) {
		len = escape_unit(text, as);
		if (*text == '"')
			putc('"', out);
		fwrite(*as ? as : text, 1, *as ? strlen(as) : len, out);
	}
	if (quotes)
		putc('"', out);
}

static void put_row(FILE *out, const struct view_row *r)
{
	fprintf(out, "%" PRId64 ",%" PRId64 ",", r->size, r->count);
	put_text(out, r->frame.function);
	putc(',', out);
	put_text(out, r->frame.file);
	putc(',', out);
	if (r->frame.line)
		fprintf(out, "%u", r->frame.line);
	putc(',', out);
	put_text(out, r->frame.module);
	fputs("\r\n", out);
}

int export_csv(FILE *out, const struct export *e)
{
	struct view_options by_site = { .key = VIEW_SITE, .sort = SORT_SIZE, .limit = VIEW_ALL };
	struct profile p;
	struct view v;
	int err = export_profile(e, &p);

	if (err)
		return err;
	err = view_make(&v, &p, e->sites, &by_site);
	profile_release(&p);
	if (err)
		return err;
	fputs(e->total ? "total_size,total_count" : "size,count", out);
	fputs(",function,file,line,module\r\n", out);
	for (size_t i = 0; i < v.count && !ferror(out); i++)
		put_row(out, &v.row[i]);
	view_release(&v);
	return 0;
}
