// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * An index of hashes (hash_index.h) leads from a key to its number; the array of keys leads back.
 */

static bool equal(const struct intern *t, const void *a, const void *b)
{
	return a == b || (t->texts && !strcmp(a, b));
}

uint32_t intern(struct intern *t, const void *key)
{
	uint32_t hash = t->texts ? hash_text(HASH_SEED, key)
				 : hash_number(HASH_SEED, (uint64_t)(uintptr_t)key);
	uint32_t number = HASH_FIND(&t->index, hash, n, equal(t, t->key[n - 1], key));

	if (number)
		return number;
	if (array_room(&t->key, t->count, &t->room, sizeof(*t->key)) ||
	    hash_index_add(&t->index, hash, (uint32_t)t->count + 1))
		return 0;
	t->key[t->count++] = key;
	return (uint32_t)t->count;
}

void intern_release(struct intern *t)
{
	free(t->key);
	hash_index_release(&t->index);
	*t = (struct intern){ .texts = t->texts };
}
