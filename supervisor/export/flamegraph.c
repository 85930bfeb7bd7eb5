// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "export/export.h"
#include "export/xml.h"

/*
 * A flame graph in one SVG file: callers above, what they call beneath, as wide as what they hold;
 * the widest of a function's callees comes first. It is drawn here for a width of 1200, readable
 * where scripts do not run; flamegraph.js, which is in the file, does the rest in a browser.
 *
 * Colours say where code is from: the program's own is orange, each other module has a colour of
 * its own, libc and what has no module are grey. Frames narrower than 1/12000 of the whole are not
 * drawn: nobody could see them, and there may be millions. Where that leaves too many for a browser
 * those narrower than a pixel are not, either.
 */
#define WIDTH	  1200
#define PAD	  10
#define INNER	  (WIDTH - 2 * PAD)
#define TOP	  74 /* of the first row */
#define ROW	  17
#define CHARACTER 7.0 /* width of one */
#define THINNEST  12000
#define MANY	  4000u /* frames */

extern const char flamegraph_js[], flamegraph_js_end[];

struct drawing {
	FILE *out;
	const struct export *e;
	const struct tree *t;
	int64_t least; /* bytes */
	int thinnest;  /* the same, as a part of the whole */
	size_t hidden;
};

/* ---- colours ------------------------------------------------------------- */

static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u;

	for (; text && *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h ^ h >> 15;
}

static void colour(const struct drawing *d, const struct symbol_frame *f, char text[8])
{
	/* light enough for black text */
	static const unsigned char others[][3] = {
		{ 126, 196, 122 }, { 115, 178, 224 }, { 178, 157, 222 }, { 228, 150, 178 },
		{ 118, 204, 192 }, { 200, 196, 104 }, { 160, 176, 230 }, { 214, 160, 122 },
	};
	static const unsigned char own[3] = { 250, 168, 84 }, grey[3] = { 190, 190, 190 };
	const unsigned char *base = grey;
	unsigned rgb[3];

	if (f && f->module && d->e->exe && !strcmp(f->module, d->e->exe))
		base = own;
	else if (f && f->module && !strstr(f->module, "/libc.so") && !strstr(f->module, "/libc-") &&
		 !strstr(f->module, "/ld-"))
		base = others[hash(f->module) % (sizeof(others) / sizeof(*others))];
	for (int i = 0; i < 3; i++) { /* neighbours are told apart */
		rgb[i] = base[i] + (f ? hash(f->function) / (1u + 40u * (unsigned)i) % 40 : 20);
		rgb[i] = rgb[i] > 255 ? 255 : rgb[i];
	}
	snprintf(text, 8, "#%02x%02x%02x", rgb[0] & 0xff, rgb[1] & 0xff, rgb[2] & 0xff);
}

/* ---- frames -------------------------------------------------------------- */

static int64_t total(const struct drawing *d) { return d->t->node[0].size; }

static void put_title(struct drawing *d, const struct tree_node *n)
{
	const struct symbol_frame *f = n->frame;
	struct text_buffer size;

	fputs("<title>", d->out);
	xml_put(d->out, f ? export_name(f) : "all");
	escape_printf(d->out, "\n%s (%" PRId64 " byte%s), %.2f %%, %" PRId64 " block%s",
		      export_amount(&size, n->size), n->size, plural((uint64_t)n->size),
		      total(d) ? 100.0 * (double)n->size / (double)total(d) : 0, n->count,
		      plural((uint64_t)n->count));
	if (f && f->file) {
		putc('\n', d->out);
		xml_put(d->out, f->file);
		if (f->line)
			fprintf(d->out, ":%u", f->line);
	}
	if (f && f->module) {
		fputs("\nin ", d->out);
		xml_put(d->out, f->module);
	}
	fputs("</title>", d->out);
}

/* Node N, AT bytes from the left, in row DEPTH. */
static void put_frame(struct drawing *d, const struct tree_node *n, int64_t at, unsigned depth)
{
	double scale = total(d) ? (double)INNER / (double)total(d) : 0;
	double x = PAD + (double)at * scale, w = total(d) ? (double)n->size * scale : INNER;
	unsigned y = TOP + depth * ROW;
	char fill[8];

	colour(d, n->frame, fill);
	fprintf(d->out, "<g class=\"frame\" data-at=\"%" PRId64 " %" PRId64 " %u\">", at, n->size,
		depth);
	put_title(d, n);
	escape_printf(
		d->out,
		"<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" rx=\"1\" fill=\"%s\"/><text x=\"%.2f\" y=\"%u\">",
		x, y, w > 0.7 ? w - 0.5 : 0.2, ROW - 1, fill, x + 3, y + 12);
	if (w >= 6 + 3 * CHARACTER)
		xml_put_cut(d->out, n->frame ? export_name(n->frame) : "all",
			    (size_t)((w - 6) / CHARACTER));
	fputs("</text></g>\n", d->out);
}

/*
 * The frames below NODE that are wide enough, outer ones before inner ones, from left to right.
 * Depth is bounded: --depth's frames and what is inlined.
 */
static int put_frames(struct drawing *d)
{
	uint32_t node = 0;
	int64_t at = 0;
	unsigned depth = 0;

	for (;;) {
		const struct tree_node *n = &d->t->node[node];
		bool shown = node == 0 || n->size >= d->least;

		if (shown)
			put_frame(d, n, at, depth);
		else
			d->hidden++;
		if (shown && n->child) {
			node = n->child;
			depth++;
			continue;
		}
		at += n->size;
		while (node && !d->t->node[node].next) {
			const struct tree_node *up = &d->t->node[d->t->node[node].parent];

			at += up->self;
			node = d->t->node[node].parent;
			depth--;
		}
		if (!node)
			return 0;
		node = d->t->node[node].next;
		if (export_rest(d->e))
			return -EINTR;
	}
}

static unsigned deepest(const struct tree *t, int64_t least)
{
	unsigned deep = 0, depth = 0;
	uint32_t node = 0;

	for (;;) {
		const struct tree_node *n = &t->node[node];

		if (node && n->size >= least && depth > deep)
			deep = depth;
		if ((node == 0 || n->size >= least) && n->child) {
			node = n->child;
			depth++;
			continue;
		}
		while (node && !t->node[node].next) {
			node = t->node[node].parent;
			depth--;
		}
		if (!node)
			return deep;
		node = t->node[node].next;
	}
}

/* ---- the page ------------------------------------------------------------ */

static void put_head(struct drawing *d, unsigned height)
{
	const struct export *e = d->e;
	struct text_buffer size;

	fprintf(d->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" height=\"%u\">\n"
		"<style>\n"
		"text { font: 12px \"DejaVu Sans Mono\", Menlo, Consolas, monospace; fill: #000; }\n"
		"#title { font: bold 16px sans-serif; } #subtitle, #matched { font: 13px sans-serif; }\n"
		"#search, #reset { fill: #7fb2e5; } g.frame rect { filter: brightness(0.8); } g.frame:hover rect { stroke: #fff; } }\n"
		"#search, #reset { font: 13px sans-serif; fill: #06c; cursor: pointer; } #search:hover, #reset:hover { text-decoration: underline; }\n"
		"g.frame text { font-size: 11.6px; pointer-events: none; } g.frame { cursor: pointer; } g.frame:hover rect { stroke: #000; stroke-width: 1; }\n"
		"@media (prefers-color-scheme: dark) {\n"
		"#background { fill: #16191d; } #title, #subtitle, #matched, #detail { fill: #e4e7ea; } #search, #reset { fill: #7fb2e5; }\n"
		"g.frame rect { filter: brightness(0.8); } g.frame:hover rect { stroke: #fff; }\n"
		"}\n"
		"</style>\n"
		"<rect id=\"background\" width=\"%d\" height=\"%u\" fill=\"#fff\"/>\n"
		"<text id=\"title\" x=\"%d\" y=\"22\">",
		WIDTH, height, WIDTH, height, PAD);
	xml_put_cut(d->out, e->command ? e->command : "", 80);
	if (e->pid)
		fprintf(d->out, " (%d)", (int)e->pid);
	escape_printf(d->out,
		      "</text>\n<text id=\"subtitle\" x=\"%d\" y=\"42\">%s%s %s (%" PRId64
		      " byte%s in %" PRId64 " block%s), ",
		      PAD, e->view->estimated ? "~" : "", export_amount(&size, total(d)),
		      export_noun(e), total(d), plural((uint64_t)total(d)), d->t->node[0].count,
		      plural((uint64_t)d->t->node[0].count));
	xml_put(d->out, e->moment);
	fputs("</text>\n", d->out);
	fprintf(d->out,
		"<text id=\"search\" x=\"%d\" y=\"22\" text-anchor=\"end\" style=\"display: none\">search</text>\n"
		"<text id=\"reset\" x=\"%d\" y=\"22\" text-anchor=\"end\" style=\"display: none\">reset zoom</text>\n"
		"<text id=\"matched\" x=\"%d\" y=\"42\" text-anchor=\"end\"></text>\n"
		"<text id=\"detail\" x=\"%d\" y=\"62\"></text>\n",
		WIDTH - PAD, WIDTH - PAD - 80, WIDTH - PAD, PAD);
}

static int draw(struct drawing *d)
{
	unsigned height = TOP + (deepest(d->t, d->least) + 1) * ROW + 28;
	int err;

	put_head(d, height);
	err = put_frames(d);
	if (d->hidden)
		escape_printf(
			d->out,
			"<text x=\"%d\" y=\"%u\" style=\"fill: #666\">%zu branch%s narrower than 1/%d of the width %s not drawn</text>\n",
			PAD, height - 10, d->hidden, d->hidden == 1 ? "" : "es", d->thinnest,
			d->hidden == 1 ? "is" : "are");
	fputs("<script><![CDATA[\n", d->out);
	fwrite(flamegraph_js, 1, (size_t)(flamegraph_js_end - flamegraph_js), d->out);
	fputs("]]></script>\n</svg>\n", d->out);
	return err;
}

static void draw_from(struct drawing *d, int thinnest)
{
	int64_t least = total(d) / thinnest;

	d->thinnest = thinnest;
	d->least = least < 1 ? 1 : least;
}

static size_t drawn(const struct drawing *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->t->count; i++)
		n += d->t->node[i].size >= d->least;
	return n;
}

int export_flamegraph(FILE *out, const struct export *e)
{
	struct drawing d = { .out = out, .e = e };
	struct profile p;
	struct tree t;
	int err = export_profile(e, &p);

	if (err)
		return err;
	err = tree_make(&t, &p, e->sites, TREE_TRIM, UINT32_MAX);
	profile_release(&p);
	if (err)
		return err;
	d.t = &t;
	draw_from(&d, THINNEST);
	if (drawn(&d) > MANY)
		draw_from(&d, INNER);
	err = draw(&d);
	tree_release(&t);
	return err;
}
