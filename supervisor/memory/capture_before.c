// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/capture_make.h"
#include "memory/capture_state.h"
#include "process/preattach_heap.h"

/*
 * capture_before.c - blocks that the ledger does not know, as they were there before recording
 * began: found by walking glibc's heaps in the capture. With them all blocks of these heaps are
 * known.
 */

static ssize_t read_captured(void *ctx, raddr_t at, void *buf, size_t len)
{
	return (ssize_t)capture_read(ctx, at, buf, len);
}

static raddr_t end_of(const struct capture_block *b) { return b->address + b->size; }

/* Both are by address; what the ledger has a block in is its block. */
static size_t merge(const struct capture *c, const struct preattach_block *found, size_t n,
		    struct capture_block *to)
{
	size_t k = 0, count = 0;

	for (size_t i = 0; i < n; i++) {
		const struct preattach_block *f = &found[i];

		while (k < c->blocks && c->block[k].address < f->address)
			to[count++] = c->block[k++];
		if ((k < c->blocks && c->block[k].address < f->address + f->size) ||
		    (k && end_of(&c->block[k - 1]) > f->address))
			continue;
		to[count++] = (struct capture_block){ .address = f->address, .size = f->size };
	}
	while (k < c->blocks)
		to[count++] = c->block[k++];
	return count;
}

int capture_before(struct capture *c, const struct glibc_malloc *g)
{
	struct making *m = capture_making(c);
	struct preattach_memory memory = { read_captured, c };
	struct preattach_block *found;
	struct arena blocks = { 0 };
	ssize_t n = m->leavings || m->weight ? -ENOTSUP : preattach_heap_blocks(g, &memory, &found);
	size_t count;

	if (n < 0)
		return (int)n;
	if (arena_reach(&blocks, (c->blocks + (size_t)n + 1) * sizeof(struct capture_block))) {
		free(found);
		return -ENOMEM;
	}
	count = merge(c, found, (size_t)n, blocks.base);
	free(found);
	arena_release(&m->blocks);
	m->blocks = blocks;
	c->block = blocks.base;
	c->before = count - c->blocks;
	c->blocks = count;
	return 0;
}
