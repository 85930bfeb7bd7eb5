// SPDX-License-Identifier: GPL-3.0-or-later
#include "transport/nodes.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/bounds.h"
#include "base/space.h"

/*
 * nodes.c - stacks as the target tells them. It can write whatever it likes, at any time. So a
 * number must be less than WIRE_NODES, and a parent's less than its child's: then each way to a
 * root ends. A node's depth is found out once; from then on its parent's must be one less, so the
 * way is never longer than that. A node that is deeper than DEEPEST has no parent.
 */

#define SIZE  ((uint64_t)sizeof(struct wire_node))
#define FIRST 32768u /* nodes mapped here at first, and at a time: a MiB */
/* nodes from a root to a leaf; hooks write half as many at most */
#define DEEPEST	 (2 * WIRE_DEPTH)
#define TOO_DEEP UINT16_MAX
_Static_assert(DEEPEST < TOO_DEEP, "a depth fits");

struct nodes {
	unsigned refs;
	struct nodes *elder;
	uint32_t base;		   /* below it: elder's */
	struct wire_process *wire; /* NULL: `count` is final */
	uint32_t count, mapped;
	struct wire_node *node;
	uint16_t
		*depth; /* [WIRE_NODES], touched as needed: 1: a root; TOO_DEEP; 0: not known yet */
};

#define DEPTH_BYTES (WIRE_NODES * sizeof(uint16_t))

struct nodes *nodes_new(int fd, struct wire_process *wire, struct nodes *elder)
{
	struct nodes *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->depth = mmap(NULL, DEPTH_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (n->depth == MAP_FAILED) {
		free(n);
		return NULL;
	}
	n->node = space_map(fd, AGENT_NODES - AGENT_BEACON, FIRST * SIZE, WIRE_NODES * SIZE, 0);
	if (!n->node) {
		munmap(n->depth, DEPTH_BYTES);
		free(n);
		return NULL;
	}
	n->refs = 1;
	n->mapped = FIRST;
	n->base = elder ? nodes_count(elder) : 1; /* 0 means no stack */
	n->elder = elder ? nodes_ref(elder) : NULL;
	n->wire = wire;
	__atomic_store_n(&wire->nodes, n->base, __ATOMIC_RELEASE);
	return n;
}

struct nodes *nodes_ref(struct nodes *n)
{
	n->refs++;
	return n;
}

void nodes_unref(struct nodes *n)
{
	while (n && !--n->refs) {
		struct nodes *elder = n->elder;

		munmap(n->node, n->mapped * SIZE);
		munmap(n->depth, DEPTH_BYTES);
		free(n);
		n = elder;
	}
}

void nodes_close(struct nodes *n)
{
	n->count = nodes_count(n);
	n->wire = NULL;
}

uint32_t nodes_count(const struct nodes *n)
{
	uint32_t count;

	if (!n->wire)
		return n->count;
	count = __atomic_load_n(&n->wire->nodes, __ATOMIC_ACQUIRE);
	return count < n->base ? n->base : (uint32_t)least(count, WIRE_NODES);
}

uint64_t nodes_memory(const struct nodes *n) { return (nodes_count(n) - n->base) * SIZE; }

/* Whether the node is within our mapping by now. */
static bool reach(struct nodes *n, uint32_t node)
{
	uint32_t more;

	if (node < n->mapped)
		return true;
	if (node >= WIRE_NODES)
		return false;
	more = node + 1 - n->mapped > n->mapped / 2 ? node + 1 - n->mapped : n->mapped / 2;
	more = (uint32_t)least((more + FIRST - 1) / FIRST * FIRST, WIRE_NODES - n->mapped);
	if (!space_extend(n->node, n->mapped * SIZE, more * SIZE))
		return false;
	n->mapped += more;
	return true;
}

uint32_t nodes_root(struct nodes *n)
{
	uint32_t id = n->wire ? __atomic_fetch_add(&n->wire->nodes, 1, __ATOMIC_ACQ_REL) : 0;

	/* hooks look at their root: it must be within what is mapped there */
	if (!id || id >= __atomic_load_n(&n->wire->nodes_mapped, __ATOMIC_ACQUIRE) || !reach(n, id))
		return 0;
	n->node[id] = (struct wire_node){ .pc = 0 };
	return id;
}

/* The one of N and its elders whose NODE would be; NULL: it is below them all. */
static struct nodes *holder(struct nodes *n, uint32_t node)
{
	while (n && node < n->base)
		n = n->elder;
	return n;
}

/*
 * The one that has NODE; NULL: there is no such node. The target can make that so at any time, also
 * for a node that was there a moment ago.
 */
static struct nodes *owner(struct nodes *n, uint32_t node)
{
	n = holder(n, node);
	return n && node && node < nodes_count(n) && reach(n, node) ? n : NULL;
}

static uint32_t parent_said(const struct nodes *n, uint32_t node)
{
	uint32_t parent = __atomic_load_n(&n->node[node].parent, __ATOMIC_RELAXED);

	return parent < node ? parent : 0;
}

/* NODE's depth: 1 for a root or if there is no such node; or TOO_DEEP. */
static uint32_t depth_of(struct nodes *n, uint32_t node)
{
	uint32_t way[DEEPEST], depth = 0;
	const struct nodes *own;
	size_t len = 0;

	while (node && !depth && len < DEEPEST) {
		own = owner(n, node);
		depth = own ? own->depth[node] : 1;
		if (!depth) {
			way[len++] = node;
			node = parent_said(own, node);
		}
	}
	if (node && !depth)
		depth = TOO_DEEP;
	while (len-- > 0) {
		depth = depth >= DEEPEST ? TOO_DEEP : depth + 1;
		holder(n, way[len])->depth[way[len]] = (uint16_t)depth;
	}
	return depth;
}

uint32_t nodes_parent(struct nodes *n, uint32_t node, uint64_t *pc)
{
	struct nodes *own = owner(n, node);
	uint32_t parent, depth;

	*pc = 0;
	if (!own)
		return 0;
	*pc = __atomic_load_n(&own->node[node].pc, __ATOMIC_RELAXED);
	parent = parent_said(own, node);
	depth = parent ? depth_of(n, node) : 1;
	return depth != TOO_DEEP && depth > 1 && depth_of(n, parent) == depth - 1 ? parent : 0;
}
