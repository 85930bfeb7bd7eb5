/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * grid.h - a table on a terminal: a title row, then rows that fit the window. Columns are declared
 * first, then cells come row by row. Cells are copied. Out of memory, the last ones are missing.
 */
#ifndef MTRUN_GRID_H
#define MTRUN_GRID_H

#include <stdio.h>

#include "base/layout.h"
#include "base/types.h"

#define GRID_COLUMNS 12

enum grid_kind {
	GRID_NAME,     /* to the left; of one that is too long the middle is left out */
	GRID_FUNCTION, /* the same, but a C++ name is shortened as one first (print_function()) */
	GRID_PATH,     /* of one that is too long the first directories are */
	GRID_TEXT,     /* to the left, whole */
	GRID_NUMBER,   /* to the right, whole */
};

struct grid {
	const struct layout *layout; /* borrowed */
	size_t columns, cells, room, printed;
	size_t file; /* how wide the widest path is without its directories */
	struct {
		const char *title;
		enum grid_kind kind;
		size_t width;
	} column[GRID_COLUMNS];
	char **cell;
};

void grid_init(struct grid *g, const struct layout *l);
void grid_column(struct grid *g, const char *title, enum grid_kind kind);
void grid_cell(struct grid *g, const char *text);
void grid_cellf(struct grid *g, const char *format, ...) PRINTF(2, 3);
/*
 * Prints what has come since the last time and forgets it; columns become no narrower, and the
 * titles stand above the first row only.
 */
void grid_print(struct grid *g, FILE *out);
void grid_release(struct grid *g);

#endif
