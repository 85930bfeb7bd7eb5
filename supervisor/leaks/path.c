// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "leaks/reference_graph.h"

/*
 * A breadth-first search. Of each block that was reached it is remembered from where, 12 bytes, and
 * they wait in a queue, 4. Roots come in the order of what says most: variables and stacks, then
 * registers, then memory between blocks, which may be nobody's.
 */
#define NOT_YET	     0u
#define FROM_ROOT    UINT32_MAX /* else a block's number + 1 */
#define REGISTER_BIT (1ull << 63)
#define PIECE	     (1u << 20)

struct search {
	const struct leaks *leaks;
	const struct leaks_image *image;
	const struct leaks_graph *graph;
	struct arena from;  /* uint32_t a block: NOT_YET, FROM_ROOT, or a block's number + 1 */
	struct arena where; /* uint64_t a block: where the pointer is */
	struct arena queue; /* uint32_t */
	uint32_t head, tail;
	uint32_t target;
	bool sure;	 /* only pointers to usual places are followed */
	uint8_t *buffer; /* PIECE bytes */
};

static uint32_t *from_of(const struct search *s) { return s->from.base; }

static bool is_found(const struct search *s) { return from_of(s)[s->target] != NOT_YET; }

static void reach(struct search *s, uint32_t block, uint32_t from, uint64_t where)
{
	from_of(s)[block] = from;
	((uint64_t *)s->where.base)[block] = where;
	((uint32_t *)s->queue.base)[s->tail++] = block;
}

/* WORD is at WHERE, in FROM. */
static void see(struct search *s, uint64_t word, uint32_t from, uint64_t where)
{
	uint64_t into;
	uint32_t target = index_find(&s->graph->index, word, &into);
	unsigned place;

	if (target == INDEX_NONE || from_of(s)[target] != NOT_YET)
		return;
	if (s->sure && into) {
		place = prefixes_place(&s->graph->prefixes, target, into);
		if (!(prefixes_usual(&s->graph->prefixes, target) & 1u << place) &&
		    !prefix_recognise(s->image, &s->image->block[target], into))
			return;
	}
	reach(s, target, from, where);
}

/* The words of [AT, END), which is at BYTES. */
static void see_words(struct search *s, const uint8_t *bytes, raddr_t at, raddr_t end,
		      uint32_t from)
{
	for (uint64_t k = -at & 7; k + 8 <= end - at; k += 8) {
		uint64_t word;

		memcpy(&word, bytes + k, sizeof(word));
		see(s, word, from, at + k);
	}
}

/* ---- roots ------------------------------------------------------------------ */

static raddr_t block_end(const struct capture_block *b)
{
	return b->address + b->size < b->address ? UINT64_MAX : b->address + b->size;
}

/*
 * What is in no block of [AT, END), which is at BYTES and of R; as in the sweep
 * (reference_graph.c).
 */
static void see_between(struct search *s, const struct leaks_range *r, const uint8_t *bytes,
			raddr_t at, raddr_t end)
{
	const struct leaks_image *image = s->image;
	uint32_t i = index_from(&s->graph->index, at);
	raddr_t begin = at, behind = i ? block_end(&image->block[i - 1]) : 0;

	for (at = behind > at ? behind : at; at < end; i++) {
		raddr_t next = i < image->blocks ? image->block[i].address : UINT64_MAX;

		if (next > at && (next - behind > GRAPH_ROUNDING || behind < r->start))
			see_words(s, bytes + (at - begin), at, next < end ? next : end, FROM_ROOT);
		if (next >= end)
			return;
		behind = block_end(&image->block[i]);
		at = behind > at ? behind : at;
	}
}

static int see_range(struct search *s, const struct leaks_range *r)
{
	const struct leaks_image *image = s->image;
	raddr_t at = r->start;

	while (at < r->end && !is_found(s)) {
		size_t len;
		const void *piece;

		if (image->interrupted(image->ctx))
			return -EINTR;
		piece = image->next(image->ctx, at, r->end, s->buffer, PIECE, &at, &len);
		if (!piece)
			break;
		len = len < PIECE ? len : PIECE;
		see_between(s, r, piece, at, at + len);
		at += len;
	}
	return 0;
}

static bool has_blocks(const struct search *s, const struct leaks_range *r)
{
	uint32_t i = index_from(&s->graph->index, r->start);

	return (i && block_end(&s->image->block[i - 1]) > r->start) ||
	       (i < s->image->blocks && s->image->block[i].address < r->end);
}

/* Those of the ranges that have BLOCKS in them, or have not. */
static int see_ranges(struct search *s, bool blocks)
{
	int err = 0;

	for (size_t i = 0; i < s->image->ranges && !err; i++)
		if (s->image->range[i].roots && has_blocks(s, &s->image->range[i]) == blocks)
			err = see_range(s, &s->image->range[i]);
	return err;
}

/* ---- blocks ----------------------------------------------------------------- */

static int see_block(struct search *s, uint32_t block)
{
	const struct leaks_image *image = s->image;
	raddr_t at = image->block[block].address, end = block_end(&image->block[block]);

	if (block + 1 < image->blocks && image->block[block + 1].address < end)
		end = image->block[block + 1].address;
	while (at < end && !is_found(s)) {
		size_t n = end - at < PIECE ? end - at : PIECE;

		n = image->read(image->ctx, at, s->buffer, n);
		if (!n)
			break;
		see_words(s, s->buffer, at, at + n, block + 1);
		at += n;
	}
	return 0;
}

static int see_blocks(struct search *s)
{
	int err = 0;

	while (s->head < s->tail && !is_found(s) && !err) {
		if (s->head % 1024 == 0 && s->image->interrupted(s->image->ctx))
			return -EINTR;
		err = see_block(s, ((uint32_t *)s->queue.base)[s->head++]);
	}
	return err;
}

/* ---- the whole -------------------------------------------------------------- */

/* From roots. */
static int from_roots(struct search *s)
{
	int err = see_ranges(s, false);

	for (size_t i = 0; i < s->image->words && !err; i++)
		see(s, s->image->word[i], FROM_ROOT, i | REGISTER_BIT);
	if (!err)
		err = see_blocks(s);
	if (!err && !is_found(s))
		err = see_ranges(s, true);
	if (!err)
		err = see_blocks(s);
	return err;
}

/* From the heads of what is lost. They are held by nothing: where `from` says FROM_ROOT, too. */
static int from_heads(struct search *s)
{
	for (uint32_t i = 0; i < s->image->blocks; i++)
		if (leaks_kind(s->leaks, i) == LEAK_DEFINITE)
			reach(s, i, FROM_ROOT, 0);
	return see_blocks(s);
}

static void again(struct search *s, bool sure)
{
	memset(s->from.base, 0, s->image->blocks * sizeof(uint32_t));
	s->head = s->tail = 0;
	s->sure = sure;
}

/* The way back. HEAD: it begins with a block, not with a root. */
static int take_path(const struct search *s, bool head, struct leak_path *path)
{
	const uint64_t *where = s->where.base;
	uint32_t from;
	size_t n = !head, i;

	for (uint32_t b = s->target;; b = from - 1) {
		n++;
		from = from_of(s)[b];
		if (from == FROM_ROOT)
			break;
	}
	path->step = calloc(n, sizeof(*path->step));
	if (!path->step)
		return -ENOMEM;
	path->steps = i = n;
	for (uint32_t b = s->target;; b = from - 1) {
		struct leak_step *step = &path->step[--i];

		step->kind = STEP_BLOCK;
		step->block = b;
		if (i + 1 < n)
			step->into = where[path->step[i + 1].block] - s->image->block[b].address;
		from = from_of(s)[b];
		if (from != FROM_ROOT)
			continue;
		if (!head && where[b] & REGISTER_BIT)
			path->step[0] = (struct leak_step){ .kind = STEP_REGISTER,
							    .at = where[b] & ~REGISTER_BIT };
		else if (!head)
			path->step[0] = (struct leak_step){ .kind = STEP_MEMORY, .at = where[b] };
		return 0;
	}
}

static int search(struct search *s, struct leak_path *path)
{
	enum leak_kind kind = leaks_kind(s->leaks, s->target);
	bool lost = kind == LEAK_DEFINITE || kind == LEAK_INDIRECT;
	int err = 0;

	for (int sure = kind == LEAK_REACHABLE; sure >= 0 && !err && !is_found(s); sure--) {
		again(s, sure);
		err = lost ? from_heads(s) : from_roots(s);
	}
	if (err)
		return err;
	return is_found(s) ? take_path(s, lost, path) : 0;
}

int path_find(const struct leaks *l, uint32_t block, struct leak_path *path)
{
	const struct leaks_graph *g = leaks_graph(l);
	size_t n = g->image->blocks;
	struct search s = { .leaks = l, .image = g->image, .graph = g, .target = block };
	int err = -ENOMEM;

	*path = (struct leak_path){ 0 };
	s.buffer = malloc(PIECE);
	if (s.buffer && !arena_reach(&s.from, n * sizeof(uint32_t)) &&
	    !arena_reach(&s.where, n * sizeof(uint64_t)) &&
	    !arena_reach(&s.queue, n * sizeof(uint32_t)))
		err = search(&s, path);
	free(s.buffer);
	arena_release(&s.from);
	arena_release(&s.where);
	arena_release(&s.queue);
	return err;
}

void path_release(struct leak_path *path)
{
	free(path->step);
	*path = (struct leak_path){ 0 };
}
