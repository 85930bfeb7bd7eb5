// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/hash_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Linear probing in a table whose size is a power of two. Hashes are kept beside the numbers, so
 * that growing needs no key.
 */

#define LEAST 1024u /* slots */

static void put(struct hash_index *x, struct hash_slot slot)
{
	size_t at = slot.hash & (x->size - 1);

	while (x->slot[at].number)
		at = (at + 1) & (x->size - 1);
	x->slot[at] = slot;
}

static int grow(struct hash_index *x)
{
	struct hash_index bigger = { .size = x->size ? x->size * 2 : LEAST, .count = x->count };

	bigger.slot = calloc(bigger.size, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (size_t i = 0; i < x->size; i++)
		if (x->slot[i].number)
			put(&bigger, x->slot[i]);
	free(x->slot);
	*x = bigger;
	return 0;
}

int hash_index_add(struct hash_index *x, uint32_t hash, uint32_t number)
{
	if (x->count * 2 >= x->size && grow(x))
		return -ENOMEM;
	put(x, (struct hash_slot){ hash, number });
	x->count++;
	return 0;
}

void hash_index_clear(struct hash_index *x)
{
	if (x->size)
		memset(x->slot, 0, x->size * sizeof(*x->slot));
	x->count = 0;
}

void hash_index_release(struct hash_index *x)
{
	free(x->slot);
	*x = (struct hash_index){ 0 };
}

uint32_t hash_text(uint32_t seed, const char *text)
{
	for (; text && *text; text++)
		seed = (seed ^ (unsigned char)*text) * 16777619u;
	return (seed ^ 0xff) * 16777619u;
}
