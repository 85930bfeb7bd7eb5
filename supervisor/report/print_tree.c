// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "report/function_name.h"

/*
 * print_tree.c - the call tree, drawn and as JSON.
 *
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
	bool screen = layout_on_screen(d->l);
	size_t len = d->len, used;
	char text[32], part[16];
	struct text_buffer human;

	if (screen)
		snprintf(text, sizeof(text), "%s%s%s", size < 0 ? "-" : "",
			 print_about(d->t->estimated),
			 layout_size(d->l, &human, size < 0 ? -(uint64_t)size : (uint64_t)size));
	else
		snprintf(text, sizeof(text), "%s%" PRId64, print_about(d->t->estimated), size);
	print_percent(part, sizeof(part), size, d->t->node[0].size);
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
		if (!layout_on_screen(d->l) || !is_library(&d->t->node[only]) ||
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
	if (layout_on_screen(l)) {
		print_before_line(out, l, t->before);
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
	print_before_json(j, "size", b, b->bytes);
	print_before_json(j, "self", b, b->bytes);
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
