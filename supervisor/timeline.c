/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Changes are absolute: what a line holds at a point is its last change up to there. To know a point's breakdown the changes up to it are read from the
 * front, 64 MB in some 10 ms, and nothing needs an index.
 *
 * Merging. Points are steps: each holds from its interval to that of the next. The older ones are looked at through a grid of G intervals: of all
 * steps that reach into a cell the highest is the cell's. What is chosen comes in ascending order, so one pass writes the new rows over the old ones:
 * changes are gathered up to the chosen point and written out for those lines that then hold something else than at the point written before.
 * Never more is written than has been read.
 */
void timeline_init(struct timeline *t, size_t budget)
{
	*t = (struct timeline){ .budget = budget, .room = budget, .step = 1 };
}

void timeline_release(struct timeline *t)
{
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
	return used(t) + t->lines * sizeof(struct timeline_held);
}

static struct timeline_point *points(const struct timeline *t) { return t->points.base; }
static struct timeline_held *changes(const struct timeline *t) { return t->changes.base; }

const struct timeline_point *timeline_point(const struct timeline *t, size_t i)
{
	return &points(t)[i];
}

/* ---- merging -------------------------------------------------------------------------------------------------------------------- */

struct merge {
	struct timeline *t;
	struct timeline_held *now, *out;	/* by line: at the point read last; written last. now[].line: it is in `dirty` */
	uint32_t *dirty;
	size_t dirties, read;			/* changes taken into `now` */
	size_t count, changed;			/* written */
	bool open;
	uint64_t cell, from;			/* of the cell that is open: number times grid, and where its point begins */
	uint64_t span;
	struct timeline_point best;
};

/* The open cell's point is written. */
static void cell_close(struct merge *m)
{
	struct timeline_point *p = points(m->t);
	struct timeline_held *change = changes(m->t);

	if (!m->open)
		return;
	m->open = false;
	if (m->count && m->best.end <= m->read && p[m->count - 1].ms == m->best.ms && p[m->count - 1].bytes == m->best.bytes)
		return;				/* the one before goes on */
	for (; m->read < m->best.end; m->read++) {
		struct timeline_held c = change[m->read];

		if (!m->now[c.line].line)
			m->dirty[m->dirties++] = c.line;
		m->now[c.line] = (struct timeline_held){ c.bytes, c.count, 1 };
	}
	for (size_t i = 0; i < m->dirties; i++) {
		uint32_t line = m->dirty[i];
		struct timeline_held *now = &m->now[line], *out = &m->out[line];

		now->line = 0;
		if (now->bytes == out->bytes && now->count == out->count)
			continue;
		*out = *now;
		change[m->changed++] = (struct timeline_held){ now->bytes, now->count, line };
	}
	m->dirties = 0;
	p[m->count++] = (struct timeline_point){ m->from, m->best.bytes, m->best.ms, m->span, m->changed };
}

/* Point P holds in the cell that INTERVAL is in, from there on. */
static void cell_see(struct merge *m, uint64_t interval, uint64_t grid, const struct timeline_point *p)
{
	uint64_t cell = interval - interval % grid;

	if (m->open && m->cell != cell)
		cell_close(m);
	if (!m->open) {
		m->open = true;
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
static void step_see(struct merge *m, uint64_t from, uint64_t end, uint64_t grid, const struct timeline_point *p)
{
	uint64_t second = from - from % grid + grid, last = (end - 1) - (end - 1) % grid;

	if (from >= end)
		return;
	cell_see(m, from, grid, p);
	if (second < end)
		cell_see(m, second, grid, p);	/* goes on until another point begins */
	if (last > second)
		cell_see(m, last, grid, p);
}

/* Below the interval LIMIT only one point in GRID intervals stays. */
static int merge(struct timeline *t, uint64_t limit, uint64_t grid)
{
	struct merge m = { .t = t };
	size_t n = t->count;

	m.now = calloc(t->lines + 1, sizeof(*m.now));
	m.out = calloc(t->lines + 1, sizeof(*m.out));
	m.dirty = malloc((t->lines + 1) * sizeof(*m.dirty));
	if (!m.now || !m.out || !m.dirty) {
		free(m.now);
		free(m.out);
		free(m.dirty);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		struct timeline_point p = points(t)[i];
		uint64_t end = i + 1 < n ? points(t)[i + 1].interval : p.interval + 1;
		uint64_t middle = p.interval < limit ? (end < limit ? end : limit) : p.interval;

		step_see(&m, p.interval, middle, grid, &p);
		step_see(&m, middle, end, 1, &p);
	}
	cell_close(&m);
	t->count = m.count;
	t->changed = m.changed;
	free(m.now);
	free(m.out);
	free(m.dirty);
	if (limit > t->coarse_until)
		t->coarse_until = limit;
	if (grid > t->step)
		t->step = grid;
	return 0;
}

/* The interval of the point that the second half of the memory begins with; never above the last one's. */
static uint64_t middle_of(const struct timeline *t)
{
	size_t i = 0;

	while (i + 1 < t->count && (i + 1) * sizeof(struct timeline_point) + points(t)[i].end * sizeof(struct timeline_held) < used(t) / 2)
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

static int coarsen(struct timeline *t)
{
	uint64_t limit = middle_of(t), grid = finest(t, limit), first = points(t)[0].interval, last = points(t)[t->count - 1].interval;
	int err = 0;

	while (used(t) > t->budget / 4 * 3 && t->count > 2 && !err) {
		grid *= 2;
		if (grid > limit - first || grid >= 1u << 23) {	/* the older half is one point already */
			if (limit == last)
				break;
			limit = last;
			grid = finest(t, limit) * 2;
		}
		err = merge(t, limit - limit % grid, grid);
	}
	/* So many lines that one point fills the budget: then it is exceeded, but not looked at again for each point. */
	t->room = used(t) + t->budget / 4 > t->budget ? used(t) + t->budget / 4 : t->budget;
	return err;
}

/* ---- writing -------------------------------------------------------------------------------------------------------------------- */

int timeline_hold(struct timeline *t, uint32_t line, uint64_t bytes, uint32_t count)
{
	struct timeline_held *last;

	if (line >= t->lines) {
		if (arena_reach(&t->last, (line + 1) * sizeof(*last)))
			return -ENOMEM;
		t->lines = line + 1;
	}
	last = (struct timeline_held *)t->last.base + line;
	if (last->bytes == bytes && last->count == count)
		return 0;
	if (arena_reach(&t->changes, (t->changed + 1) * sizeof(*last)))
		return -ENOMEM;
	last->bytes = bytes;
	last->count = count;
	changes(t)[t->changed++] = (struct timeline_held){ bytes, count, line };
	return 0;
}

int timeline_add(struct timeline *t, uint64_t interval, uint64_t bytes, uint64_t ms)
{
	const struct timeline_point *before = t->count ? &points(t)[t->count - 1] : NULL;
	uint64_t was = before ? before->bytes : 0, end = before ? before->end : 0;

	if (was == bytes && end == t->changed)
		return 0;
	if (arena_reach(&t->points, (t->count + 1) * sizeof(*before)))
		return -ENOMEM;			/* its changes belong to the next one */
	points(t)[t->count++] = (struct timeline_point){ interval, bytes, ms, 1, t->changed };
	return used(t) > t->room ? coarsen(t) : 0;
}

/* ---- reading -------------------------------------------------------------------------------------------------------------------- */

size_t timeline_find(const struct timeline *t, uint64_t interval)
{
	size_t low = 0, high = t->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (points(t)[middle].interval <= interval)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t timeline_highest(const struct timeline *t)
{
	size_t best = 0;

	for (size_t i = 0; i < t->count; i++)
		if (!best || points(t)[i].bytes > points(t)[best - 1].bytes)
			best = i + 1;
	return best;
}

struct timeline_held *timeline_breakdown(const struct timeline *t, size_t i, size_t lines)
{
	struct timeline_held *held = calloc(lines + 1, sizeof(*held));
	const struct timeline_held *change = changes(t);

	for (size_t j = 0; held && j < points(t)[i].end; j++)
		if (change[j].line < lines)
			held[change[j].line] = change[j];
	return held;
}
