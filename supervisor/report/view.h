/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * view.h - a profile as somebody wants to see it: its rows gathered by a key, filtered, sorted,
 * cut. Three shapes: a list (report), jeprof's table of functions (text), the call tree (tree).
 * Each adds up to its profile: what is cut off is summed, what is filtered out is not in the total.
 * Caller's storage; strings belong to the symbols under `sites`. The heap that was there before an
 * attach (`before`, set and kept by the caller; NULL: to be left out) is shown beside these sums
 * and in none of them.
 */
#ifndef MTRUN_VIEW_H
#define MTRUN_VIEW_H

#include <regex.h>

#include "base/hash_index.h"
#include "base/proc.h"
#include "base/types.h"
#include "process/preattach_heap.h"
#include "process/profile.h"
#include "report/sites.h"

#define VIEW_ALL SIZE_MAX

/* ---- list ---------------------------------------------------------------- */

enum view_key {
	VIEW_SITE,
	VIEW_STACK,
	VIEW_FUNCTION,
	VIEW_FILE,
	VIEW_MODULE,
	VIEW_THREAD,
	VIEW_SIZE,
	VIEW_KEYS
};
enum view_sort {
	SORT_SIZE,
	SORT_COUNT,
	SORT_TOTAL,
	SORT_TEMPORARY,
	VIEW_SORTS,
	SORT_NONE = VIEW_SORTS /* all rows, as they come: who reads them sorts them */
};
extern const char *const view_key_names[VIEW_KEYS];
extern const char *const view_sort_names[VIEW_SORTS];

struct view_row {
	int64_t size, count;
	int64_t usable;
	uint64_t total_size, total_count, temporary;
	int64_t before, count_before; /* of a difference */
	uint32_t stack;		      /* the largest of its stacks */
	int64_t stack_size;
	uint32_t thread; /* VIEW_THREAD: tid */
	uint64_t block;	 /* VIEW_SIZE: bytes of each block */
	/*
	 * VIEW_SITE, _STACK, _FUNCTION, _FILE, _MODULE: the fields that the key names, the others
	 * NULL
	 */
	struct symbol_frame frame;
	bool held;	 /* one of its stacks holds something or, in a difference, has changed */
	size_t merged;	 /* of `others`: rows in it */
	double variance; /* of `size`, in bytes squared: see view_error() */
};

struct view {
	enum view_key key;
	uint64_t ms, since_ms;
	bool has_totals, has_usable, reversed, is_difference, estimated;
	bool shrunk;	/* a difference, and nothing has grown: what shrank most is first */
	bool has_error; /* of samples of which it is known: rows have a variance */
	/* asked for, and why there is none; NULL: not so. Set by the caller, who keeps it */
	const char *usable_unknown;
	const struct preattach_heap *before;
	/*
	 * VIEW_THREAD on a terminal: the names of `row`'s threads, empty where unknown; NULL: none
	 */
	const char (*thread_name)[PROC_NAME];
	/* since when nothing is recorded; NULL: it is. Set and kept by the caller, too */
	const uint64_t *off_ms;
	int64_t total_size, total_count, total_usable; /* sums over all rows and `others` */
	double variance;
	size_t count;
	struct view_row *row;	/* in the order asked for */
	struct view_row others; /* what -n cut off; merged == 0: nothing */
};

struct view_options {
	enum view_key key;
	enum view_sort sort;
	size_t limit; /* rows; VIEW_ALL */
	bool reverse; /* the other way round */
	/* no rows but `held` ones: stacks that hold nothing only add to the totals of such rows */
	bool only_held;
	/*
	 * only stacks with a frame whose function, file (path:line), module's path or its last part
	 * matches; NULL: all
	 */
	const regex_t *match;
};

/* 0, -ENOMEM */
int view_make(struct view *v, const struct profile *p, struct sites *sites,
	      const struct view_options *o) MUST_USE;
void view_release(struct view *v);
/* One standard deviation, in bytes, of a size with that variance; at most INT64_MAX. */
uint64_t view_error(double variance);

/* ---- table of functions -------------------------------------------------- */

struct table_row {
	const char *function;
	/* of stacks whose innermost frame, allocators left out, is this function */
	int64_t flat;
	/* of stacks in which it is at all: once each, however often it recurs */
	int64_t cum;
	uint32_t id; /* for table_make() */
};
struct table {
	bool estimated;
	const struct preattach_heap *before;
	int64_t total;
	size_t count;
	struct table_row *row;
	/* what was cut off, function NULL: nothing; cum: of the stacks that any of them is in */
	struct table_row others;
};

/* Biggest first; what has become less, last. TABLE_CHANGE: the biggest cum, less or more. */
enum table_order { TABLE_FLAT, TABLE_CUM, TABLE_CHANGE };
int table_make(struct table *t, const struct profile *p, struct sites *sites,
	       enum table_order order, size_t limit) MUST_USE;
void table_release(struct table *t);

/* ---- call tree ----------------------------------------------------------- */

struct tree_node {
	const char *function;
	/* the first that was seen of it; NULL: the whole, (others) */
	const struct symbol_frame *frame;
	int64_t size;  /* of all stacks through here */
	int64_t self;  /* of those that end here */
	int64_t count; /* as size, in blocks */
	/* the biggest size, less or more, of it and what is below it */
	int64_t weight;
	uint32_t child, next; /* first child and next sibling, biggest first; 0: none */
	uint32_t parent;
};
struct tree {
	bool estimated;
	const struct preattach_heap *before;
	size_t count, allocated;
	struct tree_node *node;	 /* node[0]: the whole */
	struct hash_index nodes; /* by parent and function, while it is made */
};

enum tree_shape {
	/* from the allocating frame outwards, instead of from the outermost frame inwards */
	TREE_INVERT = 1,
	/* an allocator's frames at the inner end are left out, unless there are no others */
	TREE_TRIM = 2,
};
/* SHAPE: enum tree_shape; DEPTH: the most levels below the whole. */
int tree_make(struct tree *t, const struct profile *p, struct sites *sites, unsigned shape,
	      unsigned depth) MUST_USE;
/*
 * Keeps the biggest LIMIT nodes below the whole; what a node loses becomes its last child,
 * `(others)`. 0 or -ENOMEM.
 */
int tree_cut(struct tree *t, size_t limit) MUST_USE;
void tree_release(struct tree *t);

/* ---- lines of a function ------------------------------------------------- */

struct listing_line {
	unsigned line;	   /* 0: unknown */
	int64_t flat, cum; /* as in a table, of the line */
	uint32_t row;	   /* for listing_make() */
};
struct listing_function {
	const char *function, *file, *module;
	int64_t flat, cum;
	size_t count; /* of lines that hold anything, in order; at least 1 */
	struct listing_line *line;
	uint32_t row;
};
struct listing {
	bool estimated;
	int64_t total; /* of the profile */
	size_t count;
	struct listing_function *function; /* biggest first */
};

/*
 * Of every function called NAME (parameters left out, namespaces may be), or with REGEX whose name
 * matches it. 0 or -ENOMEM.
 */
int listing_make(struct listing *l, const struct profile *p, struct sites *sites, const char *name,
		 const regex_t *regex) MUST_USE;
void listing_release(struct listing *l);

#endif
