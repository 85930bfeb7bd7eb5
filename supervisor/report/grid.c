// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/grid.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bounds.h"
#include "base/text.h"
#include "report/function_name.h"

/*
 * grid.c - widths are found in two passes: what each column needs, then, if that is more than the
 * window has, names and paths give way. Numbers never do: half a number is a wrong one.
 */

#define GAP	  2
#define NARROWEST 8 /* of a name, however small the window is */

void grid_init(struct grid *g, const struct layout *l) { *g = (struct grid){ .layout = l }; }

void grid_column(struct grid *g, const char *title, enum grid_kind kind)
{
	g->column[g->columns].title = title;
	g->column[g->columns].kind = kind;
	g->columns++;
}

static void take(struct grid *g, char *text)
{
	if (array_room(&g->cell, g->cells, &g->room, sizeof(*g->cell)))
		free(text);
	else
		g->cell[g->cells++] = text;
}

void grid_cell(struct grid *g, const char *text) { take(g, strdup(text)); }

void grid_cellf(struct grid *g, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	take(g, text);
}

static const char *cell(const struct grid *g, size_t row, size_t column)
{
	size_t i = row * g->columns + column;

	return i < g->cells && g->cell[i] ? g->cell[i] : "";
}

static size_t at_least(size_t n, size_t bound) { return n > bound ? n : bound; }

static void measure(struct grid *g, size_t rows)
{
	for (size_t c = 0; c < g->columns; c++) {
		size_t widest = strlen(g->column[c].title);

		for (size_t r = 0; r < rows; r++) {
			const char *text = cell(g, r, c);
			size_t n = g->column[c].kind == GRID_FUNCTION
					   ? function_width(g->layout, text)
					   : layout_width(g->layout, text);

			widest = at_least(n, widest);
			if (g->column[c].kind == GRID_PATH)
				g->file = at_least(layout_width(g->layout, text_last_part(text)),
						   g->file);
		}
		if (widest > g->column[c].width)
			g->column[c].width = widest;
	}
}

/* The column of KIND; the titles' number if there is none. */
static size_t find(const struct grid *g, enum grid_kind kind)
{
	size_t c = 0;

	while (c < g->columns && g->column[c].kind != kind)
		c++;
	return c;
}

/*
 * A name and a path share what the others leave. The path gets two fifths, up to half if the names
 * of files need that, or what the name needs not.
 */
static void fit(struct grid *g)
{
	size_t function = find(g, GRID_FUNCTION), path = find(g, GRID_PATH), fixed = 1, left;
	size_t name = function < g->columns ? function : find(g, GRID_NAME);
	bool both = name < g->columns && path < g->columns;

	for (size_t c = 0; c < g->columns; c++)
		fixed += (c ? GAP : 0) + (c == name || c == path ? 0 : g->column[c].width);
	left = g->layout->columns > fixed ? g->layout->columns - fixed : 0;
	if (both) {
		size_t need = g->column[name].width,
		       share = at_least(left * 2 / 5, least(g->file, left / 2));

		share = at_least(share, NARROWEST);
		if (left > need)
			share = at_least(share, left - need);
		g->column[path].width = least(g->column[path].width, share);
		left = left > g->column[path].width ? left - g->column[path].width : 0;
	}
	if (name < g->columns)
		g->column[name].width = least(g->column[name].width, at_least(left, NARROWEST));
	else if (path < g->columns)
		g->column[path].width = least(g->column[path].width, at_least(left, NARROWEST));
}

static void put(const struct grid *g, FILE *out, size_t c, const char *text)
{
	size_t width = g->column[c].width, done;

	if (c)
		layout_blanks(out, GAP);
	switch (g->column[c].kind) {
	case GRID_NUMBER:
		done = layout_width(g->layout, text);
		layout_blanks(out, width > done ? width - done : 0);
		layout_put(g->layout, out, text, width);
		return;
	case GRID_FUNCTION: done = function_put(g->layout, out, text, width); break;
	case GRID_PATH: done = layout_put_path(g->layout, out, text, width); break;
	default: done = layout_put(g->layout, out, text, width);
	}
	if (c + 1 < g->columns && width > done)
		layout_blanks(out, width - done);
}

/*
 * What stands in a row for those that were cut off is no function: it is not shortened, and takes
 * the empty place beside it as well. Returns the last column that it has taken.
 */
static size_t put_others(const struct grid *g, FILE *out, size_t row, size_t c)
{
	size_t width = g->column[c].width, next = c + 1, done;

	if (next < g->columns && !*cell(g, row, next))
		width += GAP + g->column[next].width;
	else
		next = c;
	if (c)
		layout_blanks(out, GAP);
	done = layout_put(g->layout, out, cell(g, row, c), width);
	if (next + 1 < g->columns && width > done)
		layout_blanks(out, width - done);
	return next;
}

static void put_row(const struct grid *g, FILE *out, size_t row)
{
	for (size_t c = 0; c < g->columns; c++)
		if (g->column[c].kind == GRID_FUNCTION && !strncmp(cell(g, row, c), "(others", 7))
			c = put_others(g, out, row, c);
		else
			put(g, out, c, cell(g, row, c));
	putc('\n', out);
}

static void put_titles(const struct grid *g, FILE *out)
{
	for (size_t c = 0; c < g->columns; c++)
		put(g, out, c, g->column[c].title);
	putc('\n', out);
}

void grid_print(struct grid *g, FILE *out)
{
	size_t rows = g->columns ? (g->cells + g->columns - 1) / g->columns : 0;

	measure(g, rows);
	fit(g);
	if (!g->printed && rows)
		put_titles(g, out);
	g->printed += rows;
	for (size_t r = 0; r < rows && !ferror(out); r++)
		put_row(g, out, r);
	for (size_t i = 0; i < g->cells; i++)
		free(g->cell[i]);
	g->cells = 0;
}

void grid_release(struct grid *g)
{
	for (size_t i = 0; i < g->cells; i++)
		free(g->cell[i]);
	free(g->cell);
}
