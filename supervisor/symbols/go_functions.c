// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/go_functions.h"

#include <string.h>

/*
 * go_functions.c - reads the table of functions in Go programs.
 *
 *	header	magic 4, zeros 2, quantum 1, pointer size 1, functions 8, files 8, [1.18 on: text
 *	        8], then offsets of 8 bytes from the header's start: of the names, of three tables
 *	        that are of no use here, of the functions
 *	functions	pairs {entry, offset of its description from here} and the end of the last
 *	                one; 4 bytes each and relative to `text` from 1.18 on, before that 8 bytes
 *	description	entry (4 or 8 bytes), offset of its name among the names 4, and more
 */

enum { MAGIC_1_16 = 0xfffffffa, MAGIC_1_18 = 0xfffffff0, MAGIC_1_20 = 0xfffffff1 };

static bool number(const struct gotab *t, size_t at, unsigned width, uint64_t *value)
{
	*value = 0;
	if (at > t->size || t->size - at < width)
		return false;
	memcpy(value, t->bytes + at, width);
	return true;
}

bool gotab_open(struct gotab *t, const uint8_t *bytes, size_t size, uint64_t text)
{
	uint64_t magic, sizes, count, said, names, functions;
	const uint8_t *last;
	size_t at;

	*t = (struct gotab){ .bytes = bytes, .size = size };
	if (!number(t, 0, 4, &magic) || !number(t, 4, 4, &sizes) || sizes >> 24 != 8 ||
	    (sizes & 0xffff))
		return false;
	if (magic != MAGIC_1_16 && magic != MAGIC_1_18 && magic != MAGIC_1_20)
		return false;
	t->width = magic == MAGIC_1_16 ? 8 : 4;
	at = t->width == 8 ? 24 : 32;
	if (!number(t, 8, 8, &count) || !number(t, 24, 8, &said) || !number(t, at, 8, &names) ||
	    !number(t, at + 32, 8, &functions))
		return false;
	if (names >= size || functions >= size || count >= (size - functions) / (2 * t->width))
		return false;
	t->text = t->width == 8 ? 0 : said ? said : text;
	t->names = (size_t)names;
	last = memrchr(bytes + names, '\0', size - (size_t)names);
	t->names_size = last ? (size_t)(last - bytes) + 1 - t->names : 0;
	t->functions = (size_t)functions;
	t->count = (size_t)count;
	return true;
}

bool gotab_function(const struct gotab *t, size_t i, struct gotab_function *f)
{
	size_t at = t->functions + 2 * i * t->width;
	uint64_t start, description, end, name;

	if (i >= t->count || !number(t, at, t->width, &start) ||
	    !number(t, at + t->width, t->width, &description) ||
	    !number(t, at + 2 * t->width, t->width, &end))
		return false;
	if (description >= t->size ||
	    !number(t, t->functions + (size_t)description + t->width, 4, &name))
		return false;
	if (name >= t->names_size || end <= start)
		return false;
	*f = (struct gotab_function){ (const char *)t->bytes + t->names + name, t->text + start,
				      t->text + end };
	return true;
}
