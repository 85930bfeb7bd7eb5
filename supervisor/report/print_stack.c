// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/print.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/escape.h"
#include "report/function_name.h"

/*
 * print_stack.c - stacks and their frames, as text and as JSON. On a terminal a run of frames of the
 * language's library is one line, and a function stands before its place.
 */

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
	layout_put_path(l, out, where ? where : print_place(f),
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
		if (layout_on_screen(l))
			choose_frames(&s, l, frames[i], (int)i, NULL);
		else
			plain_frames(out, frames[i], (unsigned)i);
	if (layout_on_screen(l))
		put_shown(out, &s, l);
}

void print_stack(FILE *out, struct sites *sites, uint32_t stack, const struct layout *l)
{
	unsigned number = 0;
	uint32_t node = stack;

	if (layout_on_screen(l)) {
		screen_stack(out, sites, stack, l);
		return;
	}
	do {
		plain_frames(out, sites_frames(sites, node), number++);
		node = sites_parent(sites, node);
	} while (node);
}
/* ---- JSON ---------------------------------------------------------------- */

void print_frame_json(struct json *j, const struct symbol_frame *f)
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
		print_frame_json(j, f);
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
