/* SPDX-License-Identifier: GPL-3.0-or-later */
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
struct kind {
	uint64_t count, bytes;
};
struct stack_log {
	uint32_t trace;
	uint64_t temporary;
	struct kind both, peak, end, gone;
};
struct heaptrack {
	FILE *out;
	const struct export *e;
	struct trie trie;
	struct stack_log *log;
	size_t logs;
	struct profile at_peak;
	uint64_t peak;	/* bytes */
	uint64_t infos; /* alloc-infos written; number 0 is never used */
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
 * The kinds of a stack's blocks. What really happened is one solution, so there is one; but for
 * mappings that were unmapped in part, which have shrunk without a call: then none is taken to be
 * `both`, and what is missing in total is added.
 */
static void divide(struct stack_log *l, struct kind all, struct kind peak, struct kind end,
		   uint64_t most)
{
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

static struct kind kind_of(int64_t count, int64_t bytes)
{
	return (struct kind){ count > 0 ? (uint64_t)count : 0,
			      count > 0 && bytes > 0 ? (uint64_t)bytes : 0 };
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
		divide(l, kind_of((int64_t)r->total_count, (int64_t)r->total_size),
		       p ? kind_of(p->count, p->size) : (struct kind){ 0 },
		       kind_of(r->count, r->size), h->peak);
		if (l->temporary > l->gone.count)
			l->temporary = l->gone.count;
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
 * A size has two alloc-infos that read the same, by which blocks are taken and given back: readers
 * hold a block for temporary if it is given back by the info of the call before.
 */
struct size_class {
	uint64_t count, info;
};

static struct size_class size_class(struct heaptrack *h, const struct stack_log *l, uint64_t size,
				    uint64_t count)
{
	struct size_class c = { count, h->infos };

	if (count) {
		fprintf(h->out, "a %" PRIx64 " %x\na %" PRIx64 " %x\n", size, l->trace, size,
			l->trace);
		h->infos += 2;
	}
	return c;
}

/* The blocks of K as at most two sizes. */
static void size_classes(struct heaptrack *h, const struct stack_log *l, struct kind k,
			 struct size_class c[2])
{
	uint64_t size = k.count ? k.bytes / k.count : 0, larger = k.count ? k.bytes % k.count : 0;

	c[0] = size_class(h, l, size, k.count - larger);
	c[1] = size_class(h, l, size + 1, larger);
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

/* All blocks of K are taken (SIGN is '+') or given back ('-'). */
static int put_blocks(struct heaptrack *h, const struct stack_log *l, struct kind k, char sign)
{
	struct size_class c[2];
	char call[32];
	int err = 0;

	size_classes(h, l, k, c);
	for (int i = 0; i < 2 && !err; i++) {
		snprintf(call, sizeof(call), "%c %" PRIx64 "\n", sign, c[i].info + (sign == '-'));
		err = put_calls(h, call, c[i].count);
	}
	return err;
}

/* Blocks that are gone, one after the other; the first of them are the temporary ones. */
static int pass(struct heaptrack *h, const struct stack_log *l)
{
	struct size_class c[2];
	uint64_t temporary = l->temporary;
	char call[64];
	int err = 0;

	size_classes(h, l, l->gone, c);
	for (int i = 0; i < 2 && !err; i++) {
		uint64_t n = temporary < c[i].count ? temporary : c[i].count;

		snprintf(call, sizeof(call), "+ %" PRIx64 "\n- %" PRIx64 "\n", c[i].info,
			 c[i].info);
		err = put_calls(h, call, n);
		snprintf(call, sizeof(call), "+ %" PRIx64 "\n- %" PRIx64 "\n", c[i].info,
			 c[i].info + 1);
		if (!err)
			err = put_calls(h, call, c[i].count - n);
		temporary -= n;
	}
	return err;
}

static int put_log(struct heaptrack *h)
{
	uint64_t began = h->e->began_ms, peak = h->e->peak_ms > began ? h->e->peak_ms - began : 0,
		 now = h->e->now_ms - began;
	int err = 0;

	fputs("a 0 0\nc 0\n", h->out);
	h->infos = 1;
	for (size_t i = 0; i < h->logs && !err; i++)
		err = pass(h, &h->log[i]);
	fprintf(h->out, "c %" PRIx64 "\n", peak);
	for (size_t i = 0; i < h->logs && !err; i++) {
		err = put_blocks(h, &h->log[i], h->log[i].both, '+');
		if (!err)
			err = put_blocks(h, &h->log[i], h->log[i].peak, '+');
	}
	fprintf(h->out, "c %" PRIx64 "\n", now > peak ? now : peak);
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
	struct heaptrack h = { .out = out, .e = e, .peak = e->peak };
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
	free(h.log);
	profile_release(&h.at_peak);
	trie_release(&h.trie);
	return err;
}
