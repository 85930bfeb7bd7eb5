// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/search.h"
#include "base/text.h"
#include "export/moments.h"
#include "export/trie.h"

/*
 * massif.out, for ms_print and massif-visualizer. Snapshots are the timeline's points (of many the
 * highest ones), each at the moment of its local maximum; each tenth one and the highest have a
 * tree with the allocating frame on top, which leaves out what is below 1 %, as massif does. A
 * level that held for long has a second snapshot at its end: viewers that join the dots would draw
 * a slope. The last one is what is live now.
 */
#define SNAPSHOTS 500u /* as points; with the ends about twice as many at most */
#define DETAILED  10u
#define DEPTH	  30u /* massif's default */

struct branch { /* a node that is shown */
	uint32_t node;
	int64_t bytes;
};
struct massif {
	FILE *out;
	const struct export *e;
	struct trie trie;
	/* by node: bytes; of children that are not shown, and how many */
	int64_t *sum, *rest;
	uint32_t *places;
	size_t room;	       /* nodes that the three have room for */
	struct branch *branch; /* by parent, biggest first */
	size_t branches;
	int64_t total;
	uint64_t number, last_ms; /* of snapshots */
};

/* ---- a tree -------------------------------------------------------------- */

static bool is_shown(const struct massif *m, uint32_t node)
{
	return node == 0 || m->sum[node] * 100 >= m->total;
}

static int room_for_nodes(struct massif *m)
{
	size_t n = m->trie.nodes;

	if (n > m->room) {
		free(m->sum);
		free(m->rest);
		free(m->places);
		free(m->branch);
		m->sum = calloc(n * 2, sizeof(*m->sum));
		m->rest = calloc(n * 2, sizeof(*m->rest));
		m->places = calloc(n * 2, sizeof(*m->places));
		m->branch = calloc(n * 2, sizeof(*m->branch));
		m->room = n * 2;
	}
	return m->sum && m->rest && m->places && m->branch ? 0 : -ENOMEM;
}

static int by_parent(const void *a, const void *b, void *ctx)
{
	const struct branch *x = a, *y = b;
	const struct trie *t = ctx;
	uint32_t p = t->node[x->node].parent, q = t->node[y->node].parent;

	if (p != q)
		return p < q ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* What P's tree shows: in m->branch, and of each node the rest. */
static int tree_prepare(struct massif *m, const struct profile *p)
{
	int err = 0;
	uint32_t node;

	for (size_t i = 0; i < p->count && !err; i++)
		err = trie_stack(&m->trie, m->e, p->row[i].stack, &node);
	if (!err)
		err = room_for_nodes(m);
	if (err)
		return err;
	trie_sum(&m->trie, p, m->sum);
	m->total = m->sum[0];
	m->branches = 0;
	memset(m->rest, 0, m->trie.nodes * sizeof(*m->rest));
	memset(m->places, 0, m->trie.nodes * sizeof(*m->places));
	for (uint32_t i = 1; i < m->trie.nodes; i++) {
		uint32_t parent = m->trie.node[i].parent;

		if (m->sum[i] <= 0)
			continue;
		if (is_shown(m, i)) {
			m->branch[m->branches++] = (struct branch){ i, m->sum[i] };
		} else {
			m->rest[parent] += m->sum[i];
			m->places[parent]++;
		}
	}
	qsort_r(m->branch, m->branches, sizeof(*m->branch), by_parent, &m->trie);
	return 0;
}

/* The first of NODE's children in m->branch; *N: how many. */
static const struct branch *children(const struct massif *m, uint32_t node, size_t *n)
{
	size_t at = SEARCH(i, m->branches, m->trie.node[m->branch[i].node].parent < node);

	for (*n = 0; at + *n < m->branches && m->trie.node[m->branch[at + *n].node].parent == node;)
		++*n;
	return &m->branch[at];
}

/* ms_print takes what follows a `#` for a comment, also within a line. */
static void put_text(FILE *out, const char *text)
{
	char as[ESCAPE_UNIT];

	for (size_t len; text && *text; text += len) {
		len = escape_unit(text, as);
		if (*text == '#')
			putc('%', out);
		else
			fwrite(*as ? as : text, 1, *as ? strlen(as) : len, out);
	}
}

static void put_frame(const struct massif *m, const struct trie_frame *f)
{
	fprintf(m->out, "0x%" PRIX64 ": ", f->address);
	put_text(m->out, export_name(&f->at));
	if (f->at.file) {
		fputs(" (", m->out);
		put_text(m->out, text_last_part(f->at.file));
		fprintf(m->out, ":%u)\n", f->at.line);
	} else {
		fputs(f->at.module ? " (in " : " (", m->out);
		put_text(m->out, f->at.module ? f->at.module : "unknown");
		fputs(")\n", m->out);
	}
}

static void put_node(const struct massif *m, uint32_t node, unsigned depth);

static void put_rest(const struct massif *m, uint32_t node, unsigned depth)
{
	uint32_t n = m->places[node];

	escape_printf(m->out,
		      "%*sn0: %" PRId64 " in %u place%s below massif's threshold (1.00%%)\n",
		      (int)depth, "", m->rest[node], n, n == 1 ? "," : "s, all");
}

/* Biggest first, what is not shown by name in its place among them. */
static void put_below(const struct massif *m, uint32_t node, unsigned depth)
{
	bool rest = m->places[node];
	size_t n;
	const struct branch *child = children(m, node, &n);

	for (size_t i = 0; i < n; i++) {
		if (rest && m->rest[node] > child[i].bytes) {
			put_rest(m, node, depth);
			rest = false;
		}
		put_node(m, child[i].node, depth);
	}
	if (rest)
		put_rest(m, node, depth);
}

static void put_node(const struct massif *m, uint32_t node, unsigned depth)
{
	size_t n = 0;

	if (depth < DEPTH) {
		children(m, node, &n);
		n += m->places[node] > 0;
	}
	escape_printf(m->out, "%*sn%zu: %" PRId64 " ", (int)depth, "", n, m->sum[node]);
	if (node)
		put_frame(m, &m->trie.frame[m->trie.node[node].frame]);
	else
		fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n", m->out);
	if (depth < DEPTH)
		put_below(m, node, depth + 1);
}

/* ---- snapshots ----------------------------------------------------------- */

/* TREE: `detailed` or `peak`, of P; NULL: none. */
static int put_snapshot(struct massif *m, uint64_t ms, uint64_t bytes, const char *tree,
			const struct profile *p)
{
	int err = tree ? tree_prepare(m, p) : 0;

	if (err)
		return err;
	m->last_ms = ms > m->last_ms ? ms : m->last_ms;
	escape_printf(m->out,
		      "#-----------\nsnapshot=%" PRIu64 "\n#-----------\ntime=%" PRIu64
		      "\nmem_heap_B=%" PRIu64 "\nmem_heap_extra_B=0\nmem_stacks_B=0\n"
		      "heap_tree=%s\n",
		      m->number++, m->last_ms, bytes, tree ? tree : "empty");
	if (tree)
		put_node(m, 0, 0);
	return 0;
}

/*
 * While we were at the others, its interval may have been merged with a higher one: then it has no
 * tree.
 */
static int put_with_tree(struct massif *m, const struct export_point *point, bool peak)
{
	struct profile p;
	int64_t sum = 0;
	int err = m->e->past(m->e->ctx, point->ms, &p);

	if (err)
		return err;
	for (size_t i = 0; i < p.count; i++)
		sum += p.row[i].size;
	err = put_snapshot(m, point->ms, point->bytes,
			   sum == (int64_t)point->bytes ? peak ? "peak" : "detailed" : NULL, &p);
	profile_release(&p);
	return err;
}

static int put_points(struct massif *m, const size_t *index, size_t n, uint64_t stretch)
{
	size_t peak = n ? moments_highest(m->e, index, n) : 0;
	int err = 0;

	for (size_t i = 0; i < n && !err && !ferror(m->out); i++) {
		const struct export_point *point = &m->e->point[index[i]];

		err = export_rest(m->e);
		if (!err && m->e->past && (i == peak || i % DETAILED == DETAILED - 1))
			err = put_with_tree(m, point, i == peak);
		else if (!err)
			err = put_snapshot(m, point->ms, point->bytes, NULL, NULL);
		if (!err && point->to_ms - point->ms > 2 * (stretch > 100 ? stretch : 100))
			err = put_snapshot(m, point->to_ms - 1, point->bytes, NULL, NULL);
	}
	return err;
}

static int put_now(struct massif *m)
{
	struct profile p;
	int err = export_profile(m->e, &p);

	if (!err) {
		err = put_snapshot(m, m->e->now_ms, (uint64_t)export_total(m->e),
				   m->e->points ? "detailed" : "peak", &p);
		profile_release(&p);
	}
	return err;
}

int export_massif(FILE *out, const struct export *e)
{
	struct massif m = { .out = out, .e = e };
	uint64_t stretch = 0;
	size_t *index = NULL;
	ssize_t n = moments_choose(e->point, e->points, SNAPSHOTS, &index, &stretch);
	int err = n < 0 ? (int)n : trie_init(&m.trie, true);

	if (!err) {
		escape_printf(out,
			      "desc: mtrun " MTRUN_VERSION
			      ", what calls allocated and was live%s\ncmd: ",
			      e->view->estimated ? ", estimated from samples" : "");
		put_text(out, e->command_line ? e->command_line : "unknown");
		fputs("\ntime_unit: ms\n", out);
		err = put_points(&m, index, (size_t)n, stretch);
	}
	if (!err)
		err = put_now(&m);
	free(index);
	free(m.sum);
	free(m.rest);
	free(m.places);
	free(m.branch);
	trie_release(&m.trie);
	return err;
}
