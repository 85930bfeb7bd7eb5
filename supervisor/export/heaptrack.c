// SPDX-License-Identifier: GPL-3.0-or-later
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/intern.h"
#include "base/search.h"
#include "export/trie.h"

/*
 * heaptrack's file, version 3, as text: for heaptrack_gui and heaptrack_print. It is a log of
 * calls, but only sums by stack are kept here; so a log is made up that comes to the same sums.
 * Each stack's blocks are of four kinds:
 *
 *	        start    peak    end
 *	both      +....................		live at the peak and at the end
 *	peak      +........-				live at the peak only
 *	end                  +..........		live at the end only
 *	gone   +-					at neither
 *
 * How many are of which kind is not known either, but for their sums: what is live at the peak, at
 * the lowest point after it, at the end, what was allocated in total. As many as these allow are
 * taken to be `both`. Within a kind all blocks of a stack have one size, or two that differ by 1
 * byte, so that the sums are exact.
 *
 * So the reader's totals, peak, leaks, temporaries and calls are true, by stack and in sum; sizes are
 * averages, and in between its curves have the shape of the true one, as far as calls in this order
 * can: they rise to the peak, fall to the lowest point after it, and rise to the end; of each stack
 * as much at a time as of all. The file says so. (A temporary block that was live at the peak is not
 * told to be temporary.)
 */
enum { MOST_SIZES = 10 };

struct kind {
	uint64_t count, bytes;
};
struct stack_log {
	uint32_t trace;
	uint64_t temporary;
	struct kind both, peak, end, gone;
	uint64_t low; /* blocks that were live when the least was, after the peak */
	/* its alloc-infos, one for each size: two of each kind, and two by divide_largest() */
	struct info {
		uint64_t size, number;
	} info[MOST_SIZES];
	unsigned infos;
};
/* Blocks of one size and stack. */
struct size_class {
	struct stack_log *l;
	uint64_t size, count;
};
struct heaptrack {
	FILE *out;
	const struct export *e;
	struct trie trie;
	struct stack_log *log;
	size_t logs;
	struct profile at_peak, at_low;
	uint64_t peak;	 /* bytes */
	uint64_t low_ms; /* when the least was live after the peak, of the process; */
	double low;	 /* bytes */
	bool has_low;	 /* at_low is that; else it is the end */
	uint64_t infos;	 /* alloc-infos written */
	/* blocks that are gone, but for the temporary ones */
	struct size_class *passing;
	size_t passings;
	/* a block of kind `peak` that was taken before the others of its stack */
	struct size_class early;
	uint64_t stamped; /* the last time that was written */
};

/* ---- moments ----------------------------------------------------------------- */

/* What is live at MS of the process, about. */
static double live_at(const struct export *e, uint64_t ms)
{
	size_t n = SEARCH(i, e->points, e->point[i].from_ms <= ms);

	return n ? (double)e->point[n - 1].bytes : 0;
}

/* When the least was live between PEAK and the end, how much, and of which stacks. */
static int find_lowest(struct heaptrack *h)
{
	const struct export *e = h->e;
	uint64_t end = e->now_ms > e->peak_ms ? e->now_ms : e->peak_ms;

	h->low_ms = end;
	h->low = live_at(e, end);
	for (size_t i = 0; i < e->points; i++) {
		const struct export_point *p = &e->point[i];

		if (p->from_ms < e->peak_ms || p->from_ms >= end || (double)p->bytes >= h->low)
			continue;
		h->low = (double)p->bytes;
		h->low_ms = p->from_ms;
	}
	h->has_low = e->past && h->low_ms < end;
	return h->has_low ? e->past(e->ctx, h->low_ms, &h->at_low) : 0;
}

/* ---- which blocks -------------------------------------------------------- */

/*
 * COUNT blocks are live both at the peak and at the end: how many bytes may they have? At least
 * *LOW, at most *HIGH; false: it cannot be. A kind without blocks has no bytes, and none that is
 * gone was larger than MOST on average: it would have made a peak of its own.
 */
static bool both_bytes(struct kind all, struct kind peak, struct kind end, uint64_t count,
		       uint64_t most, uint64_t *bytes)
{
	int64_t gone = (int64_t)(all.count + count) - (int64_t)(peak.count + end.count),
		spare = (int64_t)all.bytes - (int64_t)(peak.bytes + end.bytes);
	int64_t low = spare < 0 ? -spare : 0,
		high = (int64_t)(peak.bytes < end.bytes ? peak.bytes : end.bytes);

	if (gone < 0)
		return false;
	if ((__int128)gone * (int64_t)most - spare < high)
		high = gone * (int64_t)most - spare;
	if (count == 0)
		high = high < 0 ? high : 0;
	if (count == peak.count && (int64_t)peak.bytes > low)
		low = (int64_t)peak.bytes;
	if (count == end.count && (int64_t)end.bytes > low)
		low = (int64_t)end.bytes;
	*bytes = (uint64_t)high;
	return low <= high;
}

/*
 * The kinds of a stack's blocks: so far, `gone` is all of them, `peak` and `end` what is live then,
 * and `both` is empty. What really happened is one solution, so there is one; but for
 * mappings that were unmapped in part, which have shrunk without a call: then none is taken to be
 * `both`, and what is missing in total is added.
 */
static void divide(struct stack_log *l, uint64_t most)
{
	struct kind all = l->gone, peak = l->peak, end = l->end;
	uint64_t few = peak.count < end.count ? peak.count : end.count,
		 low = l->low < few ? l->low : few, bytes = 0, count = 0;
	/* Only at the ends is the answer another one than at the number before. */
	uint64_t tried[] = { low, low - 1, few, few - 1 };
	bool found = false;

	for (size_t i = 0; i < sizeof(tried) / sizeof(*tried) && !found; i++) {
		found = tried[i] <= few && both_bytes(all, peak, end, tried[i], most, &bytes);
		count = found ? tried[i] : 0;
	}
	if (!found)
		bytes = 0;
	l->both = (struct kind){ count, bytes };
	l->peak = (struct kind){ peak.count - count, peak.bytes - bytes };
	l->end = (struct kind){ end.count - count, end.bytes - bytes };
	l->gone = (struct kind){ 0 };
	if (all.count + count > peak.count + end.count)
		l->gone.count = all.count + count - peak.count - end.count;
	if (l->gone.count && all.bytes + bytes > peak.bytes + end.bytes)
		l->gone.bytes = all.bytes + bytes - peak.bytes - end.bytes;
}

/* Of a difference there may be more bytes in as many blocks: then it is one. */
static struct kind kind_of(int64_t count, int64_t bytes)
{
	return (struct kind){ count > 0 ? (uint64_t)count : bytes > 0,
			      bytes > 0 ? (uint64_t)bytes : 0 };
}

/* Of what has come since a moment the total may not be known: it is at least K. */
static void at_least(struct kind *all, struct kind k)
{
	all->count = all->count > k.count ? all->count : k.count;
	all->bytes = all->bytes > k.bytes ? all->bytes : k.bytes;
}

static void add(struct kind *to, struct kind k)
{
	to->count += k.count;
	to->bytes += k.bytes;
}

static int by_trace(const void *a, const void *b)
{
	const struct stack_log *x = a, *y = b;

	return x->trace < y->trace ? -1 : x->trace > y->trace;
}

/* Stacks may differ in nothing that is told of them: then they are one. */
static void merge(struct heaptrack *h)
{
	size_t n = 0;

	qsort(h->log, h->logs, sizeof(*h->log), by_trace);
	for (size_t i = 0; i < h->logs; i++) {
		struct stack_log *l = &h->log[i], *to = &h->log[n - (n > 0)];

		if (!n || to->trace != l->trace) {
			h->log[n++] = *l;
			continue;
		}
		to->temporary += l->temporary;
		to->low += l->low;
		add(&to->gone, l->gone);
		add(&to->peak, l->peak);
		add(&to->end, l->end);
	}
	h->logs = n;
}

static const struct profile_row *row_of(const struct profile *p, uint32_t stack)
{
	size_t at = SEARCH(i, p->count, p->row[i].stack < stack);

	return at < p->count && p->row[at].stack == stack ? &p->row[at] : NULL;
}

static int collect(struct heaptrack *h)
{
	const struct view *v = h->e->view;
	int err = 0;

	h->log = calloc(v->count + 1, sizeof(*h->log));
	if (!h->log)
		return -ENOMEM;
	profile_sort(&h->at_peak);
	profile_sort(&h->at_low);
	for (size_t i = 0; i < v->count && !err; i++) {
		const struct view_row *r = &v->row[i];
		const struct profile_row *p = row_of(&h->at_peak, r->stack),
					 *low = row_of(&h->at_low, r->stack);
		struct stack_log *l = &h->log[h->logs++];

		err = export_rest(h->e);
		if (!err)
			err = trie_stack(&h->trie, h->e, r->stack, &l->trace);
		l->temporary = r->temporary;
		l->gone = kind_of((int64_t)r->total_count, (int64_t)r->total_size);
		l->peak = p ? kind_of(p->count, p->size) : (struct kind){ 0 };
		l->end = kind_of(r->count, r->size);
		at_least(&l->gone, l->peak);
		at_least(&l->gone, l->end);
		l->low = !h->has_low ? l->end.count
			 : low	     ? kind_of(low->count, low->size).count
				     : 0;
	}
	merge(h);
	for (size_t i = 0; i < h->logs; i++) {
		divide(&h->log[i], h->peak);
		if (h->log[i].temporary > h->log[i].gone.count)
			h->log[i].temporary = h->log[i].gone.count;
	}
	return err;
}

/* ---- definitions --------------------------------------------------------- */

static void put_string(FILE *out, const char *text)
{
	char *copy = escape_copy(text);

	fprintf(out, "s %zx ", copy ? strlen(copy) : 0);
	fputs(copy ? copy : "", out);
	putc('\n', out);
	free(copy);
}

static void put_frames(struct heaptrack *h)
{
	struct intern strings = { .texts = true };
	size_t said = 0;

	for (size_t i = 0; i < h->trie.frames; i++) {
		const struct trie_frame *f = &h->trie.frame[i];
		uint32_t module = intern(&strings, f->at.module ? f->at.module : "??"),
			 function = intern(&strings, export_name(&f->at));
		uint32_t file = f->at.file ? intern(&strings, f->at.file) : 0;

		while (said < strings.count)
			put_string(h->out, strings.key[said++]);
		fprintf(h->out, "i %" PRIx64 " %x %x", f->address, module, function);
		if (file)
			fprintf(h->out, " %x %x", file, f->at.line);
		putc('\n', h->out);
	}
	intern_release(&strings);
	for (size_t i = 1; i < h->trie.nodes; i++)
		fprintf(h->out, "t %x %x\n", h->trie.node[i].frame + 1, h->trie.node[i].parent);
}

/* ---- calls --------------------------------------------------------------- */

/*
 * What the readers (1.4) do with alloc-infos decides how they are written. They count an info's
 * calls at its number, and add to that table one at a time: so infos are numbered in the order of
 * their first `+`, each has one, and no two read the same. They take a block for temporary if the
 * call before the `-` was the `+` of the same info, or was a `-` and the info is number 0. So a
 * block that is not temporary is given back after another's `-` or `+`, and number 0 should have no
 * blocks that are given back one after another.
 */
static uint64_t info(struct heaptrack *h, struct stack_log *l, uint64_t size)
{
	unsigned i = 0;

	while (i < l->infos && l->info[i].size != size)
		i++;
	if (i == l->infos) {
		assert(i < MOST_SIZES);
		fprintf(h->out, "a %" PRIx64 " %x\n", size, l->trace);
		l->info[l->infos++] = (struct info){ size, h->infos++ };
	}
	return l->info[i].number;
}

static int put_calls(struct heaptrack *h, const char *call, uint64_t n)
{
	size_t len = strlen(call);

	for (uint64_t i = 0; i < n && !ferror(h->out); i++) {
		fwrite_unlocked(call, 1, len, h->out);
		if (i % 65536 == 65535 && export_rest(h->e))
			return -EINTR;
	}
	return 0;
}

/* The blocks of K as at most two sizes. */
static void size_classes(struct stack_log *l, struct kind k, struct size_class c[2])
{
	uint64_t size = k.count ? k.bytes / k.count : 0, larger = k.count ? k.bytes % k.count : 0;

	c[0] = (struct size_class){ l, size, k.count - larger };
	c[1] = (struct size_class){ l, size + 1, larger };
}

/* Whether blocks of C's size and stack are given back at the end, when one `-` follows another. */
static bool is_given_back(const struct size_class *c)
{
	struct size_class later[2];

	size_classes(c->l, c->l->peak, later);
	return (later[0].count && later[0].size == c->size) ||
	       (later[1].count && later[1].size == c->size);
}

/* All blocks of C are taken (SIGN is '+') or given back ('-'). */
static int put_class(struct heaptrack *h, const struct size_class *c, char sign)
{
	char call[32];

	if (!c->count)
		return 0;
	snprintf(call, sizeof(call), "%c %" PRIx64 "\n", sign, info(h, c->l, c->size));
	return put_calls(h, call, c->count);
}

/*
 * Of each stack, the blocks that are gone at once; the first of its sizes are the temporary ones.
 */
static int put_temporary(struct heaptrack *h)
{
	int err = 0;

	for (size_t i = 0; i < h->logs && !err; i++) {
		struct stack_log *l = &h->log[i];
		uint64_t temporary = l->temporary;
		struct size_class c[2];

		size_classes(l, l->gone, c);
		for (int j = 0; j < 2 && !err; j++) {
			uint64_t n = temporary < c[j].count ? temporary : c[j].count, number;
			char call[64];

			if (!n)
				continue;
			number = info(h, l, c[j].size);
			snprintf(call, sizeof(call), "+ %" PRIx64 "\n- %" PRIx64 "\n", number,
				 number);
			err = put_calls(h, call, n);
			temporary -= n;
		}
	}
	return err;
}

/* ---- blocks that pass without being temporary ---------------------------- */

/*
 * Such a block needs another one between its `+` and its `-`. They are given it in pairs of
 * different classes: `+X +Y -X -Y`. In a row of an even number of blocks, class by class, those
 * half the row apart are of different classes, if no class has more than half of all.
 */
static int collect_passing(struct heaptrack *h)
{
	h->passing = calloc(2 * h->logs + 3, sizeof(*h->passing));
	if (!h->passing)
		return -ENOMEM;
	for (size_t i = 0; i < h->logs; i++) {
		uint64_t temporary = h->log[i].temporary;
		struct size_class c[2];

		size_classes(&h->log[i], h->log[i].gone, c);
		for (int j = 0; j < 2; j++) {
			uint64_t n = temporary < c[j].count ? temporary : c[j].count;

			temporary -= n;
			c[j].count -= n;
			if (c[j].count)
				h->passing[h->passings++] = c[j];
		}
	}
	return 0;
}

static uint64_t passing_count(const struct heaptrack *h, struct size_class **largest)
{
	uint64_t n = 0;

	*largest = h->passing;
	for (size_t i = 0; i < h->passings; i++) {
		n += h->passing[i].count;
		if (h->passing[i].count > (*largest)->count)
			*largest = &h->passing[i];
	}
	return n;
}

/*
 * What is left when the others are paired. A class with more than half of all becomes two, of two
 * bytes more and two less (its stack's other class is a byte away), if it has so many.
 */
static struct size_class leave_over(struct heaptrack *h)
{
	struct size_class *c, left = { NULL, 0, 0 };
	uint64_t all = passing_count(h, &c), half;

	if (c->count > all / 2 && c->count > 1 && c->size >= 2) {
		half = c->count / 2;
		h->passing[h->passings++] = (struct size_class){ c->l, c->size - 2, half };
		if (c->count % 2)
			h->passing[h->passings++] = (struct size_class){ c->l, c->size, 1 };
		c->size += 2;
		c->count = half;
		all = passing_count(h, &c);
	}
	if (c->count > all / 2)
		left = (struct size_class){ c->l, c->size, 2 * c->count - all };
	else if (all % 2 && (c = &h->passing[h->passings - 1]))
		left = (struct size_class){ c->l, c->size, 1 };
	if (left.count)
		c->count -= left.count;
	return left;
}

/*
 * N blocks X and N blocks Y. Where both together would be a peak of their own, each gives back the
 * other's for a moment.
 */
static int put_pairs(struct heaptrack *h, const struct size_class *x, const struct size_class *y,
		     uint64_t n)
{
	bool fits = x->size + y->size < h->peak;
	uint64_t a, b;
	char call[96];

	if (!fits && x->size < y->size)
		return put_pairs(h, y, x, n);
	a = info(h, x->l, x->size);
	b = info(h, y->l, y->size);
	snprintf(call, sizeof(call),
		 "+ %" PRIx64 "\n%c %" PRIx64 "\n%c %" PRIx64 "\n- %" PRIx64 "\n", a,
		 fits ? '+' : '-', b, fits ? '-' : '+', fits ? a : b, fits ? b : a);
	return put_calls(h, call, n);
}

/*
 * One of the smallest blocks that are live at the peak is taken now, if it has less than ROOM
 * bytes. The start of a stack's log is enough: its first size is the smaller one.
 */
static void take_early(struct heaptrack *h, uint64_t room)
{
	struct kind *best = NULL;
	struct size_class c = { NULL, 0, 1 };

	for (size_t i = 0; i < 2 * h->logs; i++) {
		struct stack_log *l = &h->log[i / 2];
		struct kind *k = i % 2 ? &l->peak : &l->both;

		if (!k->count || k->bytes / k->count >= room)
			continue;
		room = k->bytes / k->count;
		c = (struct size_class){ l, room, 1 };
		best = k;
	}
	if (!best)
		return;
	best->count--;
	best->bytes -= c.size;
	if (best == &c.l->peak)
		h->early = c;
	fprintf(h->out, "+ %" PRIx64 "\n", info(h, c.l, c.size));
}

/* As many at a time as make no peak of their own; the first go round a block that stays. */
static int put_left(struct heaptrack *h, const struct size_class *left)
{
	uint64_t most = left->size ? (h->peak - 1) / left->size : left->count, n;
	int err = 0;

	for (uint64_t i = 0; i < left->count && !err; i += n) {
		struct size_class c = *left;

		n = left->count - i < most ? left->count - i : most ? most : 1;
		c.count = n;
		err = put_class(h, &c, '+');
		if (i == 0 && h->peak > c.size * n)
			take_early(h, h->peak - c.size * n);
		if (!err)
			err = put_class(h, &c, '-');
	}
	return err;
}

static int put_passing(struct heaptrack *h)
{
	struct size_class left = leave_over(h), *x = h->passing, *y = x, swap;
	uint64_t pairs = passing_count(h, &y) / 2, used_x = 0, used_y = pairs, n;
	int err = 0;

	for (size_t i = 0; h->infos == 0 && i < h->passings; i++) {
		if (!x[i].count || is_given_back(&x[i]))
			continue;
		swap = x[0];
		x[0] = x[i];
		x[i] = swap;
		break;
	}
	for (y = x; pairs && used_y >= y->count; y++)
		used_y -= y->count;
	while (pairs && !err) {
		while (used_x == x->count)
			used_x = 0, x++;
		while (used_y == y->count)
			used_y = 0, y++;
		n = x->count - used_x < y->count - used_y ? x->count - used_x : y->count - used_y;
		n = n < pairs ? n : pairs;
		err = put_pairs(h, x, y, n);
		used_x += n;
		used_y += n;
		pairs -= n;
	}
	return err ? err : put_left(h, &left);
}

/* ---- over time ----------------------------------------------------------- */

/*
 * What is taken or given back between two moments is so in STEPS, each when the curve says. A
 * reader shows the most of an interval at the end of it: so there is one of 1 ms after each step.
 */
enum { STEPS = 40 };

struct phase {
	uint64_t from_ms, to_ms; /* since tracing began */
	double done[STEPS + 1];	 /* of all of it, after each step; ascending */
};

/* From FROM_MS, when START is live, to TO_MS of the process, when END is. */
static struct phase phase_of(const struct heaptrack *h, uint64_t from_ms, double start,
			     uint64_t to_ms, double end)
{
	struct phase p = { from_ms - h->e->began_ms, to_ms - h->e->began_ms, { 0 } };

	p.done[STEPS] = 1;
	for (unsigned k = STEPS - 1; k > 0 && h->e->points && start != end; k--) {
		double live = live_at(h->e, from_ms + (to_ms - from_ms) * k / STEPS),
		       part = (live - start) / (end - start);

		part = part < p.done[k + 1] ? part : p.done[k + 1];
		p.done[k] = part > 0 ? part : 0;
	}
	return p;
}

static void stamp(struct heaptrack *h, uint64_t ms)
{
	fprintf(h->out, "c %" PRIx64 "\n", ms);
	h->stamped = ms;
}

static int step_begins(struct heaptrack *h, const struct phase *p, unsigned k)
{
	uint64_t ms = p->from_ms + (p->to_ms - p->from_ms) * k / STEPS;

	if (h->stamped + 1 < ms)
		stamp(h, h->stamped + 1);
	if (h->stamped < ms)
		stamp(h, ms);
	return export_rest(h->e);
}

/*
 * Of N blocks of stack number STACK, how many are due when DONE of all is. The last one is so at 1,
 * or somewhat sooner, which differs by stack: most have one block alone.
 */
static uint64_t due(uint64_t n, double done, size_t stack)
{
	double sooner = (double)(stack + 1) * 0.6180339887498949;

	return (uint64_t)((double)n * done + sooner - (double)(uint64_t)sooner);
}

/* What of the blocks of K is due at step STEP: the smaller ones first. */
static int put_step(struct heaptrack *h, struct stack_log *l, struct kind k, char sign,
		    const struct phase *p, unsigned step)
{
	size_t stack = (size_t)(l - h->log);
	uint64_t from = due(k.count, p->done[step - 1], stack),
		 to = due(k.count, p->done[step], stack), small;
	struct size_class c[2];
	int err;

	if (from == to)
		return 0;
	size_classes(l, k, c);
	small = c[0].count;
	c[0].count = (to < small ? to : small) - (from < small ? from : small);
	c[1].count = to - from - c[0].count;
	err = put_class(h, &c[0], sign);
	return err ? err : put_class(h, &c[1], sign);
}

/* One of the largest blocks of K. */
static struct size_class one_of(struct stack_log *l, const struct kind *k)
{
	return (struct size_class){ l, (k->bytes + k->count - 1) / k->count, 1 };
}

static void take_out(struct kind *k, const struct size_class *c)
{
	k->count -= c->count;
	k->bytes -= c->count * c->size;
}

/* Those of `both` of the stack before FIRST are the last ones; NULL: there are none at the peak. */
static struct kind *last_kind(struct heaptrack *h, size_t first, struct stack_log **l)
{
	for (size_t i = h->logs; i-- > 0;) {
		*l = &h->log[(first + i) % h->logs];
		if ((*l)->both.count)
			return &(*l)->both;
	}
	for (size_t i = h->logs; i-- > 0;) {
		*l = &h->log[(first + i) % h->logs];
		if ((*l)->peak.count)
			return &(*l)->peak;
	}
	return NULL;
}

/* The very last block is not of the stack FIRST, whose blocks are given back first. */
static int put_rise(struct heaptrack *h, const struct phase *p, size_t first)
{
	struct stack_log *of;
	struct kind *k = last_kind(h, first, &of), whole = k ? *k : (struct kind){ 0 };
	struct size_class last = { 0 };
	int err = 0;

	if (k) {
		last = one_of(of, k);
		take_out(k, &last);
	}
	for (unsigned step = 1; step <= STEPS && !err; step++) {
		err = step_begins(h, p, step);
		for (size_t i = 0; i < 2 * h->logs && !err; i++) {
			struct stack_log *l = &h->log[(first + i / 2) % h->logs];

			err = put_step(h, l, i % 2 ? l->both : l->peak, '+', p, step);
		}
	}
	if (!k)
		return err;
	*k = whole;
	return err ? err : put_class(h, &last, '+');
}

static int put_fall(struct heaptrack *h, const struct phase *p, size_t first)
{
	struct size_class begin = h->early;
	int err = 0;

	if (!begin.count && first < h->logs && h->log[first].peak.count) {
		begin = one_of(&h->log[first], &h->log[first].peak);
		take_out(&h->log[first].peak, &begin);
	}
	for (unsigned step = 1; step <= STEPS && !err; step++) {
		err = step_begins(h, p, step);
		if (step == 1 && !err)
			err = put_class(h, &begin, '-');
		for (size_t i = 0; i < h->logs && !err; i++)
			err = put_step(h, &h->log[i], h->log[i].peak, '-', p, step);
	}
	return err;
}

static int put_end(struct heaptrack *h, const struct phase *p)
{
	int err = 0;

	for (unsigned step = 1; step <= STEPS && !err; step++) {
		err = step_begins(h, p, step);
		for (size_t i = 0; i < h->logs && !err; i++)
			err = put_step(h, &h->log[i], h->log[i].end, '+', p, step);
	}
	return err;
}

/* ---- all of them --------------------------------------------------------- */

/* A temporary block that may have number 0, if there is one, is the first one. */
static void put_first(struct heaptrack *h)
{
	for (size_t i = 0; i < h->logs; i++) {
		struct stack_log *l = &h->log[i];
		struct size_class c[2];
		int n;

		size_classes(l, l->gone, c);
		n = c[0].count && !is_given_back(&c[0]) ? 0 : 1;
		if (!l->temporary || !c[n].count || is_given_back(&c[n]))
			continue;
		l->temporary--;
		l->gone.count--;
		l->gone.bytes -= c[n].size;
		info(h, l, c[n].size);
		fputs("+ 0\n- 0\n", h->out);
		return;
	}
}

static int put_log(struct heaptrack *h)
{
	const struct export *e = h->e;
	uint64_t began = e->began_ms, peak = e->peak_ms > began ? e->peak_ms : began,
		 now = e->now_ms > peak ? e->now_ms : peak, low;
	struct phase rise, fall, end;
	double high = (double)h->peak;
	size_t first;
	int err;

	low = h->low_ms > peak ? h->low_ms : peak;
	rise = phase_of(h, began, 0, peak, high);
	fall = phase_of(h, peak, high, low, h->low);
	end = phase_of(h, low, h->low, now, live_at(e, now));
	stamp(h, 0);
	put_first(h);
	err = collect_passing(h);
	if (!err && h->passings)
		err = put_passing(h);
	if (!err)
		err = put_temporary(h);
	first = h->early.count ? (size_t)(h->early.l - h->log) : 0;
	while (!h->early.count && first < h->logs && !h->log[first].peak.count)
		first++;
	if (!err)
		err = put_rise(h, &rise, first);
	if (!err)
		err = put_fall(h, &fall, first);
	if (!err)
		err = put_end(h, &end);
	return err;
}

/* ---- the file ------------------------------------------------------------ */

static void put_header(struct heaptrack *h)
{
	fputs("v 10400 3\n"
	      "# Written by mtrun " MTRUN_VERSION
	      " from sums by stack, not from a log of calls. True, by stack and in sum: calls, bytes, temporary allocations,\n"
	      "# what was live at the peak and at the end. Made up: when, of each stack, between these moments; the sizes of single blocks (averages).\n",
	      h->out);
	fputs(h->e->view->estimated ? "# All numbers are estimates from samples.\nX " : "X ",
	      h->out);
	escape_put(h->out, h->e->command_line ? h->e->command_line : "unknown");
	fputs("\nI 1000 0\n", h->out);
}

int export_heaptrack(FILE *out, const struct export *e)
{
	struct heaptrack h = { .out = out,
			       .e = e,
			       .peak = e->points ? e->peak : (uint64_t)export_total(e) };
	int err = trie_init(&h.trie, false);

	if (!err)
		err = e->past && e->points ? e->past(e->ctx, e->peak_ms, &h.at_peak)
					   : export_profile(e, &h.at_peak);
	if (!err)
		err = find_lowest(&h);
	if (!err)
		err = collect(&h);
	if (!err) {
		put_header(&h);
		put_frames(&h);
		err = put_log(&h);
	}
	free(h.passing);
	free(h.log);
	profile_release(&h.at_peak);
	profile_release(&h.at_low);
	trie_release(&h.trie);
	return err;
}
