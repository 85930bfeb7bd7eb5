/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * leaks.h - which live blocks are lost, in memcheck's four classes:
 *
 *	definite   nothing points to it but blocks that are lost themselves, and it heads them
 *	indirect   a lost block points to it
 *	possible   what points to it, or to what it hangs on, points to no usual place in it
 *	reachable  held by a root
 *
 * As there, a cycle that is lost is headed by the block that comes first by its address, and a head
 * that a later head's blocks point to is indirect.
 */
#ifndef MTRUN_LEAKS_H
#define MTRUN_LEAKS_H

#include "leaks/memory_image.h"
#include "leaks/prefixes.h"

enum leak_kind { LEAK_DEFINITE, LEAK_INDIRECT, LEAK_POSSIBLE, LEAK_REACHABLE, LEAK_KINDS };
extern const char *const leak_kind_names[LEAK_KINDS]; /* "definite", ... */
extern const char *const leak_kind_words[LEAK_KINDS]; /* "definitely lost", ... */

/* The blocks of one kind from one stack. */
struct leak_record {
	uint32_t stack;
	enum leak_kind kind;
	uint64_t bytes, blocks; /* its own */
	/* definite: what is lost with them, and is in the records of LEAK_INDIRECT, too */
	uint64_t indirect_bytes, indirect_blocks;
};

struct leak_sum {
	uint64_t bytes, blocks;
};

/* Blocks that are held only by pointers to a usual place in them. */
struct leak_prefix {
	enum prefix kind;
	uint64_t offset; /* 0: all that had no room in the list */
	uint64_t blocks;
};
#define LEAK_PREFIXES 32u

struct leaks;

/* IMAGE is borrowed until leaks_free(). NULL: *ERR is -ENOMEM, -E2BIG (blocks) or -EINTR. */
struct leaks *leaks_new(const struct leaks_image *image, int *err) MUST_USE;
void leaks_free(struct leaks *l);

enum leak_kind leaks_kind(const struct leaks *l, size_t block);
/* What a definite block heads, beside itself. */
struct leak_sum leaks_indirect(const struct leaks *l, size_t block);
/* What it was found with, for path.c. */
struct leaks_graph;
const struct leaks_graph *leaks_graph(const struct leaks *l);
/* What an indirect block was lost with: a definite one. Of another block: itself. */
size_t leaks_head(const struct leaks *l, size_t block);
/* The block of the image that ADDRESS is in; -1: none. */
ssize_t leaks_find(const struct leaks *l, raddr_t address);

/*
 * The records of the blocks that WANTED(CTX, block) is true of (NULL: all), for the caller to free:
 * definite ones first, and the most bytes, indirect ones included, first. How many, or -ENOMEM.
 */
ssize_t leaks_records(const struct leaks *l, bool (*wanted)(void *ctx, size_t block), void *ctx,
		      struct leak_record **out) MUST_USE;
/* Prefixes with the most blocks first: how many. */
size_t leaks_prefixes(const struct leaks *l, const struct leak_prefix **out);

/* Bytes of memory that were read. */
uint64_t leaks_scanned(const struct leaks *l);

#endif
