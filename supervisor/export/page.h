/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * page.h - what a page (html.c) shows of a program: which moments, which nodes of the tree of calls,
 * and how much each held. Bytes, blocks, milliseconds since tracing began.
 */
#ifndef MTRUN_PAGE_H
#define MTRUN_PAGE_H

#include "base/json.h"
#include "export/export.h"
#include "export/trie.h"

#define PAGE_LONGEST 500u /* bytes of a name */
#define PAGE_LEAKS   200u /* records of what is lost */

struct amount {
	int64_t bytes, count;
};
struct key {
	uint64_t from_ms, to_ms, ms;
	struct amount all;
	bool left_out; /* it is not known any more what was live then */
};
/* Of a column, since the start. */
struct total {
	uint64_t bytes, count, temporary;
};
/* Of a column: its blocks, and how long they lived, all together. */
struct life {
	uint64_t block_ms, blocks;
};
struct candidate {
	uint32_t stack, node; /* its own */
	double weight;
};
enum column_kind { COLUMN_WHOLE, COLUMN_FOLDED, COLUMN_SITE };
struct column {
	enum column_kind kind;
	uint32_t node; /* _SITE: 0 */
	uint32_t site; /* 0: others. _FOLDED: 0 */
};
/* Its heaviest stack, and what it weighs; what all of its stacks weigh. */
struct page_site {
	uint32_t site, stack;
	double heaviest, weight;
};
/* By stack id: its columns, plus 1; 0: none. */
struct place {
	uint32_t column, site;
};
struct page {
	FILE *out;
	const struct export *e;
	struct json j;
	struct trie trie;
	struct key *key; /* the last one is now */
	size_t keys, peak;
	struct candidate *stack; /* heaviest first */
	size_t stacks, folded;
	double *weight; /* by stack id */
	size_t ids;
	uint32_t *order;	/* nodes, heaviest first */
	bool *kept;		/* by node */
	uint32_t *site_number;	/* by site; 0: it is not kept */
	struct page_site *site; /* by number - 1, the heaviest first */
	uint32_t nsites;
	struct column *column;
	size_t columns;
	struct place *place;	   /* by stack id */
	struct amount *held;	   /* [key][column] */
	struct total *total;	   /* by column; NULL: not known */
	struct life *life;	   /* the same */
	uint32_t lost[PAGE_LEAKS]; /* by record: the node of its stack */
	const char **module;	   /* their paths, as frames have them */
	size_t modules, module_room;
	/* what the page calls nodes and frames of the trie; 0: not in it */
	uint32_t *node_number, *frame_number;
};
/*
 * Chooses what P shows of its `e`; the rest of P is zeros. 0 or -errno; page_release() in either
 * case.
 */
int page_choose(struct page *p);
void page_release(struct page *p);
/* What V has allocated since the start, in all. */
struct total page_sum(const struct view *v);
/* How many records of what is lost it shows: the first ones. */
size_t page_leaks(const struct page *p);
/* How many bytes of TEXT, which may be NULL, it shows: at most PAGE_LONGEST. */
size_t page_length(const char *text);

#endif
