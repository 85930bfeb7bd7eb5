/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * memory_image.h - what is looked at: a process as of one instant. Its live blocks, its mappings,
 * its threads' registers, and a way to read its memory. Borrowed by all of leaks/, and must not
 * change while it is.
 */
#ifndef MTRUN_MEMORY_IMAGE_H
#define MTRUN_MEMORY_IMAGE_H

#include "memory/capture.h"

struct leaks_range {
	raddr_t start, end; /* multiples of 8 */
	/* what lies between the blocks is where pointers are looked for first */
	bool roots;
};

/* More blocks than this are refused. */
#define LEAKS_BLOCKS (1u << 28)

struct leaks_image {
	const struct capture_block *block; /* by address */
	size_t blocks;
	const struct leaks_range *range; /* ascending; memory that is in none of them is not read */
	size_t ranges;
	const uint64_t *word; /* registers: roots, too */
	size_t words;
	/* As capture_read() and capture_next(); called from two threads. */
	size_t (*read)(void *ctx, raddr_t address, void *to, size_t size);
	const void *(*next)(void *ctx, raddr_t address, raddr_t end, void *buffer, size_t size,
			    raddr_t *at, size_t *len);
	/*
	 * What stacks have in common whose blocks have the same prefix, if they have one: a number,
	 * the same for those that end in the same calls. NULL: nothing.
	 */
	uint64_t (*family)(void *ctx, uint32_t stack);
	/* Whether ADDRESS is in constant data of a file, as tables of virtual functions are. */
	bool (*constant)(void *ctx, raddr_t address);
	/* Called often, and from two threads: true ends the work with -EINTR. */
	bool (*interrupted)(void *ctx);
	void *ctx;
	unsigned threads;  /* 1, or 2 where two cores are free */
	size_t most_edges; /* that are remembered while it is swept; 0: as in reference_graph.c */
};

#endif
