// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "inject/wire_stack.h"

/*
 * An array in the order of the ids, which need not follow each other: a file has only those nodes
 * that lead to something, under the numbers that they had in the process. It is searched once for
 * each node: sites.c remembers what it was told.
 */
/* lines from a root on: what draws trees goes down as deep */
#define DEPTH_MOST (16u * WIRE_DEPTH)

struct node {
	uint32_t id, parent;
	uint64_t pc;
	const struct symbol_frame *line;
	uint32_t lines, depth;
};
struct stacks {
	struct node *node;
	size_t count, room;
};

struct stacks *stacks_new(void) { return calloc(1, sizeof(struct stacks)); }

void stacks_free(struct stacks *s)
{
	if (!s)
		return;
	free(s->node);
	free(s);
}

static const struct node *find(const struct stacks *s, uint32_t id)
{
	size_t at = SEARCH(i, s->count, s->node[i].id < id);

	return at < s->count && s->node[at].id == id ? &s->node[at] : NULL;
}

int stacks_add(struct stacks *s, uint32_t id, uint32_t parent, uint64_t pc,
	       const struct symbol_frame *line, size_t lines)
{
	const struct node *caller = parent ? find(s, parent) : NULL;
	size_t depth = lines + (caller ? caller->depth : 0);

	if (!id || id >= WIRE_NODES || (s->count && id <= s->node[s->count - 1].id) ||
	    (parent && !caller) || !pc || !lines || depth > DEPTH_MOST)
		return -EINVAL;
	if (array_room(&s->node, s->count, &s->room, sizeof(*s->node)))
		return -ENOMEM;
	s->node[s->count++] = (struct node){ .id = id,
					     .parent = parent,
					     .pc = pc,
					     .line = line,
					     .lines = (uint32_t)lines,
					     .depth = (uint32_t)depth };
	return 0;
}

size_t stacks_depth(const struct stacks *s, uint32_t id)
{
	const struct node *n = find(s, id);

	return n ? n->depth : 0;
}

uint32_t stacks_parent(void *ctx, uint32_t node, uint64_t *pc)
{
	const struct node *n = find(ctx, node);

	*pc = n ? n->pc : 0;
	return n ? n->parent : 0;
}

struct symbol_frames stacks_frames(void *ctx, uint32_t node, uint64_t pc)
{
	const struct node *n = find(ctx, node);

	(void)pc;
	return (struct symbol_frames){ .count = n ? n->lines : 0, .frame = n ? n->line : NULL };
}
