// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/intern.h"

/*
 * jeprof's table. A function's cum is the sum of the stacks that it is in. Going through every
 * frame of every stack would cost stacks times depth; stacks are a tree, so one walk over the nodes
 * that lead to something live does it: entering a node adds what all stacks through it hold to each
 * of its functions that is not already open further out (recursion counts once). An allocator's
 * functions are left out, but where a stack has no others.
 *
 * The nodes are given by number, parents below children: sums go up in one pass from the highest to
 * the lowest, which also strings the children of each node together for the walk.
 */
struct forest {
	size_t nodes; /* ids are below this */
	int64_t *sum; /* of stacks through the node */
	uint8_t *used;
	uint32_t *child, *sibling; /* lists of used nodes; child[0]: the outermost ones */
};

static int forest_make(struct forest *f, const struct profile *p, struct sites *sites)
{
	*f = (struct forest){ .nodes = 1 };
	for (size_t i = 0; i < p->count; i++)
		if (p->row[i].stack >= f->nodes)
			f->nodes = (size_t)p->row[i].stack + 1;
	f->sum = calloc(f->nodes, sizeof(*f->sum));
	f->used = calloc(f->nodes, 1);
	f->child = calloc(f->nodes, sizeof(*f->child));
	f->sibling = calloc(f->nodes, sizeof(*f->sibling));
	if (!f->sum || !f->used || !f->child || !f->sibling)
		return -ENOMEM;
	for (size_t i = 0; i < p->count; i++) {
		f->sum[p->row[i].stack] += p->row[i].size;
		f->used[p->row[i].stack] = 1;
	}
	for (size_t id = f->nodes - 1; id > 0; id--) {
		int err = sites_rest(sites);
		uint32_t parent;

		if (err)
			return err;
		if (!f->used[id])
			continue;
		parent = sites_parent(sites, (uint32_t)id);
		f->sum[parent] += f->sum[id];
		f->used[parent] = 1;
		f->sibling[id] = f->child[parent];
		f->child[parent] = (uint32_t)id;
	}
	return 0;
}

static void forest_release(struct forest *f)
{
	free(f->sum);
	free(f->used);
	free(f->child);
	free(f->sibling);
}

struct function {
	int64_t cum, flat;
	uint32_t open; /* how many times it is open on the way from the root */
	bool cut;      /* second walk: only these count, as one */
};

struct walk {
	struct forest f;
	struct sites *sites;
	/*
	 * functions have the numbers of their names; frames keep their addresses as the symbols
	 * live
	 */
	struct intern names, frames;
	uint32_t *name; /* by frame: its function's number */
	size_t name_room;
	struct function *function;
	size_t functions, function_room;
	bool cutting;
	int64_t cut_cum;
	uint32_t cut_open;
};

/* The function of frame F. NULL: out of memory. */
static struct function *function_of(struct walk *w, const struct symbol_frame *f)
{
	size_t before = w->frames.count;
	uint32_t frame = intern(&w->frames, f);

	if (!frame)
		return NULL;
	if (frame > before) {
		uint32_t name = intern(&w->names, f->function ? f->function : "??");

		if (!name || array_room(&w->name, before, &w->name_room, sizeof(*w->name)) ||
		    array_room(&w->function, w->functions, &w->function_room, sizeof(*w->function)))
			return NULL;
		if (name > w->functions)
			w->function[w->functions++] = (struct function){ 0 };
		w->name[before] = name;
	}
	return &w->function[w->name[frame - 1] - 1];
}

static int enter(struct walk *w, uint32_t node)
{
	struct symbol_frames f = sites_frames(w->sites, node);

	for (size_t i = f.count; i-- > 0;) {
		struct function *of;

		if (f.frame[i].skip & SKIP_ALLOCATOR)
			continue;
		of = function_of(w, &f.frame[i]);
		if (!of)
			return -ENOMEM;
		if (w->cutting) {
			if (of->cut && w->cut_open++ == 0)
				w->cut_cum += w->f.sum[node];
		} else if (of->open++ == 0) {
			of->cum += w->f.sum[node];
		}
	}
	return 0;
}

static void leave(struct walk *w, uint32_t node)
{
	struct symbol_frames f = sites_frames(w->sites, node);

	for (size_t i = 0; i < f.count; i++) {
		struct function *of =
			f.frame[i].skip & SKIP_ALLOCATOR ? NULL : function_of(w, &f.frame[i]);

		if (!of)
			continue;
		if (!w->cutting)
			of->open--;
		else if (of->cut)
			w->cut_open--;
	}
}

static int walk(struct walk *w)
{
	uint32_t node = w->f.child[0];

	while (node) {
		int err = sites_rest(w->sites);

		if (err)
			return err;
		if (enter(w, node))
			return -ENOMEM;
		if (w->f.child[node]) {
			node = w->f.child[node];
			continue;
		}
		for (;;) {
			leave(w, node);
			if (w->f.sibling[node]) {
				node = w->f.sibling[node];
				break;
			}
			node = sites_parent(w->sites, node);
			if (!node)
				break;
		}
	}
	return 0;
}

/* The innermost frame that is no allocator; if all are, the innermost. */
static const struct symbol_frame *leaf(struct sites *sites, uint32_t stack)
{
	struct symbol_frames first = sites_frames(sites, stack);

	for (uint32_t n = stack; n; n = sites_parent(sites, n)) {
		struct symbol_frames f = sites_frames(sites, n);

		for (size_t i = 0; i < f.count; i++)
			if (!(f.frame[i].skip & SKIP_ALLOCATOR))
				return &f.frame[i];
	}
	return &first.frame[0];
}

static int flats(struct walk *w, const struct profile *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct symbol_frame *f = leaf(w->sites, p->row[i].stack);
		struct function *of = function_of(w, f);
		int err = sites_rest(w->sites);

		if (err)
			return err;
		if (!of)
			return -ENOMEM;
		of->flat += p->row[i].size;
		if (p->row[i].stack == 0 || f->skip & SKIP_ALLOCATOR)
			of->cum += p->row[i].size;
	}
	return 0;
}

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

static int down(int64_t a, int64_t b, const struct table_row *x, const struct table_row *y)
{
	return a != b ? (a < b ? 1 : -1) : strcmp(x->function, y->function);
}

static int by_flat(const void *a, const void *b)
{
	const struct table_row *x = a, *y = b;

	return down(x->flat, y->flat, x, y);
}

static int by_cum(const void *a, const void *b)
{
	const struct table_row *x = a, *y = b;

	return down(x->cum, y->cum, x, y);
}

static int by_change(const void *a, const void *b)
{
	const struct table_row *x = a, *y = b;

	return down(magnitude(x->cum), magnitude(y->cum), x, y);
}

static int (*const orders[])(const void *a, const void *b) = {
	[TABLE_FLAT] = by_flat, [TABLE_CUM] = by_cum, [TABLE_CHANGE] = by_change
};

/*
 * What was cut off becomes one row. Its cum needs a second walk: a stack with two of these
 * functions counts once.
 */
static int cut(struct table *t, struct walk *w, size_t limit)
{
	if (t->count <= limit)
		return 0;
	w->cutting = true;
	for (size_t i = 0; i < w->functions; i++)
		w->function[i].cut = true;
	for (size_t i = 0; i < t->count; i++) {
		if (i >= limit) {
			t->others.flat += t->row[i].flat;
			continue;
		}
		w->function[t->row[i].id].cut = false;
	}
	t->others.function = "(others)";
	t->count = limit;
	if (walk(w))
		return -ENOMEM;
	t->others.cum = w->cut_cum;
	return 0;
}

int table_make(struct table *t, const struct profile *p, struct sites *sites,
	       enum table_order order, size_t limit)
{
	struct walk w = { .sites = sites, .names = { .texts = true } };
	int err;

	*t = (struct table){ .estimated = p->estimated };
	err = forest_make(&w.f, p, sites);
	if (!err)
		err = walk(&w);
	if (!err)
		err = flats(&w, p);
	if (!err) {
		t->row = calloc(w.functions + 1, sizeof(*t->row));
		if (!t->row)
			err = -ENOMEM;
	}
	if (!err) {
		for (size_t i = 0; i < p->count; i++)
			t->total += p->row[i].size;
		for (size_t id = 0; id < w.functions; id++) {
			const struct function *f = &w.function[id];

			if (f->flat || f->cum)
				t->row[t->count++] = (struct table_row){ w.names.key[id], f->flat,
									 f->cum, (uint32_t)id };
		}
		qsort(t->row, t->count, sizeof(*t->row), orders[order]);
		err = cut(t, &w, limit);
	}
	forest_release(&w.f);
	intern_release(&w.names);
	intern_release(&w.frames);
	free(w.name);
	free(w.function);
	if (err)
		table_release(t);
	return err;
}

void table_release(struct table *t)
{
	free(t->row);
	*t = (struct table){ 0 };
}
