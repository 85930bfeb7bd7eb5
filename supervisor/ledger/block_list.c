// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/block_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/search.h"
#include "ledger/ledger_state.h"

/*
 * What is copied in the third slice is not of the moment at which the first began: blocks have come
 * and gone. So from that moment on the ledger tells each listing what it is about to change, and
 * what was there before is noted, the first time for each address. In the end what was noted
 * replaces what was copied at the same address: blocks that were never noted have not changed, so
 * it does not matter when they were copied, and of the others the note is the truth.
 *
 * That each of those is met exactly once is blocks_pass()'s promise, as long as the table is not
 * laid out anew; then the copy begins anew. Where a program changes its blocks faster than they are
 * copied, or makes the table move again and again, the rest is copied at once, so that notes never
 * take more memory than half of the list.
 *
 * Blocks in the middle of a realloc, and mappings, are few: they are copied at the beginning. Until
 * the end an entry has the number of its stack total in place of its stack: which those are of is
 * copied first, and once, so that the table's entries alone are read for each block.
 */
#define NOTES_LEAST  65536u
#define RESTARTS     3u
#define FILTER	     1024u			      /* power of two */
#define STEP_COST    64u			      /* of a step of the walk, as many blocks */
#define SLICE_BEYOND (BLOCK_OFFSET + 1 + BLOCKS_WALK) /* a page is never cut in two */

struct part {
	struct arena blocks; /* struct listed_block */
	size_t count;
	struct listed_weight *weight;
	size_t weights, room;
};

struct listing {
	struct listing *next;  /* of the same ledger */
	struct ledger *ledger; /* NULL: it has all that it needs of it */
	struct blocks_pass pass;
	unsigned restarts; /* how often it did */
	bool lost;	   /* something found no memory */
	/*
	 * rest: what was copied at once, when the notes became too many. While one thread prepares
	 * the memory of `copied`, another may do that.
	 */
	struct part copied, rest, noted, extra;
	size_t prepared;	/* blocks that there is memory for, in `copied` */
	size_t wanted;		/* where the copy is: what the next slice goes on from */
	raddr_t filter[FILTER]; /* noted lately */
	pid_t *tid;
	size_t threads;
	uint32_t *stack;	 /* by stack total */
	uint32_t stacks, totals; /* copied, of those that there were */
};

/* ---- parts --------------------------------------------------------------- */

static struct listed_block *entries(const struct part *p) { return p->blocks.base; }

static bool weigh(struct part *p, struct listed_block *b, struct weight w)
{
	if (w.bytes == b->size && w.count == 1)
		return true;
	if (array_room(&p->weight, p->weights, &p->room, sizeof(*p->weight)))
		return false;
	p->weight[p->weights] = (struct listed_weight){ w.bytes, w.count, b->tick };
	b->tick = (uint32_t)p->weights++ & BLOCK_TICK_MAX;
	b->weighed = true;
	return true;
}

static bool append(struct part *p, struct listed_block b, struct weight w)
{
	if (arena_reach(&p->blocks, (p->count + 1) * sizeof(b)) || !weigh(p, &b, w))
		return false;
	entries(p)[p->count++] = b;
	return true;
}

static void part_release(struct part *p)
{
	arena_release(&p->blocks);
	free(p->weight);
	*p = (struct part){ 0 };
}

static void free_listing(struct listing *g)
{
	part_release(&g->copied);
	part_release(&g->rest);
	part_release(&g->noted);
	part_release(&g->extra);
	free(g->tid);
	free(g->stack);
	free(g);
}

static inline struct listed_block listed(raddr_t addr, const struct block *b)
{
	return (struct listed_block){
		.address = addr,
		.size = block_size(b),
		.thread = block_owner(b),
		.stack = block_total(b),
		.tick = block_tick(b),
	};
}

static int add_extra(void *ctx, const struct ledger_block *b)
{
	struct listing *g = ctx;
	struct listed_block one = {
		.address = b->address,
		.size = b->size < 1ull << 48 ? b->size : (1ull << 48) - 1,
		.thread = owner_of(b->thread),
		.stack = total_of(g->ledger, b->stack),
		.tick = (uint32_t)(b->ms / 10),
		.mapping = b->mapping,
	};

	return append(&g->extra, one, (struct weight){ b->bytes, b->count }) ? 0 : -ENOMEM;
}

/* ---- copying ------------------------------------------------------------- */

static void leave(struct listing *g)
{
	struct listing **at = &g->ledger->listings;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	ledger_is_odd(g->ledger);
	g->ledger = NULL;
}

struct listing *listing_begin(struct ledger *l)
{
	struct listing *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	wake(l);
	g->ledger = l;
	g->threads = l->nthreads;
	g->totals = l->totals_used;
	g->tid = malloc((g->threads + 1) * sizeof(*g->tid));
	g->stack = malloc((g->totals + 1) * sizeof(*g->stack));
	if (!g->tid || !g->stack || ledger_each_leaving(l, add_extra, g) ||
	    ledger_each_mapping(l, add_extra, g)) {
		free_listing(g);
		return NULL;
	}
	for (uint32_t i = 0; i < g->threads; i++)
		g->tid[i] = ledger_thread_tid(l, i);
	g->next = l->listings;
	l->listings = g;
	l->odd = true;
	return g;
}

struct copying {
	struct listing *listing;
	struct part *to;
};

static void copy_block(void *ctx, raddr_t addr, const struct block *b)
{
	struct copying *c = ctx;
	struct part *p = c->to;
	struct listed_block *to = entries(p) + p->count++;

	*to = listed(addr, b);
	if (__builtin_expect((b->b & BLOCK_COUNTED) != 0, 0))
		c->listing->lost |= !weigh(p, to, weight_of(c->listing->ledger, addr, b));
}

/* About BLOCKS more into P. False: there are none, or no memory. */
static bool copy_some(struct listing *g, struct part *p, size_t blocks)
{
	struct copying c = { g, p };
	size_t room = (p->count + blocks + BLOCKS_PASS_BEYOND) * sizeof(struct listed_block);
	int more = -ENOMEM;

	if (!arena_reach(&p->blocks, room))
		more = blocks_pass(&g->ledger->blocks, &g->pass, blocks, copy_block, &c);
	g->lost |= more == -ENOMEM;
	if (more == -EAGAIN) {
		g->pass = (struct blocks_pass){ 0 };
		g->copied.count = g->copied.weights = 0;
		g->restarts++;
	}
	return more && !g->lost;
}

/* Which stacks the totals are of: some of them, or all. */
static size_t copy_stacks(struct listing *g, size_t most)
{
	uint32_t from = g->stacks;

	while (g->stacks < g->totals && g->stacks - from < most) {
		g->stack[g->stacks] = total_at(g->ledger, g->stacks)->id;
		g->stacks++;
	}
	return g->stacks - from;
}

#define AT_ONCE (1u << 20) /* blocks, of which there may be any number */

/* At once, whatever it takes. */
static void copy_rest(struct listing *g)
{
	copy_stacks(g, SIZE_MAX);
	while (copy_some(g, &g->rest, AT_ONCE))
		;
	leave(g);
}

bool listing_slice(struct listing *g, size_t blocks)
{
	if (g->ledger && g->restarts > RESTARTS)
		copy_rest(g);
	if (g->ledger && copy_stacks(g, blocks) < blocks && !copy_some(g, &g->copied, blocks))
		leave(g);
	g->wanted = g->copied.count;
	return g->ledger;
}

void listing_prepare(struct listing *g, size_t blocks)
{
	size_t n = g->wanted + blocks + BLOCKS_PASS_BEYOND;
	size_t from = g->prepared > g->wanted ? g->prepared : g->wanted;

	if (n <= from || arena_reach(&g->copied.blocks, n * sizeof(struct listed_block)))
		return;
	memset(entries(&g->copied) + from, 0, (n - from) * sizeof(struct listed_block));
	g->prepared = n;
}

/* ---- notes --------------------------------------------------------------- */

static void take_note(struct listing *g, raddr_t addr)
{
	const struct ledger *l = g->ledger;
	raddr_t *lately = &g->filter[(addr >> 4 ^ addr >> 14) & (FILTER - 1)];
	struct listed_block note = { .address = addr, .gone = true };
	struct weight w = { 0, 1 };
	const struct block *b;
	struct block copy;

	if (*lately == addr)
		return;
	*lately = addr;
	b = blocks_get(&l->blocks, addr, &copy);
	if (b) {
		note = listed(addr, b);
		w = weight_of(l, addr, b);
	}
	g->lost |= !append(&g->noted, note, w);
	if (g->noted.count > NOTES_LEAST + (l->allocs - l->frees + l->inherited) / 2)
		copy_rest(g);
}

void listings_note(struct ledger *l, raddr_t addr)
{
	for (struct listing *g = l->listings, *next; g; g = next) {
		next = g->next;
		take_note(g, addr);
	}
}

void listing_leave(struct listing *g) { copy_rest(g); }

/* ---- the end ------------------------------------------------------------- */

#define DIGIT 9u /* bits that are sorted by at once */

/* The bits from SHIFT on, into TO, which has room for all. */
static void sort_by(struct listed_block *to, const struct listed_block *from, size_t n,
		    unsigned shift)
{
	size_t at[(1u << DIGIT) + 1] = { 0 };

	for (size_t i = 0; i < n; i++)
		at[(from[i].address >> shift & ((1u << DIGIT) - 1)) + 1]++;
	for (size_t d = 1; d < 1u << DIGIT; d++)
		at[d] += at[d - 1];
	for (size_t i = 0; i < n; i++)
		to[at[from[i].address >> shift & ((1u << DIGIT) - 1)]++] = from[i];
}

/* Ascending; those of one address stay in their order. */
static bool sort(struct part *p)
{
	struct arena spare = { 0 };
	raddr_t differ = 0;

	for (size_t i = 1; i < p->count; i++)
		differ |= entries(p)[i].address ^ entries(p)[0].address;
	if (differ && arena_reach(&spare, p->count * sizeof(struct listed_block)))
		return false;
	for (unsigned shift = 0; shift < 64 && differ >> shift;) {
		struct arena other = p->blocks;

		if (!(differ >> shift & 1)) {
			shift++;
			continue;
		}
		sort_by(spare.base, entries(p), p->count, shift);
		p->blocks = spare;
		spare = other;
		shift += DIGIT;
	}
	arena_release(&spare);
	return true;
}

/* Of each address the first note alone, which is of the moment. */
static void only_first(struct part *p)
{
	struct listed_block *v = entries(p);
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++)
		if (!n || v[n - 1].address != v[i].address)
			v[n++] = v[i];
	p->count = n;
}

#define MARKS (1u << 20) /* bits */

static size_t mark_of(raddr_t addr) { return (addr * 0x9e3779b97f4a7c15ull) >> 44; }

static bool is_noted(const struct part *noted, const uint64_t *marks, raddr_t addr)
{
	const struct listed_block *v = entries(noted);
	size_t at, mark = mark_of(addr);

	if (!(marks[mark / 64] >> mark % 64 & 1))
		return false;
	at = SEARCH(i, noted->count, v[i].address < addr);
	return at < noted->count && v[at].address == addr;
}

/* What was noted, each once and sorted, is not in P any more. */
static bool drop_noted(struct part *p, const struct part *noted)
{
	uint64_t *marks = noted->count ? calloc(MARKS / 64, sizeof(*marks)) : NULL;
	struct listed_block *v = entries(p);
	size_t n = 0;

	if (!noted->count)
		return true;
	if (!marks)
		return false;
	for (size_t i = 0; i < noted->count; i++)
		marks[mark_of(entries(noted)[i].address) / 64] |=
			1ull << mark_of(entries(noted)[i].address) % 64;
	for (size_t i = 0; i < p->count; i++)
		if (!is_noted(noted, marks, v[i].address))
			v[n++] = v[i];
	p->count = n;
	free(marks);
	return true;
}

/* All of FROM that is not gone comes into P. */
static bool join(struct part *p, const struct part *from)
{
	size_t weights = p->weights + from->weights;
	struct listed_weight *weight = reallocarray(p->weight, weights + 1, sizeof(*weight));

	if (!weight)
		return false;
	p->weight = weight;
	if (arena_reach(&p->blocks, (p->count + from->count + 1) * sizeof(struct listed_block)))
		return false;
	for (size_t i = 0; i < from->count; i++) {
		struct listed_block b = entries(from)[i];

		if (b.weighed)
			b.tick += (uint32_t)p->weights;
		if (!b.gone)
			entries(p)[p->count++] = b;
	}
	for (size_t i = 0; i < from->weights; i++)
		weight[p->weights++] = from->weight[i];
	return true;
}

static bool put_together(struct listing *g, bool sorted)
{
	struct part *p = &g->copied;

	if (!sort(&g->noted))
		return false;
	only_first(&g->noted);
	if (!join(p, &g->rest) || !drop_noted(p, &g->noted) || !join(p, &g->noted) ||
	    !join(p, &g->extra))
		return false;
	for (size_t i = 0; i < p->count; i++)
		entries(p)[i].stack = g->stack[entries(p)[i].stack];
	return !sorted || sort(p);
}

int listing_end(struct listing *g, bool sorted, struct block_list *out)
{
	int err = !g->lost && put_together(g, sorted) ? 0 : -ENOMEM;

	if (!err) {
		*out = (struct block_list){ .block = entries(&g->copied),
					    .count = g->copied.count,
					    .weight = g->copied.weight,
					    .tid = g->tid,
					    .threads = g->threads,
					    .reserved = g->copied.blocks.size };
		g->copied = (struct part){ 0 };
		g->tid = NULL;
	}
	free_listing(g);
	return err;
}

void listing_cancel(struct listing *g)
{
	if (g->ledger)
		leave(g);
	free_listing(g);
}

int block_list_now(struct ledger *l, struct block_list *out)
{
	struct listing *g = listing_begin(l);

	if (!g)
		return -ENOMEM;
	while (listing_slice(g, AT_ONCE))
		;
	return listing_end(g, true, out);
}

/* ---- lists --------------------------------------------------------------- */

int block_list_sort(struct block_list *v)
{
	struct part all = { .blocks = { v->block, v->reserved }, .count = v->count };

	if (!sort(&all))
		return -ENOMEM;
	v->block = all.blocks.base;
	v->reserved = all.blocks.size;
	return 0;
}

void block_list_release(struct block_list *v)
{
	struct arena blocks = { v->block, v->reserved };

	arena_release(&blocks);
	free(v->weight);
	free(v->tid);
	*v = (struct block_list){ 0 };
}

struct ledger_block block_list_get(const struct block_list *v, size_t i)
{
	const struct listed_block *b = &v->block[i];
	const struct listed_weight *w = b->weighed ? &v->weight[b->tick] : NULL;

	return (struct ledger_block){
		.address = b->address,
		.size = b->mapping && w ? w->bytes : b->size,
		.bytes = w ? w->bytes : b->size,
		.count = w ? w->count : 1,
		.stack = b->stack,
		.thread = b->thread,
		.ms = (w ? w->tick : b->tick) * 10ull,
		.mapping = b->mapping,
	};
}

pid_t block_list_tid(const struct block_list *v, uint32_t thread)
{
	return thread < v->threads ? v->tid[thread] : 0;
}
