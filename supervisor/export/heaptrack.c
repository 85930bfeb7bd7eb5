/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/intern.h"
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
 * the end, what was allocated in total. As many as these allow are taken to be `both`. Within a
 * kind all blocks of a stack have one size, or two that differ by 1 byte, so that the sums are
 * exact.
 *
 * So the reader's totals, peak, leaks, temporaries and calls are true, by stack and in sum; in
 * between its curves are not, and sizes are averages. The file says so. (A temporary block that was
 * live at the peak is not told to be temporary.)
 */
enum { MOST_SIZES = 10 };

struct kind {
	uint64_t count, bytes;
};
struct stack_log {
	uint32_t trace;
	uint64_t temporary;
	struct kind both, peak, end, gone;
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
	struct profile at_peak;
	uint64_t peak;	/* bytes */
	uint64_t infos; /* alloc-infos written */
	/* blocks that are gone, but for the temporary ones */
	struct size_class *passing;
	size_t passings;
	/* a block of kind `peak` that was taken before the others of its stack */
	struct size_class early;
};

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
	uint64_t count = peak.count < end.count ? peak.count : end.count, bytes = 0;

	while (!both_bytes(all, peak, end, count, most, &bytes)) {
		if (count == 0) {
			bytes = 0;
			break;
		}
		/* Only at the ends is the answer another one than at the number before. */
		count = count > 1 && (count == peak.count || count == end.count) ? count - 1 : 0;
	}
	l->both = (struct kind){ count, bytes };
	l->peak = (struct kind){ peak.count - count, peak.bytes - bytes };
	l->end = (struct kind){ end.count - count, end.bytes - bytes };
	l->gone = (struct kind){ 0 };
	if (all.count + count > peak.count + end.count)
		l->gone.count = all.count + count - peak.count - end.count;
	if (l->gone.count && all.bytes + bytes > peak.bytes + end.bytes)
		l->gone.bytes = all.bytes + bytes - peak.bytes - end.bytes;
}

static int by_stack(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Of a difference there may be more bytes in as many blocks: then it is one. */
static struct kind kind_of(int64_t count, int64_t bytes)
{
	return (struct kind){ count > 0 ? (uint64_t)count : bytes > 0,
			      bytes > 0 ? (uint64_t)bytes : 0 };
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
		add(&to->gone, l->gone);
		add(&to->peak, l->peak);
		add(&to->end, l->end);
	}
	h->logs = n;
}

static int collect(struct heaptrack *h)
{
	const struct view *v = h->e->view;
	int err = 0;

	h->log = calloc(v->count + 1, sizeof(*h->log));
	if (!h->log)
		return -ENOMEM;
	qsort(h->at_peak.row, h->at_peak.count, sizeof(*h->at_peak.row), by_stack);
	for (size_t i = 0; i < v->count && !err; i++) {
		const struct view_row *r = &v->row[i];
		const struct profile_row *p = bsearch(&(struct profile_row){ .stack = r->stack },
						      h->at_peak.row, h->at_peak.count, sizeof(*p),
						      by_stack);
		struct stack_log *l = &h->log[h->logs++];

		err = export_rest(h->e);
		if (!err)
			err = trie_stack(&h->trie, h->e, r->stack, &l->trace);
		l->temporary = r->temporary;
		l->gone = kind_of((int64_t)r->total_count, (int64_t)r->total_size);
		l->peak = p ? kind_of(p->count, p->size) : (struct kind){ 0 };
		l->end = kind_of(r->count, r->size);
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
 * call before the `-` was the `+` of the same info, or was a `-` and the info is number 0. So a block
 * that is not temporary is given back after another's `-` or `+`, and number 0 should have no
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

static int put_blocks(struct heaptrack *h, struct stack_log *l, struct kind k, char sign)
{
	struct size_class c[2];
	int err;

	size_classes(l, k, c);
	err = put_class(h, &c[0], sign);
	return err ? err : put_class(h, &c[1], sign);
}

/* Of each stack, the blocks that are gone at once; the first of its sizes are the temporary ones. */
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
	uint64_t began = h->e->began_ms, peak = h->e->peak_ms > began ? h->e->peak_ms - began : 0,
		 now = h->e->now_ms - began;
	size_t first;
	int err;

	fputs("c 0\n", h->out);
	put_first(h);
	err = collect_passing(h);
	if (!err && h->passings)
		err = put_passing(h);
	if (!err)
		err = put_temporary(h);
	fprintf(h->out, "c %" PRIx64 "\n", peak);
	/* The last one is not of the stack whose blocks are given back first. */
	for (size_t i = 0; i < h->logs && !err; i++)
		err = put_blocks(h, &h->log[i], h->log[i].peak, '+');
	first = h->early.count ? (size_t)(h->early.l - h->log) : 0;
	while (!h->early.count && first < h->logs && !h->log[first].peak.count)
		first++;
	for (size_t i = 0; i < h->logs && !err; i++) {
		struct stack_log *l = &h->log[(first + i) % h->logs];

		err = put_blocks(h, l, l->both, '+');
	}
	fprintf(h->out, "c %" PRIx64 "\n", now > peak ? now : peak);
	if (!err)
		err = put_class(h, &h->early, '-');
	for (size_t i = 0; i < h->logs && !err; i++)
		err = put_blocks(h, &h->log[i], h->log[i].peak, '-');
	for (size_t i = 0; i < h->logs && !err; i++)
		err = put_blocks(h, &h->log[i], h->log[i].end, '+');
	return err;
}

/* ---- the file ------------------------------------------------------------ */

static void put_header(struct heaptrack *h)
{
	fputs("v 10400 3\n"
	      "# Written by mtrun " MTRUN_VERSION
	      " from sums by stack, not from a log of calls. True, by stack and in sum: calls, bytes, temporary allocations,\n"
	      "# what was live at the peak and at the end. Made up: when it was between start, peak and end; the sizes of single blocks (averages).\n",
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
		err = collect(&h);
	if (!err) {
		put_header(&h);
		put_frames(&h);
		err = put_log(&h);
	}
	free(h.passing);
	free(h.log);
	profile_release(&h.at_peak);
	trie_release(&h.trie);
	return err;
}
