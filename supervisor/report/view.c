// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/view.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/intern.h"

/*
 * The list. Each row of the profile gets a number for its group (its site's, its stack's, ...), the
 * groups are gathered in one pass over an open hash, then sorted and cut. Sites are memoised per
 * stack node (sites.c), so with warm symbols this is all there is to do: 10^5 stacks take a few
 * milliseconds.
 */
const char *const view_key_names[VIEW_KEYS] = { "site",	  "stack",  "function", "file",
						"module", "thread", "size" };
const char *const view_sort_names[VIEW_SORTS] = { "size", "count", "total", "temporary" };

/* ---- which stacks match -------------------------------------------------- */

/*
 * A stack matches if its leaf does or its caller's stack does: one answer per node, and one regexec
 * per line of code.
 */
struct matcher {
	const regex_t *regex;
	struct sites *sites;
	uint8_t *node; /* 0: not known, 1: no, 2: yes */
	size_t nnodes;
	struct intern frames; /* that were looked at */
	bool *yes;	      /* by their numbers */
	size_t room;
};

static bool matches_text(const regex_t *regex, const struct symbol_frame *f)
{
	const char *base = f->module ? strrchr(f->module, '/') : NULL;
	char place[4200];

	if (f->function && !regexec(regex, f->function, 0, NULL, 0))
		return true;
	if (f->file) {
		snprintf(place, sizeof(place), "%s:%u", f->file, f->line);
		if (!regexec(regex, place, 0, NULL, 0))
			return true;
	}
	return f->module && ((base && !regexec(regex, base + 1, 0, NULL, 0)) ||
			     !regexec(regex, f->module, 0, NULL, 0));
}

static bool matches_frame(struct matcher *m, const struct symbol_frame *f)
{
	size_t known = m->frames.count;
	uint32_t n = intern(&m->frames, f);

	if (!n || array_room(&m->yes, m->frames.count, &m->room, sizeof(*m->yes)))
		return matches_text(m->regex, f);
	if (n > known)
		m->yes[n] = matches_text(m->regex, f);
	return m->yes[n];
}

static bool matches_node(struct matcher *m, uint32_t node)
{
	struct symbol_frames f = sites_frames(m->sites, node);

	for (size_t i = 0; i < f.count; i++)
		if (matches_frame(m, &f.frame[i]))
			return true;
	return false;
}

static bool matches(struct matcher *m, uint32_t stack)
{
	uint32_t n;
	uint8_t answer = 1;

	if (!m->regex)
		return true;
	if (stack == 0 || stack >= m->nnodes)
		return matches_node(m, stack);
	for (n = stack; n; n = sites_parent(m->sites, n)) {
		if (m->node[n]) {
			answer = m->node[n];
			break;
		}
		if (matches_node(m, n)) {
			answer = 2;
			break;
		}
	}
	/* Inner nodes all share the answer; the node that it was found at too. */
	for (uint32_t i = stack; i && i != n; i = sites_parent(m->sites, i))
		m->node[i] = answer;
	if (n)
		m->node[n] = answer;
	return answer == 2;
}

static int matcher_init(struct matcher *m, const regex_t *regex, struct sites *sites,
			const struct profile *p)
{
	*m = (struct matcher){ .regex = regex, .sites = sites };
	if (!regex)
		return 0;
	for (size_t i = 0; i < p->count; i++)
		if (p->row[i].stack >= m->nnodes)
			m->nnodes = (size_t)p->row[i].stack + 1;
	m->node = calloc(m->nnodes + 1, 1);
	return m->node ? 0 : -ENOMEM;
}

static void matcher_release(struct matcher *m)
{
	free(m->node);
	free(m->yes);
	intern_release(&m->frames);
}

/* ---- groups -------------------------------------------------------------- */

struct groups {
	struct view *v;
	struct sites *sites;
	size_t least, allocated; /* powers of two */
	uint64_t *key;		 /* of each row of the view */
	struct hash_index rows;	 /* + 1, by their keys */
	/* VIEW_FUNCTION, _FILE, _MODULE: by site, the number of its text */
	uint32_t *of_site;
	size_t nsites;
	struct intern texts;
};

static const char *text_of(enum view_key key, const struct symbol_frame *f)
{
	const char *text = key == VIEW_FUNCTION ? f->function
			   : key == VIEW_FILE	? f->file
						: f->module;

	if (!text && key == VIEW_FILE)
		text = f->module; /* no line information: the object file stands in */
	return text ? text : "";
}

/* What all sites have whose function (file, module) reads the same. 0: out of memory */
static uint32_t same_text(struct groups *g, uint32_t site)
{
	size_t n = (size_t)sites_count(g->sites) * 2 + 1024;
	uint32_t *more;

	if (site >= g->nsites) {
		more = reallocarray(g->of_site, n, sizeof(*more));
		if (!more)
			return 0;
		memset(more + g->nsites, 0, (n - g->nsites) * sizeof(*more));
		g->of_site = more;
		g->nsites = n;
	}
	if (!g->of_site[site])
		g->of_site[site] =
			intern(&g->texts, text_of(g->v->key, &sites_site(g->sites, site)->frame));
	return g->of_site[site];
}

static struct symbol_frame label(enum view_key key, const struct symbol_frame *f)
{
	struct symbol_frame l = { 0 };

	switch (key) {
	case VIEW_SITE:
	case VIEW_STACK: return *f;
	case VIEW_FUNCTION:
		l.function = f->function;
		l.module = f->module;
		break;
	case VIEW_FILE: l.file = text_of(VIEW_FILE, f); break;
	case VIEW_MODULE: l.module = f->module; break;
	default: break;
	}
	return l;
}

static int grow_groups(struct groups *g)
{
	size_t n = g->allocated ? g->allocated * 2 : g->least;
	struct view_row *row = realloc(g->v->row, n * sizeof(*row));
	uint64_t *key;

	if (!row)
		return -ENOMEM;
	g->v->row = row;
	key = realloc(g->key, n * sizeof(*key));
	if (!key)
		return -ENOMEM;
	g->key = key;
	g->allocated = n;
	return 0;
}

/* The row of the group KEY; *NEW is set when it was not there. A stack has one row in a profile. */
static struct view_row *group(struct groups *g, uint64_t key, bool *new)
{
	uint32_t hash = hash_number(HASH_SEED, key), row = 0;

	if (g->v->key != VIEW_STACK)
		row = HASH_FIND(&g->rows, hash, n, g->key[n - 1] == key);
	*new = !row;
	if (row)
		return &g->v->row[row - 1];
	if (g->v->count == g->allocated && grow_groups(g))
		return NULL;
	if (g->v->key != VIEW_STACK && hash_index_add(&g->rows, hash, (uint32_t)g->v->count + 1))
		return NULL;
	g->key[g->v->count] = key;
	return &g->v->row[g->v->count++];
}

uint64_t view_error(double variance)
{
	double error = sqrt(variance) + 0.5;

	return error < (double)INT64_MAX ? (uint64_t)error : INT64_MAX; /* sizes may be made up */
}

static bool is_empty(const struct profile_row *r) { return !r->size && !r->count; }

static int gather(struct groups *g, const struct profile_row *r)
{
	enum view_key by = g->v->key;
	uint32_t site = 0;
	uint64_t key;
	struct view_row *row;
	bool new;

	if (by != VIEW_THREAD && by != VIEW_SIZE)
		site = sites_of(g->sites, r->stack);
	switch (by) {
	case VIEW_SITE: key = site; break;
	case VIEW_STACK: key = r->stack; break;
	case VIEW_THREAD: key = r->thread; break;
	case VIEW_SIZE: key = r->block; break;
	default:
		key = same_text(g, site);
		if (!key)
			return -ENOMEM;
	}
	row = group(g, key, &new);
	if (!row)
		return -ENOMEM;
	if (new) {
		*row = (struct view_row){ .stack = r->stack, .stack_size = r->size };
		if (by == VIEW_THREAD)
			row->thread = r->thread;
		else if (by == VIEW_SIZE)
			row->block = r->block;
		else
			row->frame = label(by, &sites_site(g->sites, site)->frame);
	} else if (r->size > row->stack_size) {
		row->stack = r->stack;
		row->stack_size = r->size;
	}
	row->size += r->size;
	row->count += r->count;
	row->total_size += r->total_size;
	row->total_count += r->total_count;
	row->temporary += r->temporary;
	row->usable += r->usable;
	row->before += r->before;
	row->count_before += r->count_before;
	row->variance += r->variance;
	row->held |= !is_empty(r);
	return 0;
}

static void leave_out_empty(struct view *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->count; i++)
		if (v->row[i].held)
			v->row[n++] = v->row[i];
	v->count = n;
}

/* ---- order --------------------------------------------------------------- */

static int compare_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : ""); }

static int down(int64_t a, int64_t b) { return a < b ? 1 : a > b ? -1 : 0; }
static int down_or_up(int64_t a, int64_t b, bool up) { return up ? down(b, a) : down(a, b); }
static int down_unsigned(uint64_t a, uint64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

/*
 * Biggest first, of a difference in which nothing has grown what shrank most; equals in an order
 * that does not depend on how the program was loaded.
 */
struct order {
	enum view_sort sort;
	bool shrunk;
	struct sites *sites;
	int err; /* of sites_rest(): from then on all rows are alike, so that sorting ends soon */
};

static int compare(const void *pa, const void *pb, void *ctx)
{
	const struct view_row *a = pa, *b = pb;
	struct order *order = ctx;
	int c = 0;

	if (!order->err)
		order->err = sites_rest(order->sites);
	if (order->err)
		return 0;
	switch (order->sort) {
	case SORT_COUNT: c = down_or_up(a->count, b->count, order->shrunk); break;
	case SORT_TOTAL: c = down_unsigned(a->total_size, b->total_size); break;
	case SORT_TEMPORARY: c = down_unsigned(a->temporary, b->temporary); break;
	default: break;
	}
	if (!c)
		c = down_or_up(a->size, b->size, order->shrunk);
	if (!c)
		c = down_or_up(a->count, b->count, order->shrunk);
	if (!c)
		c = down_unsigned(a->total_size, b->total_size);
	if (c)
		return c;
	c = compare_text(a->frame.file, b->frame.file);
	if (!c)
		c = a->frame.line < b->frame.line ? -1 : a->frame.line > b->frame.line;
	if (!c)
		c = compare_text(a->frame.function, b->frame.function);
	if (!c)
		c = compare_text(a->frame.module, b->frame.module);
	if (!c)
		c = a->block < b->block ? -1 : a->block > b->block;
	if (!c)
		c = a->thread < b->thread ? -1 : a->thread > b->thread;
	return c ? c : a->stack < b->stack ? -1 : a->stack > b->stack;
}

static void swap(struct view_row *a, struct view_row *b)
{
	struct view_row r = *a;

	*a = *b;
	*b = r;
}

/*
 * The LIMIT first rows in order come to the front: a heap of the best so far, the last of them on
 * top. Sorting them all would cost more than the rest.
 */
static void select_first(struct view *v, size_t limit, struct order *order)
{
	struct view_row *row = v->row;

	for (size_t i = 0; i < v->count; i++) {
		size_t at = i;

		if (i < limit) {
			while (at && compare(&row[at], &row[(at - 1) / 2], order) > 0) {
				swap(&row[at], &row[(at - 1) / 2]);
				at = (at - 1) / 2;
			}
			continue;
		}
		if (compare(&row[i], &row[0], order) > 0)
			continue;
		swap(&row[i], &row[0]);
		for (at = 0;;) {
			size_t child = 2 * at + 1;

			if (child >= limit)
				break;
			if (child + 1 < limit && compare(&row[child + 1], &row[child], order) > 0)
				child++;
			if (compare(&row[child], &row[at], order) <= 0)
				break;
			swap(&row[child], &row[at]);
			at = child;
		}
	}
}

static void cut(struct view *v, size_t limit)
{
	struct view_row *o = &v->others;

	for (size_t i = limit; i < v->count; i++) {
		const struct view_row *r = &v->row[i];

		o->size += r->size;
		o->count += r->count;
		o->total_size += r->total_size;
		o->total_count += r->total_count;
		o->temporary += r->temporary;
		o->usable += r->usable;
		o->before += r->before;
		o->count_before += r->count_before;
		o->variance += r->variance;
		o->merged++;
	}
	if (v->count > limit)
		v->count = limit;
}

/* Whether some of what V is sorted by has shrunk, and nothing grown. Its rows are all there. */
static bool has_shrunk(const struct view *v, enum view_sort sort)
{
	bool shrunk = false;

	for (size_t i = 0; i < v->count; i++) {
		int64_t change = sort == SORT_COUNT ? v->row[i].count : v->row[i].size;

		if (change > 0)
			return false;
		shrunk |= change < 0;
	}
	return shrunk && v->is_difference;
}

/* As has_shrunk(), of stacks that are to become a row each. */
static bool stacks_have_shrunk(const struct profile *p, enum view_sort sort, struct matcher *m)
{
	bool shrunk = false;

	for (size_t i = 0; i < p->count; i++) {
		int64_t change = sort == SORT_COUNT ? p->row[i].count : p->row[i].size;

		if (!change || !matches(m, p->row[i].stack))
			continue;
		if (change > 0)
			return false;
		shrunk = true;
	}
	return shrunk && p->is_difference;
}

static void reverse(struct view *v)
{
	for (size_t i = 0; i < v->count / 2; i++)
		swap(&v->row[i], &v->row[v->count - 1 - i]);
}

/* of a list of stacks, rows: as many as are asked for are held, and this many to choose from */
#define STACKS_ASKED 8192u
#define STACKS_HELD  32768u

int view_make(struct view *v, const struct profile *p, struct sites *sites,
	      const struct view_options *o)
{
	struct groups g = { .v = v, .sites = sites, .least = 512, .texts.texts = true };
	struct order order = { .sort = o->sort, .sites = sites };
	/* stacks that are to be left out need not be held until the end */
	size_t most = o->key == VIEW_STACK && o->limit && o->limit < STACKS_ASKED ? STACKS_HELD
										  : SIZE_MAX;
	struct matcher m;
	int err;

	*v = (struct view){ .key = o->key,
			    .ms = p->ms,
			    .since_ms = p->since_ms,
			    .has_totals = p->has_totals,
			    .has_usable = p->has_usable,
			    .is_difference = p->is_difference,
			    .estimated = p->estimated,
			    .has_error = p->has_variance && !p->is_difference };
	err = matcher_init(&m, o->match, sites, p);
	if (!err && p->is_difference && most != SIZE_MAX)
		order.shrunk = stacks_have_shrunk(p, o->sort, &m);
	while (o->key == VIEW_STACK && !o->match && g.least < p->count && g.least < most)
		/* each row is a group: what doubles on the way there would be held beside it */
		g.least *= 2;
	for (size_t i = 0; i < p->count && !err; i++) {
		err = sites_rest(sites);
		if (err || !matches(&m, p->row[i].stack) ||
		    (is_empty(&p->row[i]) && o->only_held && o->key == VIEW_STACK))
			continue;
		v->total_size += p->row[i].size;
		v->total_count += p->row[i].count;
		v->total_usable += p->row[i].usable;
		v->variance += p->row[i].variance;
		err = gather(&g, &p->row[i]);
		if (v->count >= most) {
			select_first(v, o->limit, &order);
			cut(v, o->limit);
			err = err ? err : order.err;
		}
	}
	matcher_release(&m);
	free(g.key);
	free(g.of_site);
	hash_index_release(&g.rows);
	intern_release(&g.texts);
	if (err) {
		view_release(v);
		return err;
	}
	if (o->only_held)
		leave_out_empty(v);
	if (most == SIZE_MAX)
		order.shrunk = has_shrunk(v, o->sort);
	v->shrunk = order.shrunk;
	if (o->limit && v->count / 4 > o->limit)
		select_first(v, o->limit, &order);
	if (v->count && o->limit && o->sort != SORT_NONE)
		qsort_r(v->row, v->count / 4 > o->limit ? o->limit : v->count, sizeof(*v->row),
			compare, &order);
	if (order.err) {
		view_release(v);
		return order.err;
	}
	cut(v, o->limit);
	v->reversed = o->reverse;
	if (o->reverse)
		reverse(v);
	return 0;
}

void view_release(struct view *v)
{
	free(v->row);
	v->row = NULL;
	v->count = 0;
}
