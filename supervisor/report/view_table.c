/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

struct names {
	const char **text; /* by id */
	size_t count, allocated;
	/* open addressing */
	struct {
		const struct symbol_frame *frame;
		uint32_t id;
	} * by_frame;
	size_t nframes, frames_used;
	uint32_t *by_text; /* id + 1 */
	size_t ntexts;
};

static size_t pointer_hash(const void *p)
{
	return (size_t)((uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15ull >> 20);
}

static size_t text_hash(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h ^ h >> 15;
}

static int names_grow_frames(struct names *n)
{
	size_t size = n->nframes ? n->nframes * 2 : 4096;
	typeof(n->by_frame) table = calloc(size, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < n->nframes; i++) {
		size_t at = pointer_hash(n->by_frame[i].frame) & (size - 1);

		if (!n->by_frame[i].frame)
			continue;
		while (table[at].frame)
			at = (at + 1) & (size - 1);
		table[at] = n->by_frame[i];
	}
	free(n->by_frame);
	n->by_frame = table;
	n->nframes = size;
	return 0;
}

static int names_grow_texts(struct names *n)
{
	size_t size = n->allocated ? n->allocated * 2 : 1024;
	const char **text = reallocarray(n->text, size, sizeof(*text));
	uint32_t *table;

	if (!text)
		return -ENOMEM;
	n->text = text;
	table = calloc(size * 2, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < n->count; i++) {
		size_t at = text_hash(text[i]) & (size * 2 - 1);

		while (table[at])
			at = (at + 1) & (size * 2 - 1);
		table[at] = (uint32_t)i + 1;
	}
	free(n->by_text);
	n->by_text = table;
	n->ntexts = size * 2;
	n->allocated = size;
	return 0;
}

/*
 * The number of the function at F, or -ENOMEM. Frames are kept for the life of the symbols, so
 * their addresses are good keys.
 */
static int64_t names_id(struct names *n, const struct symbol_frame *f)
{
	const char *text = f->function ? f->function : "??";
	size_t at, slot;

	if (n->frames_used * 2 >= n->nframes && names_grow_frames(n))
		return -ENOMEM;
	for (at = pointer_hash(f) & (n->nframes - 1); n->by_frame[at].frame;
	     at = (at + 1) & (n->nframes - 1))
		if (n->by_frame[at].frame == f)
			return n->by_frame[at].id;
	if (n->count == n->allocated && names_grow_texts(n))
		return -ENOMEM;
	for (slot = text_hash(text) & (n->ntexts - 1); n->by_text[slot];
	     slot = (slot + 1) & (n->ntexts - 1))
		if (!strcmp(n->text[n->by_text[slot] - 1], text))
			break;
	if (!n->by_text[slot]) {
		n->text[n->count++] = text;
		n->by_text[slot] = (uint32_t)n->count;
	}
	n->by_frame[at].frame = f;
	n->by_frame[at].id = n->by_text[slot] - 1;
	n->frames_used++;
	return n->by_frame[at].id;
}

static void names_release(struct names *n)
{
	free(n->text);
	free(n->by_frame);
	free(n->by_text);
}

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

struct walk {
	struct forest f;
	struct names names;
	struct sites *sites;
	int64_t *cum, *flat; /* by function */
	uint32_t *open;	     /* how many times it is open on the way from the root */
	uint8_t *cut;	     /* second walk: only these count, as one */
	size_t allocated;
	int64_t cut_cum;
	uint32_t cut_open;
};

static int walk_room(struct walk *w)
{
	size_t n = w->names.allocated;

	if (n <= w->allocated)
		return 0;
	w->cum = reallocarray(w->cum, n, sizeof(*w->cum));
	w->flat = reallocarray(w->flat, n, sizeof(*w->flat));
	w->open = reallocarray(w->open, n, sizeof(*w->open));
	if (!w->cum || !w->flat || !w->open)
		return -ENOMEM;
	memset(w->cum + w->allocated, 0, (n - w->allocated) * sizeof(*w->cum));
	memset(w->flat + w->allocated, 0, (n - w->allocated) * sizeof(*w->flat));
	memset(w->open + w->allocated, 0, (n - w->allocated) * sizeof(*w->open));
	w->allocated = n;
	return 0;
}

static int enter(struct walk *w, uint32_t node)
{
	struct symbol_frames f = sites_frames(w->sites, node);

	for (size_t i = f.count; i-- > 0;) {
		int64_t id;

		if (f.frame[i].skip & SKIP_ALLOCATOR)
			continue;
		id = names_id(&w->names, &f.frame[i]);
		if (id < 0 || walk_room(w))
			return -ENOMEM;
		if (w->cut) {
			if (w->cut[id] && w->cut_open++ == 0)
				w->cut_cum += w->f.sum[node];
		} else if (w->open[id]++ == 0) {
			w->cum[id] += w->f.sum[node];
		}
	}
	return 0;
}

static void leave(struct walk *w, uint32_t node)
{
	struct symbol_frames f = sites_frames(w->sites, node);

	for (size_t i = 0; i < f.count; i++) {
		int64_t id = f.frame[i].skip & SKIP_ALLOCATOR ? -1
							      : names_id(&w->names, &f.frame[i]);

		if (id < 0)
			continue;
		if (!w->cut)
			w->open[id]--;
		else if (w->cut[id])
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
		int64_t id = names_id(&w->names, f);
		int err = sites_rest(w->sites);

		if (err)
			return err;
		if (id < 0 || walk_room(w))
			return -ENOMEM;
		w->flat[id] += p->row[i].size;
		if (p->row[i].stack == 0 || f->skip & SKIP_ALLOCATOR)
			w->cum[id] += p->row[i].size;
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
	w->cut = calloc(w->names.count, 1);
	if (!w->cut)
		return -ENOMEM;
	memset(w->cut, 1, w->names.count);
	for (size_t i = 0; i < t->count; i++) {
		if (i >= limit) {
			t->others.flat += t->row[i].flat;
			continue;
		}
		w->cut[t->row[i].id] = 0;
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
	struct walk w = { .sites = sites };
	int err;

	*t = (struct table){ .estimated = p->estimated };
	err = forest_make(&w.f, p, sites);
	if (!err)
		err = walk(&w);
	if (!err)
		err = flats(&w, p);
	if (!err) {
		t->row = calloc(w.names.count + 1, sizeof(*t->row));
		if (!t->row)
			err = -ENOMEM;
	}
	if (!err) {
		for (size_t i = 0; i < p->count; i++)
			t->total += p->row[i].size;
		for (size_t id = 0; id < w.names.count; id++)
			if (w.flat[id] || w.cum[id])
				t->row[t->count++] = (struct table_row){ w.names.text[id],
									 w.flat[id], w.cum[id],
									 (uint32_t)id };
		qsort(t->row, t->count, sizeof(*t->row), orders[order]);
		err = cut(t, &w, limit);
	}
	forest_release(&w.f);
	names_release(&w.names);
	free(w.cum);
	free(w.flat);
	free(w.open);
	free(w.cut);
	if (err)
		table_release(t);
	return err;
}

void table_release(struct table *t)
{
	free(t->row);
	*t = (struct table){ 0 };
}
