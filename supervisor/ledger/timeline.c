// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

/*
 * Changes are absolute: what a stack total holds at a point is its last change up to there. To know
 * a point's breakdown the changes up to it are read from the front, 64 MB in some 10 ms, and
 * nothing needs an index.
 *
 * Merging. Points are steps: each holds from its interval to that of the next. The older ones are
 * looked at through a grid of G intervals: of all steps that reach into a cell the highest is the
 * cell's. What is chosen comes in ascending order, so one pass writes the new rows over the old
 * ones: changes are gathered up to the chosen point and written out for those stack totals that
 * then hold something else than at the point written before. Never more is written than has been
 * read.
 *
 * With 10^5 stack totals that takes 50 ms and more, and a program waits as long as its ledger is
 * busy. So it is done a little at a time (timeline_work), while new points come. In between there
 * is a gap in both rows, which readers pass over: what was written, then what belongs to no closed
 * cell yet.
 *
 *	points   | written | gap | from the one on that opened the present cell ... |
 *	changes  | written | gap | not read yet ...                                |
 */
#define WORK_LEAST 64u

struct merge {
	/* below the interval LIMIT only one point in GRID intervals stays */
	uint64_t limit, grid;
	/* LIMIT was, before it was made a multiple of GRID; the last point was, when it began */
	uint64_t wanted, last;
	/*
	 * struct timeline_held by stack total: at the point read last; written last. now[].total:
	 * it is in `dirty`
	 */
	struct arena now, out;
	struct arena dirty;    /* uint32_t: a stack total */
	size_t dirties, read;  /* changes taken into `now` */
	size_t at, first;      /* the point to be looked at; that opened the cell */
	bool moving;	       /* what comes is only moved */
	size_t count, changed; /* written */
	bool open;
	/* of the cell that is open: number times grid, and where its point begins */
	uint64_t cell, from;
	uint64_t span;
	struct timeline_point best;
};

void timeline_init(struct timeline *t, size_t budget)
{
	*t = (struct timeline){ .budget = budget, .room = budget - budget / 8, .step = 1 };
}

static void merge_free(struct timeline *t)
{
	struct merge *m = t->merge;

	if (!m)
		return;
	arena_release(&m->now);
	arena_release(&m->out);
	arena_release(&m->dirty);
	free(m);
	t->merge = NULL;
}

void timeline_release(struct timeline *t)
{
	merge_free(t);
	arena_release(&t->points);
	arena_release(&t->changes);
	arena_release(&t->last);
}

static size_t used(const struct timeline *t)
{
	return t->count * sizeof(struct timeline_point) + t->changed * sizeof(struct timeline_held);
}

size_t timeline_memory(const struct timeline *t)
{
	return used(t) + t->totals * sizeof(struct timeline_held);
}

static struct timeline_point *points(const struct timeline *t) { return t->points.base; }
static struct timeline_held *changes(const struct timeline *t) { return t->changes.base; }

/* The rows' ends, gaps included. */
static size_t points_end(const struct timeline *t)
{
	return t->count + (t->merge ? t->merge->first - t->merge->count : 0);
}
static size_t changes_end(const struct timeline *t)
{
	return t->changed + (t->merge ? t->merge->read - t->merge->changed : 0);
}

const struct timeline_point *timeline_point(const struct timeline *t, size_t i)
{
	return &points(
		t)[t->merge && i >= t->merge->count ? i - t->merge->count + t->merge->first : i];
}

/* ---- merging ------------------------------------------------------------- */

/* The gap has become another one: ENDS are as they were. */
static void merge_count(struct timeline *t, size_t points_were, size_t changes_were)
{
	const struct merge *m = t->merge;

	t->count = points_were - (m->first - m->count);
	t->changed = changes_were - (m->read - m->changed);
}

/* The open cell's point is written. */
static void cell_close(struct timeline *t)
{
	struct merge *m = t->merge;
	struct timeline_point *p = points(t);
	struct timeline_held *change = changes(t), *now = m->now.base, *out = m->out.base;
	uint32_t *dirty = m->dirty.base;

	if (!m->open)
		return;
	m->open = false;
	if (m->count && m->best.end <= m->read && p[m->count - 1].ms == m->best.ms &&
	    p[m->count - 1].bytes == m->best.bytes) {
		if (m->span > p[m->count - 1].span) /* the one before goes on */
			p[m->count - 1].span = m->span;
		return;
	}
	for (; m->read < m->best.end; m->read++) {
		struct timeline_held c = change[m->read];

		if (!now[c.total].total)
			dirty[m->dirties++] = c.total;
		now[c.total] = (struct timeline_held){ c.bytes, c.count, 1 };
	}
	for (size_t i = 0; i < m->dirties; i++) {
		uint32_t total = dirty[i];

		now[total].total = 0;
		if (now[total].bytes == out[total].bytes && now[total].count == out[total].count)
			continue;
		out[total] = now[total];
		change[m->changed++] =
			(struct timeline_held){ now[total].bytes, now[total].count, total };
	}
	m->dirties = 0;
	p[m->count++] =
		(struct timeline_point){ m->from, m->best.bytes, m->best.ms, m->span, m->changed };
}

/* Point P holds in the cell that INTERVAL is in, from there on. */
static void cell_see(struct timeline *t, uint64_t interval, uint64_t grid,
		     const struct timeline_point *p)
{
	struct merge *m = t->merge;
	uint64_t cell = interval - interval % grid;

	if (m->open && m->cell != cell)
		cell_close(t);
	if (!m->open) {
		m->open = true;
		m->first = m->at;
		m->cell = cell;
		m->from = interval;
		m->span = p->span;
		m->best = *p;
		return;
	}
	m->span = grid > m->span ? grid : m->span;
	if (p->bytes > m->best.bytes)
		m->best = *p;
}

/* Point P holds in [FROM, END). */
static void step_see(struct timeline *t, uint64_t from, uint64_t end, uint64_t grid,
		     const struct timeline_point *p)
{
	uint64_t second = from - from % grid + grid, last = (end - 1) - (end - 1) % grid;

	if (from >= end)
		return;
	cell_see(t, from, grid, p);
	if (second < end)
		cell_see(t, second, grid, p); /* goes on until another point begins */
	if (last > second)
		cell_see(t, last, grid, p);
}

/* Point P, which is young, goes on as it is: all before it has been read. */
static void merge_move(struct timeline *t, struct timeline_point p)
{
	struct merge *m = t->merge;
	size_t n = p.end - m->read;

	memmove(changes(t) + m->changed, changes(t) + m->read, n * sizeof(struct timeline_held));
	m->read += n;
	m->changed += n;
	p.end = m->changed;
	points(t)[m->count++] = p;
}

/* The next point of END; returns what that cost, in changes. */
static size_t merge_one(struct timeline *t, size_t end_of_points)
{
	struct merge *m = t->merge;
	struct timeline_point p = points(t)[m->at];
	uint64_t end = m->at + 1 < end_of_points ? points(t)[m->at + 1].interval : p.interval + 1;
	uint64_t middle = p.interval < m->limit ? (end < m->limit ? end : m->limit) : p.interval;
	size_t read = m->read;

	if (p.interval >= m->limit)
		cell_close(t);
	if (p.interval >= m->limit && m->moving) {
		merge_move(t, p);
		m->at++;
		m->first = m->at;
		return (m->read - read) / 8 + 1;
	}
	/* its cell is its own: with it all is read up to there */
	m->moving = p.interval >= m->limit;
	step_see(t, p.interval, middle, m->grid, &p);
	step_see(t, middle, end, 1, &p);
	m->at++;
	return m->read - read + 1;
}

/* Whether no point is in a closed cell and in the open one: readers may come. */
static bool is_clean(const struct timeline *t)
{
	const struct merge *m = t->merge;

	return !m->open || m->from == points(t)[m->first].interval;
}

static int merge_reach(struct timeline *t)
{
	struct merge *m = t->merge;

	if (arena_reach(&m->now, t->totals * sizeof(struct timeline_held)) ||
	    arena_reach(&m->out, t->totals * sizeof(struct timeline_held)) ||
	    arena_reach(&m->dirty, t->totals * sizeof(uint32_t)))
		return -ENOMEM;
	return 0;
}

static int merge_begin(struct timeline *t, uint64_t limit, uint64_t grid, uint64_t last)
{
	t->merge = calloc(1, sizeof(*t->merge));
	if (!t->merge)
		return -ENOMEM;
	*t->merge = (struct merge){
		.limit = limit - limit % grid, .grid = grid, .wanted = limit, .last = last
	};
	if (t->merge->limit > t->coarse_until)
		t->coarse_until = t->merge->limit;
	if (grid > t->step)
		t->step = grid;
	return 0;
}

/*
 * The interval of the point that the second half of the memory begins with; never above the last
 * one's.
 */
static uint64_t middle_of(const struct timeline *t)
{
	size_t i = 0;

	while (i + 1 < t->count && (i + 1) * sizeof(struct timeline_point) +
						   points(t)[i].end * sizeof(struct timeline_held) <
					   used(t) / 2)
		i++;
	return points(t)[i].interval;
}

/* The least of the spans below LIMIT. */
static uint64_t finest(const struct timeline *t, uint64_t limit)
{
	uint64_t span = points(t)[0].span;

	for (size_t i = 0; i < t->count && points(t)[i].interval < limit; i++)
		if (points(t)[i].span < span)
			span = points(t)[i].span;
	return span;
}

/*
 * Another round, if it is needed: AFTER the one with that limit, grid and last point, 0: the first.
 */
static int coarsen(struct timeline *t, uint64_t limit, uint64_t grid, uint64_t last)
{
	uint64_t first = points(t)[0].interval;

	if (!grid) {
		limit = middle_of(t);
		grid = finest(t, limit);
		last = points(t)[t->count - 1].interval;
	}
	if (used(t) > t->budget / 4 * 3 && t->count > 2) {
		grid *= 2;
		if (grid <= limit - first && grid < 1u << 23)
			return merge_begin(t, limit, grid, last);
		if (limit != last) { /* the older half is one point already */
			limit = last;
			return merge_begin(t, limit, finest(t, limit) * 2, last);
		}
		if (last != points(t)[t->count - 1].interval) /* others have come meanwhile */
			return coarsen(t, 0, 0, 0);
	}
	/*
	 * So many stack totals that one point fills the budget: then it is exceeded, but not looked
	 * at again for each point.
	 */
	t->room = used(t) + t->budget / 4 > t->budget - t->budget / 8 ? used(t) + t->budget / 4
								      : t->budget - t->budget / 8;
	return 0;
}

/* All has been looked at. What was changed since the last point stays for the next one. */
static int merge_end(struct timeline *t, size_t changes_were)
{
	struct merge *m = t->merge;
	uint64_t limit = m->wanted, grid = m->grid, last = m->last;
	size_t n;

	cell_close(t);
	n = changes_were - m->read;
	memmove(changes(t) + m->changed, changes(t) + m->read, n * sizeof(struct timeline_held));
	t->count = m->count;
	t->changed = m->changed + n;
	merge_free(t);
	return coarsen(t, limit, grid, last);
}

int timeline_work(struct timeline *t, size_t work)
{
	size_t end, changed, done = 0;
	int err = 0;

	while (t->merge && !err && done < work) {
		end = points_end(t);
		changed = changes_end(t);
		err = merge_reach(t);
		if (err)
			break;
		while (t->merge->at < end && (done < work || !is_clean(t)))
			done += merge_one(t, end);
		if (t->merge->at == end)
			err = merge_end(t, changed);
		else
			merge_count(t, end, changed);
	}
	return err;
}

/* ---- writing ------------------------------------------------------------- */

int timeline_hold(struct timeline *t, uint32_t total, uint64_t bytes, uint32_t count)
{
	struct timeline_held *last;
	size_t end;

	if (total >= t->totals) {
		if (arena_reach(&t->last, (total + 1) * sizeof(*last)))
			return -ENOMEM;
		t->totals = total + 1;
	}
	last = (struct timeline_held *)t->last.base + total;
	if (last->bytes == bytes && last->count == count)
		return 0;
	end = changes_end(t);
	if (t->budget && arena_reach(&t->changes, (end + 1) * sizeof(*last)))
		return -ENOMEM;
	last->bytes = bytes;
	last->count = count;
	if (t->budget)
		changes(t)[end] = (struct timeline_held){ bytes, count, total };
	t->changed++;
	return 0;
}

int timeline_add(struct timeline *t, uint64_t interval, uint64_t bytes, uint64_t ms)
{
	const struct timeline_point *before = t->count ? timeline_point(t, t->count - 1) : NULL;
	uint64_t was = before ? before->bytes : 0, end = before ? before->end : 0;
	size_t at = t->budget ? points_end(t) : 0, changed = changes_end(t);
	int err = 0;

	if (was == bytes && end == changed)
		return 0;
	if (arena_reach(&t->points, (at + 1) * sizeof(*before)))
		return -ENOMEM; /* its changes belong to the next one */
	points(t)[at] = (struct timeline_point){ interval, bytes, ms, 1, changed };
	t->count = t->budget ? t->count + 1 : 1;
	if (t->budget && !t->merge && used(t) > t->room)
		err = coarsen(t, 0, 0, 0);
	/* if need be, all of it, so that the budget is kept */
	if (!err && t->merge)
		err = timeline_work(t, used(t) > t->budget ? SIZE_MAX : changed - end + WORK_LEAST);
	return err;
}

/* ---- reading ------------------------------------------------------------- */

size_t timeline_find(const struct timeline *t, uint64_t interval)
{
	return SEARCH(i, t->count, timeline_point(t, i)->interval <= interval);
}

size_t timeline_highest(const struct timeline *t)
{
	size_t best = 0;

	for (size_t i = 0; i < t->count; i++)
		if (!best || timeline_point(t, i)->bytes > timeline_point(t, best - 1)->bytes)
			best = i + 1;
	return best;
}

struct timeline_held *timeline_breakdown(const struct timeline *t, size_t i, size_t totals)
{
	struct timeline_held *held = calloc(totals + 1, sizeof(*held));
	const struct timeline_held *change = changes(t);

	const struct merge *m = t->merge;
	size_t end = t->budget ? timeline_point(t, i)->end : 0;

	for (size_t j = 0; held && j < end; j++) {
		if (m && i >= m->count && j == m->changed) { /* over the gap */
			j = m->read;
			if (j >= end)
				break;
		}
		if (change[j].total < totals)
			held[change[j].total] = change[j];
	}
	return held;
}
