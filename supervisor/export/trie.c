// SPDX-License-Identifier: GPL-3.0-or-later
#include "export/trie.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"

/*
 * Two hash tables with chains through the entries: of frames by what they read, of nodes by parent
 * and frame. Both are as large as their rooms for entries, and grow with them. A stack's node is
 * remembered by the stack's number: the same stacks come again for each moment.
 */
/*
 * *ENTRY has room for one more than N, *BUCKET (cleared if it is new) as many as entries. True: the
 * buckets are to be filled.
 */
static int grow(void **entry, uint32_t **bucket, size_t *room, size_t n, size_t size, bool *again)
{
	size_t more = *room ? *room * 2 : 1024;
	void *moved;
	uint32_t *fresh;

	*again = false;
	if (n < *room)
		return 0;
	moved = reallocarray(*entry, more, size);
	if (!moved)
		return -ENOMEM;
	*entry = moved;
	fresh = calloc(more, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	free(*bucket);
	*bucket = fresh;
	*room = more;
	*again = true;
	return 0;
}

int trie_init(struct trie *t, bool inverted)
{
	bool again;
	int err;

	*t = (struct trie){ .inverted = inverted };
	err = grow((void **)&t->node, &t->node_bucket, &t->node_room, 0, sizeof(*t->node), &again);
	if (err) {
		trie_release(t);
		return err;
	}
	t->node[t->nodes++] = (struct trie_node){ 0 };
	return 0;
}

/* ---- frames -------------------------------------------------------------- */

static void frame_link(struct trie *t, size_t i)
{
	uint32_t *bucket = &t->frame_bucket[symbols_hash_line(HASH_SEED, &t->frame[i].at) &
					    (t->frame_room - 1)];

	t->frame[i].next = *bucket;
	*bucket = (uint32_t)i + 1;
}

/* F: one of L's, or what is taken for it. */
static int frame_number(struct trie *t, const struct export *e, const struct export_location *l,
			const struct symbol_frame *f, uint32_t *number)
{
	bool again;
	int err = grow((void **)&t->frame, &t->frame_bucket, &t->frame_room, t->frames,
		       sizeof(*t->frame), &again);

	if (err)
		return err;
	for (size_t i = 0; again && i < t->frames; i++)
		frame_link(t, i);
	for (uint32_t at = t->frame_bucket[symbols_hash_line(HASH_SEED, f) & (t->frame_room - 1)];
	     at; at = t->frame[at - 1].next)
		if (symbols_same_line(&t->frame[at - 1].at, f)) {
			*number = at - 1;
			return 0;
		}
	*number = (uint32_t)t->frames;
	t->frame[t->frames] = (struct trie_frame){ .at = *f, .address = export_address(e, l) };
	frame_link(t, t->frames++);
	return 0;
}

/* ---- nodes --------------------------------------------------------------- */

static uint32_t node_hash(uint32_t parent, uint32_t frame)
{
	return hash_number(hash_number(HASH_SEED, parent), frame);
}

static void node_link(struct trie *t, size_t i)
{
	uint32_t *bucket = &t->node_bucket[node_hash(t->node[i].parent, t->node[i].frame) &
					   (t->node_room - 1)];

	t->node[i].next = *bucket;
	*bucket = (uint32_t)i;
}

/* *NODE becomes its child at FRAME. */
static int node_step(struct trie *t, uint32_t frame, uint32_t *node)
{
	bool again;
	int err = grow((void **)&t->node, &t->node_bucket, &t->node_room, t->nodes,
		       sizeof(*t->node), &again);

	if (err)
		return err;
	for (size_t i = 1; again && i < t->nodes; i++)
		node_link(t, i);
	for (uint32_t at = t->node_bucket[node_hash(*node, frame) & (t->node_room - 1)]; at;
	     at = t->node[at].next)
		if (t->node[at].parent == *node && t->node[at].frame == frame) {
			*node = at;
			return 0;
		}
	t->node[t->nodes] = (struct trie_node){ .parent = *node, .frame = frame };
	node_link(t, t->nodes);
	*node = (uint32_t)t->nodes++;
	return 0;
}

/* ---- stacks -------------------------------------------------------------- */

static int step(struct trie *t, const struct export *e, const struct export_location *l,
		size_t frame, uint32_t *node)
{
	struct symbol_frame f = l->frames.frame[frame];
	uint32_t number;
	int err;

	if (t->functions)
		f.line = f.column = 0;
	err = frame_number(t, e, l, &f, &number);
	return err ? err : node_step(t, number, node);
}

static int take_apart(struct trie *t, const struct export *e, uint32_t stack, uint32_t *node)
{
	int err = export_stack(e, &(struct view_row){ .stack = stack }, &t->stack);

	*node = 0;
	for (size_t i = 0; i < t->stack.count && !err; i++) {
		const struct export_location *l =
			&t->stack.location[t->inverted ? i : t->stack.count - 1 - i];

		for (size_t j = 0; j < l->frames.count && !err; j++)
			err = step(t, e, l, t->inverted ? j : l->frames.count - 1 - j, node);
	}
	return err;
}

static int reach(struct trie *t, uint32_t stack)
{
	size_t n = t->leaves ? t->leaves : 1024;
	uint32_t *leaf;

	if (stack < t->leaves)
		return 0;
	while (n <= stack)
		n *= 2;
	leaf = reallocarray(t->leaf, n, sizeof(*leaf));
	if (!leaf)
		return -ENOMEM;
	memset(leaf + t->leaves, 0, (n - t->leaves) * sizeof(*leaf));
	t->leaf = leaf;
	t->leaves = n;
	return 0;
}

int trie_stack(struct trie *t, const struct export *e, uint32_t stack, uint32_t *node)
{
	int err = reach(t, stack);

	if (!err && !t->leaf[stack])
		err = take_apart(t, e, stack, &t->leaf[stack]);
	if (!err)
		*node = t->leaf[stack];
	return err;
}

int trie_view(struct trie *t, const struct export *e)
{
	uint32_t node;
	int err = 0;

	for (size_t i = 0; i < e->view->count && !err; i++) {
		err = export_rest(e);
		if (!err)
			err = trie_stack(t, e, e->view->row[i].stack, &node);
	}
	return err;
}

void trie_sum(const struct trie *t, const struct profile *p, int64_t *sum)
{
	memset(sum, 0, t->nodes * sizeof(*sum));
	for (size_t i = 0; i < p->count; i++)
		sum[t->leaf[p->row[i].stack]] += p->row[i].size;
	for (size_t i = t->nodes; i-- > 1;)
		sum[t->node[i].parent] += sum[i];
}

void trie_release(struct trie *t)
{
	free(t->frame);
	free(t->node);
	free(t->leaf);
	free(t->frame_bucket);
	free(t->node_bucket);
	export_stack_release(&t->stack);
	*t = (struct trie){ 0 };
}
