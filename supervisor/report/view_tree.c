// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The call tree: stack nodes are one per return address, people want one per function. So every
 * stack is walked and its functions are merged under their parents as they come; a hash of (parent,
 * function) finds the place. Node 0 is the whole; children are sorted at the end. Inlined functions
 * are levels of their own.
 */
static int grow(struct tree *t)
{
	size_t n = t->allocated ? t->allocated * 2 : 1024;
	struct tree_node *node = reallocarray(t->node, n, sizeof(*node));

	if (!node)
		return -ENOMEM;
	t->node = node;
	t->allocated = n;
	return 0;
}

static const char *name(const struct symbol_frame *f) { return f->function ? f->function : "??"; }

/* The node of FRAME's function under PARENT; 0: out of memory. */
static uint32_t below(struct tree *t, uint32_t parent, const struct symbol_frame *frame)
{
	const char *function = name(frame);
	uint32_t hash = hash_text(hash_number(HASH_SEED, parent), function);
	uint32_t i =
		HASH_FIND(&t->nodes, hash, n,
			  t->node[n].parent == parent && !strcmp(t->node[n].function, function));

	if (i)
		return i;
	i = (uint32_t)t->count;
	if ((t->count == t->allocated && grow(t)) || hash_index_add(&t->nodes, hash, i))
		return 0;
	t->count++;
	t->node[i] = (struct tree_node){ .function = function,
					 .frame = frame,
					 .parent = parent,
					 .next = t->node[parent].child };
	t->node[parent].child = i;
	return i;
}

struct path {
	/* outermost or innermost first, as the tree is built */
	const struct symbol_frame **frame;
	size_t count, allocated;
};

static int path_add(struct path *path, const struct symbol_frame *frame)
{
	if (path->count == path->allocated) {
		size_t size = path->allocated ? path->allocated * 2 : 64;
		const struct symbol_frame **more = reallocarray(path->frame, size, sizeof(*more));

		if (!more)
			return -ENOMEM;
		path->frame = more;
		path->allocated = size;
	}
	path->frame[path->count++] = frame;
	return 0;
}

/* Without the allocators' at its beginning. */
static void path_trim(struct path *path)
{
	size_t n = 0;

	while (n < path->count && path->frame[n]->skip & SKIP_ALLOCATOR)
		n++;
	if (n == path->count)
		return;
	path->count -= n;
	memmove(path->frame, path->frame + n, path->count * sizeof(*path->frame));
}

static int path_of(struct path *path, struct sites *sites, uint32_t stack, unsigned shape)
{
	path->count = 0;
	for (uint32_t n = stack;;) {
		struct symbol_frames f = sites_frames(sites, n);

		for (size_t i = 0; i < f.count; i++)
			if (path_add(path, &f.frame[i]))
				return -ENOMEM;
		n = sites_parent(sites, n);
		if (!n)
			break;
	}
	if (shape & TREE_TRIM)
		path_trim(path);
	for (size_t i = 0; !(shape & TREE_INVERT) && i < path->count / 2; i++) {
		const struct symbol_frame *swap = path->frame[i];

		path->frame[i] = path->frame[path->count - 1 - i];
		path->frame[path->count - 1 - i] = swap;
	}
	return 0;
}

struct order {
	const struct tree *t;
};

static int compare(const void *pa, const void *pb, void *ctx)
{
	const struct tree *t = ((const struct order *)ctx)->t;
	const struct tree_node *a = &t->node[*(const uint32_t *)pa],
			       *b = &t->node[*(const uint32_t *)pb];

	return a->size != b->size ? (a->size < b->size ? 1 : -1) : strcmp(a->function, b->function);
}

static int sort_children(struct tree *t, struct sites *sites)
{
	struct order order = { t };
	uint32_t *list = NULL, i;
	size_t allocated = 0, n;
	int err = 0;

	for (size_t parent = 0; parent < t->count && !err; parent++) {
		err = sites_rest(sites);
		for (n = 0, i = t->node[parent].child; i; i = t->node[i].next) {
			if (n == allocated) {
				size_t size = allocated ? allocated * 2 : 64;
				uint32_t *more = reallocarray(list, size, sizeof(*more));

				if (!more) {
					free(list);
					return -ENOMEM;
				}
				list = more;
				allocated = size;
			}
			list[n++] = i;
		}
		if (n < 2)
			continue;
		qsort_r(list, n, sizeof(*list), compare, &order);
		t->node[parent].child = list[0];
		for (size_t k = 0; k < n; k++)
			t->node[list[k]].next = k + 1 < n ? list[k + 1] : 0;
	}
	free(list);
	return err;
}

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* From the last node to the first: a node comes before its children. */
static void weigh(struct tree *t)
{
	for (size_t i = t->count; i-- > 0;) {
		struct tree_node *n = &t->node[i], *parent = &t->node[n->parent];

		if (n->weight < magnitude(n->size))
			n->weight = magnitude(n->size);
		if (parent->weight < n->weight)
			parent->weight = n->weight;
	}
}

int tree_make(struct tree *t, const struct profile *p, struct sites *sites, unsigned shape,
	      unsigned depth)
{
	struct path path = { 0 };
	int err;

	*t = (struct tree){ .estimated = p->estimated };
	err = grow(t);
	if (!err) {
		t->count = 1;
		t->node[0] = (struct tree_node){ .function = "(total)" };
	}
	for (size_t i = 0; i < p->count && !err; i++) {
		const struct profile_row *r = &p->row[i];
		uint32_t at = 0;

		err = sites_rest(sites);
		if (err || (r->size == 0 && r->count == 0))
			continue;
		err = path_of(&path, sites, r->stack, shape);
		t->node[0].size += r->size;
		t->node[0].count += r->count;
		for (size_t k = 0; k < path.count && k < depth; k++) {
			at = below(t, at, path.frame[k]);
			if (!at) {
				err = -ENOMEM;
				break;
			}
			t->node[at].size += r->size;
			t->node[at].count += r->count;
		}
		t->node[at].self += r->size;
	}
	free(path.frame);
	if (!err)
		err = sort_children(t, sites);
	if (err)
		tree_release(t);
	else
		weigh(t);
	return err;
}

static int by_size(const void *pa, const void *pb)
{
	const int64_t *a = pa, *b = pb;

	return *a < *b ? 1 : *a > *b ? -1 : 0;
}

/* The children of NODE that are not in KEEP are merged into the first of them, which goes last. */
static void merge_children(struct tree *t, uint32_t node, const bool *keep)
{
	uint32_t *link = &t->node[node].child, others = 0, next;
	int64_t size = 0, count = 0, weight = 0;

	for (uint32_t c = *link; c; c = next) {
		next = t->node[c].next;
		if (keep[c]) {
			*link = c;
			link = &t->node[c].next;
			continue;
		}
		others = others ? others : c;
		size += t->node[c].size;
		count += t->node[c].count;
		weight = t->node[c].weight > weight ? t->node[c].weight : weight;
	}
	*link = others;
	if (others)
		t->node[others] = (struct tree_node){ .function = "(others)",
						      .size = size,
						      .self = size,
						      .count = count,
						      .weight = weight,
						      .parent = node };
}

/* A node comes before its children and weighs no less: so what is kept is a tree. */
int tree_cut(struct tree *t, size_t limit)
{
	size_t nodes = t->count - 1, least = 0;
	int64_t *size;
	bool *keep;

	if (nodes <= limit)
		return 0;
	size = malloc(nodes * sizeof(*size));
	keep = calloc(t->count, sizeof(*keep));
	if (!size || !keep) {
		free(size);
		free(keep);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nodes; i++)
		size[i] = t->node[i + 1].weight;
	qsort(size, nodes, sizeof(*size), by_size);
	for (size_t i = 0; limit && i < limit; i++)
		least += size[i] == size[limit - 1];
	keep[0] = true;
	for (size_t i = 1; i < t->count && limit; i++) {
		keep[i] = t->node[i].weight > size[limit - 1] ||
			  (t->node[i].weight == size[limit - 1] && least);
		least -= keep[i] && t->node[i].weight == size[limit - 1];
	}
	for (size_t i = 0; i < t->count; i++)
		if (keep[i])
			merge_children(t, (uint32_t)i, keep);
	free(size);
	free(keep);
	return 0;
}

void tree_release(struct tree *t)
{
	free(t->node);
	hash_index_release(&t->nodes);
	*t = (struct tree){ 0 };
}
