// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/cfi_rows.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/pool.h"
#include "base/search.h"
#include "base/space.h"
#include "symbols/elf.h"
#include "unwind/callframe.h"
#include "unwind/cfi_rules.h"
#include "unwind/cfi_synthesize.h"
#include "unwind/go_frames.h"

/*
 * cfi_rows.c - the rows of one file: from its call frame information, and where that says nothing,
 * from the instructions themselves.
 *
 * The program waits for them, and most of the time goes into memory that is touched for the first
 * time. So the arrays are made as large as they could ever become, and only what is used of them is
 * touched, many pages at a time. A large file is divided at its functions into pieces, which a
 * thread for each processor reads.
 */

static void piece_release(struct rows_piece *p)
{
	free(p->offs);
	free(p->rule);
	free(p->rules);
	*p = (struct rows_piece){ .offs = NULL };
}

void rows_release(struct rows *rows)
{
	for (unsigned i = 0; i < rows->pieces; i++)
		piece_release(&rows->piece[i]);
	*rows = (struct rows){ .pieces = 0 };
}

size_t rows_count(const struct rows *r)
{
	size_t n = 0;

	for (unsigned i = 0; i < r->pieces; i++)
		n += r->piece[i].n;
	return n;
}

size_t rows_bytes(const struct rows *r)
{
	return rows_count(r) * (sizeof(*r->piece->offs) + sizeof(*r->piece->rule));
}

/* ---- making rows --------------------------------------------------------- */

struct build {
	struct rows_piece piece;
	struct cfi_rules *rules;
	int error;
	/* the rule of `last_index`, so that equal neighbours need no search */
	struct wire_rule last;
	uint16_t last_index;
	size_t touched; /* the pages of so many rows are there; counted for many rows only */
};

enum {
	ROWS_FEW = 32768, /* a piece has room for these at first, then for twice as many */
	/* one that may need more than these gets room for all of them at once, */
	ROWS_MANY = 131072,
	ROWS_TOUCHED = 16384, /* whose pages are made for so many at a time */
};

static bool build_room(struct build *b, size_t room)
{
	struct rows_piece *p = &b->piece;
	uint32_t *offs = reallocarray(p->offs, room, sizeof(*offs));
	uint16_t *rule;

	if (offs)
		p->offs = offs;
	rule = offs ? reallocarray(p->rule, room, sizeof(*rule)) : NULL;
	if (!rule) {
		b->error = -ENOMEM;
		return false;
	}
	p->rule = rule;
	p->room = room;
	return true;
}

static void build_touch(struct build *b)
{
	struct rows_piece *p = &b->piece;
	size_t left = p->room - p->n, more = left < ROWS_TOUCHED ? left : ROWS_TOUCHED;

	space_touch(p->offs + p->n, more * sizeof(*p->offs));
	space_touch(p->rule + p->n, more * sizeof(*p->rule));
	b->touched = p->n + more;
}

/* Appends a row. Offsets never descend; of two rows at one place the later one holds. */
static void build_row(struct build *b, uint32_t offset, uint16_t rule)
{
	struct rows_piece *p = &b->piece;

	if (p->n && p->offs[p->n - 1] >= offset)
		p->n--;
	if (p->n && p->rule[p->n - 1] == rule)
		return;
	if (p->n == p->room && !build_room(b, p->room ? p->room * 2 : ROWS_FEW))
		return;
	if (p->n == b->touched && p->room > ROWS_MANY)
		build_touch(b);
	p->offs[p->n] = offset;
	p->rule[p->n++] = rule;
}

static void build_rule(void *ctx, uint32_t offset, const struct wire_rule *rule)
{
	struct build *b = ctx;

	if (memcmp(rule, &b->last, sizeof(*rule))) {
		b->last = *rule;
		b->last_index = rule_index(b->rules, rule);
	}
	build_row(b, offset, b->last_index);
}

/* ---- code without call frame information --------------------------------- */

struct gaps {
	struct cfi_synth_range *range, *data;
	size_t nranges, ndata;
	uint64_t *entry;
	size_t nentries, room;
	struct cfi_synth_row *row;
	size_t nrows, next;
};

struct file {
	const struct elf *elf;
	const struct callframe_list *frames;
};

static const uint8_t *gap_code(void *ctx, uint64_t vaddr, size_t *left)
{
	return elf_at(((struct file *)ctx)->elf, vaddr, 1, left);
}

static uint64_t gap_described(void *ctx, uint64_t vaddr)
{
	const struct callframe_list *frames = ((struct file *)ctx)->frames;
	ssize_t i = vaddr >= frames->lo && vaddr - frames->lo <= UINT32_MAX
			    ? callframe_find(frames, (uint32_t)(vaddr - frames->lo))
			    : -1;

	return i >= 0 && frames->lo + frames->frame[i].start == vaddr
		       ? frames->lo + frames->frame[i].end
		       : 0;
}

static int gap_entry(struct gaps *g, uint64_t vaddr)
{
	if (array_room(&g->entry, g->nentries, &g->room, sizeof(*g->entry)))
		return -ENOMEM;
	g->entry[g->nentries++] = vaddr;
	return 0;
}

static bool in_gap(const struct gaps *g, uint64_t vaddr)
{
	size_t at = SEARCH(i, g->nranges, g->range[i].end <= vaddr);

	return at < g->nranges && g->range[at].start <= vaddr;
}

/* Where functions begin, as far as the file says: its entry, its symbols, its constructors. */
static int gap_entries(struct gaps *g, const struct elf *elf)
{
	struct elf_symbol symbol;
	size_t cursor = 0;
	int rc = 0;

	if (elf_entry(elf))
		rc = gap_entry(g, elf_entry(elf));
	while (!rc && elf_next_symbol(elf, &cursor, &symbol))
		if ((symbol.type == STT_FUNC || symbol.type == STT_NOTYPE ||
		     symbol.type == STT_GNU_IFUNC) &&
		    in_gap(g, symbol.value))
			rc = gap_entry(g, symbol.value);
	return rc;
}

/*
 * The parts of the executable sections (segments, where the file has no sections) that no FDE is
 * about. Padding between functions is passed over: anything shorter than a function that could call
 * another.
 */
/* more is a language with tables of its own: not worth 100 ms at every start */
enum { GAP_MIN = 16, GAPS_MAX = 4 << 20 };

static int gap_add(struct gaps *g, size_t *room, uint64_t start, uint64_t end)
{
	if (end <= start || end - start < GAP_MIN)
		return 0;
	if (array_room(&g->range, g->nranges, room, sizeof(*g->range)))
		return -ENOMEM;
	g->range[g->nranges++] = (struct cfi_synth_range){ start, end };
	return 0;
}

static int gaps_find(struct gaps *g, const struct elf *elf, const struct callframe_list *frames,
		     uint64_t lo, uint64_t hi)
{
	const struct elf_segment *segment;
	size_t nsegments = elf_segments(elf, &segment), room = 0, i = 0;
	int rc = 0;

	for (size_t s = 0; s < nsegments && !rc; s++) {
		uint64_t at = segment[s].vaddr, end = segment[s].vaddr + segment[s].filesz;

		if (segment[s].type != PT_LOAD || !(segment[s].flags & PF_X) || at < lo ||
		    end > hi || end < at)
			continue;
		if (g->nranges && at < g->range[g->nranges - 1].end)
			continue;
		for (; i < frames->count && lo + frames->frame[i].start < end && !rc; i++) {
			if (lo + frames->frame[i].start > at)
				rc = gap_add(g, &room, at, lo + frames->frame[i].start);
			if (lo + frames->frame[i].end > at)
				at = lo + frames->frame[i].end;
		}
		if (!rc)
			rc = gap_add(g, &room, at, end);
	}
	return rc;
}

/* The file's data, for a file whose symbols say nothing about much code. */
static int gaps_data(struct gaps *g, const struct elf *elf)
{
	const struct elf_segment *segment;
	size_t n = elf_segments(elf, &segment);

	g->data = calloc(n + 1, sizeof(*g->data));
	if (!g->data)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (segment[i].type == PT_LOAD && !(segment[i].flags & PF_X) && segment[i].filesz)
			g->data[g->ndata++] =
				(struct cfi_synth_range){ (segment[i].vaddr + 7) & ~7ull,
							  segment[i].vaddr + segment[i].filesz };
	return 0;
}

enum { MANY_BYTES = 4096, FEW_ENTRIES = 2 };

static int gaps_synthesize(struct gaps *g, const struct elf *elf,
			   const struct callframe_list *frames, uint64_t lo, uint64_t hi)
{
	struct file file = { elf, frames };
	struct cfi_synth_input in = { .code = gap_code,
				      .described = gap_described,
				      .ctx = &file,
				      .start = elf_entry(elf),
				      .lo = lo };
	int rc = gaps_find(g, elf, frames, lo, hi);
	uint64_t bytes = 0;

	for (size_t i = 0; i < g->nranges; i++)
		bytes += g->range[i].end - g->range[i].start;
	if (!rc && elf_is_go(elf))
		return go_rows(elf, g->range, g->nranges, lo, &g->row, &g->nrows);
	if (bytes > GAPS_MAX)
		g->nranges = 0;
	if (!rc && g->nranges)
		rc = gap_entries(g, elf);
	if (!rc && g->nranges && g->nentries <= FEW_ENTRIES && bytes >= MANY_BYTES &&
	    elf_is_static(elf) && elf_type(elf) == ET_EXEC)
		rc = gaps_data(g, elf);
	if (rc || !(g->nentries || g->data))
		return rc;
	in.range = g->range;
	in.nranges = g->nranges;
	in.entry = g->entry;
	in.nentries = g->nentries;
	in.data = g->data;
	in.ndata = g->ndata;
	return cfi_synth_rows(&in, &g->row, &g->nrows);
}

static void gaps_release(struct gaps *g)
{
	free(g->data);
	free(g->range);
	free(g->entry);
	free(g->row);
}

/* Rows for [from, to), about which no FDE says anything. */
static void build_gap(struct build *b, struct gaps *g, uint32_t from, uint32_t to)
{
	static const struct wire_rule none;

	if (from >= to)
		return;
	build_rule(b, from, &none);
	while (g->next < g->nrows && g->row[g->next].offset < from)
		g->next++;
	for (; g->next < g->nrows && g->row[g->next].offset < to; g->next++)
		build_rule(b, g->row[g->next].offset, &g->row[g->next].rule);
}

/* ---- a module ------------------------------------------------------------ */

/* What is known of a file's code, and how it is divided: piece I begins with frame BEGIN[I]. */
struct code {
	const struct callframe_list *frames;
	const struct gaps *gaps;
	uint32_t size;
	uint64_t entry; /* where the kernel starts the program: nothing called it */
	struct rows *rows;
	size_t begin[PIECES + 1];
	int error[PIECES];
};

/* So many rows a frame has at most: each but the first takes an instruction that goes on. */
static size_t rows_most(const struct callframe *f) { return 2 + (f->insns_end - f->insns) / 2; }

#define PIECE_ROWS 100000u /* of a piece, roughly: some milliseconds */

/* How many pieces are worth the threads, all of about the same size. */
static void code_divide(struct code *c)
{
	const struct callframe *f = c->frames->frame;
	size_t all = 0, rows = 0, count = c->frames->count;
	unsigned pieces;

	for (size_t i = 0; i < count; i++)
		all += rows_most(&f[i]);
	pieces = all < 2 * PIECE_ROWS || pool_processors() == 1 ? 1
		 : all / PIECE_ROWS < PIECES			? (unsigned)(all / PIECE_ROWS)
								: PIECES;
	c->rows->pieces = 1;
	for (size_t i = 0; i < count; i++) {
		if (rows >= all / pieces * c->rows->pieces && c->rows->pieces < pieces)
			c->begin[c->rows->pieces++] = i;
		rows += rows_most(&f[i]);
	}
	c->begin[c->rows->pieces] = count;
}

static void build_piece(const struct code *c, struct build *b, unsigned number)
{
	static const struct wire_rule outermost = { .cfa = CFA_END };
	const struct callframe *f = c->frames->frame;
	size_t from = c->begin[number], to = c->begin[number + 1], most = 2 + c->gaps->nrows;
	struct gaps gaps = *c->gaps;
	uint32_t at = from ? f[from - 1].end : 0;

	for (size_t i = from; i < to; i++)
		most += rows_most(&f[i]);
	if (most > ROWS_MANY && !build_room(b, most))
		b->error = 0; /* no memory for all: the room grows as it is filled */
	for (size_t i = from; i < to && !b->error; i++) {
		build_gap(b, &gaps, at, f[i].start);
		if (c->frames->lo + f[i].start == c->entry)
			build_rule(b, f[i].start, &outermost);
		else
			callframe_rows(c->frames, i, build_rule, b);
		at = f[i].end;
	}
	if (to == c->frames->count)
		build_gap(b, &gaps, at, c->size);
}

/* .debug_frame, where it is not compressed. */
static bool debug_frame(const struct elf *elf, struct callframe_source *source)
{
	const struct elf_section *section = elf_section(elf, ".debug_frame");
	size_t size;
	const uint8_t *file = elf_file(elf, &size);

	if (!section || section->type == SHT_NOBITS || section->flags & SHF_COMPRESSED)
		return false;
	if (section->offset > size || section->size > size - section->offset ||
	    section->size > UINT32_MAX)
		return false;
	*source = (struct callframe_source){ .data = file + section->offset,
					     .size = section->size,
					     .debug_frame = true };
	return true;
}

/*
 * The frames of both sections: where .eh_frame is silent .debug_frame may speak. Only one is used:
 * the one that knows more.
 */
static int scan_frames(struct callframe_list *list, const struct elf *elf, uint64_t lo, uint64_t hi)
{
	struct callframe_source source = { .size = 0 };
	struct callframe_list other;
	struct elf_bytes eh, hdr;
	int rc;

	if (elf_eh_frame(elf, &eh, &hdr) && eh.size <= UINT32_MAX)
		source = (struct callframe_source){ .data = eh.bytes,
						    .size = eh.size,
						    .vaddr = eh.vaddr };
	rc = callframe_scan(list, &source, lo, hi);
	if (rc || list->count > 16 || elf_is_go(elf) || !debug_frame(elf, &source))
		return rc;
	if (callframe_scan(&other, &source, lo, hi))
		return 0;
	if (other.count <= list->count) {
		callframe_release(&other);
		return 0;
	}
	callframe_release(list);
	*list = other;
	return 0;
}

static int build_begin(struct build *b, struct cfi_rules *rules)
{
	*b = (struct build){ .rules = rules };
	if (!rules)
		return -ENOMEM;
	rules_begin(rules);
	return 0;
}

static int build_finish(struct build *b)
{
	struct rows_piece *p = &b->piece;

	if (!b->error && p->n < p->room && !build_room(b, p->n ? p->n : 1))
		b->error = -ENOMEM;
	if (b->error)
		return b->error;
	p->nrules = b->rules->count;
	p->rules = calloc(p->nrules, sizeof(*p->rules));
	if (!p->rules)
		return -ENOMEM;
	memcpy(p->rules, b->rules->rule, p->nrules * sizeof(*p->rules));
	return 0;
}

/* ---- pieces, by several threads ------------------------------------------ */

static void *worker_begin(void *code)
{
	(void)code;
	return malloc(sizeof(struct cfi_rules));
}

static void worker_end(void *code, void *rules)
{
	(void)code;
	free(rules);
}

static void worker_job(void *code, void *rules, size_t number)
{
	struct code *c = code;
	struct build b;
	int err = build_begin(&b, rules);

	if (!err) {
		build_piece(c, &b, (unsigned)number);
		err = build_finish(&b);
	}
	c->rows->piece[number] = b.piece;
	c->error[number] = err;
}

/* SCRATCH: for what is read in this thread. */
static int build_all(struct code *c, struct cfi_rules *scratch)
{
	const struct pool_work work = {
		.ctx = c, .begin = worker_begin, .end = worker_end, .job = worker_job
	};
	unsigned pieces = c->rows->pieces;

	for (unsigned i = 0; i < pieces; i++)
		c->error[i] = -EAGAIN;
	if (pieces > 1)
		(void)!pool_run(&work, pool_processors(), pieces);
	for (unsigned i = 0; i < pieces; i++) {
		if (c->error[i] == -EAGAIN) /* no thread was to be had, or it is the only piece */
			worker_job(c, scratch, i);
		if (c->error[i])
			return c->error[i];
	}
	return 0;
}

int rows_read(struct rows *rows, const struct elf *elf, uint64_t lo, uint64_t hi,
	      struct cfi_rules *scratch)
{
	struct gaps gaps = { .range = NULL };
	struct callframe_list frames;
	struct code code = { .frames = &frames,
			     .gaps = &gaps,
			     .size = (uint32_t)(hi - lo),
			     .entry = elf_entry(elf),
			     .rows = rows };
	int err = scan_frames(&frames, elf, lo, hi);

	if (err)
		return err;
	*rows = (struct rows){ .lo = lo, .hi = hi };
	err = gaps_synthesize(&gaps, elf, &frames, lo, hi);
	if (!err) {
		code_divide(&code);
		err = build_all(&code, scratch);
	}
	gaps_release(&gaps);
	callframe_release(&frames);
	if (err)
		rows_release(rows);
	return err;
}

int rows_given(struct rows *rows, uint32_t size, const struct cfi_row *row, size_t count,
	       struct cfi_rules *scratch)
{
	struct build b;
	int err = build_begin(&b, scratch);

	for (size_t i = 0; !err && i < count; i++)
		build_rule(&b, row[i].offset, &row[i].rule);
	if (!err)
		err = build_finish(&b);
	*rows = (struct rows){ .hi = size, .piece = { b.piece }, .pieces = 1 };
	if (err)
		rows_release(rows);
	return err;
}
