// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/escape.h"
#include "base/units.h"
#include "report/common_block.h"
#include "report/function_name.h"
#include "report/grid.h"

/*
 * print.c - reports and differences: rows of a view, as lists, with stacks, and as JSON.
 *
 * Lists are laid out in two passes: the widest cell of each column first, then the rows, so that
 * columns line up whatever the paths are. Nothing is shortened but what is absurdly long
 * (escape.h): a row that is grepped or cut by a script must say all. A terminal gets tables of its
 * own, which fit it (grid.h). Nobody wants the rest of what cannot be written: a pipe that was
 * closed, a command that was interrupted.
 */

/* ---- shared ------------------------------------------------------------- */

const char *print_percent(char *text, size_t len, int64_t v, int64_t total)
{
	snprintf(text, len, "%.1f%%", total ? 100.0 * (double)v / (double)total : 0);
	return text;
}

const char *print_place(const struct symbol_frame *f)
{
	return f->file ? f->file : f->module ? f->module : "??";
}

void print_before_json(struct json *j, const char *key, const struct preattach_heap *b,
		       uint64_t value)
{
	json_uint_known(j, key, b->state == PREATTACH_KNOWN, value);
}

/* ---- lists --------------------------------------------------------------- */

#define CELLS 10
/* characters: one absurd name does not fill all other lines with blanks */
#define WIDEST 256
struct line {
	size_t count;
	const char *cell[CELLS]; /* the last one is not padded */
	char text[CELLS][48];
};

static void cell(struct line *l, const char *text) { l->cell[l->count++] = text; }

static void PRINTF(2, 3) cellf(struct line *l, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(l->text[l->count], sizeof(l->text[0]), format, args);
	va_end(args);
	l->cell[l->count] = l->text[l->count];
	l->count++;
}

/* Before what a row holds: where none of its blocks stands for others, that is known exactly. */
static const char *row_about(const struct view *v, const struct view_row *r)
{
	return print_about(v->estimated && !(v->has_error && r->count && !(r->variance > 0)));
}

static void numbers(struct line *l, const struct view *v, const struct view_row *r, bool totals)
{
	const char *about = row_about(v, r);

	cellf(l, "size:%s%" PRId64, about, r->size);
	if (v->has_usable)
		cellf(l, "usable:%s%" PRId64, about, r->usable);
	else if (v->usable_unknown)
		cell(l, "usable:unknown");
	cellf(l, "count:%s%" PRId64, about, r->count);
	if (totals) {
		about = print_about(v->estimated);
		cellf(l, "total_size:%s%" PRIu64, about, r->total_size);
		cellf(l, "total_count:%s%" PRIu64, about, r->total_count);
		cellf(l, "temporary:%s%" PRIu64, about, r->temporary);
	}
}

static void row_line(struct line *l, const struct view *v, const struct view_row *r, bool totals)
{
	const struct symbol_frame *f = &r->frame;
	bool others = r->merged > 0;

	l->count = 0;
	switch (v->key) {
	case VIEW_SITE:
	case VIEW_STACK:
		cell(l, others ? "(others)" : print_place(f));
		cellf(l, "line:%u", f->line);
		break;
	case VIEW_FUNCTION:
	case VIEW_MODULE: cell(l, others ? "(others)" : f->module ? f->module : "??"); break;
	case VIEW_FILE: cell(l, others ? "(others)" : f->file && *f->file ? f->file : "??"); break;
	case VIEW_THREAD:
		if (others)
			cell(l, "(others)");
		else
			cellf(l, "thread:%" PRIu32, r->thread);
		break;
	default:
		if (others)
			cell(l, "(others)");
		else
			cellf(l, "bytes:%" PRIu64, r->block);
	}
	numbers(l, v, r, totals && v->has_totals);
	if (v->key == VIEW_STACK) {
		if (others)
			cell(l, "");
		else
			cellf(l, "stack:%" PRIu32, r->stack);
	}
	if (others)
		cellf(l, "(%zu more)", r->merged);
	else if (v->key == VIEW_SITE || v->key == VIEW_STACK || v->key == VIEW_FUNCTION)
		cell(l, f->function ? f->function : "??");
}

static void widen(size_t *width, const struct line *l)
{
	for (size_t i = 0; i + 1 < l->count; i++) {
		size_t columns = escape_columns(l->cell[i]);

		if (columns > width[i])
			width[i] = columns < WIDEST ? columns : WIDEST;
	}
}

static void put_line(FILE *out, const size_t *width, const struct line *l)
{
	for (size_t i = 0; i + 1 < l->count; i++)
		escape_printf(out, "%-*s  ", (int)width[i], l->cell[i]);
	escape_printf(out, "%s\n", l->cell[l->count - 1]);
}

static void print_total(FILE *out, const struct view *v)
{
	escape_printf(out, "total_size: %s%" PRId64 "\n", print_about(v->estimated), v->total_size);
	if (v->has_usable)
		escape_printf(out, "total_usable: %s%" PRId64 "\n", print_about(v->estimated),
			      v->total_usable);
	else if (v->usable_unknown)
		escape_printf(out, "total_usable: unknown: %s\n", v->usable_unknown);
}

/* What has no stack and no place among the rows, as one line. */
static void print_before(FILE *out, const struct preattach_heap *b)
{
	if (!b)
		return;
	if (b->state == PREATTACH_KNOWN)
		fprintf(out,
			PREATTACH_NAME "  size:%" PRIu64 "  count:%" PRIu64
				       "  (when recording began; not in total_size)\n",
			b->bytes, b->blocks);
	else
		escape_printf(out, PREATTACH_NAME "  size:unknown  (%s)\n", b->why);
}

/* ---- lists on a terminal ------------------------------------------------- */

struct screen_list {
	struct grid grid;
	const struct view *v;
	struct sites *sites;
	const struct layout *l;
	const char *about;
	bool totals;
};

/* The columns that say what a row is about. */
static void key_columns(struct grid *g, enum view_key key)
{
	switch (key) {
	case VIEW_SITE:
	case VIEW_STACK:
		grid_column(g, "FUNCTION", GRID_FUNCTION);
		grid_column(g, "WHERE", GRID_PATH);
		break;
	case VIEW_FUNCTION:
		grid_column(g, "FUNCTION", GRID_FUNCTION);
		grid_column(g, "MODULE", GRID_PATH);
		break;
	case VIEW_FILE: grid_column(g, "FILE", GRID_PATH); break;
	case VIEW_MODULE: grid_column(g, "MODULE", GRID_PATH); break;
	case VIEW_THREAD:
		grid_column(g, "THREAD", GRID_TEXT);
		grid_column(g, "NAME", GRID_NAME);
		break;
	default: grid_column(g, "BLOCKS OF", GRID_TEXT);
	}
}

static void place_cell(struct grid *g, const struct symbol_frame *f)
{
	if (f->file && f->line)
		grid_cellf(g, "%s:%u", f->file, f->line);
	else
		grid_cell(g, print_place(f));
}

static void key_cells(struct screen_list *s, const struct view_row *r)
{
	const struct symbol_frame *f = &r->frame;
	struct grid *g = &s->grid;
	struct text_buffer size;
	char name[COMMON_NAME];

	if (r->merged)
		grid_cellf(g, "(others: %zu)", r->merged);
	switch (s->v->key) {
	case VIEW_SITE:
	case VIEW_STACK:
		/* what its largest stack is for says nothing of a row that has much else */
		if (!r->merged)
			grid_cell(g, common_name(s->sites,
						 r->stack_size > r->size / 10 * 9 ? r->stack : 0, f,
						 name));
		if (r->merged)
			grid_cell(g, "");
		else
			place_cell(g, f);
		break;
	case VIEW_FUNCTION:
		if (!r->merged)
			grid_cell(g, f->function ? f->function : "??");
		grid_cell(g, r->merged ? "" : f->module ? f->module : "??");
		break;
	case VIEW_FILE:
		if (!r->merged)
			grid_cell(g, f->file && *f->file ? f->file : "??");
		break;
	case VIEW_MODULE:
		if (!r->merged)
			grid_cell(g, f->module ? f->module : "??");
		break;
	case VIEW_THREAD:
		if (!r->merged)
			grid_cellf(g, "%" PRIu32, r->thread);
		grid_cell(g,
			  r->merged || !s->v->thread_name ? "" : s->v->thread_name[r - s->v->row]);
		break;
	default:
		if (!r->merged)
			grid_cell(g, layout_size(s->l, &size, r->block));
	}
}

static void size_cell(struct screen_list *s, int64_t bytes)
{
	struct text_buffer size;

	grid_cellf(&s->grid, "%s%s%s", bytes < 0 ? "-" : "", s->about,
		   layout_size(s->l, &size, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes));
}

static void change_cell(struct screen_list *s, int64_t bytes)
{
	struct text_buffer size;

	grid_cellf(&s->grid, "%s%s", s->about, layout_change(s->l, &size, bytes));
}

/* Of what has shrunk in all, growth still has a positive share. */
static void share_cell(struct screen_list *s, int64_t bytes)
{
	int64_t total = s->v->total_size;
	char part[24];

	if (total < 0)
		total = -total;
	grid_cell(&s->grid, total ? print_percent(part, sizeof(part), bytes, total) : "-");
}

/* In percent of the size; what is exact has none. */
static void error_cell(struct screen_list *s, const struct view_row *r)
{
	double part = r->size > 0 ? (double)view_error(r->variance) / (double)r->size : 0;

	if (r->variance > 0)
		grid_cellf(&s->grid, "%.0f%%", part * 100);
	else
		grid_cell(&s->grid, "-");
}

static void list_cells(struct screen_list *s, const struct view_row *r)
{
	struct grid *g = &s->grid;
	const char *about = s->about;

	key_cells(s, r);
	s->about = row_about(s->v, r);
	size_cell(s, r->size);
	if (s->v->has_error)
		error_cell(s, r);
	share_cell(s, r->size);
	if (s->v->has_usable)
		size_cell(s, r->usable);
	grid_cellf(g, "%s%" PRId64, s->about, r->count);
	s->about = about;
	if (s->totals) {
		size_cell(s, (int64_t)r->total_size);
		grid_cellf(g, "%s%" PRIu64, s->about, r->total_count);
		grid_cellf(g, "%s%" PRIu64, s->about, r->temporary);
	}
	if (s->v->key == VIEW_STACK) {
		if (r->merged)
			grid_cell(g, "");
		else
			grid_cellf(g, "%" PRIu32, r->stack);
	}
}

void print_before_line(FILE *out, const struct layout *l, const struct preattach_heap *b)
{
	struct text_buffer size;

	if (b && b->state == PREATTACH_KNOWN)
		escape_printf(out,
			      PREATTACH_NAME "  %s in %" PRIu64
					     " block%s when recording began; not in the total\n",
			      layout_size(l, &size, b->bytes), b->blocks, plural(b->blocks));
	else if (b)
		escape_printf(out, PREATTACH_NAME "  unknown: %s\n", b->why);
}

static void screen_total(FILE *out, const struct view *v, const struct layout *l)
{
	const char *about = print_about(v->estimated);
	struct text_buffer size;

	escape_printf(out, "total %s%s in %s%" PRId64 " block%s", about,
		      v->is_difference ? layout_change(l, &size, v->total_size)
				       : layout_size(l, &size, (uint64_t)v->total_size),
		      about, v->total_count, plural((uint64_t)v->total_count));
	if (v->has_usable)
		escape_printf(out, ", %s%s usable", about,
			      layout_size(l, &size, (uint64_t)v->total_usable));
	putc('\n', out);
	if (!v->has_usable && v->usable_unknown)
		escape_printf(out, "what is usable is unknown: %s\n", v->usable_unknown);
}

static void shrunk_line(FILE *out, const struct view *v)
{
	if (v->shrunk && !v->reversed)
		escape_printf(out, "nothing has grown: what shrank most comes first\n");
}

static void screen_report(FILE *out, const struct view *v, struct sites *sites, bool totals,
			  const struct layout *l)
{
	struct screen_list s = {
		.v = v, .sites = sites, .l = l, .about = print_about(v->estimated), .totals = totals
	};
	struct grid *g = &s.grid;

	screen_total(out, v, l);
	shrunk_line(out, v);
	grid_init(g, l);
	key_columns(g, v->key);
	grid_column(g, v->is_difference ? "GROWTH" : "SIZE", GRID_NUMBER);
	if (v->has_error)
		grid_column(g, "ERROR", GRID_NUMBER);
	grid_column(g, "SHARE", GRID_NUMBER);
	if (v->has_usable)
		grid_column(g, "USABLE", GRID_NUMBER);
	grid_column(g, "COUNT", GRID_NUMBER);
	if (totals) {
		grid_column(g, "TOTAL", GRID_NUMBER);
		grid_column(g, "ALLOCS", GRID_NUMBER);
		grid_column(g, "TEMP", GRID_NUMBER);
	}
	if (v->key == VIEW_STACK)
		grid_column(g, "STACK", GRID_NUMBER);
	for (size_t i = 0; i < v->count; i++)
		list_cells(&s, &v->row[i]);
	if (v->others.merged)
		list_cells(&s, &v->others);
	grid_print(g, out);
	grid_release(g);
	print_before_line(out, l, v->before);
}

void print_report(FILE *out, const struct view *v, struct sites *sites, bool totals,
		  const struct layout *screen)
{
	size_t width[CELLS] = { 0 };
	struct line l;

	if (layout_on_screen(screen)) {
		screen_report(out, v, sites, totals && v->has_totals, screen);
		return;
	}
	print_total(out, v);
	for (size_t i = 0; i < v->count && !ferror(out); i++) {
		row_line(&l, v, &v->row[i], totals);
		widen(width, &l);
	}
	if (v->others.merged) {
		row_line(&l, v, &v->others, totals);
		widen(width, &l);
	}
	for (size_t i = 0; i < v->count && !ferror(out); i++) {
		row_line(&l, v, &v->row[i], totals);
		put_line(out, width, &l);
	}
	if (v->others.merged) {
		row_line(&l, v, &v->others, totals);
		put_line(out, width, &l);
	}
	print_before(out, v->before);
}

/* ---- stacks -------------------------------------------------------------- */

static void stack_usable(FILE *out, const struct view *v, const struct view_row *r)
{
	if (v->has_usable)
		escape_printf(out, ", usable %s%" PRId64, row_about(v, r), r->usable);
	putc('\n', out);
}

static void stacks_head(FILE *out, const struct view *v, const struct view_row *r, const char *name,
			const struct layout *l)
{
	const char *about = row_about(v, r);
	struct text_buffer size;
	char part[24];

	if (!layout_on_screen(l)) {
		escape_printf(out, "# %s: %s%" PRId64 " bytes", name, about, r->size);
		stack_usable(out, v, r);
		return;
	}
	escape_printf(out, "# %s: %s%s%s, %s", name, r->size < 0 ? "-" : "", about,
		      layout_size(l, &size, r->size < 0 ? -(uint64_t)r->size : (uint64_t)r->size),
		      print_percent(part, sizeof(part), r->size, v->total_size));
	if (v->has_usable)
		escape_printf(out, ", usable %s%s", about,
			      layout_size(l, &size, (uint64_t)r->usable));
	putc('\n', out);
}

void print_report_stacks(FILE *out, const struct view *v, struct sites *sites,
			 const struct layout *l)
{
	char name[24];

	if (layout_on_screen(l)) {
		screen_total(out, v, l);
		print_before_line(out, l, v->before);
	} else {
		print_total(out, v);
		print_before(out, v->before);
	}
	putc('\n', out);
	if (v->others.merged) {
		stacks_head(out, v, &v->others, "(others)", l);
		escape_printf(out, "      %s%" PRId64 " block%s from %zu more\n\n",
			      row_about(v, &v->others), v->others.count,
			      plural((uint64_t)v->others.count), v->others.merged);
	}
	for (size_t i = v->count; i-- > 0 && !ferror(out);) {
		const struct view_row *r = &v->row[i];
		size_t rank = v->reversed ? v->count - 1 - i : i;

		snprintf(name, sizeof(name), "%zu", rank);
		stacks_head(out, v, r, name, l);
		escape_printf(out, "      %s%" PRId64 " block%s, stack %" PRIu32 "\n",
			      row_about(v, r), r->count, plural((uint64_t)r->count), r->stack);
		print_stack(out, sites, r->stack, l);
		if (i)
			putc('\n', out);
	}
}

/* ---- differences --------------------------------------------------------- */

static void difference_amounts(FILE *out, const struct view *v, const struct view_row *r)
{
	const char *about = print_about(v->estimated);

	escape_printf(out, "%c %s%" PRIu64 " (%s%" PRId64 " - %s%" PRId64 ") %s%" PRId64 " allocs",
		      r->size < 0 ? '-' : '+', about,
		      r->size < 0 ? -(uint64_t)r->size : (uint64_t)r->size, about,
		      r->before + r->size, about, r->before, about, r->count_before + r->count);
}

static void difference_place(FILE *out, const struct view *v, const struct view_row *r)
{
	const struct symbol_frame *f = &r->frame;

	if (v->key == VIEW_FILE || v->key == VIEW_MODULE) {
		escape_printf(out, "%s", print_place(f));
		return;
	}
	escape_printf(out, "%s", f->function ? f->function : "??");
	if (v->key == VIEW_FUNCTION)
		return;
	if (f->file)
		escape_printf(out, "  %s:%u", f->file, f->line);
	else if (f->module)
		escape_printf(out, "  in %s", f->module);
}

static void difference_cells(struct screen_list *s, const struct view_row *r)
{
	key_cells(s, r);
	change_cell(s, r->size);
	share_cell(s, r->size);
	size_cell(s, r->before + r->size);
	size_cell(s, r->before);
	grid_cellf(&s->grid, "%s%" PRId64, s->about, r->count_before + r->count);
	if (s->v->key == VIEW_STACK && r->merged)
		grid_cell(&s->grid, "");
	else if (s->v->key == VIEW_STACK)
		grid_cellf(&s->grid, "%" PRIu32, r->stack);
}

/* ROW, or all of V. */
static void screen_difference(FILE *out, const struct view *v, struct sites *sites,
			      const struct view_row *row, const struct layout *l)
{
	static const char *const amounts[] = { "GROWTH", "SHARE", "NOW", "BEFORE", "COUNT" };
	struct screen_list s = {
		.v = v, .sites = sites, .l = l, .about = print_about(v->estimated)
	};

	grid_init(&s.grid, l);
	key_columns(&s.grid, v->key);
	for (size_t i = 0; i < sizeof(amounts) / sizeof(*amounts); i++)
		grid_column(&s.grid, amounts[i], GRID_NUMBER);
	if (v->key == VIEW_STACK)
		grid_column(&s.grid, "STACK", GRID_NUMBER);
	for (size_t i = 0; i < v->count && !row; i++)
		difference_cells(&s, &v->row[i]);
	if (row)
		difference_cells(&s, row);
	else if (v->others.merged)
		difference_cells(&s, &v->others);
	grid_print(&s.grid, out);
	grid_release(&s.grid);
}

static void screen_differences(FILE *out, const struct view *v, struct sites *sites, bool stacks,
			       const struct layout *l)
{
	screen_total(out, v, l);
	shrunk_line(out, v);
	if (!stacks) {
		screen_difference(out, v, sites, NULL, l);
		return;
	}
	for (size_t i = 0; i < v->count && !ferror(out); i++) {
		putc('\n', out);
		screen_difference(out, v, sites, &v->row[i], l);
		print_stack(out, sites, v->row[i].stack, l);
	}
	if (v->others.merged) {
		putc('\n', out);
		screen_difference(out, v, sites, &v->others, l);
	}
}

void print_difference(FILE *out, const struct view *v, struct sites *sites, bool stacks,
		      const struct layout *l)
{
	if (layout_on_screen(l)) {
		screen_differences(out, v, sites, stacks, l);
		return;
	}
	escape_printf(out, "total_size: %s%" PRId64 "\n", print_about(v->estimated), v->total_size);
	for (size_t i = 0; i < v->count && !ferror(out); i++) {
		const struct view_row *r = &v->row[i];

		difference_amounts(out, v, r);
		if (v->key == VIEW_STACK)
			fprintf(out, " STACK#%" PRIu32 "\n", r->stack);
		if (v->key != VIEW_STACK || !stacks) {
			fputs(v->key == VIEW_STACK ? "      " : "  ", out);
			difference_place(out, v, r);
			putc('\n', out);
		}
		if (stacks)
			print_stack(out, sites, r->stack, NULL);
	}
	if (v->others.merged) {
		difference_amounts(out, v, &v->others);
		fprintf(out, "  (others)  (%zu more)\n", v->others.merged);
	}
	escape_printf(out, "Total increase == %s%" PRId64 "\n", print_about(v->estimated),
		      v->total_size);
}

/* ---- JSON ---------------------------------------------------------------- */

/* Nothing if it was not asked for. */
static void usable_json(struct json *j, const struct view *v, const char *key, int64_t value)
{
	if (v->has_usable)
		json_int(j, key, value);
	else if (v->usable_unknown)
		json_null(j, key);
}

static void row_json(struct json *j, const struct view *v, const struct view_row *r,
		     struct sites *sites, bool stacks)
{
	static const struct symbol_frame others = { .function = "(others)" };
	const struct symbol_frame *f = r->merged ? &others : &r->frame;

	json_newline(j);
	json_object(j, NULL);
	json_int(j, "size", r->size);
	if (v->has_error)
		json_uint(j, "error", view_error(r->variance));
	json_int(j, "count", r->count);
	usable_json(j, v, "usable", r->usable);
	/* live blocks do not tell what there was before them */
	json_uint_known(j, "total_size", v->has_totals, r->total_size);
	json_uint_known(j, "total_count", v->has_totals, r->total_count);
	json_uint_known(j, "temporary", v->has_totals, r->temporary);
	print_frame_json(j, f);
	json_string(j, "module", f->module);
	if (r->merged || v->key == VIEW_THREAD || v->key == VIEW_SIZE)
		json_null(j, "stack_id");
	else
		json_uint(j, "stack_id", r->stack);
	if (v->key == VIEW_THREAD && !r->merged)
		json_uint(j, "thread", r->thread);
	if (v->key == VIEW_SIZE && !r->merged)
		json_uint(j, "block_size", r->block);
	if (r->merged)
		json_uint(j, "rows", r->merged);
	if (stacks && r->merged) {
		json_array(j, "stack");
		json_end_array(j);
	} else if (stacks) {
		print_stack_json(j, "stack", sites, r->stack);
	}
	json_end_object(j);
}

/* As a row, with the keys that a row has. */
static void before_row(struct json *j, const struct view *v, bool stacks)
{
	const struct preattach_heap *b = v->before;
	static const char *const unknown[] = { "total_size", "total_count", "temporary", "file",
					       "line",	     "module",	    "stack_id" };

	json_newline(j);
	json_object(j, NULL);
	print_before_json(j, "size", b, b->bytes);
	print_before_json(j, "count", b, b->blocks);
	if (v->has_usable || v->usable_unknown)
		json_null(j, "usable");
	json_string(j, "function", PREATTACH_NAME);
	json_nulls(j, unknown, sizeof(unknown) / sizeof(*unknown));
	json_bool(j, "outside_total", true);
	if (stacks) {
		json_array(j, "stack");
		json_end_array(j);
	}
	json_end_object(j);
}

void print_view_json(struct json *j, const char *key, const struct view *v, struct sites *sites,
		     bool stacks)
{
	json_object(j, key);
	json_uint(j, "time_ms", v->ms);
	if (v->off_ms)
		json_uint(j, "off_since_ms", *v->off_ms);
	if (v->is_difference)
		json_uint(j, "since_ms", v->since_ms);
	json_int(j, "total_size", v->total_size);
	if (v->has_error)
		json_uint(j, "total_error", view_error(v->variance));
	json_int(j, "total_count", v->total_count);
	usable_json(j, v, "total_usable", v->total_usable);
	if (v->usable_unknown)
		json_string(j, "usable_unknown", v->usable_unknown);
	json_array(j, "mem_report");
	for (size_t i = 0; i < v->count && !ferror(j->out); i++)
		row_json(j, v, &v->row[i], sites, stacks);
	if (v->others.merged)
		row_json(j, v, &v->others, sites, stacks);
	if (v->before)
		before_row(j, v, stacks);
	json_end_array(j);
	json_end_object(j);
}

void print_report_json(FILE *out, const struct view *v, struct sites *sites, bool stacks)
{
	struct json j;

	json_init(&j, out);
	print_view_json(&j, NULL, v, sites, stacks);
	json_finish(&j);
}

/* "FILE    line:N    size:BYTES" */
static void gs_row(struct json *j, const struct symbol_frame *f, const size_t *width, int64_t size)
{
	const char *place = print_place(f);
	size_t columns = escape_columns(place), pad = columns < width[0] ? width[0] - columns : 0;
	char line[24], *text = NULL;

	snprintf(line, sizeof(line), "line:%u", f->line);
	if (asprintf(&text, "%s%*s  %-*s  size:%" PRId64, place, (int)pad, "", (int)width[1], line,
		     size) < 0)
		return;
	json_newline(j);
	json_string(j, NULL, text);
	free(text);
}

void print_report_gs(FILE *out, const struct view *v)
{
	size_t width[2] = { 0 };
	struct json j;

	for (size_t i = 0; i < v->count; i++) {
		size_t place = escape_columns(print_place(&v->row[i].frame));
		int line = snprintf(NULL, 0, "line:%u", v->row[i].frame.line);

		place = place < WIDEST ? place : WIDEST;
		width[0] = place > width[0] ? place : width[0];
		width[1] = (size_t)line > width[1] ? (size_t)line : width[1];
	}
	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "total_size", v->total_size);
	json_array(&j, "mem_report");
	for (size_t i = 0; i < v->count && !ferror(out); i++)
		gs_row(&j, &v->row[i].frame, width, v->row[i].size);
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}
