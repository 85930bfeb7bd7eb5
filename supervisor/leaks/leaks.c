// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/leaks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "leaks/reference_graph.h"

/*
 * After the sweep (reference_graph.h) everything is about marks, a byte a block:
 *
 *	1. What is pointed to at a usual place is held.
 *	2. What a held block points to is held, until nothing is added.
 *	3. What is pointed to at other places only is looked at: if its bytes say that this is how
 *	   it is held (prefixes.h), it is, with what hangs on it. Where a usual place may have been
 *	   missed, memory is swept once more, and 1 to 3 are done again.
 *	4. What is left of that is possible, with all that hangs on it.
 *	5. Of the others, from the lowest address up: what a block points to is indirect, and no head
 *	   any more if it was one.
 *
 * Blocks are followed in passes over all of them, up and down in turn, while that finds many: edges
 * lie in memory in the order of the blocks, and 10^7 blocks in no order take a second so, and four
 * from a stack. What few are left go from a stack of a fixed size; what has no room there is found
 * by another pass.
 */

const char *const leak_kind_names[LEAK_KINDS] = { "definite", "indirect", "possible", "reachable" };
const char *const leak_kind_words[LEAK_KINDS] = { "definitely lost", "indirectly lost",
						  "possibly lost", "still reachable" };

#define PENDING	 65536u
#define FEW	 64u /* a pass finds few if it marks less than one block in so many */
#define TOGETHER 32u /* blocks whose memory is sent for at a time */

enum mark {
	MARK_NONE,
	MARK_HELD = GRAPH_HELD,
	MARK_PREFIXED, /* held, and nothing points to its beginning */
	MARK_POSSIBLE,
	MARK_INDIRECT
};
#define MARK_OF(byte) ((enum mark)((byte) & (GRAPH_DONE - 1)))

struct head { /* definite, and heads others */
	uint32_t block;
	struct leak_sum indirect;
};

struct leaks {
	const struct leaks_image *image;
	struct leaks_graph graph;
	struct head *head; /* by block */
	size_t heads, head_room;
	struct leak_prefix prefix[LEAK_PREFIXES];
	size_t prefixes;
	bool look; /* step 3 */
	/*
	 * by block: what an indirect one was lost with. Small pages, of which few are written
	 * mostly: no arena
	 */
	uint32_t *leader;

	struct head family; /* what is lost with the block that is being followed */
	uint32_t *pending;  /* the stack */
	uint32_t npending;
	bool more;  /* there are others that had no room */
	bool down;  /* where the next pass goes */
	unsigned n; /* blocks, since somebody was asked whether it is enough */
};

static uint8_t *marks(const struct leaks *l) { return graph_marks(&l->graph); }
static enum mark mark_of(const struct leaks *l, size_t block) { return MARK_OF(marks(l)[block]); }
static void set_mark(struct leaks *l, uint32_t block, enum mark mark)
{
	marks(l)[block] = (uint8_t)((marks(l)[block] & ~(GRAPH_DONE - 1)) | mark);
}

static int rest(struct leaks *l)
{
	if (++l->n % 16384)
		return 0;
	return l->image->interrupted(l->image->ctx) ? -EINTR : 0;
}

/* ---- what an edge does ------------------------------------------------------ */

/* Whether BLOCK is held by what points to it at PLACE, which is not its beginning. */
static bool holds(struct leaks *l, uint32_t block, unsigned place)
{
	const struct prefixes *p = &l->graph.prefixes;
	uint64_t offset;

	if (prefixes_usual(p, block) & 1u << place)
		return true;
	offset = l->look ? prefixes_offset(p, block, place) : 0;
	return offset && prefix_recognise(l->image, &l->image->block[block], offset);
}

/*
 * A held block points to TARGET. Whether that is held only now. A place that has been pointed to
 * before was looked at then.
 */
static bool hold(struct leaks *l, uint32_t target, unsigned place)
{
	enum mark mark = mark_of(l, target);
	uint16_t *weak = &graph_weak(&l->graph)[target];

	if (place == PLACE_START) {
		if (mark != MARK_HELD)
			set_mark(l, target, MARK_HELD);
		return mark == MARK_NONE;
	}
	if (mark != MARK_NONE || *weak & 1u << place)
		return false;
	if (!holds(l, target, place)) {
		*weak |= (uint16_t)(1u << place);
		return false;
	}
	*weak = (uint16_t)(1u << place);
	set_mark(l, target, MARK_PREFIXED);
	return true;
}

static struct head *head_of(const struct leaks *l, uint32_t block)
{
	size_t at = SEARCH(i, l->heads, l->head[i].block < block);

	return at < l->heads && l->head[at].block == block ? &l->head[at] : NULL;
}

/* A lost block of l->family points to TARGET. Whether that is to be followed. */
static bool lose(struct leaks *l, uint32_t target)
{
	struct leak_sum *sum = &l->family.indirect;
	struct head *was;

	if (mark_of(l, target) != MARK_NONE || target == l->family.block)
		return false;
	set_mark(l, target, MARK_INDIRECT);
	l->leader[target] = l->family.block;
	sum->bytes += l->image->block[target].size;
	sum->blocks++;
	if (!(marks(l)[target] & GRAPH_DONE))
		return true;
	was = head_of(l, target); /* it was a head: what it headed is marked */
	if (was) {
		sum->bytes += was->indirect.bytes;
		sum->blocks += was->indirect.blocks;
	}
	return false;
}

/* A block marked FROM has this EDGE: whether the target is marked so, too, only now. */
static inline bool sees(struct leaks *l, enum mark from, uint32_t edge)
{
	uint32_t target = EDGE_TARGET(edge);

	if (from == MARK_HELD)
		return hold(l, target, EDGE_PLACE(edge));
	if (from == MARK_INDIRECT)
		return lose(l, target);
	if (mark_of(l, target) != MARK_NONE)
		return false;
	set_mark(l, target, MARK_POSSIBLE);
	return true;
}

/* ---- following edges -------------------------------------------------------- */

static void push(struct leaks *l, uint32_t block)
{
	if (l->npending < PENDING)
		l->pending[l->npending++] = block;
	else
		l->more = true;
}

/* Whether BLOCK is one of those that are followed with FROM, and was not yet. */
static bool is_due(const struct leaks *l, size_t block, enum mark from)
{
	uint8_t mark = marks(l)[block];

	return mark & (GRAPH_DONE - 1) && !(mark & GRAPH_DONE) &&
	       (MARK_OF(mark) == from || (from == MARK_HELD && MARK_OF(mark) == MARK_PREFIXED));
}

/* BLOCK's edges; what they mark is pushed, or only counted in *ADDED. */
static int follow(struct leaks *l, uint32_t block, enum mark from, size_t *added)
{
	uint32_t count;
	const uint32_t *edge = graph_edges(&l->graph, block, &count);

	if (!edge)
		return -ENOMEM;
	marks(l)[block] |= GRAPH_DONE;
	for (uint32_t i = 0; i < count; i++) {
		__builtin_prefetch(&marks(l)[EDGE_TARGET(edge[i + EDGES_BEHIND])]);
		if (!sees(l, from, edge[i]))
			continue;
		if (added)
			++*added;
		else
			push(l, EDGE_TARGET(edge[i]));
	}
	return rest(l);
}

static int follow_stack(struct leaks *l, enum mark from)
{
	int err = 0;

	while (l->npending && !err) {
		uint32_t n = l->npending < TOGETHER ? l->npending : TOGETHER, block[TOGETHER];

		l->npending -= n;
		memcpy(block, l->pending + l->npending, n * sizeof(*block));
		for (uint32_t i = 0; i < n; i++)
			graph_fetch_first(&l->graph, block[i]);
		for (uint32_t i = 0; i < n; i++)
			graph_fetch_edges(&l->graph, block[i]);
		for (uint32_t i = 0; i < n && !err; i++)
			err = follow(l, block[i], from, NULL);
	}
	return err;
}

struct passing {
	struct leaks *leaks;
	enum mark from;
	size_t added;
};

static void told(void *ctx, uint32_t edge)
{
	struct passing *p = ctx;

	p->added += sees(p->leaks, p->from, edge);
}

/* All blocks once: how many were marked, or -errno. */
static ssize_t pass(struct leaks *l, enum mark from)
{
	struct passing p = { .leaks = l, .from = from };
	size_t n = l->image->blocks;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		uint32_t block = (uint32_t)(l->down ? n - 1 - i : i);

		if (!is_due(l, block, from))
			continue;
		if (!(marks(l)[block] & GRAPH_AGAIN)) {
			err = follow(l, block, from, &p.added);
			continue;
		}
		marks(l)[block] |= GRAPH_DONE;
		graph_again(&l->graph, block, told, &p);
		err = rest(l);
	}
	graph_end_again(&l->graph, told, &p);
	l->down = !l->down;
	return err ? err : (ssize_t)p.added;
}

/* All that are due, and what becomes due. */
static int follow_all(struct leaks *l, enum mark from)
{
	size_t n = l->image->blocks;
	int err = 0;

	l->more = true;
	while (l->more && !err) {
		ssize_t added;

		do {
			added = pass(l, from);
		} while (added > (ssize_t)(n / FEW));
		l->more = false;
		err = added < 0 ? (int)added : 0;
		for (size_t i = 0; i < n && added && !err; i++) {
			if (!is_due(l, i, from))
				continue;
			push(l, (uint32_t)i);
			if (l->npending == PENDING)
				err = follow_stack(l, from);
		}
		if (!err)
			err = follow_stack(l, from);
	}
	return err;
}

/* ---- the classes ------------------------------------------------------------ */

/* What is pointed to already, at a place that is not the beginning. */
static int mark_weak(struct leaks *l)
{
	int err = 0;

	for (uint32_t i = 0; i < l->image->blocks && !err; i++) {
		unsigned places = graph_weak(&l->graph)[i];

		for (unsigned k = 1; places && !mark_of(l, i) && k <= PLACE_OTHER; k++)
			if (places & 1u << k && holds(l, i, k)) {
				graph_weak(&l->graph)[i] = (uint16_t)(1u << k);
				set_mark(l, i, MARK_PREFIXED);
			}
		err = rest(l);
	}
	return err ? err : follow_all(l, MARK_HELD);
}

/* Steps 1 and 2, then 3. */
static int mark_all_held(struct leaks *l)
{
	int err;

	l->look = false;
	err = mark_weak(l);
	l->look = true;
	return err ? err : mark_weak(l);
}

/* Whether a block would be possibly lost because a usual offset found no place. */
static bool has_missed(const struct leaks *l)
{
	for (uint32_t i = 0; i < l->image->blocks; i++)
		if (mark_of(l, i) == MARK_NONE && graph_weak(&l->graph)[i] & 1u << PLACE_OTHER &&
		    prefixes_missed(&l->graph.prefixes, i))
			return true;
	return false;
}

static int mark_held(struct leaks *l)
{
	int err = mark_all_held(l);

	if (err || !has_missed(l))
		return err;
	err = graph_sweep_again(&l->graph);
	return err ? err : mark_all_held(l);
}

static int mark_possible(struct leaks *l)
{
	for (uint32_t i = 0; i < l->image->blocks; i++)
		if (mark_of(l, i) == MARK_NONE && graph_weak(&l->graph)[i])
			set_mark(l, i, MARK_POSSIBLE);
	return follow_all(l, MARK_POSSIBLE);
}

static void lead(struct leaks *l, uint32_t block)
{
	uint32_t *leader = &l->leader[block];

	if (mark_of(l, block) == MARK_INDIRECT && mark_of(l, *leader) == MARK_INDIRECT)
		*leader = l->leader[*leader];
}

/*
 * Heads that have become indirect have heads above them: from the last one down, each needs one
 * step, and then so do the blocks that they headed.
 */
static void settle_leaders(struct leaks *l)
{
	for (size_t i = l->heads; i-- > 0;)
		lead(l, l->head[i].block);
	for (uint32_t i = 0; i < l->image->blocks; i++)
		lead(l, i);
}

static int mark_lost(struct leaks *l)
{
	int err;

	l->leader = calloc(l->image->blocks + 1, sizeof(*l->leader));
	err = l->leader ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < l->image->blocks && !err; i++) {
		if (mark_of(l, i) != MARK_NONE)
			continue;
		l->family = (struct head){ .block = i };
		push(l, i);
		err = follow_stack(l, MARK_INDIRECT);
		if (!err && l->more)
			err = follow_all(l, MARK_INDIRECT);
		if (err || !l->family.indirect.blocks)
			continue;
		err = array_room(&l->head, l->heads, &l->head_room, sizeof(*l->head));
		if (!err)
			l->head[l->heads++] = l->family;
	}
	if (!err)
		settle_leaders(l);
	return err;
}

static void count_prefix(struct leaks *l, enum prefix kind, uint64_t offset)
{
	size_t i = 0;

	while (i < l->prefixes && (l->prefix[i].kind != kind || l->prefix[i].offset != offset))
		i++;
	if (i == LEAK_PREFIXES) {
		i--;
		l->prefix[i].kind = PREFIX_UNKNOWN;
		l->prefix[i].offset = 0;
	} else if (i == l->prefixes)
		l->prefix[l->prefixes++] = (struct leak_prefix){ .kind = kind, .offset = offset };
	l->prefix[i].blocks++;
}

static void count_prefixes(struct leaks *l)
{
	const struct prefixes *p = &l->graph.prefixes;

	for (uint32_t i = 0; i < l->image->blocks; i++) {
		enum prefix kind;
		uint64_t offset;
		unsigned place;

		if (mark_of(l, i) != MARK_PREFIXED)
			continue;
		place = (unsigned)__builtin_ctz(graph_weak(&l->graph)[i]);
		offset = prefixes_offset(p, i, place);
		kind = prefixes_usual(p, i) & 1u << place
			       ? prefixes_kind(p, i, place)
			       : prefix_recognise(l->image, &l->image->block[i], offset);
		count_prefix(l, kind, offset);
	}
}

/* ---- the whole ------------------------------------------------------------- */

static int by_blocks(const void *a, const void *b)
{
	const struct leak_prefix *x = a, *y = b;

	return x->blocks < y->blocks ? 1 : -(x->blocks > y->blocks);
}

struct leaks *leaks_new(const struct leaks_image *image, int *err)
{
	struct leaks *l = calloc(1, sizeof(*l));

	*err = l ? graph_init(&l->graph, image) : -ENOMEM;
	if (*err) {
		free(l);
		return NULL;
	}
	l->image = image;
	l->pending = malloc(PENDING * sizeof(*l->pending));
	*err = l->pending ? mark_held(l) : -ENOMEM;
	if (!*err)
		*err = mark_possible(l);
	if (!*err)
		*err = mark_lost(l);
	if (*err) {
		leaks_free(l);
		return NULL;
	}
	count_prefixes(l);
	qsort(l->prefix, l->prefixes, sizeof(*l->prefix), by_blocks);
	return l;
}

void leaks_free(struct leaks *l)
{
	if (!l)
		return;
	graph_release(&l->graph);
	free(l->leader);
	free(l->head);
	free(l->pending);
	free(l);
}

enum leak_kind leaks_kind(const struct leaks *l, size_t block)
{
	static const enum leak_kind kind[] = { [MARK_NONE] = LEAK_DEFINITE,
					       [MARK_HELD] = LEAK_REACHABLE,
					       [MARK_PREFIXED] = LEAK_REACHABLE,
					       [MARK_POSSIBLE] = LEAK_POSSIBLE,
					       [MARK_INDIRECT] = LEAK_INDIRECT };

	return kind[mark_of(l, block)];
}

struct leak_sum leaks_indirect(const struct leaks *l, size_t block)
{
	const struct head *h = leaks_kind(l, block) == LEAK_DEFINITE ? head_of(l, (uint32_t)block)
								     : NULL;

	return h ? h->indirect : (struct leak_sum){ 0 };
}

const struct leaks_graph *leaks_graph(const struct leaks *l) { return &l->graph; }

size_t leaks_head(const struct leaks *l, size_t block)
{
	return leaks_kind(l, block) == LEAK_INDIRECT ? l->leader[block] : block;
}

ssize_t leaks_find(const struct leaks *l, raddr_t address)
{
	uint64_t into;
	uint32_t block = index_find(&l->graph.index, address, &into);

	return block == INDEX_NONE || into == INDEX_BEHIND ? -1 : (ssize_t)block;
}

/* ---- records --------------------------------------------------------------- */

static int by_weight(const void *a, const void *b)
{
	const struct leak_record *x = a, *y = b;
	uint64_t p = x->bytes + x->indirect_bytes, q = y->bytes + y->indirect_bytes;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (p != q)
		return p < q ? 1 : -1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

ssize_t leaks_records(const struct leaks *l, bool (*wanted)(void *ctx, size_t block), void *ctx,
		      struct leak_record **out)
{
	const struct prefixes *p = &l->graph.prefixes;
	struct leak_record *record = calloc((size_t)p->stacks * LEAK_KINDS + 1, sizeof(*record));
	size_t n = 0;

	if (!record)
		return -ENOMEM;
	for (size_t i = 0; i < l->image->blocks; i++) {
		const struct capture_block *b = &l->image->block[i];
		enum leak_kind kind = leaks_kind(l, i);
		struct leak_sum indirect;
		struct leak_record *r;

		if (wanted && !wanted(ctx, i))
			continue;
		indirect = leaks_indirect(l, i);
		r = &record[(size_t)prefixes_stack(p, b->stack) * LEAK_KINDS + kind];
		r->stack = b->stack;
		r->kind = kind;
		r->bytes += b->size;
		r->blocks++;
		r->indirect_bytes += indirect.bytes;
		r->indirect_blocks += indirect.blocks;
	}
	for (size_t i = 0; i < (size_t)p->stacks * LEAK_KINDS; i++)
		if (record[i].blocks)
			record[n++] = record[i];
	qsort(record, n, sizeof(*record), by_weight);
	*out = record;
	return (ssize_t)n;
}

size_t leaks_prefixes(const struct leaks *l, const struct leak_prefix **out)
{
	*out = l->prefix;
	return l->prefixes;
}

uint64_t leaks_scanned(const struct leaks *l) { return l->graph.bytes; }
