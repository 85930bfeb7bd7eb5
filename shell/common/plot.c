// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/plot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"

/*
 * Each column shows the highest value of its stretch of time, so that no spike is lost however long
 * the record is. In UTF-8 a cell has eight heights, in ASCII two. From above: the peak's arrow and
 * name, the bars, the axis, its times, and if there are any the marks' letters with what they stand
 * for.
 */
#define LABEL	  9  /* columns before the axis */
#define PER_LABEL 4  /* rows for each amount */
#define PER_TIME  16 /* columns for each time */
#define LEGENDS	  4  /* lines, at most */

const struct plot_step *plot_peak(const struct plot_step *step, size_t steps)
{
	const struct plot_step *best = step;

	for (size_t i = 1; i < steps; i++)
		if (step[i].bytes > best->bytes)
			best = &step[i];
	return best;
}

/* "12.3s", "3:07", "2:03:09": a moment on an axis of SPAN ms. */
static const char *moment_text(char text[32], uint64_t ms, uint64_t span)
{
	uint64_t s = ms / 1000;

	if (span < 100000 && ms < 1000000)
		snprintf(text, 32,
			 span < 10000 ? "%" PRIu64 ".%02" PRIu64 "s" : "%" PRIu64 ".%01" PRIu64 "s",
			 s, span < 10000 ? ms % 1000 / 10 : ms % 1000 / 100);
	else if (s < 3600)
		snprintf(text, 32, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
	else
		snprintf(text, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60,
			 s % 60);
	return text;
}

struct canvas {
	const struct plot *p;
	unsigned width, height; /* of the bars */
	uint64_t from, span, top;
	uint64_t *column; /* its highest value */
	unsigned peak;	  /* column */
};

static unsigned column_of(const struct canvas *c, uint64_t ms)
{
	unsigned x = (unsigned)((double)(ms - c->from) * c->width / (double)c->span);

	return x < c->width ? x : c->width - 1;
}

static void columns_fill(struct canvas *c)
{
	for (size_t i = 0; i < c->p->steps; i++) {
		const struct plot_step *s = &c->p->step[i];

		for (unsigned x = column_of(c, s->from_ms), last = column_of(c, s->to_ms - 1);
		     x <= last; x++)
			if (s->bytes > c->column[x])
				c->column[x] = s->bytes;
	}
}

static void spaces(FILE *out, unsigned n) { escape_printf(out, "%*s", (int)n, ""); }

static void print_peak(FILE *out, const struct canvas *c, const struct plot_step *peak)
{
	char text[96], time[32];
	struct text_buffer size;
	unsigned len = (unsigned)snprintf(text, sizeof(text), "peak %s%s at %s", c->p->about,
					  size_text(&size, peak->bytes),
					  moment_text(time, peak->ms, c->span));
	const char *arrow = c->p->utf8 ? "\342\226\274" : "v";

	spaces(out, LABEL + 1);
	if (c->peak + 2 + len <= c->width) {
		spaces(out, c->peak);
		escape_printf(out, "%s %s\n", arrow, text);
	} else if (c->peak >= len + 1) {
		spaces(out, c->peak - len - 1);
		escape_printf(out, "%s %s\n", text, arrow);
	} else
		escape_printf(out, "%.*s\n", (int)c->width, text);
}

/* Of the cell of column X in row Y (0: the lowest), how many eighths are filled. */
static unsigned eighths(const struct canvas *c, unsigned x, unsigned y)
{
	double height = c->top ? (double)c->column[x] * c->height * 8 / (double)c->top : 0;
	unsigned n = (unsigned)(height + 0.5);

	if (!n && c->column[x])
		n = 1; /* something is there */
	return n <= y * 8 ? 0 : n - y * 8 < 8 ? n - y * 8 : 8;
}

static void print_cell(FILE *out, const struct canvas *c, unsigned x, unsigned n)
{
	if (!c->p->utf8)
		putc(n == 0 ? ' ' : x == c->peak ? '#' : n >= 5 ? ':' : '.', out);
	else if (n)
		fprintf(out, "\342\226%c", (char)(0x80 + n));
	else
		putc(' ', out);
}

static void print_bars(FILE *out, const struct canvas *c)
{
	for (unsigned y = c->height; y-- > 0;) {
		struct text_buffer size;
		bool labelled = y + 1 == c->height || ((y + 1) % PER_LABEL == 0 &&
						       y + 2 < c->height && c->top >= c->height);
		unsigned last = 0;

		if (labelled)
			escape_printf(out, "%*s", LABEL - 1,
				      size_text(&size,
						c->top / c->height * (y + 1) +
							c->top % c->height * (y + 1) / c->height));
		else
			spaces(out, LABEL - 1);
		fputs(labelled	   ? c->p->utf8 ? " \342\224\244" : " +"
		      : c->p->utf8 ? " \342\224\202"
				   : " |",
		      out);
		for (unsigned x = 0; x < c->width; x++)
			if (eighths(c, x, y))
				last = x + 1;
		for (unsigned x = 0; x < last; x++)
			print_cell(out, c, x, eighths(c, x, y));
		putc('\n', out);
	}
}

static void print_axis(FILE *out, const struct canvas *c)
{
	char time[32];
	unsigned at = 0;

	escape_printf(out, "%*s%s", LABEL - 1, "0", c->p->utf8 ? " \342\224\224" : " +");
	for (unsigned x = 0; x < c->width; x++) {
		bool tick = x && x % PER_TIME == 0;

		fputs(c->p->utf8 ? tick ? "\342\224\254" : "\342\224\200" : tick ? "+" : "-", out);
	}
	putc('\n', out);
	spaces(out, LABEL + 1);
	for (unsigned x = 0; x < c->width; x += PER_TIME) {
		unsigned len = (unsigned)strlen(
			moment_text(time, c->from + (uint64_t)((double)c->span * x / c->width),
				    c->span));

		if (x + len > c->width)
			break;
		spaces(out, x - at);
		fputs(time, out);
		at = x + len;
	}
	moment_text(time, c->from + c->span, c->span);
	if (at + 1 + strlen(time) <= c->width) {
		spaces(out, c->width - at - (unsigned)strlen(time));
		fputs(time, out);
	}
	putc('\n', out);
}

/* A label in what the terminal can show, at most WIDTH characters of it. Returns how many. */
static unsigned print_label(FILE *out, const char *label, bool utf8, unsigned width)
{
	char as[ESCAPE_UNIT];
	unsigned n = 0;

	for (size_t len; *label; label += len) {
		len = escape_unit(label, as);
		if (n + (*as ? strlen(as) : 1) > width)
			break;
		n += *as ? (unsigned)strlen(as) : 1;
		if (*as)
			fputs(as, out);
		else if (len > 1 && !utf8)
			putc('?', out);
		else
			fwrite(label, 1, len, out);
	}
	return n;
}

static char letter(size_t i)
{
	return i < 26 ? (char)('a' + i) : i < 52 ? (char)('A' + i - 26) : '*';
}

static void print_marks(FILE *out, const struct canvas *c, unsigned lines)
{
	const struct plot *p = c->p;
	char *row = malloc(c->width + 1), time[32];
	unsigned at = 0, end = p->columns - 1;

	if (!row)
		return;
	memset(row, ' ', c->width);
	for (size_t i = p->marks; i-- > 0;)
		row[column_of(c, p->mark[i].ms)] = letter(i);
	row[c->width] = '\0';
	while (c->width && row[strlen(row) - 1] == ' ' && row[1])
		row[strlen(row) - 1] = '\0';
	escape_printf(out, "%*s  %s\n", LABEL - 1, "marks", row);
	free(row);
	for (size_t i = 0; i < p->marks && lines; i++) {
		unsigned len = 5 + (unsigned)strlen(moment_text(time, p->mark[i].ms, c->span)),
			 left;

		if (at && at + len + 12 > end) {
			putc('\n', out);
			at = 0;
			if (!--lines)
				return;
		}
		if (!at || i == 51) {
			spaces(out, LABEL + 1 - (at ? LABEL : 0));
			at += LABEL + 1 - (at ? LABEL : 0);
		}
		left = end > at + len ? end - at - len : 1;
		escape_printf(out, "%c %s ", letter(i), time);
		at += len + print_label(out, p->mark[i].label, p->utf8, left < 40 ? left : 40);
		fputs("  ", out);
	}
	putc('\n', out);
}

/* How many lines the marks' names take. */
static unsigned legend_lines(const struct plot *p)
{
	unsigned per_line = (p->columns - LABEL - 1) / 56 ? (p->columns - LABEL - 1) / 56 : 1,
		 lines = (unsigned)((p->marks + per_line - 1) / per_line);

	return lines < LEGENDS ? lines : LEGENDS;
}

void plot_print(FILE *out, const struct plot *p)
{
	const struct plot_step *peak = plot_peak(p->step, p->steps);
	unsigned others = 3 + (p->marks ? 1 + legend_lines(p) : 0) + (p->note != NULL);
	struct canvas c = { .p = p, .from = p->step[0].from_ms, .top = peak->bytes };

	c.span = p->step[p->steps - 1].to_ms - c.from;
	c.width = p->columns > LABEL + 31 ? p->columns - LABEL - 1 : 30;
	c.height = p->rows > others + 3 ? p->rows - others : 3;
	c.column = calloc(c.width, sizeof(*c.column));
	if (!c.column)
		return;
	columns_fill(&c);
	c.peak = column_of(&c, peak->ms < c.from ? c.from : peak->ms);
	/* (its moment may be of another thread's interval) */
	if (c.column[c.peak] != peak->bytes)
		c.peak = column_of(&c, peak->from_ms);
	print_peak(out, &c, peak);
	print_bars(out, &c);
	print_axis(out, &c);
	if (p->marks)
		print_marks(out, &c, legend_lines(p));
	if (p->note)
		escape_printf(out, "%.*s\n", (int)p->columns, p->note);
	free(c.column);
}
