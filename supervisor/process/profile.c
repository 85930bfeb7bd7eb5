// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "ledger/weights.h"

/*
 * Copies of profiles, and differences: rows are sorted by stack, then one pass over both.
 */
int profile_copy(struct profile *to, const struct profile *from)
{
	struct profile_row *row = to->row;
	size_t room = to->room;

	if (room < from->count + 1) {
		room = from->count + 1;
		row = reallocarray(row, room, sizeof(*row));
	}
	if (!row)
		return -ENOMEM;
	if (from->count)
		memcpy(row, from->row, from->count * sizeof(*row));
	*to = *from;
	to->row = row;
	to->room = room;
	return 0;
}

static int by_stack(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static bool changed(const struct profile_row *r)
{
	return r->size || r->count || r->total_size || r->total_count || r->temporary;
}

/* NOW minus BEFORE; either may be NULL: there is no such row. */
static struct profile_row row_subtract(const struct profile_row *now,
				       const struct profile_row *before)
{
	static const struct profile_row none;
	struct profile_row r = now ? *now : (struct profile_row){ .stack = before->stack };

	before = before ? before : &none;
	r.size -= before->size;
	r.count -= before->count;
	r.before = before->size;
	r.count_before = before->count;
	/* BEFORE may be of another run, and larger */
	r.total_size -= least(r.total_size, before->total_size);
	r.total_count -= least(r.total_count, before->total_count);
	r.temporary -= least(r.temporary, before->temporary);
	return r;
}

void profile_sort(struct profile *p)
{
	for (size_t i = 1; i < p->count; i++)
		if (p->row[i].stack < p->row[i - 1].stack) {
			qsort(p->row, p->count, sizeof(*p->row), by_stack);
			return;
		}
}

/* Bounds *V by *LEFT, and takes it from that. */
static void bound(int64_t *v, int64_t *left)
{
	if (*v > *left)
		*v = *left;
	else if (*v < -*left)
		*v = -*left;
	*left -= *v < 0 ? -*v : *v;
}

/* Sizes are the process' word: they are bounded here, so that adding rows up cannot overflow. */
static void bound_rows(struct profile *p)
{
	int64_t size = PROFILE_SUM_MOST, count = PROFILE_SUM_MOST, usable = PROFILE_SUM_MOST;

	for (size_t i = 0; i < p->count; i++) {
		bound(&p->row[i].size, &size);
		bound(&p->row[i].count, &count);
		bound(&p->row[i].usable, &usable);
	}
}

void profile_settle(struct profile *p)
{
	profile_sort(p);
	bound_rows(p);
}

int profile_reserve(struct profile *p, size_t room)
{
	*p = (struct profile){ .row = malloc((room + 1) * sizeof(*p->row)), .room = room + 1 };
	if (!p->row)
		return -ENOMEM;
	memset(p->row, 0, p->room * sizeof(*p->row));
	return 0;
}

int profile_subtract(struct profile *p, struct profile *before)
{
	struct profile_row *row = malloc((p->count + before->count + 1) * sizeof(*row));
	size_t i = 0, j = 0, n = 0;

	if (!row)
		return -ENOMEM;
	profile_sort(p);
	profile_sort(before);
	while (i < p->count || j < before->count) {
		bool left = i < p->count &&
			    (j == before->count || p->row[i].stack <= before->row[j].stack);
		bool right = j < before->count &&
			     (i == p->count || before->row[j].stack <= p->row[i].stack);

		row[n] = row_subtract(left ? &p->row[i] : NULL, right ? &before->row[j] : NULL);
		if (!p->has_totals || !before->has_totals)
			row[n].total_size = row[n].total_count = row[n].temporary = 0;
		n += changed(&row[n]);
		i += left;
		j += right;
	}
	p->since_ms = before->ms;
	p->is_difference = true;
	p->has_totals &= before->has_totals;
	p->estimated |= before->estimated;
	p->has_variance = false;
	free(p->row);
	p->row = row;
	p->room = n;
	p->count = n;
	return 0;
}

void profile_reckon_variance(struct profile *p, uint64_t period)
{
	p->has_variance = period != 0;
	for (size_t i = 0; p->has_variance && i < p->count; i++)
		p->row[i].variance = weights_variance(p->row[i].size, p->row[i].count, period);
}

void profile_drop_unchanged(struct profile *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++)
		if (p->row[i].size || p->row[i].count)
			p->row[n++] = p->row[i];
	p->count = n;
}

struct profile_row profile_sum(const struct profile *p)
{
	struct profile_row all = { 0 };

	for (size_t i = 0; i < p->count; i++) {
		all.size += p->row[i].size;
		all.count += p->row[i].count;
		all.total_size += p->row[i].total_size;
		all.total_count += p->row[i].total_count;
		all.temporary += p->row[i].temporary;
	}
	return all;
}

size_t profile_holding(const struct profile *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++)
		n += p->row[i].count != 0;
	return n;
}

void profile_release(struct profile *p)
{
	free(p->row);
	*p = (struct profile){ 0 };
}
