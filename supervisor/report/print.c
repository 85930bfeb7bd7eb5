// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/units.h"
#include "report/common_block.h"
#include "report/function_name.h"
#include "report/grid.h"

/*
 * Lists are laid out in two passes: the widest cell of each column first, then the rows, so that
 * columns line up whatever the paths are. Nothing is shortened but what is absurdly long
 * (escape.h): a row that is grepped or cut by a script must say all. A terminal gets tables of its
 * own, which fit it (grid.h). Nobody wants the rest of what
 * cannot be written: a pipe that was closed, a command that was interrupted.
 */

static bool on_screen(const struct layout *l) { return l && l->columns; }

static const char *percent(char *text, size_t len, int64_t v, int64_t total)
{
	snprintf(text, len, "%.1f%%", total ? 100.0 * (double)v / (double)total : 0);
	return text;
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

static const char *place_of(const struct symbol_frame *f)
{
	return f->file ? f->file : f->module ? f->module : "??";
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
		cell(l, others ? "(others)" : place_of(f));
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
		grid_cell(g, place_of(f));
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
	grid_cell(&s->grid, total ? percent(part, sizeof(part), bytes, total) : "-");
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

/* What was there before an attach: beside the others, and in no sum. */
static void before_line(FILE *out, const struct layout *l, const struct preattach_heap *b)
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
	before_line(out, l, v->before);
}

void print_report(FILE *out, const struct view *v, struct sites *sites, bool totals,
		  const struct layout *screen)
{
	size_t width[CELLS] = { 0 };
	struct line l;

	if (on_screen(screen)) {
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

static void plain_frames(FILE *out, struct symbol_frames frames, unsigned number)
{
	for (size_t i = 0; i < frames.count; i++) {
		const struct symbol_frame *f = &frames.frame[i];

		if (i == 0)
			escape_printf(out, "%4u: %s\n", number, f->function ? f->function : "??");
		else
			escape_printf(out, "      %s\n", f->function ? f->function : "??");
		if (f->file && f->column)
			escape_printf(out, "             at %s:%u:%u\n", f->file, f->line,
				      f->column);
		else if (f->file && f->line)
			escape_printf(out, "             at %s:%u\n", f->file, f->line);
		else if (f->file)
			escape_printf(out, "             at %s\n", f->file);
		else if (f->module)
			escape_printf(out, "             in %s\n", f->module);
	}
}

/* What is shown of a stack on a terminal: a frame, and how many within it are not. */
struct shown {
	const struct symbol_frame *frame;
	int number; /* -1: none */
	size_t left_out;
};
struct shown_stack {
	struct shown *shown;
	size_t count, room;
	size_t widest; /* of the names that leave room behind them */
};
#define STACK_NUMBER 6u /* columns before a name */
#define STACK_NAME   60 /* per cent of the columns: room for a name that has its place behind it */

/* Out of memory, the outer ones are missing. */
static void show_frame(struct shown_stack *s, const struct layout *l, const struct symbol_frame *f,
		       int number, size_t left_out)
{
	size_t width = function_width(l, f->function ? f->function : "??");

	if (array_room(&s->shown, s->count, &s->room, sizeof(*s->shown)))
		return;
	s->shown[s->count++] = (struct shown){ f, number, left_out };
	if (width > s->widest && STACK_NUMBER + width <= l->columns * STACK_NAME / 100)
		s->widest = width;
}

/*
 * Of a run of frames of the language's library, inlined or not, the outermost is shown: what the
 * program called. RUN is the one that goes on; NULL: all are shown.
 */
static void choose_frames(struct shown_stack *s, const struct layout *l,
			  struct symbol_frames frames, int number, struct shown *run)
{
	for (size_t i = 0; i < frames.count; i++) {
		const struct symbol_frame *f = &frames.frame[i];
		int shown = i ? -1 : number;

		if (run && f->skip & SKIP_NAMESPACE) {
			*run = (struct shown){ f, shown, run->frame ? run->left_out + 1 : 0 };
			continue;
		}
		if (run && run->frame) {
			show_frame(s, l, run->frame, run->number, run->left_out);
			run->frame = NULL;
		}
		show_frame(s, l, f, shown, 0);
	}
}

static void put_where(FILE *out, const struct symbol_frame *f, const struct layout *l, size_t used)
{
	char *where = NULL;

	if (f->file && f->line && asprintf(&where, "%s:%u", f->file, f->line) < 0)
		where = NULL;
	layout_put_path(l, out, where ? where : place_of(f),
			l->columns > used + 17 ? l->columns - 1 - used : 16);
	free(where);
}

/* `  12: FUNCTION  WHERE`, that from column PLACE on; below a longer name. */
static void put_frame(FILE *out, const struct shown *s, const struct layout *l, size_t place)
{
	const struct symbol_frame *f = s->frame;
	size_t used;

	if (s->left_out)
		escape_printf(out, "      (%zu within the next are not shown%s)\n", s->left_out,
			      l->said ? "" : ": --full");
	if (s->number >= 0)
		fprintf(out, "%4d: ", s->number);
	else
		layout_blanks(out, STACK_NUMBER);
	used = STACK_NUMBER + function_put(l, out, f->function ? f->function : "??",
					   l->columns > 20 ? l->columns - 7 : 13);
	if (f->file || f->module) {
		if (used + 2 > place) {
			putc('\n', out);
			used = 0;
		}
		layout_blanks(out, place - used);
		put_where(out, f, l, place);
	}
	putc('\n', out);
}

static void put_shown(FILE *out, struct shown_stack *s, const struct layout *l)
{
	for (size_t i = 0; i < s->count && !ferror(out); i++)
		put_frame(out, &s->shown[i], l, STACK_NUMBER + s->widest + 2);
	free(s->shown);
}

static void screen_stack(FILE *out, struct sites *sites, uint32_t stack, const struct layout *l)
{
	struct shown_stack s = { 0 };
	struct shown run = { 0 };
	uint32_t node = stack;
	int number = 0;

	do {
		choose_frames(&s, l, sites_frames(sites, node), number++, &run);
		node = sites_parent(sites, node);
	} while (node);
	if (run.frame)
		show_frame(&s, l, run.frame, run.number, run.left_out);
	put_shown(out, &s, l);
}

void print_frames(FILE *out, const struct symbol_frames *frames, size_t n, const struct layout *l)
{
	struct shown_stack s = { 0 };

	for (size_t i = 0; i < n; i++)
		if (on_screen(l))
			choose_frames(&s, l, frames[i], (int)i, NULL);
		else
			plain_frames(out, frames[i], (unsigned)i);
	if (on_screen(l))
		put_shown(out, &s, l);
}

void print_stack(FILE *out, struct sites *sites, uint32_t stack, const struct layout *l)
{
	unsigned number = 0;
	uint32_t node = stack;

	if (on_screen(l)) {
		screen_stack(out, sites, stack, l);
		return;
	}
	do {
		plain_frames(out, sites_frames(sites, node), number++);
		node = sites_parent(sites, node);
	} while (node);
}

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

	if (!on_screen(l)) {
		escape_printf(out, "# %s: %s%" PRId64 " bytes", name, about, r->size);
		stack_usable(out, v, r);
		return;
	}
	escape_printf(out, "# %s: %s%s%s, %s", name, r->size < 0 ? "-" : "", about,
		      layout_size(l, &size, r->size < 0 ? -(uint64_t)r->size : (uint64_t)r->size),
		      percent(part, sizeof(part), r->size, v->total_size));
	if (v->has_usable)
		escape_printf(out, ", usable %s%s", about,
			      layout_size(l, &size, (uint64_t)r->usable));
	putc('\n', out);
}

void print_report_stacks(FILE *out, const struct view *v, struct sites *sites,
			 const struct layout *l)
{
	char name[24];

	if (on_screen(l)) {
		screen_total(out, v, l);
		before_line(out, l, v->before);
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
		escape_printf(out, "%s", place_of(f));
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
	if (on_screen(l)) {
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

static void frame_json(struct json *j, const struct symbol_frame *f)
{
	json_string(j, "function", f->function);
	json_string(j, "file", f->file);
	if (f->line)
		json_uint(j, "line", f->line);
	else
		json_null(j, "line");
}

void print_frames_json(struct json *j, struct symbol_frames frames)
{
	for (size_t i = 0; i < frames.count; i++) {
		const struct symbol_frame *f = &frames.frame[i];

		json_object(j, NULL);
		frame_json(j, f);
		if (f->column)
			json_uint(j, "column", f->column);
		else
			json_null(j, "column");
		json_string(j, "module", f->module);
		if (f->address)
			json_address(j, "address", f->address);
		else
			json_null(j, "address");
		json_bool(j, "inlined", f->inlined);
		json_end_object(j);
	}
}

void print_stack_json(struct json *j, const char *key, struct sites *sites, uint32_t stack)
{
	uint32_t node = stack;

	json_array(j, key);
	do {
		print_frames_json(j, sites_frames(sites, node));
		node = sites_parent(sites, node);
	} while (node);
	json_end_array(j);
}

static void before_amount(struct json *j, const char *key, const struct preattach_heap *b,
			  uint64_t value)
{
	json_uint_known(j, key, b->state == PREATTACH_KNOWN, value);
}

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
	frame_json(j, f);
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
	before_amount(j, "size", b, b->bytes);
	before_amount(j, "count", b, b->blocks);
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
	const char *place = place_of(f);
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
		size_t place = escape_columns(place_of(&v->row[i].frame));
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

/* ---- table of functions -------------------------------------------------- */

static const char *amount(char *text, size_t len, const struct table *t, int64_t v, bool bytes,
			  const struct layout *l)
{
	struct text_buffer size;

	if (bytes)
		snprintf(text, len, "%s%" PRId64, print_about(t->estimated), v);
	else if (on_screen(l))
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
	*s = (struct looks){ .name = on_screen(l) ? calloc(t->count + 1, sizeof(char *)) : NULL };
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
	if (!on_screen(l)) {
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
			    percent(flat_part, sizeof(flat_part), r->flat, t->total),
			    percent(sum_part, sizeof(sum_part), sum, t->total),
			    amount(cum, sizeof(cum), t, r->cum, bytes, l),
			    percent(cum_part, sizeof(cum_part), r->cum, t->total));

	escape_printf(out, "%s", numbers);
	table_name(out, s, l, (size_t)used + 1, r->function);
}

void print_table(FILE *out, const struct table *t, bool bytes, const struct layout *l)
{
	const char *unit = bytes ? " B" : on_screen(l) ? "" : " MB";
	struct looks looks;
	char total[32];
	int64_t sum = 0;

	looks_make(&looks, t, l);
	escape_printf(out, "Total: %s%s\n", amount(total, sizeof(total), t, t->total, bytes, l),
		      unit);
	if (on_screen(l))
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
		before_amount(&j, "flat", t->before, t->before->bytes);
		before_amount(&j, "cum", t->before, t->before->bytes);
		json_string(&j, "function", PREATTACH_NAME);
		json_bool(&j, "outside_total", true);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

/* ---- call tree ----------------------------------------------------------- */

/*
 * Guides as in `tree`. A chain of single callees is not indented further: only where the bytes
 * divide does the tree, or a stack of 100 frames would run off the screen.
 */
struct drawing {
	FILE *out;
	const struct tree *t;
	const struct layout *l;
	int64_t least; /* smaller branches are summed */
	char *guide;   /* what to print before the children of the current node */
	size_t len, allocated;
};

/* BYTES, their share, then LABEL behind the guides and FORK. */
static void draw_line(struct drawing *d, int64_t size, const char *fork, const char *label)
{
	bool screen = on_screen(d->l);
	size_t len = d->len, used;
	char text[32], part[16];
	struct text_buffer human;

	if (screen)
		snprintf(text, sizeof(text), "%s%s%s", size < 0 ? "-" : "",
			 print_about(d->t->estimated),
			 layout_size(d->l, &human, size < 0 ? -(uint64_t)size : (uint64_t)size));
	else
		snprintf(text, sizeof(text), "%s%" PRId64, print_about(d->t->estimated), size);
	percent(part, sizeof(part), size, d->t->node[0].size);
	escape_printf(d->out, "%*s %6s  ", screen && !d->l->exact ? 8 : 12, text, part);
	if (!screen) {
		escape_printf(d->out, "%s%s%s\n", d->guide, fork, label);
		return;
	}
	/* of deep branches' guides the last */
	if (len > d->l->columns / 3)
		len = d->l->columns / 3;
	used = (d->l->exact ? 21 : 17) + len + strlen(fork);
	escape_printf(d->out, "%s%s", d->guide + d->len - len, fork);
	function_put(d->l, d->out, label, d->l->columns > used + 10 ? d->l->columns - 1 - used : 9);
	putc('\n', d->out);
}

static bool push(struct drawing *d, const char *text)
{
	size_t n = strlen(text);

	if (d->len + n + 1 > d->allocated) {
		char *guide = realloc(d->guide, (d->len + n + 1) * 2);

		if (!guide)
			return false;
		d->guide = guide;
		d->allocated = (d->len + n + 1) * 2;
	}
	memcpy(d->guide + d->len, text, n + 1);
	d->len += n;
	return true;
}

static bool is_library(const struct tree_node *n)
{
	return n->frame && n->frame->skip & SKIP_NAMESPACE;
}

static void draw_below(struct drawing *d, uint32_t node);

/* The parts of NODE in order: its shown children, then what it allocates itself, then the rest. */
static void draw_child(struct drawing *d, uint32_t child, const char *label, int64_t size,
		       bool last)
{
	size_t len = d->len;

	draw_line(d, size, last ? "`- " : "|- ", label);
	if (!child)
		return;
	if (push(d, last ? "   " : "|  "))
		draw_below(d, child);
	d->len = len;
	d->guide[len] = '\0';
}

static void draw_below(struct drawing *d, uint32_t node)
{
	const struct tree_node *n;
	int64_t others;
	size_t parts, merged;
	uint32_t c, only;

	for (;;) {
		n = &d->t->node[node];
		others = 0;
		parts = merged = 0;
		only = 0;
		for (c = n->child; c; c = d->t->node[c].next) {
			if (d->t->node[c].weight < d->least) {
				others += d->t->node[c].size;
				merged++;
				continue;
			}
			only = c;
			parts++;
		}
		if (parts != 1 || n->self || merged)
			break;
		/* of a run of the language's library what the program called */
		if (!on_screen(d->l) || !is_library(&d->t->node[only]) ||
		    !is_library(&d->t->node[node]))
			draw_line(d, d->t->node[only].size, "", d->t->node[only].function);
		node = only;
	}
	if (parts == 0)
		return; /* all of it is its own, or too little to tell apart */
	for (c = n->child; c && !ferror(d->out); c = d->t->node[c].next) {
		if (d->t->node[c].weight < d->least)
			continue;
		parts--;
		draw_child(d, c, d->t->node[c].function, d->t->node[c].size,
			   parts == 0 && !n->self && !merged);
	}
	if (n->self)
		draw_child(d, 0, "(self)", n->self, !merged);
	if (merged)
		draw_child(d, 0, "(others)", others, true);
}

void print_tree(FILE *out, const struct tree *t, unsigned min_share, const struct layout *l)
{
	struct drawing d = {
		.out = out, .t = t, .l = l, .least = t->node[0].weight * (int64_t)min_share / 1000
	};

	if (d.least < 1)
		d.least = 1;
	if (!push(&d, ""))
		return;
	draw_line(&d, t->node[0].size, "", t->node[0].function);
	draw_below(&d, 0);
	free(d.guide);
	if (on_screen(l)) {
		before_line(out, l, t->before);
		return;
	}
	if (t->before && t->before->state == PREATTACH_KNOWN)
		escape_printf(out, "%12" PRIu64 " %6s  %s\n", t->before->bytes, "-",
			      PREATTACH_NAME);
	else if (t->before)
		escape_printf(out, "%12s %6s  %s\n", "unknown", "-", PREATTACH_NAME);
}

/* The last child of the whole. */
static void before_node(struct json *j, const struct preattach_heap *b)
{
	json_object(j, NULL);
	json_string(j, "function", PREATTACH_NAME);
	before_amount(j, "size", b, b->bytes);
	before_amount(j, "self", b, b->bytes);
	json_bool(j, "outside_total", true);
	json_array(j, "children");
	json_end_array(j);
	json_end_object(j);
}

static void node_json(struct json *j, const struct tree *t, uint32_t root)
{
	uint32_t at = root;

	for (;;) {
		const struct tree_node *n = &t->node[at];

		json_object(j, NULL);
		json_string(j, "function", n->function);
		json_int(j, "size", n->size);
		json_int(j, "self", n->self);
		json_array(j, "children");
		if (n->child) {
			at = n->child;
			continue;
		}
		for (;;) {
			if (at == root && t->before)
				before_node(j, t->before);
			json_end_array(j);
			json_end_object(j);
			if (at == root || ferror(j->out))
				return;
			if (t->node[at].next) {
				at = t->node[at].next;
				break;
			}
			at = t->node[at].parent;
		}
	}
}

void print_tree_json(FILE *out, const struct tree *t)
{
	struct json j;

	json_init(&j, out);
	node_json(&j, t, 0);
	json_finish(&j);
}
