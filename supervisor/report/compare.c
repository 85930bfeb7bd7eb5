// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/compare.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/hash_index.h"
#include "inject/wire_stack.h"
#include "report/stacks.h"

/*
 * One tree of stacks is grown of all: a node is looked for among those that have the same caller,
 * by what its lines say. A node of a source is brought over once, at most.
 */
struct compare {
	struct stacks *stacks;
	struct sites *sites;
	uint32_t count;
	struct hash_index nodes;
};

struct compare *compare_new(void)
{
	struct compare *c = calloc(1, sizeof(*c));
	struct sites_source source = { .parent = stacks_parent, .frames = stacks_frames };

	if (!c)
		return NULL;
	c->stacks = stacks_new();
	source.ctx = c->stacks;
	c->sites = c->stacks ? sites_new(&source) : NULL;
	if (c->sites)
		return c;
	compare_free(c);
	return NULL;
}

void compare_free(struct compare *c)
{
	if (!c)
		return;
	sites_free(c->sites);
	stacks_free(c->stacks);
	hash_index_release(&c->nodes);
	free(c);
}

struct sites *compare_sites(struct compare *c) { return c->sites; }

static uint32_t hash(uint32_t parent, struct symbol_frames f)
{
	uint32_t h = hash_number(HASH_SEED, parent);

	for (size_t i = 0; i < f.count; i++)
		h = symbols_hash_line(h, &f.frame[i]);
	return h;
}

static bool same(const struct compare *c, uint32_t id, uint32_t parent, struct symbol_frames f)
{
	uint64_t pc;
	struct symbol_frames g = stacks_frames(c->stacks, id, 0);

	if (stacks_parent(c->stacks, id, &pc) != parent || f.count != g.count)
		return false;
	for (size_t i = 0; i < f.count; i++)
		if (f.frame[i].column != g.frame[i].column ||
		    f.frame[i].inlined != g.frame[i].inlined ||
		    !symbols_same_line(&f.frame[i], &g.frame[i]))
			return false;
	return true;
}

/* *ID: our node for one with these lines under PARENT. */
static int intern(struct compare *c, uint32_t parent, uint64_t pc, struct symbol_frames f,
		  uint32_t *id)
{
	uint32_t h = hash(parent, f);
	int err;

	*id = HASH_FIND(&c->nodes, h, n, same(c, n, parent, f));
	if (*id)
		return 0;
	err = stacks_add(c->stacks, c->count + 1, parent, pc, f.frame, f.count);
	if (err)
		return err == -ENOMEM ? err : -ENOSPC;
	*id = ++c->count;
	return hash_index_add(&c->nodes, h, *id);
}

/* OURS[node]: what is known already. From NODE out to what is, and back in. */
static int bring(struct compare *c, struct sites *sites, uint32_t *ours, uint32_t node)
{
	uint32_t *way = NULL, parent = 0, n = node;
	size_t steps = 0, room = 0;
	int err = 0;

	for (; n && n < WIRE_NODES && !ours[n]; n = sites_parent(sites, n)) {
		err = array_room(&way, steps, &room, sizeof(*way));
		if (err)
			break;
		way[steps++] = n;
	}
	parent = n && n < WIRE_NODES ? ours[n] : 0;
	while (steps-- > 0 && !err) {
		err = intern(c, parent, sites_pc(sites, way[steps]),
			     sites_frames(sites, way[steps]), &ours[way[steps]]);
		parent = ours[way[steps]];
	}
	free(way);
	return err;
}

int compare_add(struct compare *c, struct profile *p, struct sites *sites)
{
	uint32_t *ours = calloc(WIRE_NODES, sizeof(*ours));
	int err = ours ? 0 : -ENOMEM;

	for (size_t i = 0; i < p->count && !err; i++) {
		uint32_t *stack = &p->row[i].stack;

		err = bring(c, sites, ours, *stack);
		*stack = *stack < WIRE_NODES ? ours[*stack] : 0;
		if (!err)
			err = sites_rest(sites);
	}
	free(ours);
	return err;
}
