// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "report/function_name.h"

/* print_table.c - the table of functions, as jeprof's `top` has it. */

static const char *amount(char *text, size_t len, const struct table *t, int64_t v, bool bytes,
			  const struct layout *l)
{
	struct text_buffer size;

	if (bytes)
		snprintf(text, len, "%s%" PRId64, print_about(t->estimated), v);
	else if (layout_on_screen(l))
		snprintf(text, len, "%s%s", print_about(t->estimated), layout_amount(&size, v));
	else
		snprintf(text, len, "%s%.1f", print_about(t->estimated), (double)v / 1048576);
	return text;
}

#define TABLE_NUMBERS 39u /* columns before a name, usually */
#define TABLE_BELOW   4u  /* before one that stands below its numbers */

static size_t name_width(const struct layout *l, size_t used)
{
	return l->columns > used + 10 ? l->columns - 1 - used : 9;
}

/* How NAME looks behind the numbers; to be freed. NULL: out of memory. */
static char *name_shown(const struct layout *l, const char *name)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	function_put(l, f, name, name_width(l, TABLE_NUMBERS));
	fclose(f);
	return text;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of T as they look in its column, sorted; out of memory, without the last. */
struct looks {
	char **name;
	size_t count;
};

static void looks_make(struct looks *s, const struct table *t, const struct layout *l)
{
	*s = (struct looks){ .name = layout_on_screen(l) ? calloc(t->count + 1, sizeof(char *))
							 : NULL };
	while (s->name && s->count < t->count) {
		s->name[s->count] = name_shown(l, t->row[s->count].function);
		if (!s->name[s->count])
			break;
		s->count++;
	}
	if (s->count)
		qsort(s->name, s->count, sizeof(*s->name), by_text);
}

static void looks_release(struct looks *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->name[i]);
	free(s->name);
}

/* Whether another function's name looks as that of NAME does. */
static bool looks_like_another(const struct looks *s, const struct layout *l, const char *name)
{
	char *text = name_shown(l, name), **found;
	size_t i;
	bool same;

	found = text && s->count ? bsearch(&text, s->name, s->count, sizeof(*s->name), by_text)
				 : NULL;
	i = found ? (size_t)(found - s->name) : 0;
	same = found && ((i && !strcmp(s->name[i - 1], text)) ||
			 (i + 1 < s->count && !strcmp(s->name[i + 1], text)));
	free(text);
	return same;
}

/*
 * The name is the last column: on a terminal it gets what is left. If it looked like another one
 * then, as instances of one template do, it stands below, where there is more room.
 */
static void table_name(FILE *out, const struct looks *s, const struct layout *l, size_t used,
		       const char *name)
{
	if (!layout_on_screen(l)) {
		putc(' ', out);
		escape_put(out, name);
	} else if (looks_like_another(s, l, name)) {
		putc('\n', out);
		layout_blanks(out, TABLE_BELOW);
		function_put_arguments(l, out, name, name_width(l, TABLE_BELOW));
	} else {
		putc(' ', out);
		function_put(l, out, name, name_width(l, used));
	}
	putc('\n', out);
}

static void table_line(FILE *out, const struct table *t, const struct table_row *r, int64_t sum,
		       bool bytes, const struct looks *s, const struct layout *l)
{
	char flat[32], flat_part[16], sum_part[16], cum[32], cum_part[16], numbers[160];
	int used = snprintf(numbers, sizeof(numbers), "%8s %6s %6s %8s %6s",
			    amount(flat, sizeof(flat), t, r->flat, bytes, l),
			    print_percent(flat_part, sizeof(flat_part), r->flat, t->total),
			    print_percent(sum_part, sizeof(sum_part), sum, t->total),
			    amount(cum, sizeof(cum), t, r->cum, bytes, l),
			    print_percent(cum_part, sizeof(cum_part), r->cum, t->total));

	escape_printf(out, "%s", numbers);
	table_name(out, s, l, (size_t)used + 1, r->function);
}

void print_table(FILE *out, const struct table *t, bool bytes, const struct layout *l)
{
	const char *unit = bytes ? " B" : layout_on_screen(l) ? "" : " MB";
	struct looks looks;
	char total[32];
	int64_t sum = 0;

	looks_make(&looks, t, l);
	escape_printf(out, "Total: %s%s\n", amount(total, sizeof(total), t, t->total, bytes, l),
		      unit);
	if (layout_on_screen(l))
		escape_printf(out, "%8s %6s %6s %8s %6s %s\n", "FLAT", "FLAT%", "SUM%", "CUM",
			      "CUM%", "FUNCTION");
	for (size_t i = 0; i < t->count && !ferror(out); i++) {
		sum += t->row[i].flat;
		table_line(out, t, &t->row[i], sum, bytes, &looks, l);
	}
	if (t->others.function)
		table_line(out, t, &t->others, sum + t->others.flat, bytes, &looks, l);
	looks_release(&looks);
	if (!t->before)
		return;
	snprintf(total, sizeof(total), "unknown");
	if (t->before->state == PREATTACH_KNOWN)
		amount(total, sizeof(total), &(struct table){ 0 }, (int64_t)t->before->bytes, bytes,
		       l);
	escape_printf(out, "%8s %6s %6s %8s %6s %s\n", total, "-", "-", total, "-", PREATTACH_NAME);
}

static void table_row_json(struct json *j, const struct table_row *r)
{
	json_newline(j);
	json_object(j, NULL);
	json_int(j, "flat", r->flat);
	json_int(j, "cum", r->cum);
	json_string(j, "function", r->function);
	json_end_object(j);
}

void print_table_json(FILE *out, const struct table *t)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "total", t->total);
	json_array(&j, "rows");
	for (size_t i = 0; i < t->count && !ferror(out); i++)
		table_row_json(&j, &t->row[i]);
	if (t->others.function)
		table_row_json(&j, &t->others);
	if (t->before) {
		json_newline(&j);
		json_object(&j, NULL);
		print_before_json(&j, "flat", t->before, t->before->bytes);
		print_before_json(&j, "cum", t->before, t->before->bytes);
		json_string(&j, "function", PREATTACH_NAME);
		json_bool(&j, "outside_total", true);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}
