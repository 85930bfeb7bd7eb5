// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/text.h"
#include "export/moments.h"
#include "export/trie.h"
#include "ledger/activity.h"
#include "log/event_decode.h"
#include "process/profile_make.h"
#include "report/kept.h"
#include "report/print_leaks.h"
#include "symbols/short_name.h"

/*
 * One page with memory over time, and what was live at any moment of it. Here the numbers are
 * written, as JSON; page.js draws them.
 *
 * The page is bounded, whatever the program was: the curve has so many points (of many the
 * highest), some of them are key moments, of which it is known what each stack held.
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
#define CURVE	1500u
#define KEYS	150u
#define NODES	30000u /* of the tree of calls */
#define COLUMNS 10000u /* 24 MB while the page is written */
#define SITES	1000u
#define NAMES	(700u << 10) /* bytes of functions and files, about */
#define CHANGES 110000u	     /* between key moments */
#define LONGEST 500u	     /* bytes of a name */
#define KEPT	200u	     /* sites that keep pages */
#define THREADS 100u
#define LEAKS	200u /* records of what is lost */

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
	uint32_t *order;       /* nodes, heaviest first */
	bool *kept;	       /* by node */
	uint32_t *site_number; /* by site; 0: it is not kept */
	uint32_t *site;	       /* by number - 1, the heaviest first */
	uint32_t nsites;
	struct column *column;
	size_t columns;
	struct place *place;  /* by stack id */
	struct amount *held;  /* [key][column] */
	struct total *total;  /* by column; NULL: not known */
	struct life *life;    /* the same */
	uint32_t lost[LEAKS]; /* by record: the node of its stack */
	const char **module;  /* their paths, as frames have them */
	size_t modules, module_room;
	/* what the page calls nodes and frames of the trie; 0: not in it */
	uint32_t *node_number, *frame_number;
};
extern const char page_js[], page_js_end[], page_css[], page_css_end[];

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

static struct total sum_totals(const struct view *v)
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
	struct total sum = sum_totals(v);
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

static size_t leaks_shown(const struct page *p)
{
	const struct leak_report *r = p->e->leaks;

	return !r ? 0 : r->records < LEAKS ? r->records : LEAKS;
}

static int choose_leaks(struct page *p)
{
	int err = 0;

	for (size_t i = 0; i < leaks_shown(p) && !err; i++) {
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

static size_t length(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	return n < LONGEST ? n : LONGEST;
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
		used += length(p->trie.frame[frame].at.function) +
			length(p->trie.frame[frame].at.file) + 16;
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
			p->site[p->nsites++] = site;
			p->site_number[site] = p->nsites;
		}
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
	for (size_t i = 0; i < leaks_shown(p); i++)
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

/* ---- writing ------------------------------------------------------------- */

/* What is longer than LONGEST bytes is cut there, not within a character. */
static void put_cut(struct json *j, const char *name)
{
	char text[LONGEST + 4];
	size_t n = length(name);

	if (n < LONGEST) {
		json_string(j, NULL, name);
		return;
	}
	while (n && ((unsigned char)name[n] & 0xc0) == 0x80)
		n--;
	memcpy(text, name, n);
	strcpy(text + n, "...");
	json_string(j, NULL, text);
}

/* Of a C++ name that is too long, what people leave out goes first. */
static void put_name(struct json *j, const char *name)
{
	char *brief = length(name) < LONGEST ? NULL : short_name(name, SHORT_DEFAULTS, true);

	put_cut(j, brief ? brief : name);
	free(brief);
}

/* What was there before the attach has no stacks, and is in no sum. */
static void put_before(struct json *j, const struct preattach_heap *b)
{
	if (!b)
		return;
	json_object(j, "before");
	if (b->state == PREATTACH_KNOWN) {
		json_uint(j, "bytes", b->bytes);
		json_uint(j, "blocks", b->blocks);
	} else {
		json_string(j, "unknown", b->why);
	}
	json_end_object(j);
}

static void put_program(struct page *p)
{
	json_string(&p->j, "version", MTRUN_VERSION);
	json_string(&p->j, "command", p->e->command);
	json_array(&p->j, "command_line");
	put_name(&p->j, p->e->command_line ? p->e->command_line : "");
	json_end_array(&p->j);
	json_int(&p->j, "pid", p->e->pid);
	json_uint(&p->j, "others", p->e->others);
	json_uint(&p->j, "clock_ms", p->e->began);
	json_uint(&p->j, "began_ms", p->e->began_ms);
	json_uint(&p->j, "now_ms", p->e->now_ms);
	json_uint(&p->j, "peak", p->e->peak);
	json_uint(&p->j, "peak_ms", p->e->peak_ms);
	json_bool(&p->j, "estimated", p->e->view->estimated);
	if (p->e->events)
		json_string(&p->j, "events", p->e->events);
	put_before(&p->j, p->e->view->before);
	json_array(&p->j, "marks");
	for (size_t i = 0; p->e->marks && i < marks_count(p->e->marks); i++) {
		json_array(&p->j, NULL);
		json_uint(&p->j, NULL, marks_at(p->e->marks, i)->ms);
		json_string(&p->j, NULL, marks_at(p->e->marks, i)->label);
		json_end_array(&p->j);
	}
	json_end_array(&p->j);
}

static int put_curve(struct page *p)
{
	struct export_point *point;
	size_t *index;
	ssize_t n = moments_refine(p->e, &point);

	if (n < 0)
		return (int)n;
	n = moments_choose(point, (size_t)n, CURVE, &index, NULL);
	if (n < 0) {
		free(point);
		return (int)n;
	}
	json_newline(&p->j);
	json_array(&p->j, "curve");
	for (ssize_t i = 0; i < n; i++) {
		json_uint(&p->j, NULL, point[index[i]].from_ms);
		json_uint(&p->j, NULL, point[index[i]].bytes);
	}
	json_end_array(&p->j);
	free(index);
	free(point);
	return 0;
}

static void put_moment(struct json *j, uint64_t ms, uint64_t allocs, uint64_t temporary)
{
	json_uint(j, NULL, ms);
	json_uint(j, NULL, allocs);
	json_uint(j, NULL, temporary);
}

/*
 * What was allocated up to some moments, and temporarily; evenly from each to the next. A point is
 * about the end of its ms.
 */
static void put_activity(struct page *p)
{
	const struct activity *a = export_activity(p->e);
	const struct activity_point *before = NULL;

	json_newline(&p->j);
	json_array(&p->j, "activity");
	for (size_t i = 0; i < a->count; i++) {
		const struct activity_point *at = &a->point[i];
		uint64_t begins = at->ms - at->ms % a->step;

		if (begins > (before ? before->ms + 1 : 0))
			put_moment(&p->j, begins, before ? before->allocs : 0,
				   before ? before->temporary : 0);
		put_moment(&p->j, at->ms + 1, at->allocs, at->temporary);
		before = at;
	}
	json_end_array(&p->j);
}

static const char *module_of(const struct symbol_frame *f) { return f->module ? f->module : ""; }

/* What has no name but its address is told by its module: `libfoo.so+0x1234`. */
static void put_function(struct json *j, const struct symbol_frame *f)
{
	const char *name = export_name(f);
	char text[LONGEST];

	if (!strncmp(name, "0x", 2) && f->module) {
		snprintf(text, sizeof(text), "%s+%s", text_last_part(f->module), name);
		name = text;
	}
	put_name(j, name);
}

static void put_place(struct json *j, const struct symbol_frame *f)
{
	put_name(j, f->file ? f->file : module_of(f));
}

/* Its number in the page's list of modules, which it is added to. */
static int module_number(struct page *p, const char *path, size_t *number)
{
	for (*number = 0; *number < p->modules; ++*number)
		if (!strcmp(p->module[*number], path))
			return 0;
	if (array_room(&p->module, p->modules, &p->module_room, sizeof(*p->module)))
		return -ENOMEM;
	p->module[p->modules++] = path;
	return 0;
}

static int put_frames(struct page *p)
{
	struct json *j = &p->j;
	size_t module;

	json_newline(j);
	json_array(j, "frames");
	json_array(j, NULL);
	json_string(j, NULL, "(others)");
	json_string(j, NULL, "");
	json_end_array(j);
	for (size_t i = 0; i < p->trie.frames; i++) {
		const struct symbol_frame *f = &p->trie.frame[i].at;

		if (!p->frame_number[i])
			continue;
		if (module_number(p, module_of(f), &module))
			return -ENOMEM;
		json_newline(j);
		json_array(j, NULL);
		put_function(j, f);
		put_place(j, f);
		json_uint(j, NULL, module);
		json_end_array(j);
	}
	json_end_array(j);
	return 0;
}

/*
 * The nodes that stay, those of what is folded behind them; then node and site of each column, -1
 * for what it does not tell.
 */
static void put_nodes(struct page *p)
{
	struct json *j = &p->j;
	uint32_t nodes = 0;

	json_newline(j);
	json_array(j, "nodes");
	for (size_t i = 1; i < p->trie.nodes; i++) {
		if (!p->kept[i])
			continue;
		nodes++;
		json_uint(j, NULL, p->node_number[p->trie.node[i].parent]);
		json_uint(j, NULL, p->frame_number[p->trie.node[i].frame]);
	}
	for (size_t i = 0; i < p->columns; i++)
		if (p->column[i].kind == COLUMN_FOLDED) {
			json_uint(j, NULL, p->node_number[p->column[i].node]);
			json_uint(j, NULL, 0);
		}
	json_end_array(j);
	json_newline(j);
	json_uint(j, "named", p->stacks - p->folded);
	json_uint(j, "of", p->stacks);
	json_array(j, "columns");
	for (size_t i = 0; i < p->columns; i++) {
		const struct column *c = &p->column[i];

		nodes += c->kind == COLUMN_FOLDED;
		json_int(j, NULL,
			 c->kind == COLUMN_SITE	    ? -1
			 : c->kind == COLUMN_FOLDED ? (int64_t)nodes
						    : (int64_t)p->node_number[c->node]);
		json_int(j, NULL, c->kind == COLUMN_FOLDED ? -1 : (int64_t)c->site);
	}
	json_end_array(j);
}

/* The columns' sites by their numbers. */
static int put_sites(struct page *p)
{
	struct json *j = &p->j;
	size_t module;

	json_newline(j);
	json_array(j, "sites");
	for (uint32_t i = 0; i < p->nsites; i++) {
		const struct symbol_frame *f = &sites_site(p->e->sites, p->site[i])->frame;

		if (module_number(p, module_of(f), &module))
			return -ENOMEM;
		json_newline(j);
		json_array(j, NULL);
		json_uint(j, NULL, i + 1);
		put_function(j, f);
		put_place(j, f);
		json_uint(j, NULL, f->file ? f->line : 0);
		json_uint(j, NULL, module);
		json_end_array(j);
	}
	json_end_array(j);
	return 0;
}

/* Paths; -1 or the number of the program's own. */
static void put_modules(struct page *p)
{
	struct json *j = &p->j;
	int64_t own = -1;

	json_newline(j);
	json_array(j, "modules");
	for (size_t i = 0; i < p->modules; i++) {
		put_name(j, p->module[i]);
		if (p->e->exe && !strcmp(p->e->exe, p->module[i]))
			own = (int64_t)i;
	}
	json_end_array(j);
	json_int(j, "own", own);
}

/* What was allocated since the start, in all; of each column bytes, blocks, and temporary ones. */
static void put_totals(struct page *p)
{
	struct total sum = sum_totals(p->e->view);
	struct json *j = &p->j;

	if (!p->total)
		return;
	json_newline(j);
	json_array(j, "total");
	json_uint(j, NULL, sum.bytes);
	json_uint(j, NULL, sum.count);
	json_uint(j, NULL, sum.temporary);
	json_end_array(j);
	json_array(j, "totals");
	for (size_t i = 0; i < p->columns; i++) {
		json_uint(j, NULL, p->total[i].bytes);
		json_uint(j, NULL, p->total[i].count);
		json_uint(j, NULL, p->total[i].temporary);
	}
	json_end_array(j);
}

/*
 * How long the record is; of each column how long its blocks lived in all, and how many they are.
 */
static void put_lifetimes(struct page *p)
{
	struct json *j = &p->j;

	if (!p->life)
		return;
	json_newline(j);
	json_uint(j, "lived_of", p->e->now_ms - p->e->began_ms);
	json_array(j, "lived");
	for (size_t i = 0; i < p->columns; i++) {
		json_uint(j, NULL, p->life[i].block_ms);
		json_uint(j, NULL, p->life[i].blocks);
	}
	json_end_array(j);
}

/* ---- single blocks ------------------------------------------------------- */

/* Live blocks by size, in powers of two: from which size on, bytes, blocks. */
static void put_sizes(struct json *j, const struct profile *profile)
{
	struct amount sum[65] = { 0 };

	json_newline(j);
	json_array(j, "sizes");
	for (size_t i = 0; i < profile->count; i++) {
		const struct profile_row *r = &profile->row[i];
		int power = r->block ? 64 - __builtin_clzll(r->block) : 0;

		sum[power].bytes += r->size;
		sum[power].count += r->count;
	}
	for (int power = 0; power < 65; power++) {
		if (!sum[power].count)
			continue;
		json_array(j, NULL);
		json_uint(j, NULL, power ? 1ull << (power - 1) : 0);
		json_int(j, NULL, sum[power].bytes);
		json_int(j, NULL, sum[power].count);
		json_end_array(j);
	}
	json_end_array(j);
}

static int most_bytes_first(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static void put_thread(struct json *j, uint32_t tid, const char *name, struct amount a)
{
	json_array(j, NULL);
	json_uint(j, NULL, tid);
	json_string(j, NULL, name);
	json_int(j, NULL, a.bytes);
	json_int(j, NULL, a.count);
	json_end_array(j);
}

/* Threads with their names, if they are there still; thread 0: all others. */
static void put_threads(struct page *p, struct profile *profile)
{
	struct json *j = &p->j;
	struct amount others = { 0 };
	char name[PROC_NAME];

	qsort(profile->row, profile->count, sizeof(*profile->row), most_bytes_first);
	json_newline(j);
	json_array(j, "threads");
	for (size_t i = 0; i < profile->count; i++) {
		const struct profile_row *r = &profile->row[i];

		if (i >= THREADS) {
			others.bytes += r->size;
			others.count += r->count;
			continue;
		}
		*name = '\0';
		if (p->e->thread_names)
			proc_name(p->e->thread_names, (pid_t)r->thread, name);
		put_thread(j, r->thread, name, (struct amount){ r->size, r->count });
	}
	if (others.count)
		put_thread(j, 0, "", others);
	json_end_array(j);
}

/* What cannot be told is left out. */
static void put_blocks(struct page *p)
{
	struct profile profile;

	if (!p->e->parts || p->e->view->is_difference)
		return;
	if (!p->e->parts(p->e->ctx, PROFILE_SIZES, &profile)) {
		put_sizes(&p->j, &profile);
		profile_release(&profile);
	}
	if (!p->e->parts(p->e->ctx, PROFILE_THREADS, &profile)) {
		put_threads(p, &profile);
		profile_release(&profile);
	}
}

static void put_changes(struct page *p, size_t key, size_t before)
{
	for (size_t i = 0; i < p->columns; i++) {
		struct amount now = p->held[key * p->columns + i],
			      then = before < p->keys ? p->held[before * p->columns + i]
						      : (struct amount){ 0 };

		if (now.bytes == then.bytes && now.count == then.count)
			continue;
		json_uint(&p->j, NULL, i);
		json_int(&p->j, NULL, now.bytes);
		json_int(&p->j, NULL, now.count);
	}
}

static void put_keys(struct page *p)
{
	size_t before = SIZE_MAX;

	json_newline(&p->j);
	json_array(&p->j, "keys");
	for (size_t k = 0; k < p->keys; k++) {
		const struct key *key = &p->key[k];

		if (key->left_out)
			continue;
		json_newline(&p->j);
		json_array(&p->j, NULL);
		json_uint(&p->j, NULL, key->from_ms);
		json_uint(&p->j, NULL, key->ms);
		json_int(&p->j, NULL, key->all.bytes);
		json_int(&p->j, NULL, key->all.count);
		json_array(&p->j, NULL);
		put_changes(p, k, before);
		json_end_array(&p->j);
		json_end_array(&p->j);
		before = k;
	}
	json_end_array(&p->j);
}

static void put_kept(struct page *p)
{
	const struct kept *kept = p->e->kept;
	struct residency_kept rest = kept_rest(kept, KEPT);
	const struct residency_kept *sum[] = { &p->e->residency->all, &rest,
					       &p->e->residency->several };
	static const char *const key[] = { "all", "others", "several" };
	struct json *j = &p->j;

	for (int i = 0; i < 3; i++) {
		json_array(j, key[i]);
		json_uint(j, NULL, sum[i]->pages * PAGE);
		json_uint(j, NULL, sum[i]->live_bytes);
		json_end_array(j);
	}
	json_array(j, "kept");
	for (size_t i = 0; i < kept->count && i < KEPT; i++) {
		const struct symbol_frame *f = &kept->site[i].frame;

		json_newline(j);
		json_array(j, NULL);
		json_uint(j, NULL, kept->site[i].pages * PAGE);
		json_uint(j, NULL, kept->site[i].live_bytes);
		put_function(j, f);
		put_place(j, f);
		json_uint(j, NULL, f->file ? f->line : 0);
		json_end_array(j);
	}
	json_end_array(j);
}

static void put_residency(struct page *p)
{
	const struct residency *r = p->e->residency;
	struct json *j = &p->j;

	if (!r)
		return;
	json_newline(j);
	json_object(j, "residency");
	json_uint(j, "rss", r->rss);
	json_uint(j, "mtrun", r->bytes[RESIDENCY_MTRUN]);
	json_uint(j, "swapped", r->swapped);
	json_uint(j, "live_bytes", r->live_bytes);
	json_array(j, "rows");
	for (int i = 0; i < RESIDENCY_ROWS; i++) {
		json_array(j, NULL);
		json_string(j, NULL, residency_words[i].name);
		json_uint(j, NULL, r->bytes[i]);
		json_string(j, NULL, residency_words[i].meaning);
		json_end_array(j);
	}
	json_end_array(j);
	put_kept(p);
	json_end_object(j);
}

static void put_sum(struct json *j, const char *what, struct leak_sum sum)
{
	json_array(j, NULL);
	json_string(j, NULL, what);
	json_uint(j, NULL, sum.bytes);
	json_uint(j, NULL, sum.blocks);
	json_end_array(j);
}

/* One record: its kind, what it has, what is lost with it, its site, and the node of its stack. */
static void put_leak(struct page *p, const struct leak_record *l, uint32_t node)
{
	const struct symbol_frame *f =
		&sites_site(p->e->sites, sites_of(p->e->sites, l->stack))->frame;
	struct json *j = &p->j;

	json_newline(j);
	json_array(j, NULL);
	json_uint(j, NULL, l->kind);
	json_uint(j, NULL, l->bytes);
	json_uint(j, NULL, l->blocks);
	json_uint(j, NULL, l->indirect_bytes);
	json_uint(j, NULL, l->indirect_blocks);
	put_function(j, f);
	put_place(j, f);
	json_uint(j, NULL, f->file ? f->line : 0);
	json_uint(j, NULL, node);
	json_end_array(j);
}

static void put_leaks(struct page *p)
{
	const struct leak_report *r = p->e->leaks;
	struct json *j = &p->j;
	struct leak_sum others = { 0 };

	if (!r)
		return;
	json_newline(j);
	json_object(j, "leaks");
	json_array(j, "sums");
	for (int kind = 0; kind < LEAK_KINDS; kind++)
		put_sum(j, leak_kind_words[kind], r->sum[kind]);
	put_sum(j, "suppressed", r->suppressed);
	json_end_array(j);
	json_string(j, "captured_by", capture_way_name(r->way));
	json_fixed(j, "pause_ms", r->pause_ns / 1000, 3);
	json_string(j, "remark", r->remark[0] ? r->remark : NULL);
	json_array(j, "records");
	for (size_t i = 0; i < leaks_shown(p); i++)
		put_leak(p, &r->record[i], p->node_number[p->lost[i]]);
	json_end_array(j);
	for (size_t i = leaks_shown(p); i < r->records; i++) {
		others.bytes += r->record[i].bytes;
		others.blocks += r->record[i].blocks;
	}
	json_array(j, "others");
	json_uint(j, NULL, others.bytes);
	json_uint(j, NULL, others.blocks);
	json_uint(j, NULL, r->records - leaks_shown(p));
	json_end_array(j);
	json_end_object(j);
}

static int put_page(struct page *p)
{
	int err;

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>mtrun</title>\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'",
	      p->out);
	if (p->e->events)
		fputs("; connect-src 'self'", p->out);
	fputs("\">\n<style>\n", p->out);
	fwrite(page_css, 1, (size_t)(page_css_end - page_css), p->out);
	fputs("</style>\n</head>\n<body>\n<noscript>This page needs JavaScript: all of it is in the page, nothing is loaded from elsewhere.</noscript>\n"
	      "<script type=\"application/json\" id=\"data\">\n",
	      p->out);
	json_init(&p->j, p->out);
	p->j.in_page = p->j.shown = true;
	json_object(&p->j, NULL);
	put_program(p);
	err = put_curve(p);
	put_activity(p);
	if (!err)
		err = put_frames(p);
	put_nodes(p);
	if (!err)
		err = put_sites(p);
	put_modules(p);
	put_totals(p);
	put_lifetimes(p);
	put_keys(p);
	put_blocks(p);
	put_residency(p);
	put_leaks(p);
	json_end_object(&p->j);
	json_finish(&p->j);
	fputs("</script>\n<script>\n", p->out);
	fwrite(page_js, 1, (size_t)(page_js_end - page_js), p->out);
	fputs("</script>\n</body>\n</html>\n", p->out);
	return err;
}

int export_html(FILE *out, const struct export *e)
{
	struct page p = { .out = out, .e = e };
	int err = trie_init(&p.trie, false);

	p.trie.functions = true;
	if (!err)
		err = choose_keys(&p);
	if (!err)
		err = weigh_live(&p);
	if (!err)
		err = weigh_totals(&p);
	if (!err)
		err = choose_stacks(&p);
	if (!err)
		err = choose_leaks(&p);
	if (!err)
		err = choose_columns(&p);
	if (!err) {
		keep_leaks(&p);
		number_nodes(&p);
		err = fill(&p);
	}
	if (!err)
		err = fill_totals(&p);
	if (!err)
		err = fill_lifetimes(&p);
	if (!err) {
		thin_out(&p);
		err = put_page(&p);
	}
	free(p.key);
	free(p.stack);
	free(p.weight);
	free(p.order);
	free(p.kept);
	free(p.site_number);
	free(p.site);
	free(p.column);
	free(p.place);
	free(p.held);
	free(p.total);
	free(p.life);
	free(p.module);
	free(p.node_number);
	free(p.frame_number);
	trie_release(&p.trie);
	return err;
}
