// SPDX-License-Identifier: GPL-3.0-or-later
#include "export/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/moments.h"
#include "log/event_decode.h"
#include "report/print_leaks.h"

/*
 * page.c - a page is bounded, whatever the program was: so many key moments, of which it is known
 * what each stack held, and so many nodes, sites and names.
 *
 * Of the tree of calls those nodes stay that weigh most: a stack's weight is its largest share of
 * what was live at any of the moments, or of what was allocated in total, in bytes or blocks. A
 * stack whose own node does not stay is folded: it counts under its deepest node that does, in a
 * child `(others)` there.
 *
 * Sums are kept by column. The stacks that end in one node that stays, and have one site, are one.
 * Folded stacks have two: one of the node that they are folded under, one of their site. So amounts
 * add up to the whole by node, and by site. Of very many sites the lightest are one, `(others)`.
 *
 * A moment is written as what differs from the one before; if that is too much, only each second
 * (fourth, ...) one stays, the peak and the last one in any case.
 */
#define KEYS	150u
#define NODES	30000u /* of the tree of calls */
#define COLUMNS 10000u /* 24 MB while the page is written */
#define SITES	1000u
#define NAMES	(700u << 10) /* bytes of functions and files, about */
#define CHANGES 110000u	     /* between key moments */

/* ---- moments ------------------------------------------------------------- */

static int choose_keys(struct page *p)
{
	size_t *index, peak;
	ssize_t n = moments_choose(p->e->point, p->e->points, KEYS, &index, NULL);

	if (n < 0)
		return (int)n;
	p->key = calloc((size_t)n + 1, sizeof(*p->key));
	if (!p->key) {
		free(index);
		return -ENOMEM;
	}
	peak = n ? moments_highest(p->e, index, (size_t)n) : 0;
	for (size_t i = 0; i < (size_t)n; i++) {
		const struct export_point *point = &p->e->point[index[i]];

		p->key[i] = (struct key){ .from_ms = point->from_ms,
					  .to_ms = point->to_ms,
					  .ms = point->ms,
					  .all.bytes = (int64_t)point->bytes };
	}
	p->peak = peak;
	p->key[n] = (struct key){
		p->e->now_ms, p->e->now_ms, p->e->now_ms, { export_total(p->e), 0 }, false
	};
	p->keys = (size_t)n + 1;
	free(index);
	return 0;
}

static int profile_of(const struct page *p, size_t key, struct profile *profile)
{
	int err = export_rest(p->e);

	if (err)
		return err;
	return key + 1 == p->keys ? export_profile(p->e, profile)
				  : p->e->past(p->e->ctx, p->key[key].ms, profile);
}

/* ---- stacks -------------------------------------------------------------- */

static int reach(struct page *p, uint32_t stack)
{
	size_t n = p->ids ? p->ids : 1024;
	double *weight;

	if (stack < p->ids)
		return 0;
	while (n <= stack)
		n *= 2;
	weight = reallocarray(p->weight, n, sizeof(*weight));
	if (!weight)
		return -ENOMEM;
	for (size_t i = p->ids; i < n; i++)
		weight[i] = 0;
	p->weight = weight;
	p->ids = n;
	return 0;
}

/* STACK has PART of ALL. */
static int weigh(struct page *p, uint32_t stack, double part, double all)
{
	int err = reach(p, stack);

	if (!err && all > 0 && part / all > p->weight[stack])
		p->weight[stack] = part / all;
	return err;
}

/* By what was live at each of the moments. */
static int weigh_live(struct page *p)
{
	int err = 0;

	for (size_t k = 0; k < p->keys && !err; k++) {
		struct profile profile;
		double blocks = 0;

		err = profile_of(p, k, &profile);
		if (err)
			break;
		for (size_t i = 0; i < profile.count; i++)
			blocks += (double)profile.row[i].count;
		for (size_t i = 0; i < profile.count && !err; i++) {
			err = weigh(p, profile.row[i].stack, (double)profile.row[i].size,
				    (double)p->e->peak);
			if (!err)
				err = weigh(p, profile.row[i].stack, (double)profile.row[i].count,
					    blocks);
		}
		profile_release(&profile);
	}
	return err;
}

struct total page_sum(const struct view *v)
{
	struct total sum = { 0 };

	for (size_t i = 0; i < v->count; i++) {
		sum.bytes += v->row[i].total_size;
		sum.count += v->row[i].total_count;
		sum.temporary += v->row[i].temporary;
	}
	return sum;
}

static int weigh_totals(struct page *p)
{
	const struct view *v = p->e->view;
	struct total sum = page_sum(v);
	int err = 0;

	for (size_t i = 0; v->has_totals && i < v->count && !err; i++) {
		const struct view_row *r = &v->row[i];

		err = weigh(p, r->stack, (double)r->total_size, (double)sum.bytes);
		if (!err)
			err = weigh(p, r->stack, (double)r->total_count, (double)sum.count);
		if (!err)
			err = weigh(p, r->stack, (double)r->temporary, (double)sum.temporary);
	}
	return err;
}

static int heaviest_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* All stacks, in the tree of calls. */
static int choose_stacks(struct page *p)
{
	int err = 0;

	p->stack = calloc(p->ids + 1, sizeof(*p->stack));
	p->place = calloc(p->ids + 1, sizeof(*p->place));
	if (!p->stack || !p->place)
		return -ENOMEM;
	for (size_t i = 0; i < p->ids; i++)
		if (p->weight[i] > 0)
			p->stack[p->stacks++] = (struct candidate){ (uint32_t)i, 0, p->weight[i] };
	qsort(p->stack, p->stacks, sizeof(*p->stack), heaviest_first);
	for (size_t i = 0; i < p->stacks && !err; i++) {
		err = export_rest(p->e);
		if (!err)
			err = trie_stack(&p->trie, p->e, p->stack[i].stack, &p->stack[i].node);
	}
	return err;
}

size_t page_leaks(const struct page *p)
{
	const struct leak_report *r = p->e->leaks;

	return !r ? 0 : r->records < PAGE_LEAKS ? r->records : PAGE_LEAKS;
}

static int choose_leaks(struct page *p)
{
	int err = 0;

	for (size_t i = 0; i < page_leaks(p) && !err; i++) {
		err = export_rest(p->e);
		if (!err)
			err = trie_stack(&p->trie, p->e, p->e->leaks->record[i].stack, &p->lost[i]);
	}
	return err;
}

/* ---- what stays ---------------------------------------------------------- */

struct node_weight {
	double weight;
	uint32_t node;
};

static int heavier_node(const void *a, const void *b)
{
	const struct node_weight *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node; /* what is above comes first */
}

/* All nodes by the sum of the weights below them. */
static int order_nodes(struct page *p)
{
	size_t n = p->trie.nodes;
	struct node_weight *node = calloc(n, sizeof(*node));

	p->order = calloc(n, sizeof(*p->order));
	p->kept = calloc(n, sizeof(*p->kept));
	if (!node || !p->order || !p->kept) {
		free(node);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		node[i].node = (uint32_t)i;
	for (size_t i = 0; i < p->stacks; i++)
		node[p->stack[i].node].weight += p->stack[i].weight;
	for (size_t i = n; i-- > 1;)
		node[p->trie.node[i].parent].weight += node[i].weight;
	qsort(node, n, sizeof(*node), heavier_node);
	for (size_t i = 0; i < n; i++)
		p->order[i] = node[i].node;
	free(node);
	return 0;
}

size_t page_length(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	return n < PAGE_LONGEST ? n : PAGE_LONGEST;
}

/* Keeps at most MOST of the heaviest nodes, as many as there is room for their names; how many. */
static size_t keep_nodes(struct page *p, size_t most)
{
	size_t used = 0, n = 0;

	memset(p->kept, 0, p->trie.nodes * sizeof(*p->kept));
	memset(p->frame_number, 0, p->trie.frames * sizeof(*p->frame_number));
	for (; n < p->trie.nodes && n < most && used < NAMES; n++) {
		uint32_t node = p->order[n], frame = p->trie.node[node].frame;

		p->kept[node] = true;
		if (!node || p->frame_number[frame])
			continue;
		p->frame_number[frame] = 1;
		used += page_length(p->trie.frame[frame].at.function) +
			page_length(p->trie.frame[frame].at.file) + 16;
	}
	return n;
}

/* Those with the heaviest stacks; the others are site 0. */
static int keep_sites(struct page *p)
{
	size_t room = 0;
	int err = 0;

	p->site = calloc(SITES, sizeof(*p->site));
	if (!p->site)
		return -ENOMEM;
	for (size_t i = 0; i < p->stacks && !err; i++) {
		uint32_t site = sites_of(p->e->sites, p->stack[i].stack);

		if (site >= room) {
			size_t more = site * 2 + 1024;
			uint32_t *moved = reallocarray(p->site_number, more, sizeof(*moved));

			if (!moved)
				return -ENOMEM;
			memset(moved + room, 0, (more - room) * sizeof(*moved));
			p->site_number = moved;
			room = more;
		}
		if (!p->site_number[site] && p->nsites < SITES) {
			p->site[p->nsites++] = (struct page_site){
				.site = site,
				.stack = p->stack[i].stack,
				.heaviest = p->stack[i].weight,
			};
			p->site_number[site] = p->nsites;
		}
		if (p->site_number[site])
			p->site[p->site_number[site] - 1].weight += p->stack[i].weight;
		err = export_rest(p->e);
	}
	return err;
}

static int column_order(const struct column *x, const struct column *y)
{
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

struct placed {
	struct column column;
	uint32_t stack;
};

static int by_column(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	int order = column_order(&x->column, &y->column);

	return order ? order : x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* The columns of the stack S; how many. */
static size_t columns_of(const struct page *p, const struct candidate *s, struct placed *placed)
{
	uint32_t node = s->node, site = p->site_number[sites_of(p->e->sites, s->stack)];

	if (p->kept[node]) {
		placed[0] = (struct placed){ { COLUMN_WHOLE, node, site }, s->stack };
		return 1;
	}
	while (!p->kept[node])
		node = p->trie.node[node].parent;
	placed[0] = (struct placed){ { COLUMN_FOLDED, node, 0 }, s->stack };
	placed[1] = (struct placed){ { COLUMN_SITE, 0, site }, s->stack };
	return 2;
}

static bool is_new(const struct placed *placed, size_t i)
{
	return !i || column_order(&placed[i - 1].column, &placed[i].column);
}

/* PLACED has room for each stack twice. *COUNT: of it; returns how many columns are needed. */
static size_t place(const struct page *p, struct placed *placed, size_t *count)
{
	size_t n = 0;

	*count = 0;
	for (size_t i = 0; i < p->stacks; i++)
		*count += columns_of(p, &p->stack[i], placed + *count);
	qsort(placed, *count, sizeof(*placed), by_column);
	for (size_t i = 0; i < *count; i++)
		n += is_new(placed, i);
	return n;
}

static void take_columns(struct page *p, const struct placed *placed, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct place *at = &p->place[placed[i].stack];

		if (is_new(placed, i))
			p->column[p->columns++] = placed[i].column;
		*(placed[i].column.kind == COLUMN_SITE ? &at->site : &at->column) =
			(uint32_t)p->columns;
		p->folded += placed[i].column.kind == COLUMN_FOLDED;
	}
}

/* Fewer nodes until the columns are few enough: with the uppermost alone they are. */
static int choose_columns(struct page *p)
{
	struct placed *placed = calloc(p->stacks + 1, 2 * sizeof(*placed));
	size_t nodes = NODES, needed = 0, count = 0;
	int err = order_nodes(p);

	p->frame_number = calloc(p->trie.frames + 1, sizeof(*p->frame_number));
	p->node_number = calloc(p->trie.nodes, sizeof(*p->node_number));
	if (!err && (!placed || !p->frame_number || !p->node_number))
		err = -ENOMEM;
	if (!err)
		err = keep_sites(p);
	while (!err) {
		nodes = keep_nodes(p, nodes);
		needed = place(p, placed, &count);
		if (needed <= COLUMNS || nodes == 1)
			break;
		nodes = nodes * 4 / 5;
		err = export_rest(p->e);
	}
	p->column = err ? NULL : calloc(needed + 1, sizeof(*p->column));
	if (p->column)
		take_columns(p, placed, count);
	free(placed);
	return err ? err : p->column ? 0 : -ENOMEM;
}

/* What is lost has its stacks in the page, too. */
static void keep_leaks(struct page *p)
{
	for (size_t i = 0; i < page_leaks(p); i++)
		for (uint32_t node = p->lost[i]; node; node = p->trie.node[node].parent)
			p->kept[node] = true;
}

/* What the page calls frames and nodes that stay. Frame 0 is `(others)`. */
static void number_nodes(struct page *p)
{
	uint32_t frames = 0, nodes = 0;

	memset(p->frame_number, 0, p->trie.frames * sizeof(*p->frame_number));
	for (size_t i = 1; i < p->trie.nodes; i++)
		if (p->kept[i]) {
			p->node_number[i] = ++nodes;
			p->frame_number[p->trie.node[i].frame] = 1;
		}
	for (size_t i = 0; i < p->trie.frames; i++)
		if (p->frame_number[i])
			p->frame_number[i] = ++frames;
}

static void add_total(struct page *p, uint32_t number, const struct view_row *r)
{
	if (!number)
		return;
	p->total[number - 1].bytes += r->total_size;
	p->total[number - 1].count += r->total_count;
	p->total[number - 1].temporary += r->temporary;
}

static int fill_totals(struct page *p)
{
	const struct view *v = p->e->view;

	if (!v->has_totals)
		return 0;
	p->total = calloc(p->columns + 1, sizeof(*p->total));
	for (size_t i = 0; p->total && i < v->count; i++) {
		const struct view_row *r = &v->row[i];
		struct place at = r->stack < p->ids ? p->place[r->stack] : (struct place){ 0 };

		add_total(p, at.column, r);
		add_total(p, at.site, r);
	}
	return p->total ? 0 : -ENOMEM;
}

static void add_life(struct page *p, uint32_t number, const struct log_lifetime *l)
{
	if (!number)
		return;
	p->life[number - 1].block_ms += l->block_ms;
	p->life[number - 1].blocks += l->blocks;
}

/* Without them the page is whole, too. */
static int fill_lifetimes(struct page *p)
{
	struct log_lifetime *list = NULL;
	ssize_t n = p->e->lifetimes ? p->e->lifetimes(p->e->ctx, &list) : -EBADMSG;

	if (n < 0)
		return n == -EBADMSG ? 0 : (int)n;
	p->life = calloc(p->columns + 1, sizeof(*p->life));
	for (ssize_t i = 0; p->life && i < n; i++) {
		struct place at = list[i].stack < p->ids ? p->place[list[i].stack]
							 : (struct place){ 0 };

		add_life(p, at.column, &list[i]);
		add_life(p, at.site, &list[i]);
	}
	free(list);
	return p->life ? 0 : -ENOMEM;
}

static void add_held(struct page *p, size_t key, uint32_t number, const struct profile_row *r)
{
	if (!number)
		return;
	p->held[key * p->columns + number - 1].bytes += r->size;
	p->held[key * p->columns + number - 1].count += r->count;
}

static int fill(struct page *p)
{
	int err = 0;

	p->held = calloc(p->keys * p->columns + 1, sizeof(*p->held));
	if (!p->held)
		return -ENOMEM;
	for (size_t k = 0; k < p->keys && !err; k++) {
		struct profile profile;
		struct amount all = { 0 };

		err = profile_of(p, k, &profile);
		for (size_t i = 0; !err && i < profile.count; i++) {
			const struct profile_row *r = &profile.row[i];
			struct place at = r->stack < p->ids ? p->place[r->stack]
							    : (struct place){ 0 };

			all.bytes += r->size;
			all.count += r->count;
			add_held(p, k, at.column, r);
			add_held(p, k, at.site, r);
		}
		if (!err)
			profile_release(&profile);
		/* merged with a higher one meanwhile */
		p->key[k].left_out = all.bytes != p->key[k].all.bytes;
		p->key[k].all = all;
	}
	return err;
}

/* ---- fewer moments ------------------------------------------------------- */

static size_t changes(const struct page *p, size_t key, size_t before)
{
	const struct amount *now = &p->held[key * p->columns],
			    *then = before < p->keys ? &p->held[before * p->columns] : NULL;
	size_t n = 0;

	for (size_t i = 0; i < p->columns; i++)
		n += then ? now[i].bytes != then[i].bytes || now[i].count != then[i].count
			  : now[i].bytes || now[i].count;
	return n;
}

static void thin_out(struct page *p)
{
	for (size_t step = 1; step < p->keys; step *= 2) {
		size_t sum = 0, before = SIZE_MAX;

		for (size_t k = 0; k < p->keys; k++) {
			if (k % step && k != p->peak && k + 1 != p->keys)
				p->key[k].left_out = true;
			if (p->key[k].left_out)
				continue;
			sum += changes(p, k, before);
			before = k;
		}
		if (sum <= CHANGES)
			return;
	}
}

/* ---- all of it ----------------------------------------------------------- */

int page_choose(struct page *p)
{
	int err = trie_init(&p->trie, false);

	p->trie.functions = true;
	if (!err)
		err = choose_keys(p);
	if (!err)
		err = weigh_live(p);
	if (!err)
		err = weigh_totals(p);
	if (!err)
		err = choose_stacks(p);
	if (!err)
		err = choose_leaks(p);
	if (!err)
		err = choose_columns(p);
	if (!err) {
		keep_leaks(p);
		number_nodes(p);
		err = fill(p);
	}
	if (!err)
		err = fill_totals(p);
	if (!err)
		err = fill_lifetimes(p);
	if (!err)
		thin_out(p);
	return err;
}

void page_release(struct page *p)
{
	free(p->key);
	free(p->stack);
	free(p->weight);
	free(p->order);
	free(p->kept);
	free(p->site_number);
	free(p->site);
	free(p->column);
	free(p->place);
	free(p->held);
	free(p->total);
	free(p->life);
	free(p->module);
	free(p->node_number);
	free(p->frame_number);
	trie_release(&p->trie);
}
