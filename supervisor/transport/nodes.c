// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nodes.c - stacks as the target tells them. It can write whatever it likes: a number is less than
 * WIRE_NODES, a parent's number is less than its child's, so every way out ends.
 */
#include "transport/nodes.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/space.h"

#define SIZE  ((uint64_t)sizeof(struct wire_node))
#define FIRST 32768u /* of those mapped here; a MiB */

struct nodes {
	unsigned refs;
	struct nodes *elder;
	uint32_t base;		   /* below it: elder's */
	struct wire_process *wire; /* NULL: `count` is final */
	uint32_t count, mapped;
	struct wire_node *node;
};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

struct nodes *nodes_new(int fd, struct wire_process *wire, struct nodes *elder)
{
	struct nodes *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->node = space_map(fd, AGENT_NODES - AGENT_BEACON, FIRST * SIZE, WIRE_NODES * SIZE, 0);
	if (!n->node) {
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
	return count < n->base ? n->base : least(count, WIRE_NODES);
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
	more = least((more + FIRST - 1) / FIRST * FIRST, WIRE_NODES - n->mapped);
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

uint32_t nodes_parent(struct nodes *n, uint32_t node, uint64_t *pc)
{
	uint32_t parent;

	*pc = 0;
	while (n && node < n->base)
		n = n->elder;
	if (!n || !node || node >= nodes_count(n) || !reach(n, node))
		return 0;
	*pc = __atomic_load_n(&n->node[node].pc, __ATOMIC_RELAXED);
	parent = __atomic_load_n(&n->node[node].parent, __ATOMIC_RELAXED);
	return parent < node ? parent : 0;
}
