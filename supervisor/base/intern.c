/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t hash(const struct intern *t, const void *key)
{
	uint32_t h = 2166136261u;

	if (!t->texts)
		return (size_t)((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ull >> 20);
	for (const char *text = key; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h ^ h >> 15;
}

static bool equal(const struct intern *t, const void *a, const void *b)
{
	return a == b || (t->texts && !strcmp(a, b));
}

/* At most half of the buckets are in use, and there is a key's place for each two of them. */
static int grow(struct intern *t)
{
	size_t n = t->nbuckets ? t->nbuckets * 2 : 1024;
	const void **key = reallocarray(t->key, n / 2, sizeof(*key));
	uint32_t *bucket;

	if (!key)
		return -ENOMEM;
	t->key = key;
	bucket = calloc(n, sizeof(*bucket));
	if (!bucket)
		return -ENOMEM;
	for (size_t i = 0; i < t->count; i++) {
		size_t at = hash(t, key[i]) & (n - 1);

		while (bucket[at])
			at = (at + 1) & (n - 1);
		bucket[at] = (uint32_t)i + 1;
	}
	free(t->bucket);
	t->bucket = bucket;
	t->nbuckets = n;
	return 0;
}

uint32_t intern(struct intern *t, const void *key)
{
	size_t at;

	if (t->count * 2 >= t->nbuckets && grow(t))
		return 0;
	for (at = hash(t, key) & (t->nbuckets - 1); t->bucket[at];
	     at = (at + 1) & (t->nbuckets - 1))
		if (equal(t, t->key[t->bucket[at] - 1], key))
			return t->bucket[at];
	t->key[t->count++] = key;
	return t->bucket[at] = (uint32_t)t->count;
}

void intern_release(struct intern *t)
{
	free(t->key);
	free(t->bucket);
	*t = (struct intern){ .texts = t->texts };
}
