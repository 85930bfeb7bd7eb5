// SPDX-License-Identifier: GPL-3.0-or-later
#include "export/call_graph.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/intern.h"
#include "base/units.h"
#include "base/utf8.h"
#include "export/export.h"

/*
 * The call graph as jeprof and pprof draw it, in dot's language: a box for each function with what
 * it asked for itself (flat) and with what was called from it (cum), the larger the more it asked
 * for itself; an arrow for each call with what went through it. Functions that hold little are left
 * out, and the legend says so; an arrow over such is dashed.
 *
 * Boxes are the rows of the table that `text` prints. Arrows are found by one more walk over the
 * stacks; one that a stack goes along twice counts once.
 */
#define NODES	      80 /* at most */
#define NODE_FRACTION 0.005
#define EDGE_FRACTION 0.001
#define LABEL	      60 /* bytes of a name in a box; all of it is in the tooltip */

struct edge {
	uint32_t from, to; /* nodes */
	int64_t size;
	uint32_t row;  /* the last stack that was counted, plus 1 */
	bool indirect; /* something was left out in between */
};

struct graph {
	FILE *out;
	const struct export *e;
	struct table t;	 /* by change; the first `nodes` are drawn */
	int64_t largest; /* of all amounts, without its sign: what sizes of boxes are parts of */
	size_t nodes;
	int64_t least_node, least_edge; /* bytes */
	struct intern names;		/* of all rows, number I being row I - 1 */
	struct intern keys;		/* of the edges */
	struct edge *edge;
	size_t room;
	/* it is in a stack; an allocator's functions that were left out of all are not */
	bool called[NODES];
};

/* ---- names --------------------------------------------------------------- */

void graph_put_text(FILE *out, const char *text)
{
	char as[ESCAPE_UNIT];

	for (size_t len; *text; text += len) {
		len = escape_unit(text, as);
		if (*as == '\\') /* for dot a backslash begins an escape, too */
			fprintf(out, as[1] == '\\' ? "\\\\\\\\" : "\\\\%.10s", as + 1);
		else if (*text == '"')
			fputs("\\\"", out);
		else if (*text == '&') /* dot knows HTML's entities */
			fputs("&amp;", out);
		else
			fwrite(text, 1, len, out);
	}
}

static bool is_ident(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '~' || (unsigned char)c >= 0x80;
}

/* What is behind the bracket at P and all within. */
static const char *behind(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (strchr("<({[", *p))
			depth++;
		else if ((*p == '>' && p[-1] != '-') || (*p && strchr(")}]", *p)))
			depth--;
		if (depth == 0)
			return p + 1;
	}
	return p;
}

void graph_short_name(char *to, size_t size, const char *name)
{
	size_t n = 0;

	for (const char *p = name; *p && n + 5 < size;) {
		if (!strncmp(p, "operator", 8) && (p == name || !is_ident(p[-1])) &&
		    !is_ident(p[8])) {
			size_t len = 8 + strspn(p + 8, "<>=-*+!&|^%/,~[]");

			len += len == 8 && !strncmp(p + 8, "()", 2) ? 2 : 0;
			if (n + len + 1 >= size)
				break;
			memcpy(to + n, p, len);
			n += len;
			p += len;
		} else if (p > name && ((*p == '<' && is_ident(p[-1])) ||
					(*p == '(' && !strchr(": (", p[-1])))) {
			p = behind(p);
		} else {
			int len = utf8_length(p);

			for (int i = 0; i < (len ? len : 1); i++)
				to[n++] = *p++;
		}
	}
	to[n] = '\0';
}

/* ---- edges --------------------------------------------------------------- */

static struct edge *edge(struct graph *g, uint32_t from, uint32_t to)
{
	size_t before = g->keys.count;
	uint32_t n =
		intern(&g->keys, (const void *)(uintptr_t)((uint64_t)(from + 1) << 32 | (to + 1)));

	if (n == 0)
		return NULL;
	if (array_room(&g->edge, n - 1, &g->room, sizeof(*g->edge)))
		return NULL;
	if (n > before)
		g->edge[n - 1] = (struct edge){ .from = from, .to = to };
	return &g->edge[n - 1];
}

/*
 * The calls of one stack, from its outermost function that is drawn to the innermost. ROW: its
 * number, plus 1.
 */
static int add_calls(struct graph *g, const struct export_stack *stack, int64_t size, uint32_t row)
{
	uint32_t caller = UINT32_MAX;
	bool skipped = false;

	for (size_t i = stack->count; i-- > 0;)
		for (size_t k = stack->location[i].frames.count; k-- > 0;) {
			const struct symbol_frame *f = &stack->location[i].frames.frame[k];
			uint32_t node = intern(&g->names, f->function ? f->function : "??");
			struct edge *e;

			if (!node)
				return -ENOMEM;
			if (--node >= g->nodes) {
				skipped = true;
				continue;
			}
			g->called[node] = true;
			if (caller != UINT32_MAX && caller != node) {
				e = edge(g, caller, node);
				if (!e)
					return -ENOMEM;
				e->size += e->row == row ? 0 : size;
				e->row = row;
				e->indirect |= skipped;
			}
			caller = node;
			skipped = false;
		}
	return 0;
}

static int find_edges(struct graph *g)
{
	struct export_stack stack = { 0 };
	int err = 0;

	for (size_t i = 0; i < g->e->view->count && !err; i++) {
		const struct view_row *r = &g->e->view->row[i];

		err = export_rest(g->e);
		if (!err && export_size(g->e, r))
			err = export_stack(g->e, r, &stack);
		else
			continue;
		if (!err)
			err = add_calls(g, &stack, export_size(g->e, r), (uint32_t)i + 1);
	}
	export_stack_release(&stack);
	return err;
}

/* ---- drawing ------------------------------------------------------------- */

static double share(const struct graph *g, int64_t size)
{
	return g->t.total ? (double)size / (double)g->t.total : 0;
}

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* From 0 to 1. */
static double weight(const struct graph *g, int64_t size)
{
	return g->largest ? (double)magnitude(size) / (double)g->largest : 0;
}

static void put_node(const struct graph *g, size_t i)
{
	const struct table_row *r = &g->t.row[i];
	double flat = share(g, r->flat), cum = share(g, r->cum);
	struct text_buffer amount;
	char name[LABEL];

	graph_short_name(name, sizeof(name), r->function);
	fprintf(g->out, "n%zu [label=\"", i);
	graph_put_text(g->out, name);
	fputs("\\n", g->out);
	if (r->flat)
		escape_printf(g->out, "%s (%.1f%%)\\r", export_amount(&amount, r->flat),
			      100 * flat);
	if (r->flat != r->cum)
		escape_printf(g->out, "%s%s (%.1f%%)\\r", r->flat ? "of " : "",
			      export_amount(&amount, r->cum), 100 * cum);
	fprintf(g->out, "\", fontsize=%.1f, fillcolor=\"%.2f %.3f 1.0\", tooltip=\"",
		8 + 40 * sqrt(weight(g, r->flat)), r->flat < 0 ? 0.6 : 0.08,
		0.6 * sqrt(weight(g, r->flat)));
	graph_put_text(g->out, r->function);
	fprintf(g->out, ": %" PRId64 " of %" PRId64 " bytes\"];\n", r->flat, r->cum);
}

static void put_edge(const struct graph *g, const struct edge *e)
{
	double part = weight(g, e->size);
	struct text_buffer amount;

	escape_printf(g->out,
		      "n%" PRIu32 " -> n%" PRIu32
		      " [label=\" %s\", weight=%d, penwidth=%.2f%s, tooltip=\"%" PRId64
		      " bytes\"];\n",
		      e->from, e->to, export_amount(&amount, e->size), 1 + (int)(100 * part),
		      0.7 + 5 * part, e->indirect ? ", style=dashed" : "", e->size);
}

static void put_legend(const struct graph *g)
{
	const struct export *e = g->e;
	size_t drawn = 0, all = g->t.count;
	struct text_buffer amount;

	fputs("legend [shape=box, style=\"\", fontsize=18, label=\"", g->out);
	for (size_t i = 0; i < g->nodes; i++) {
		drawn += g->called[i];
		all -= !g->called[i];
	}
	graph_put_text(g->out, e->command ? e->command : "");
	if (e->pid)
		fprintf(g->out, " (%d)", (int)e->pid);
	escape_printf(g->out, "\\lTotal: %s%s %s\\l", e->view->estimated ? "~" : "",
		      export_amount(&amount, g->t.total), export_noun(e));
	graph_put_text(g->out, e->moment);
	fprintf(g->out, "\\l%zu of %zu functions\\l", drawn, all);
	escape_printf(g->out, "Dropped nodes with < %s\\l", export_amount(&amount, g->least_node));
	escape_printf(g->out, "Dropped edges with < %s\\l\", tooltip=\"%" PRId64 " bytes\"];\n",
		      export_amount(&amount, g->least_edge), g->t.total);
}

static void draw(const struct graph *g)
{
	fputs("digraph \"", g->out);
	graph_put_text(g->out, g->e->command ? g->e->command : "");
	fputs("\" {\nnode [shape=box, style=filled, fontname=\"Helvetica\"];\nedge [fontname=\"Helvetica\", fontsize=10];\n",
	      g->out);
	put_legend(g);
	for (size_t i = 0; i < g->nodes; i++)
		if (g->called[i])
			put_node(g, i);
	for (size_t i = 0; i < g->keys.count; i++)
		if (magnitude(g->edge[i].size) >= g->least_edge)
			put_edge(g, &g->edge[i]);
	fputs("}\n", g->out);
}

/* Which functions are drawn. All their names get numbers, in the order of the table. */
static int choose(struct graph *g)
{
	g->largest = magnitude(g->t.total);
	if (g->t.count && g->largest < magnitude(g->t.row[0].cum))
		g->largest = magnitude(g->t.row[0].cum);
	g->least_node = (int64_t)(NODE_FRACTION * (double)g->largest);
	g->least_edge = (int64_t)(EDGE_FRACTION * (double)g->largest);
	g->least_node = g->least_node < 1 ? 1 : g->least_node;
	g->least_edge = g->least_edge < 1 ? 1 : g->least_edge;
	while (g->nodes < g->t.count && g->nodes < NODES &&
	       magnitude(g->t.row[g->nodes].cum) >= g->least_node)
		g->nodes++;
	if (g->nodes == NODES && g->nodes < g->t.count)
		g->least_node = magnitude(g->t.row[NODES - 1].cum);
	for (size_t i = 0; i < g->t.count; i++)
		if (!intern(&g->names, g->t.row[i].function))
			return -ENOMEM;
	return 0;
}

int export_graph(FILE *out, const struct export *e)
{
	struct graph g = { .out = out, .e = e, .names.texts = true };
	struct profile p;
	int err = export_profile(e, &p);

	if (err)
		return err;
	err = table_make(&g.t, &p, e->sites, TABLE_CHANGE, VIEW_ALL);
	profile_release(&p);
	if (err)
		return err;
	err = choose(&g);
	if (!err)
		err = find_edges(&g);
	if (!err)
		draw(&g);
	table_release(&g.t);
	intern_release(&g.names);
	intern_release(&g.keys);
	free(g.edge);
	return err;
}

const struct export_ending graph_endings[] = { { ".svg", "dot -q -Tsvg" },
					       { ".pdf", "dot -q -Tpdf" },
					       { ".png", "dot -q -Tpng" },
					       { ".dot", NULL },
					       { NULL, NULL } };
