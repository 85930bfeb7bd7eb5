/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * reference_graph.h - what points where: one sweep over all memory in the order of addresses.
 *
 * Memory is read once, in large pieces. A word in a live block that is an address in another one is
 * an edge; one outside of all blocks is a root, which holds what it points to at once. What a block
 * points to that is held when the sweep comes to it is held at once, too; only the edges of the
 * others are remembered, 4 bytes each. So what is near to the roots is followed before the sweep,
 * large blocks first: a table through which all is held may lie at the end of memory. When there
 * are more edges than their budget has room for,
 * those of blocks that have turned out to be held meanwhile are dropped. Should that not help,
 * blocks are from then on marked to be read again: many together, in their order, as in the sweep.
 *
 * So marking needs no memory of the process any more, and does not jump about in it: for 1 GB in
 * 10^6 blocks reading from a mark stack takes twice as long.
 */
#ifndef MTRUN_REFERENCE_GRAPH_H
#define MTRUN_REFERENCE_GRAPH_H

#include "base/arena.h"
#include "leaks/index.h"
#include "leaks/memory_image.h"
#include "leaks/prefixes.h"

#define EDGE_TARGET(e) ((e) >> PLACE_BITS)
#define EDGE_PLACE(e)  ((e) & ((1u << PLACE_BITS) - 1))

/* A block's mark. GRAPH_HELD and its class, which is leaks.c's, are below GRAPH_DONE. */
#define GRAPH_HELD  1u	  /* something that is held points to it, for sure */
#define GRAPH_DONE  0x10u /* what it points to has been followed */
#define GRAPH_AGAIN 0x20u /* its edges are not remembered */
#define GRAPH_NEAR  0x40u /* it was followed before the sweep */
#define GRAPH_SHIFT 4u

/*
 * What follows a block within so many bytes belongs to the allocator: its own words, and what it
 * rounded the request up by, where there may be anything from before.
 */
#define GRAPH_ROUNDING 32u

struct graph_part { /* of one thread: neighbouring blocks, all memory from the first to the last */
	raddr_t start, end;
	uint32_t first, last; /* blocks; last is not in it */
	struct arena edges;   /* uint32_t */
	uint32_t count;
};

/*
 * Words that may be addresses are gathered, over the ends of blocks, until there are enough of them
 * for the memory's latency to be hidden: what the look-up of each needs is sent for first.
 */
#define GRAPH_WORDS 128u
struct graph_words {
	uint64_t word[GRAPH_WORDS];
	uint32_t source[GRAPH_WORDS];
	uint32_t region[GRAPH_WORDS], target[GRAPH_WORDS];
	uint64_t into[GRAPH_WORDS];
	unsigned gathered;
};

struct leaks_graph {
	const struct leaks_image *image;
	struct leaks_index index;
	struct prefixes prefixes;
	struct arena marks; /* uint8_t a block */
	/*
	 * the same above GRAPH_SHIFT while two threads sweep: each writes those of its own blocks
	 */
	struct arena state;
	struct arena weak; /* uint16_t a block: places where something that is held points to */
	struct arena
		first; /* uint32_t a block: its first edge in its part; the next one's ends it */
	struct graph_part part[2];
	unsigned parts;
	uint64_t bytes;		  /* that were read */
	struct arena again;	  /* uint32_t: edges of the one that was read again */
	struct graph_words words; /* of those that are being read again */
};

/* 0; -ENOMEM, -E2BIG, -EINTR. */
int graph_init(struct leaks_graph *g, const struct leaks_image *image) MUST_USE;
/*
 * Sweeps once more, with better places for what points into blocks (prefixes.h): the old edges and
 * marks are gone. The same errors; G is still to be released.
 */
int graph_sweep_again(struct leaks_graph *g) MUST_USE;
void graph_release(struct leaks_graph *g);

/*
 * BLOCK's edges, *COUNT of them, good until the next call. NULL: out of memory. Behind them
 * EDGES_BEHIND more can be read, which are any block's, so that what they need can be sent for.
 */
#define EDGES_BEHIND 16u
const uint32_t *graph_edges(struct leaks_graph *g, uint32_t block, uint32_t *count);
/*
 * The edges of many blocks with GRAPH_AGAIN, one after the other: FN(CTX, edge) is told of BLOCK's,
 * then or later; of all of them when graph_end_again() returns. FN does neither itself.
 */
void graph_again(struct leaks_graph *g, uint32_t block, void (*fn)(void *ctx, uint32_t edge),
		 void *ctx);
void graph_end_again(struct leaks_graph *g, void (*fn)(void *ctx, uint32_t edge), void *ctx);
/* What that needs of it is sent for; first the one, later the other. */
void graph_fetch_first(const struct leaks_graph *g, uint32_t block);
void graph_fetch_edges(const struct leaks_graph *g, uint32_t block);

static inline uint8_t *graph_marks(const struct leaks_graph *g) { return g->marks.base; }
static inline uint16_t *graph_weak(const struct leaks_graph *g) { return g->weak.base; }

#endif
