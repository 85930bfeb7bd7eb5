// SPDX-License-Identifier: GPL-3.0-or-later
#include "leaks/reference_graph.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PIECE	 (1u << 20) /* of memory that is read at a time */
#define NO_BLOCK INDEX_NONE /* a word's source: it is a root */

/*
 * Before the sweep, what roots hold is followed, and what that holds: a large block whenever there
 * is one, as that is read as fast as by the sweep; and so many small ones, the nearest first. The
 * roots are registers and all ranges without blocks but large ones.
 */
#define NEAR_LARGE 4096u /* bytes */
#define NEAR_MOST  16384u
#define NEAR_RANGE (16u << 20) /* bytes */

struct nearest {
	uint32_t large[NEAR_MOST], small[NEAR_MOST];
	unsigned nlarge, nsmall, next; /* the latter of the small ones */
};

struct sweep {
	struct leaks_graph *graph;
	struct graph_part *part;
	struct nearest *nearest; /* NULL: that is over */
	struct graph_words words;
	uint32_t from;	  /* the source of the last edge, NO_BLOCK at first */
	bool holds, keep; /* it is held; its edges are remembered */
	uint32_t filled;  /* `first` is set for blocks below it */
	size_t most;	  /* edges; */
	bool full;	  /* there are so many, and all are needed */
	uint8_t *buffer;  /* PIECE bytes */
	uint64_t bytes;
	int err;
};

/* ---- edges ---------------------------------------------------------------- */

static uint8_t *graph_state(const struct leaks_graph *g) { return g->state.base; }
static uint32_t *first_of(const struct leaks_graph *g) { return g->first.base; }

/* All blocks before BLOCK, and itself, have no further edges up to now. */
static void fill(struct sweep *s, uint32_t block)
{
	while (s->filled <= block)
		first_of(s->graph)[s->filled++] = s->part->count;
}

static bool is_held(const struct leaks_graph *g, uint32_t block)
{
	return __atomic_load_n(&graph_marks(g)[block], __ATOMIC_RELAXED);
}

static void change_source(struct sweep *s, uint32_t source)
{
	s->from = source;
	s->holds = source == NO_BLOCK || s->nearest;
	if (s->holds)
		return;
	fill(s, source);
	s->holds = is_held(s->graph, source);
	if (s->holds)
		graph_state(s->graph)[source] |= GRAPH_DONE >> GRAPH_SHIFT;
	s->keep = !s->holds;
}

/* Room for COUNT edges, and what may be read behind them. */
static inline bool edges_reach(struct arena *edges, size_t count)
{
	size_t bytes = (count + EDGES_BEHIND) * sizeof(uint32_t);

	return bytes <= edges->size || !arena_reach(edges, bytes);
}

static void hold(struct leaks_graph *g, uint32_t target, unsigned place)
{
	if (place == PLACE_START)
		__atomic_store_n(&graph_marks(g)[target], GRAPH_HELD, __ATOMIC_RELAXED);
	else if (!(__atomic_load_n(&graph_weak(g)[target], __ATOMIC_RELAXED) & 1u << place))
		__atomic_fetch_or(&graph_weak(g)[target], (uint16_t)(1u << place),
				  __ATOMIC_RELAXED);
}

/*
 * Whether an address that is INTO bytes in TARGET says anything of it. Behind a block of 8 bytes it
 * does if the block is the number of an array's objects, and that is none: then it is where the
 * array is. *INTO is 0 from then on, as it is for a hash table that is held at its control bytes.
 */
static inline bool is_pointer(const struct leaks_graph *g, uint32_t target, uint64_t *into)
{
	const struct capture_block *b = &g->image->block[target];

	if (*into == INDEX_BEHIND) {
		*into = 0;
		return prefix_is_empty_array(g->image, b);
	}
	if (*into && prefix_may_be_table(b, *into) && prefix_is_table(g->image, b, *into))
		*into = 0;
	return true;
}

/*
 * What held blocks point to is held, as far as this part of the sweep has come: it is mostly many
 * that have turned out to be held since it was there. In passes, while they find many.
 */
static void hold_on(struct sweep *s)
{
	struct leaks_graph *g = s->graph;
	const uint32_t *edges = s->part->edges.base, *first = first_of(g);
	size_t added, few = (s->filled - s->part->first) / 64;

	do {
		added = 0;
		for (uint32_t b = s->part->first; b + 1 < s->filled; b++) {
			if (!is_held(g, b) || graph_state(g)[b])
				continue;
			graph_state(g)[b] = GRAPH_DONE >> GRAPH_SHIFT;
			for (uint32_t i = first[b]; i < first[b + 1]; i++) {
				added += !is_held(g, EDGE_TARGET(edges[i]));
				hold(g, EDGE_TARGET(edges[i]), EDGE_PLACE(edges[i]));
			}
		}
	} while (added > few);
}

/* Edges that are not needed any more make room: from what is held, and to it. */
static void squeeze(struct sweep *s)
{
	struct leaks_graph *g = s->graph;
	uint32_t *edges = s->part->edges.base, *first = first_of(g), kept;

	hold_on(s);
	kept = s->part->first < s->filled ? first[s->part->first] : 0;
	for (uint32_t b = s->part->first; b < s->filled; b++) {
		uint32_t from = first[b], to = b + 1 < s->filled ? first[b + 1] : s->part->count;

		first[b] = kept;
		for (uint32_t i = from; i < to; i++)
			if (!graph_state(g)[b] && !is_held(g, EDGE_TARGET(edges[i])))
				edges[kept++] = edges[i];
	}
	s->part->count = kept;
}

static void keep_edge(struct sweep *s, uint32_t edge)
{
	struct graph_part *p = s->part;
	uint32_t *edges = p->edges.base, *begin = &first_of(s->graph)[s->from];

	if (p->count > *begin && edges[p->count - 1] == edge)
		return;
	if (p->count >= s->most && !s->full) {
		squeeze(s);
		s->full = p->count > s->most / 4 * 3; /* it is not worth while */
	}
	if (p->count < s->most && !s->full && edges_reach(&p->edges, p->count + 1ul)) {
		edges = p->edges.base;
		edges[p->count++] = edge;
		return;
	}
	p->count = *begin;
	graph_state(s->graph)[s->from] |= GRAPH_AGAIN >> GRAPH_SHIFT;
	s->keep = false;
}

/* TARGET is held: it is to be followed, if there is room. */
static void add_near(struct sweep *s, uint32_t target)
{
	struct nearest *n = s->nearest;

	if (index_entry(&s->graph->index, target)->size >= NEAR_LARGE) {
		if (n->nlarge < NEAR_MOST)
			n->large[n->nlarge++] = target;
	} else if (n->nsmall < NEAR_MOST)
		n->small[n->nsmall++] = target;
}

static void found(struct sweep *s, uint32_t source, uint32_t target, uint64_t into)
{
	struct leaks_graph *g = s->graph;
	unsigned place = PLACE_START;

	if (source != s->from)
		change_source(s, source);
	if (target == source || !is_pointer(g, target, &into))
		return;
	if (into)
		place = prefixes_learn(&g->prefixes, target, into);
	if (is_held(g, target))
		return;
	if (s->holds) {
		hold(g, target, place);
		if (s->nearest && place == PLACE_START)
			add_near(s, target);
	} else if (s->keep)
		keep_edge(s, target << PLACE_BITS | place);
}

/* ---- words ---------------------------------------------------------------- */

/*
 * What was gathered: how many of these words are in a block, `target`, `into` bytes, of `source`.
 */
static unsigned look_up(const struct leaks_graph *g, struct graph_words *w)
{
	const struct leaks_index *x = &g->index;
	unsigned n = w->gathered, k = 0;

	w->gathered = 0;
	for (unsigned i = 0; i < n; i++) {
		w->region[k] = index_region(x, w->word[i]);
		w->word[k] = w->word[i];
		w->source[k] = w->source[i];
		if (w->region[k] == INDEX_NONE)
			continue;
		__builtin_prefetch(index_bucket(x, &x->region[w->region[k]], w->word[k]));
		k++;
	}
	n = k;
	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch(
			index_entry(x, *index_bucket(x, &x->region[w->region[i]], w->word[i])));
	for (unsigned i = k = 0; i < n; i++) {
		w->target[k] = index_find_in(x, &x->region[w->region[i]], w->word[i], &w->into[k]);
		w->source[k] = w->source[i];
		if (w->target[k] == INDEX_NONE)
			continue;
		__builtin_prefetch(&graph_marks(g)[w->target[k]]);
		if (w->into[k])
			prefixes_fetch(&g->prefixes, w->target[k]);
		k++;
	}
	return k;
}

/* Some of the words are gathered; false: there is no room for the others. */
static inline bool gather(const struct leaks_index *x, struct graph_words *w, const uint64_t **word,
			  size_t *count, uint32_t source)
{
	unsigned n = w->gathered;
	size_t now = *count < GRAPH_WORDS - n ? *count : GRAPH_WORDS - n;

	for (size_t i = 0; i < now; i++) { /* without a branch */
		w->word[n] = (*word)[i];
		w->source[n] = source;
		n += index_may(x, (*word)[i]);
	}
	*word += now;
	*count -= now;
	w->gathered = n;
	return n < GRAPH_WORDS;
}

static void all_found(struct sweep *s)
{
	struct graph_words *w = &s->words;
	unsigned n = look_up(s->graph, w);

	for (unsigned i = 0; i < n; i++)
		found(s, w->source[i], w->target[i], w->into[i]);
}

static void words(struct sweep *s, const uint64_t *word, size_t count, uint32_t source)
{
	while (count)
		if (!gather(&s->graph->index, &s->words, &word, &count, source))
			all_found(s);
}

/* ---- memory --------------------------------------------------------------- */

static raddr_t block_end(const struct leaks_image *image, uint32_t block)
{
	const struct capture_block *b = &image->block[block];

	return b->address + b->size < b->address ? UINT64_MAX : b->address + b->size;
}

/* Where another one begins in it, if that is so: what follows is not looked at as its own. */
static raddr_t own_end(const struct leaks_image *image, uint32_t block)
{
	raddr_t end = block_end(image, block);

	if (block + 1 < image->blocks && image->block[block + 1].address < end)
		return image->block[block + 1].address;
	return end;
}

/* The words of [AT, END), which is at PIECE. */
static void part_of_piece(struct sweep *s, const uint8_t *piece, raddr_t at, raddr_t end,
			  uint32_t source)
{
	uint64_t skip = -at & 7;

	if (end < at || end - at < skip + 8)
		return;
	words(s, (const uint64_t *)(const void *)(piece + skip), (end - at - skip) / 8, source);
}

/*
 * [AT, END), which is at PIECE: pieces of blocks from BLOCK on, the first that does not end before
 * AT, and what is between them. Where blocks lie within others what follows the inner one is as
 * what is between them. Returns the first one that does not end before END.
 */
static uint32_t cut(struct sweep *s, const struct leaks_range *r, const uint8_t *piece, raddr_t at,
		    raddr_t end, uint32_t block)
{
	const struct leaks_image *image = s->graph->image;
	raddr_t begin = at;

	while (at < end) {
		raddr_t next = block < image->blocks ? image->block[block].address : UINT64_MAX;
		raddr_t stop;

		if (next > at) {
			raddr_t behind = block ? block_end(image, block - 1) : 0;

			stop = next < end ? next : end;
			if (r->roots && (next - behind > GRAPH_ROUNDING || behind < r->start))
				part_of_piece(s, piece + (at - begin), at, stop, NO_BLOCK);
			at = stop;
			continue;
		}
		stop = own_end(image, block);
		if (!(graph_state(s->graph)[block] & GRAPH_NEAR >> GRAPH_SHIFT))
			part_of_piece(s, piece + (at - begin), at, stop < end ? stop : end, block);
		if (stop > end)
			return block;
		at = stop > at ? stop : at;
		block++;
	}
	return block;
}

static void sweep_range(struct sweep *s, const struct leaks_range *r, raddr_t at, raddr_t end)
{
	const struct leaks_image *image = s->graph->image;
	uint32_t block = index_from(&s->graph->index, at);

	if (block && block_end(image, block - 1) > at)
		block--;
	while (at < end) {
		const void *piece;
		size_t len;

		if (image->interrupted(image->ctx)) {
			s->err = -EINTR;
			return;
		}
		piece = image->next(image->ctx, at, end, s->buffer, PIECE, &at, &len);
		if (!piece)
			return;
		len = len < PIECE ? len : PIECE;
		while (block < image->blocks && block_end(image, block) <= at)
			block++;
		block = cut(s, r, piece, at, at + len, block);
		s->bytes += len;
		at += len;
	}
}

static void follow_near(struct sweep *s, uint32_t block)
{
	const struct leaks_image *image = s->graph->image;
	raddr_t at = image->block[block].address, end = own_end(image, block);
	size_t len;

	graph_state(s->graph)[block] = (GRAPH_DONE | GRAPH_NEAR) >> GRAPH_SHIFT;
	while (at < end) {
		const void *piece = image->next(image->ctx, at, end, s->buffer, PIECE, &at, &len);

		if (!piece)
			return;
		part_of_piece(s, piece, at, at + len, block);
		at += len;
	}
}

static bool has_blocks(const struct leaks_graph *g, const struct leaks_range *r)
{
	const struct leaks_image *image = g->image;
	uint32_t first = index_from(&g->index, r->start);

	return (first && block_end(image, first - 1) > r->start) ||
	       (first < image->blocks && image->block[first].address < r->end);
}

static bool is_near(const struct leaks_graph *g, const struct leaks_range *r)
{
	return r->roots && r->end - r->start <= NEAR_RANGE && !has_blocks(g, r);
}

/* What is near to the roots: before any part is swept. */
static void sweep_nearest(struct sweep *s)
{
	const struct leaks_image *image = s->graph->image;
	struct nearest *n = s->nearest;

	words(s, image->word, image->words, NO_BLOCK);
	for (size_t i = 0; i < image->ranges && !s->err; i++)
		if (is_near(s->graph, &image->range[i]))
			sweep_range(s, &image->range[i], image->range[i].start,
				    image->range[i].end);
	for (unsigned done = 0; !s->err; done++) {
		if (!n->nlarge && n->next == n->nsmall)
			all_found(s);
		if (n->nlarge)
			follow_near(s, n->large[--n->nlarge]);
		else if (n->next < n->nsmall)
			follow_near(s, n->small[n->next++]);
		else
			break;
		if (done % 64 == 0 && image->interrupted(image->ctx))
			s->err = -EINTR;
	}
}

/* The ranges of its part: first those that have no blocks, which are roots alone. */
static void sweep_part(struct sweep *s)
{
	const struct leaks_image *image = s->graph->image;
	const struct graph_part *p = s->part;

	for (unsigned blocks = 0; blocks < 2; blocks++) {
		for (size_t i = 0; i < image->ranges && !s->err; i++) {
			const struct leaks_range *r = &image->range[i];
			raddr_t at = r->start > p->start ? r->start : p->start;
			raddr_t end = r->end < p->end ? r->end : p->end;
			bool any = has_blocks(s->graph, r);

			if (at < end && any == blocks && (any || r->roots) && !is_near(s->graph, r))
				sweep_range(s, r, at, end);
		}
	}
	all_found(s);
	if (p->last)
		fill(s, p->last - 1);
}

/* ---- the whole ------------------------------------------------------------ */

/*
 * Bytes for edges: what is left of 64 for each block, of which the capture's list has 24 and the
 * tables 22; and 16 MB at least.
 */
#define EDGES_LEAST	(16ul << 20)
#define EDGES_FOR_BLOCK 16ul

static void *sweep_thread(void *sweep)
{
	sweep_part(sweep);
	return NULL;
}

/* Signals are for others. */
static bool begin_beside(pthread_t *thread, struct sweep *s)
{
	sigset_t all, was;
	bool begun;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	begun = !pthread_create(thread, NULL, sweep_thread, s);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return begun;
}

/* An address where no block goes on, with half of all bytes on each side. */
static raddr_t middle_of(const struct leaks_graph *g)
{
	const struct leaks_image *image = g->image;
	uint64_t sum = 0, half;
	raddr_t middle = 0;

	for (size_t i = 0; i < image->ranges; i++)
		sum += image->range[i].end - image->range[i].start;
	half = sum / 2;
	for (size_t i = 0; i < image->ranges; i++) {
		uint64_t size = image->range[i].end - image->range[i].start;

		if (half < size) {
			middle = image->range[i].start + (half & ~7ull);
			break;
		}
		half -= size;
	}
	for (uint32_t b = index_from(&g->index, middle);
	     b && b <= image->blocks && block_end(image, b - 1) > middle;
	     b = index_from(&g->index, middle))
		middle = (block_end(image, b - 1) + 7) & ~7ull;
	return middle;
}

static void divide(struct leaks_graph *g)
{
	const struct leaks_image *image = g->image;
	raddr_t middle = image->threads > 1 ? middle_of(g) : 0;

	g->parts = middle ? 2 : 1;
	g->part[0].end = g->part[1].end = UINT64_MAX;
	g->part[0].last = g->part[1].last = (uint32_t)image->blocks;
	if (!middle)
		return;
	g->part[1].first = g->part[0].last = index_from(&g->index, middle);
	g->part[1].start = g->part[0].end = middle;
}

static int run_nearest(struct leaks_graph *g, uint8_t *buffer)
{
	struct nearest *nearest = calloc(1, sizeof(*nearest));
	struct sweep *s = calloc(1, sizeof(*s));
	int err = nearest && s ? 0 : -ENOMEM;

	if (!err) {
		*s = (struct sweep){ .graph = g, .nearest = nearest, .from = NO_BLOCK };
		s->holds = true;
		s->buffer = buffer;
		sweep_nearest(s);
		g->bytes += s->bytes;
		err = s->err;
	}
	free(s);
	free(nearest);
	return err;
}

static int run_parts(struct leaks_graph *g, uint8_t *buffers)
{
	size_t budget = g->image->blocks * EDGES_FOR_BLOCK, most = g->image->most_edges;
	struct sweep *s = calloc(g->parts, sizeof(*s));
	bool beside = false;
	pthread_t thread;
	int err = 0;

	if (!s)
		return -ENOMEM;
	budget = budget > EDGES_LEAST ? budget : EDGES_LEAST;
	most = most ? most : budget / sizeof(uint32_t);
	for (unsigned i = 0; i < g->parts; i++) {
		s[i].graph = g;
		s[i].part = &g->part[i];
		s[i].from = NO_BLOCK;
		s[i].holds = true;
		s[i].filled = g->part[i].first;
		s[i].most = most / g->parts;
		s[i].buffer = buffers + i * (size_t)PIECE;
	}
	beside = g->parts > 1 && begin_beside(&thread, &s[1]);
	sweep_part(&s[0]);
	if (beside)
		pthread_join(thread, NULL);
	else if (g->parts > 1)
		sweep_part(&s[1]);
	for (unsigned i = 0; i < g->parts; i++) {
		g->bytes += s[i].bytes;
		err = err ? err : s[i].err;
	}
	free(s);
	return err;
}

static int run(struct leaks_graph *g)
{
	uint8_t *buffers = malloc(g->parts * (size_t)PIECE);
	int err = buffers ? run_nearest(g, buffers) : -ENOMEM;

	if (!err)
		err = run_parts(g, buffers);
	free(buffers);
	return err;
}

static int sweep_all(struct leaks_graph *g)
{
	size_t n = g->image->blocks;
	int err = arena_reach(&g->state, n);

	if (!err)
		err = run(g);
	if (err)
		return err;
	prefixes_settle(&g->prefixes);
	for (size_t i = 0; i < n; i++)
		graph_marks(g)[i] |= (uint8_t)(graph_state(g)[i] << GRAPH_SHIFT);
	arena_release(&g->state);
	return 0;
}

int graph_init(struct leaks_graph *g, const struct leaks_image *image)
{
	size_t n = image->blocks;
	int err;

	*g = (struct leaks_graph){ .image = image };
	err = index_init(&g->index, image);
	if (err)
		return err;
	err = prefixes_init(&g->prefixes, image);
	if (err) {
		index_release(&g->index);
		return err;
	}
	if (arena_reach(&g->marks, n) || arena_reach(&g->weak, n * sizeof(uint16_t)) ||
	    arena_reach(&g->first, n * sizeof(uint32_t)) || !edges_reach(&g->again, 0) ||
	    !edges_reach(&g->part[0].edges, 0) || !edges_reach(&g->part[1].edges, 0))
		err = -ENOMEM;
	if (!err) {
		divide(g);
		err = sweep_all(g);
	}
	if (err)
		graph_release(g);
	return err;
}

int graph_sweep_again(struct leaks_graph *g)
{
	size_t n = g->image->blocks;

	prefixes_again(&g->prefixes);
	memset(g->marks.base, 0, n);
	memset(g->weak.base, 0, n * sizeof(uint16_t));
	for (unsigned i = 0; i < g->parts; i++)
		g->part[i].count = 0;
	return sweep_all(g);
}

void graph_release(struct leaks_graph *g)
{
	index_release(&g->index);
	prefixes_release(&g->prefixes);
	arena_release(&g->marks);
	arena_release(&g->state);
	arena_release(&g->weak);
	arena_release(&g->first);
	arena_release(&g->again);
	for (unsigned i = 0; i < g->parts; i++)
		arena_release(&g->part[i].edges);
}

/* ---- edges again ---------------------------------------------------------- */

void graph_again(struct leaks_graph *g, uint32_t block, void (*fn)(void *ctx, uint32_t edge),
		 void *ctx)
{
	const struct leaks_image *image = g->image;
	raddr_t at = (image->block[block].address + 7) & ~7ull, end = block_end(image, block);
	uint64_t buffer[512];
	size_t len;

	if (block + 1 < image->blocks && image->block[block + 1].address < end)
		end = image->block[block + 1].address;
	while (at + 8 <= end) {
		const uint64_t *word =
			image->next(image->ctx, at, end, buffer, sizeof(buffer), &at, &len);

		if (!word)
			return;
		at += len;
		for (size_t count = len / 8; count;)
			if (!gather(&g->index, &g->words, &word, &count, block))
				graph_end_again(g, fn, ctx);
	}
}

void graph_end_again(struct leaks_graph *g, void (*fn)(void *ctx, uint32_t edge), void *ctx)
{
	struct graph_words *w = &g->words;
	unsigned n = look_up(g, w);

	for (unsigned i = 0; i < n; i++) {
		uint32_t target = w->target[i];

		if (target == w->source[i] || !is_pointer(g, target, &w->into[i]))
			continue;
		fn(ctx, target << PLACE_BITS |
				(w->into[i] ? prefixes_place(&g->prefixes, target, w->into[i])
					    : PLACE_START));
	}
}

struct edges {
	struct leaks_graph *graph;
	uint32_t count;
	int err;
};

static void add_edge(void *ctx, uint32_t edge)
{
	struct edges *e = ctx;

	if (!e->err && !edges_reach(&e->graph->again, e->count + 1ul))
		e->err = -ENOMEM;
	if (!e->err)
		((uint32_t *)e->graph->again.base)[e->count++] = edge;
}

static int read_again(struct leaks_graph *g, uint32_t block, uint32_t *count)
{
	struct edges e = { .graph = g };

	graph_again(g, block, add_edge, &e);
	graph_end_again(g, add_edge, &e);
	*count = e.count;
	return e.err;
}

static const struct graph_part *part_of(const struct leaks_graph *g, uint32_t block)
{
	return &g->part[g->parts > 1 && block >= g->part[1].first];
}

const uint32_t *graph_edges(struct leaks_graph *g, uint32_t block, uint32_t *count)
{
	const struct graph_part *p = part_of(g, block);
	const uint32_t *first = first_of(g);

	if (graph_marks(g)[block] & GRAPH_AGAIN)
		return read_again(g, block, count) ? NULL : g->again.base;
	*count = (block + 1 < p->last ? first[block + 1] : p->count) - first[block];
	return (const uint32_t *)p->edges.base + first[block];
}

void graph_fetch_first(const struct leaks_graph *g, uint32_t block)
{
	__builtin_prefetch(&first_of(g)[block]);
	__builtin_prefetch(&graph_marks(g)[block], 1);
}

void graph_fetch_edges(const struct leaks_graph *g, uint32_t block)
{
	__builtin_prefetch((const uint32_t *)part_of(g, block)->edges.base + first_of(g)[block]);
}
