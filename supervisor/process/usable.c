// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/usable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/patient.h"
#include "base/proc.h"
#include "ledger/block_list.h"

/*
 * glibc keeps the size of a block's chunk in the word before it:
 *
 *	       | previous | head            | the block ...        | previous | head
 *	       +----------+-----------------+----------------------+----------+------
 *	chunk -^          | size | A | M | P|^- address            ^- the block may use this
 *	                                                              word too, unless it is M
 *
 * M: a mapping of its own, which began `previous` bytes before the chunk. These words are read in
 * large pieces, because a system call for each block would take seconds. The program may run
 * meanwhile, and free the block or resize it: then the words can be anything. A size that such a
 * block cannot have is not used; the block is taken as malloc would have made it.
 *
 * jemalloc's size classes are documented: multiples of 16 up to 128, then four for each doubling.
 * Blocks asked for with an alignment may be in a larger class than their size tells; their
 * alignment is not in the ledger, and they are taken as if it had not been asked for.
 *
 * The others are not known: tcmalloc and mimalloc leave a block in its class when realloc makes it
 * smaller, so that its size does not tell the class, and where they keep the class is not
 * documented. musl keeps it in a form that depends on its version.
 */

/* ---- the rules ----------------------------------------------------------- */

#define GLIBC_MAPPED 2u
#define GLIBC_FLAGS  7u
/* bytes of the smallest chunk: what is left over is part of a block up to this much */
#define GLIBC_LEAST 32u
#define GLIBC_PAGE  4096u
#define GLIBC_HUGE  (2u << 20) /* mappings are rounded up to that by a tunable */

uint64_t usable_glibc(raddr_t address, uint64_t size, uint64_t previous, uint64_t head)
{
	uint64_t usual = (size + 8 + 15) & ~15ull, chunk = head & ~(uint64_t)GLIBC_FLAGS,
		 aligned = address & -address;

	if (usual < GLIBC_LEAST)
		usual = GLIBC_LEAST;
	if (aligned == 16)
		aligned = 0; /* every block is */
	if (head & GLIBC_MAPPED) {
		bool whole = !((address - 16 - previous) % GLIBC_PAGE) &&
			     !((previous + chunk) % GLIBC_PAGE);

		if (whole && chunk >= size + 16 &&
		    chunk - size - 16 <= aligned + GLIBC_PAGE + GLIBC_HUGE)
			return chunk - 16;
	} else if (!(chunk & 15) && chunk >= usual && chunk - usual <= aligned + GLIBC_LEAST) {
		return chunk - 8;
	}
	return usual - 8;
}

uint64_t usable_jemalloc(uint64_t size)
{
	unsigned log;
	uint64_t step = 16;

	if (size <= 8)
		return 8;
	log = 63 - (unsigned)__builtin_clzll(size * 2 - 1); /* size is in (2^(log-1), 2^log] */
	if (log > 7)
		step = 1ull << (log - 3);
	return (size + step - 1) & ~(step - 1);
}

/* ---- reading ------------------------------------------------------------- */

/* bytes read at once: they stay in the cache until they are looked at */
#define WINDOW (1u << 20)
#define SPANS  512u /* in a window */
#define BLOCKS 16384u
#define GAP    1024u /* to read this much more costs no more than another span */
#define WORDS  16u   /* before a block */

struct reader {
	const struct usable *u;
	int (*fn)(void *ctx, const struct ledger_block *b, uint64_t usable);
	void *ctx;
	struct remote_span span[SPANS];
	size_t spans, used;
	size_t blocks, first; /* first: of the page whose blocks are being told */
	uint8_t *window;
	struct ledger_block *block; /* those whose words will be in the window, */
	uint32_t *at;		    /* and where */
};

/* What is usable of all that B stands for. */
static uint64_t in_all(const struct ledger_block *b, uint64_t usable)
{
	if (b->count == 1 && b->bytes == b->size)
		return usable;
	return b->size ? (uint64_t)((double)usable * (double)b->bytes / (double)b->size)
		       : usable * b->count;
}

static int look(struct reader *r)
{
	int stop = 0;

	patient_read_spans(r->u->via, r->span, r->spans, r->window);
	for (size_t i = 0; i < r->blocks && !stop; i++) {
		uint64_t word[2];

		memcpy(word, r->window + r->at[i], sizeof(word));
		stop = r->fn(r->ctx, &r->block[i],
			     in_all(&r->block[i],
				    usable_glibc(r->block[i].address, r->block[i].size, word[0],
						 word[1])));
	}
	r->spans = r->used = r->blocks = r->first = 0;
	return stop;
}

/* [FROM, TO), the words of the blocks of one page, become part of the window. */
static void reach(struct reader *r, raddr_t from, raddr_t to)
{
	struct remote_span *last = r->spans ? &r->span[r->spans - 1] : NULL;

	if (last && from >= last->address && from <= last->address + last->len + GAP) {
		if (to > last->address + last->len) {
			r->used += to - last->address - last->len;
			last->len = to - last->address;
		}
		return;
	}
	r->span[r->spans++] = (struct remote_span){ from, to - from };
	r->used += to - from;
}

/* The blocks of a page are all known. */
static void page_end(struct reader *r)
{
	raddr_t from = UINT64_MAX, to = 0;
	const struct remote_span *last;

	for (size_t i = r->first; i < r->blocks; i++) {
		from = r->block[i].address < from ? r->block[i].address : from;
		to = r->block[i].address > to ? r->block[i].address : to;
	}
	if (r->first == r->blocks)
		return;
	reach(r, from - WORDS, to);
	last = &r->span[r->spans - 1];
	for (; r->first < r->blocks; r->first++)
		r->at[r->first] = (uint32_t)(r->used - last->len +
					     (r->block[r->first].address - WORDS - last->address));
}

/* Those of one page come one after the other: the memory of a page is read once. */
static int take(struct reader *r, const struct ledger_block *b)
{
	int stop = 0;

	if (b->mapping)
		return r->fn(r->ctx, b, b->size);
	if (r->first == r->blocks || r->blocks == BLOCKS ||
	    b->address >> 12 != r->block[r->first].address >> 12) {
		page_end(r);
		if (r->spans == SPANS || r->blocks > BLOCKS - PAGE ||
		    r->used > WINDOW - GAP - PAGE - WORDS)
			stop = look(r);
	}
	r->block[r->blocks++] = *b;
	return stop;
}

static int each_glibc(struct reader *r, const struct block_list *blocks)
{
	int err = -ENOMEM;

	r->window = malloc(WINDOW);
	r->block = malloc(BLOCKS * sizeof(*r->block));
	r->at = malloc(BLOCKS * sizeof(*r->at));
	if (r->window && r->block && r->at)
		err = 0;
	for (size_t i = 0; i < blocks->count && !err; i++) {
		struct ledger_block b = block_list_get(blocks, i);

		err = take(r, &b);
	}
	if (!err) {
		page_end(r);
		err = look(r);
	}
	free(r->window);
	free(r->block);
	free(r->at);
	return err;
}

int usable_each(const struct usable *u, const struct block_list *blocks,
		int (*fn)(void *ctx, const struct ledger_block *b, uint64_t usable), void *ctx)
{
	struct reader r = { .u = u, .fn = fn, .ctx = ctx };
	int stop = 0;

	if (u->rule == USABLE_GLIBC)
		return each_glibc(&r, blocks);
	for (size_t i = 0; i < blocks->count && !stop; i++) {
		struct ledger_block b = block_list_get(blocks, i);

		stop = fn(ctx, &b, b.mapping ? b.size : in_all(&b, usable_jemalloc(b.size)));
	}
	return stop;
}

static int add(void *ctx, const struct ledger_block *b, uint64_t usable)
{
	if (!b->mapping)
		*(uint64_t *)ctx += usable;
	return 0;
}

int usable_sum(const struct usable *u, const struct block_list *blocks, uint64_t *sum)
{
	uint64_t total = 0;
	int err = u->rule == USABLE_UNKNOWN ? -ENOTSUP : usable_each(u, blocks, add, &total);

	if (!err)
		*sum = total;
	return err;
}
