// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/weights.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"

/*
 * A block of SIZE bytes is sampled with the probability p = 1 - exp(-SIZE / PERIOD), as each of its
 * bytes is hit or not without regard to the others. Let it stand for 1/p blocks of its size, and
 * every sum over sampled blocks is, on average, the sum over all. A block of no bytes is sampled
 * like one of one byte.
 *
 * Sampled blocks are few and their entries lie in no order, so they have a table of their own
 * beside that of all blocks (blocks.h): linear probing, no marks left by what is taken out.
 */
#define LEAST	    64u
#define PERIOD_MOST ((uint64_t)1 << 46)

static size_t place(const struct weights *w, raddr_t address)
{
	return (size_t)((address >> 4 ^ address << 60) * w->factor >> 20) & w->mask;
}

void weights_release(struct weights *w)
{
	free(w->entry);
	*w = (struct weights){ 0 };
}

int weights_copy(struct weights *to, const struct weights *from)
{
	*to = *from;
	if (!from->entry)
		return 0;
	to->entry = malloc((from->mask + 1) * sizeof(*to->entry));
	if (!to->entry) {
		*to = (struct weights){ 0 };
		return -ENOMEM;
	}
	memcpy(to->entry, from->entry, (from->mask + 1) * sizeof(*to->entry));
	return 0;
}

size_t weights_memory(const struct weights *w)
{
	return w->entry ? (w->mask + 1) * sizeof(*w->entry) : 0;
}

/* The whole part of AMOUNT and what was left over; the rest is left over. */
static uint64_t whole(double amount, double *left)
{
	double n = floor(amount + *left);

	*left += amount - n;
	return (uint64_t)n;
}

struct weight weights_of(struct weights *w, uint64_t size, uint64_t period)
{
	double stands_for;

	if (!period)
		return (struct weight){ size, 1 };
	if (period > PERIOD_MOST) /* the process' word */
		period = PERIOD_MOST;
	stands_for = -1 / expm1(-(double)(size ? size : 1) / (double)period);
	return (struct weight){ whole((double)size * stands_for, &w->bytes),
				whole(stands_for, &w->count) };
}

/*
 * A block of A bytes is sampled with p and counts for B = A / p. The variance of the whole is
 * estimated by the sum of A^2 * (1 - p) / p^2, which is B * (B - A), over the blocks that were
 * sampled (Horvitz and Thompson, 1952). Of N blocks of A bytes, sampled or not, it is
 * N * A^2 * (1 - p) / p.
 */
unsigned __int128 weight_variance(struct weight w, uint64_t size)
{
	return w.bytes > size ? (unsigned __int128)w.bytes * (w.bytes - size) : 0;
}

double weights_variance(int64_t bytes, int64_t count, uint64_t period)
{
	double a, p;

	if (count <= 0 || bytes <= 0 || !period)
		return 0;
	a = (double)bytes / (double)count;
	p = -expm1(-a / (double)period);
	return (double)count * a * a * (1 - p) / p;
}

static int grow(struct weights *w)
{
	size_t n = w->entry ? (w->mask + 1) * 2 : LEAST;
	struct weights old = *w;

	w->entry = calloc(n, sizeof(*w->entry));
	if (!w->entry) {
		*w = old;
		return -ENOMEM;
	}
	if (!w->factor)
		w->factor = secret(0);
	w->mask = n - 1;
	w->used = 0;
	for (size_t i = 0; old.entry && i <= old.mask; i++)
		if (old.entry[i].address &&
		    weights_put(w, old.entry[i].address, &old.entry[i].weight))
			abort(); /* there is room */
	free(old.entry);
	return 0;
}

/* Where ADDRESS is, or belongs. */
static size_t find(const struct weights *w, raddr_t address)
{
	size_t i = place(w, address);

	while (w->entry[i].address && w->entry[i].address != address)
		i = (i + 1) & w->mask;
	return i;
}

int weights_put(struct weights *w, raddr_t address, const struct weight *weight)
{
	size_t i;

	if ((!w->entry || w->used * 2 > w->mask) && grow(w))
		return -ENOMEM;
	i = find(w, address);
	w->used += !w->entry[i].address;
	w->entry[i] = (struct weights_entry){ address, *weight };
	return 0;
}

bool weights_get(const struct weights *w, raddr_t address, struct weight *weight)
{
	const struct weights_entry *e = w->entry ? &w->entry[find(w, address)] : NULL;

	if (!e || !e->address)
		return false;
	*weight = e->weight;
	return true;
}

/* Those behind that could not lie nearer to their places move up. */
void weights_take(struct weights *w, raddr_t address)
{
	size_t hole, i;

	if (!w->entry || !address)
		return;
	hole = find(w, address);
	if (!w->entry[hole].address)
		return;
	w->used--;
	for (i = (hole + 1) & w->mask; w->entry[i].address; i = (i + 1) & w->mask) {
		if (((i - place(w, w->entry[i].address)) & w->mask) < ((i - hole) & w->mask))
			continue;
		w->entry[hole] = w->entry[i];
		hole = i;
	}
	w->entry[hole].address = 0;
}
