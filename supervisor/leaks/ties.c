// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/ties.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

/*
 * ties.c - one pass over the blocks. A block's record is found by its stack and kind, a tie by its
 * two records: both in hash tables with open addressing.
 */

struct table {
	uint32_t *place; /* index + 1, 0: free */
	size_t size;	 /* a power of two */
};

struct tying {
	const struct leak_record *record;
	struct table records, ties;
	struct leak_tie *tie;
	size_t count, room;
};

static size_t hash(uint64_t key, size_t size)
{
	return (size_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (size - 1);
}

static uint64_t record_key(uint32_t stack, enum leak_kind kind)
{
	return (uint64_t)stack * LEAK_KINDS + kind;
}

static uint64_t tie_key(uint32_t head, uint32_t child) { return (uint64_t)head << 32 | child; }

/* The record's place in the table, or the free one where it belongs. */
static uint32_t *record_place(const struct tying *t, uint32_t stack, enum leak_kind kind)
{
	size_t i = hash(record_key(stack, kind), t->records.size);

	while (t->records.place[i] && (t->record[t->records.place[i] - 1].stack != stack ||
				       t->record[t->records.place[i] - 1].kind != kind))
		i = (i + 1) & (t->records.size - 1);
	return &t->records.place[i];
}

static uint32_t *tie_place(const struct tying *t, uint32_t head, uint32_t child)
{
	size_t i = hash(tie_key(head, child), t->ties.size);

	while (t->ties.place[i] && (t->tie[t->ties.place[i] - 1].head != head ||
				    t->tie[t->ties.place[i] - 1].child != child))
		i = (i + 1) & (t->ties.size - 1);
	return &t->ties.place[i];
}

static int grow(struct tying *t)
{
	struct table was = t->ties;

	t->ties.size = was.size ? was.size * 2 : 64;
	t->ties.place = calloc(t->ties.size, sizeof(*t->ties.place));
	if (!t->ties.place) {
		t->ties = was;
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->count; i++)
		*tie_place(t, t->tie[i].head, t->tie[i].child) = (uint32_t)i + 1;
	free(was.place);
	return 0;
}

static int tie(struct tying *t, uint32_t head, uint32_t child, uint64_t bytes)
{
	uint32_t *place;

	if (t->count * 2 >= t->ties.size && grow(t))
		return -ENOMEM;
	place = tie_place(t, head, child);
	if (!*place) {
		if (array_room(&t->tie, t->count, &t->room, sizeof(*t->tie)))
			return -ENOMEM;
		t->tie[t->count] = (struct leak_tie){ .head = head, .child = child };
		*place = (uint32_t)++t->count;
	}
	t->tie[*place - 1].sum.bytes += bytes;
	t->tie[*place - 1].sum.blocks++;
	return 0;
}

static int begin(struct tying *t, const struct leak_record *record, size_t records)
{
	*t = (struct tying){ .record = record, .records.size = 64 };
	while (t->records.size < records * 2)
		t->records.size *= 2;
	t->records.place = calloc(t->records.size, sizeof(*t->records.place));
	if (!t->records.place)
		return -ENOMEM;
	for (size_t i = 0; i < records; i++)
		*record_place(t, record[i].stack, record[i].kind) = (uint32_t)i + 1;
	return 0;
}

ssize_t leak_ties(const struct leaks *l, const struct leaks_image *image,
		  const struct leak_record *record, size_t records,
		  bool (*wanted)(void *ctx, size_t block), void *ctx, struct leak_tie **out)
{
	struct tying t;
	int err = begin(&t, record, records);

	for (size_t i = 0; i < image->blocks && !err; i++) {
		const struct capture_block *b = &image->block[i];
		uint32_t head, child;

		if ((wanted && !wanted(ctx, i)) || leaks_kind(l, i) != LEAK_INDIRECT)
			continue;
		head = *record_place(&t, image->block[leaks_head(l, i)].stack, LEAK_DEFINITE);
		child = *record_place(&t, b->stack, LEAK_INDIRECT);
		if (head && child)
			err = tie(&t, head - 1, child - 1, b->size);
	}
	free(t.records.place);
	free(t.ties.place);
	if (err) {
		free(t.tie);
		return err;
	}
	*out = t.tie;
	return (ssize_t)t.count;
}
