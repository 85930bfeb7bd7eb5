// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/text.h"
#include "symbols/demangle.h"
#include "symbols/site_rule.h"

/*
 * names.c - interned strings and demangled names.
 *
 * Two open-addressed hash tables (strings; names by their raw form) over chunks of memory that are
 * only ever given back together. A process has far fewer distinct names than stack frames, so that
 * everything else can hold plain pointers.
 */

#define LONGEST	    65536u /* bytes of a string; no name is longer */
#define CHUNK_BYTES 65536

struct chunk {
	struct chunk *next;
	_Alignas(16) char bytes[];
};

struct slot {
	uint32_t hash;
	const char *key;   /* NULL: free */
	struct name *name; /* in the table of names only */
};

struct table {
	struct slot *slot;
	size_t size, used; /* size: 0 or a power of two */
};

struct names {
	struct chunk *chunks;
	size_t left; /* bytes, at the end of the first chunk */
	char *free;
	struct table strings, names;
};

static const struct name unknown_name = { .text = "?", .raw = "?" };

struct names *names_new(void) { return calloc(1, sizeof(struct names)); }

void names_free(struct names *n)
{
	struct chunk *next;

	if (!n)
		return;
	for (struct chunk *c = n->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	free(n->strings.slot);
	free(n->names.slot);
	free(n);
}

void *names_alloc(struct names *n, size_t len)
{
	void *p;

	len = (len + 15) & ~(size_t)15;
	if (len > n->left) {
		size_t bytes = len > CHUNK_BYTES / 4 ? len : CHUNK_BYTES;
		struct chunk *c = malloc(sizeof(*c) + bytes);

		if (!c)
			return NULL;
		/* a large one: the first chunk stays in use */
		if (bytes == len && n->chunks) {
			c->next = n->chunks->next;
			n->chunks->next = c;
			return c->bytes;
		}
		c->next = n->chunks;
		n->chunks = c;
		n->free = c->bytes;
		n->left = bytes;
	}
	p = n->free;
	n->free += len;
	n->left -= len;
	return p;
}

/* The slot of KEY, or the free one where it belongs. NULL: out of memory. */
static struct slot *table_slot(struct table *t, const char *key, uint32_t hash)
{
	size_t i;

	if (t->used * 4 >= t->size * 3) {
		struct table bigger = { .size = t->size ? t->size * 2 : 256, .used = t->used };

		bigger.slot = calloc(bigger.size, sizeof(struct slot));
		if (!bigger.slot)
			return NULL;
		for (i = 0; i < t->size; i++) {
			size_t j = t->slot[i].hash & (bigger.size - 1);

			if (!t->slot[i].key)
				continue;
			while (bigger.slot[j].key)
				j = (j + 1) & (bigger.size - 1);
			bigger.slot[j] = t->slot[i];
		}
		free(t->slot);
		*t = bigger;
	}
	for (i = hash & (t->size - 1); t->slot[i].key; i = (i + 1) & (t->size - 1))
		if (t->slot[i].hash == hash && !strcmp(t->slot[i].key, key))
			break;
	return &t->slot[i];
}

const char *names_intern(struct names *n, const char *string)
{
	size_t len = strnlen(string, LONGEST);
	struct slot *s;
	uint32_t hash;
	char *copy;

	if (len == LONGEST)
		return "(a name that is too long)";
	hash = hash_text(HASH_SEED, string);
	s = table_slot(&n->strings, string, hash);
	if (!s)
		return "?";
	if (s->key)
		return s->key;
	copy = names_alloc(n, len + 1);
	if (!copy)
		return "?";
	memcpy(copy, string, len);
	copy[len] = '\0';
	*s = (struct slot){ .hash = hash, .key = copy };
	n->strings.used++;
	return copy;
}

/*
 * How much of RAW is the function's name: compilers append to the names of parts and clones they
 * make, linkers the version.
 */
static size_t bare_length(const char *raw)
{
	static const char *const suffix[] = { ".cold",	".isra.",     ".constprop.",
					      ".part.", ".lto_priv.", ".llvm." };
	size_t len = raw[0] ? 1 + strcspn(raw + 1, "@") : 0;

	for (const char *p = strchr(raw, '.'); p && p > raw && p < raw + len;
	     p = strchr(p + 1, '.'))
		for (size_t i = 0; i < sizeof(suffix) / sizeof(suffix[0]); i++)
			if (text_begins(p, suffix[i]))
				return (size_t)(p - raw);
	return len;
}

/* RAW without what was appended, demangled, with "@plt" kept. NULL: it is readable as it is. */
static char *readable(const char *raw, size_t bare)
{
	bool plt = strstr(raw + bare, "@plt") != NULL;
	char *copy, *text, *result = NULL;

	if (!raw[bare])
		return demangle(raw);
	copy = strndup(raw, bare);
	if (!copy)
		return NULL;
	text = demangle(copy);
	if (!text)
		text = copy;
	if (plt) {
		size_t len = strlen(text);

		result = malloc(len + 5);
		if (result) {
			memcpy(result, text, len);
			memcpy(result + len, "@plt", 5);
		}
	} else {
		result = strdup(text);
	}
	if (text != copy)
		free(text);
	free(copy);
	return result;
}

const struct name *names_symbol(struct names *n, const char *raw)
{
	uint32_t hash = hash_text(HASH_SEED, raw);
	struct slot *s = table_slot(&n->names, raw, hash);
	struct name *name;
	const char *key;
	char *text;

	if (!s)
		return &unknown_name;
	if (s->key)
		return s->name;
	text = readable(raw, bare_length(raw));
	key = names_intern(n, raw);
	name = names_alloc(n, sizeof(*name));
	if (!name) {
		free(text);
		return &unknown_name;
	}
	name->text = text ? names_intern(n, text) : key;
	name->raw = key;
	name->skip = site_classify(raw, name->text);
	free(text);
	*s = (struct slot){ .hash = hash, .key = key, .name = name };
	n->names.used++;
	return name;
}
