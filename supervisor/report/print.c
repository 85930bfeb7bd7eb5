/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

/*
 * Lists are laid out in two passes: the widest cell of each column first, then the rows, so that
 * columns line up whatever the paths are. Nothing is shortened but what is absurdly long
 * (escape.h): a row that is grepped or cut by a script must say all. Nobody wants the rest of what
 * cannot be written: a pipe that was closed, a command that was interrupted.
 */

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

static void numbers(struct line *l, const struct view *v, const struct view_row *r, bool totals)
{
	const char *about = print_about(v->estimated);

	cellf(l, "size:%s%" PRId64, about, r->size);
	if (v->has_usable)
		cellf(l, "usable:%s%" PRId64, about, r->usable);
	else if (v->usable_unknown)
		cell(l, "usable:unknown");
	cellf(l, "count:%s%" PRId64, about, r->count);
	if (totals) {
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

void print_report(FILE *out, const struct view *v, bool totals)
{
	size_t width[CELLS] = { 0 };
	struct line l;

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

void print_frames(FILE *out, struct symbol_frames frames, unsigned number)
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

void print_stack(FILE *out, struct sites *sites, uint32_t stack)
{
	unsigned number = 0;
	uint32_t node = stack;

	do {
		print_frames(out, sites_frames(sites, node), number++);
		node = sites_parent(sites, node);
	} while (node);
}

static void stack_usable(FILE *out, const struct view *v, const struct view_row *r)
{
	if (v->has_usable)
		escape_printf(out, ", usable %s%" PRId64, print_about(v->estimated), r->usable);
	putc('\n', out);
}

void print_report_stacks(FILE *out, const struct view *v, struct sites *sites)
{
	const char *about = print_about(v->estimated);

	print_total(out, v);
	print_before(out, v->before);
	putc('\n', out);
	if (v->others.merged) {
		escape_printf(out, "# (others): %s%" PRId64 " bytes", about, v->others.size);
		stack_usable(out, v, &v->others);
		escape_printf(out, "      %s%" PRId64 " block%s from %zu more\n\n", about,
			      v->others.count, v->others.count == 1 ? "" : "s", v->others.merged);
	}
	for (size_t i = v->count; i-- > 0 && !ferror(out);) {
		const struct view_row *r = &v->row[i];
		size_t rank = v->reversed ? v->count - 1 - i : i;

		escape_printf(out, "# %zu: %s%" PRId64 " bytes", rank, about, r->size);
		stack_usable(out, v, r);
		escape_printf(out, "      %s%" PRId64 " block%s, stack %" PRIu32 "\n", about,
			      r->count, r->count == 1 ? "" : "s", r->stack);
		print_stack(out, sites, r->stack);
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

void print_difference(FILE *out, const struct view *v, struct sites *sites, bool stacks)
{
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
			print_stack(out, sites, r->stack);
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

static void total_json(struct json *j, const struct view *v, const char *key, uint64_t value)
{
	if (v->has_totals)
		json_uint(j, key, value);
	else
		json_null(j, key); /* live blocks do not tell what there was before them */
}

static void before_amount(struct json *j, const char *key, const struct preattach_heap *b,
			  uint64_t value)
{
	if (b->state == PREATTACH_KNOWN)
		json_uint(j, key, value);
	else
		json_null(j, key);
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
	json_int(j, "count", r->count);
	usable_json(j, v, "usable", r->usable);
	total_json(j, v, "total_size", r->total_size);
	total_json(j, v, "total_count", r->total_count);
	total_json(j, v, "temporary", r->temporary);
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
static void before_row(struct json *j, const struct preattach_heap *b, bool stacks)
{
	static const char *const unknown[] = { "total_size", "total_count", "temporary", "file",
					       "line",	     "module",	    "stack_id" };

	json_newline(j);
	json_object(j, NULL);
	before_amount(j, "size", b, b->bytes);
	before_amount(j, "count", b, b->blocks);
	json_string(j, "function", PREATTACH_NAME);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		json_null(j, unknown[i]);
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
		before_row(j, v->before, stacks);
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

static const char *amount(char *text, size_t len, const struct table *t, int64_t v, bool bytes)
{
	if (bytes)
		snprintf(text, len, "%s%" PRId64, print_about(t->estimated), v);
	else
		snprintf(text, len, "%s%.1f", print_about(t->estimated), (double)v / 1048576);
	return text;
}

static const char *percent(char *text, size_t len, int64_t v, int64_t total)
{
	snprintf(text, len, "%.1f%%", total ? 100.0 * (double)v / (double)total : 0);
	return text;
}

static void table_line(FILE *out, const struct table *t, const struct table_row *r, int64_t sum,
		       bool bytes)
{
	char flat[32], flat_part[16], sum_part[16], cum[32], cum_part[16];

	escape_printf(out, "%8s %6s %6s %8s %6s %s\n",
		      amount(flat, sizeof(flat), t, r->flat, bytes),
		      percent(flat_part, sizeof(flat_part), r->flat, t->total),
		      percent(sum_part, sizeof(sum_part), sum, t->total),
		      amount(cum, sizeof(cum), t, r->cum, bytes),
		      percent(cum_part, sizeof(cum_part), r->cum, t->total), r->function);
}

void print_table(FILE *out, const struct table *t, bool bytes)
{
	char total[32];
	int64_t sum = 0;

	escape_printf(out, "Total: %s %s\n", amount(total, sizeof(total), t, t->total, bytes),
		      bytes ? "B" : "MB");
	for (size_t i = 0; i < t->count && !ferror(out); i++) {
		sum += t->row[i].flat;
		table_line(out, t, &t->row[i], sum, bytes);
	}
	if (t->others.function)
		table_line(out, t, &t->others, sum + t->others.flat, bytes);
	if (!t->before)
		return;
	snprintf(total, sizeof(total), "unknown");
	if (t->before->state == PREATTACH_KNOWN)
		amount(total, sizeof(total), &(struct table){ 0 }, (int64_t)t->before->bytes,
		       bytes);
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
	int64_t least; /* smaller branches are summed */
	char *guide;   /* what to print before the children of the current node */
	size_t len, allocated;
};

static void draw_amounts(struct drawing *d, int64_t size)
{
	char text[32], part[16];

	snprintf(text, sizeof(text), "%s%" PRId64, print_about(d->t->estimated), size);
	escape_printf(d->out, "%12s %6s  ", text,
		      percent(part, sizeof(part), size, d->t->node[0].size));
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

static void draw_below(struct drawing *d, uint32_t node);

/* The parts of NODE in order: its shown children, then what it allocates itself, then the rest. */
static void draw_child(struct drawing *d, uint32_t child, const char *label, int64_t size,
		       bool last)
{
	size_t len = d->len;

	draw_amounts(d, size);
	escape_printf(d->out, "%s%s%s\n", d->guide, last ? "`- " : "|- ", label);
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
		draw_amounts(d, d->t->node[only].size);
		escape_printf(d->out, "%s%s\n", d->guide, d->t->node[only].function);
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

void print_tree(FILE *out, const struct tree *t, unsigned min_share)
{
	struct drawing d = { .out = out,
			     .t = t,
			     .least = t->node[0].weight * (int64_t)min_share / 1000 };

	if (d.least < 1)
		d.least = 1;
	if (!push(&d, ""))
		return;
	draw_amounts(&d, t->node[0].size);
	escape_printf(out, "%s\n", t->node[0].function);
	draw_below(&d, 0);
	free(d.guide);
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
