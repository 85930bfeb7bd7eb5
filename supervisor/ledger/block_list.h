/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * block_list.h - the live blocks of a ledger as of one moment. A copy: it stays as it is while
 * events go on, and needs the ledger no more.
 *
 * A million blocks take tens of milliseconds to copy, and nobody may hold up events for so long.
 * So a list is made in slices, between which events go on:
 *
 *	g = listing_begin(ledger);            the moment; with the ledger to ourselves, as is ...
 *	do listing_prepare(g);                ... but not this: memory for the next slice
 *	while (listing_slice(g, BLOCKS));     ... this
 *	listing_end(g, true, &list);          not this: sorts by address
 *
 * Where nothing can happen meanwhile, or must not, block_list_now() does all of it at once.
 */
#ifndef MTRUN_BLOCK_LIST_H
#define MTRUN_BLOCK_LIST_H

#include "ledger/ledger.h"

/* 24 bytes, as there may be many; block_list_get() says what is in one. */
struct listed_block {
	raddr_t address;
	uint64_t size : 48, thread : 16;
	uint32_t stack;
	/* weighed: `tick` is an index, of what it stands for, or how large it is if enormous */
	uint32_t tick : 28, mapping : 1, weighed : 1, gone : 1;
};

struct listed_weight {
	uint64_t bytes, count;
	uint32_t tick;
};

struct block_list {		    /* the caller's; block_list_release() frees what is in it */
	struct listed_block *block; /* heap and mappings; in the order of listing_end() */
	size_t count;
	struct listed_weight *weight;
	pid_t *tid; /* by thread */
	size_t threads;
	size_t reserved; /* bytes at `block` */
};

struct listing;

/* NULL: out of memory. The ledger may be freed before the end. */
struct listing *listing_begin(struct ledger *l) MUST_USE;
/* Memory for a slice of BLOCKS: so that the slice need not wait for the kernel to give some. */
void listing_prepare(struct listing *g, size_t blocks);
/* Copies about BLOCKS more. False: that was all. */
bool listing_slice(struct listing *g, size_t blocks);
/*
 * As soon as listing_slice() has returned false. SORTED: by address, else in no order, which is
 * sooner. 0 or -ENOMEM; G is freed.
 */
int listing_end(struct listing *g, bool sorted, struct block_list *out) MUST_USE;
/* At any time, with the ledger to ourselves: there will be no list. G is freed. */
void listing_cancel(struct listing *g);

/* Sorted. 0 or -ENOMEM */
int block_list_now(struct ledger *l, struct block_list *out) MUST_USE;
/* By address. 0 or -ENOMEM: it is as it was. */
int block_list_sort(struct block_list *v) MUST_USE;
void block_list_release(struct block_list *v);
struct ledger_block block_list_get(const struct block_list *v, size_t i);
/* As ledger_thread_tid(). */
pid_t block_list_tid(const struct block_list *v, uint32_t thread);

#endif
