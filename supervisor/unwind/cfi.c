// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/pool.h"
#include "base/search.h"
#include "base/space.h"
#include "symbols/elf.h"
#include "symbols/module.h"
#include "unwind/callframe.h"
#include "unwind/cfi_synthesize.h"
#include "unwind/go_frames.h"

/*
 * cfi.c - the tables by which the trampoline walks stacks: built from a module's call frame
 * information, written into the image's pool.
 *
 * For each module the pool gets three arrays, one behind the other:
 *
 *	offs[nrows]	ascending offsets from the module's start; row i holds until offs[i + 1],
 *	                the last one to the module's end
 *	rule[nrows]	index into wire_tables.rule: the same few hundred rules serve all modules
 *	index[]		for each KiB of code the row that holds at its beginning, so that a search
 *	                looks at some ten rows
 *
 * They are made in memory of our own first and kept there for the next process that maps the same
 * file. The rules are kept here too, with the hash table that finds equal ones. A large file is
 * divided at the functions into pieces, which a thread for each processor reads: the program waits.
 *
 * The tables are appended to, never changed: a hook may read the old ones at any time. A target
 * that made their file anew while it was attached to could have kept a way to write there: what is
 * read back (cfi_lookup()) is checked.
 */

#define SLOTS_FEW  2048u /* most files have some hundred rules */
#define SLOTS_MOST (WIRE_RULES * 2)
#define KIB	   1024u

/* ---- rules --------------------------------------------------------------- */

struct cfi_rules {
	struct wire_rule rule[WIRE_RULES];
	/* index of a rule; 0: free (rule 0, CFA_NONE, is never looked for here) */
	uint16_t slot[SLOTS_MOST];
	uint32_t slots; /* of them in use: a power of two, at least twice as many as rules */
	uint32_t count;
};

static uint32_t rule_hash(const struct wire_rule *rule)
{
	uint64_t w[4], h;

	memcpy(w, rule, sizeof(w));
	h = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
	h = (h ^ h >> 32 ^ w[2] ^ w[3] * 0xc4ceb9fe1a85ec53ull) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 40);
}

static void rules_begin(struct cfi_rules *r)
{
	memset(r->slot, 0, SLOTS_FEW * sizeof(*r->slot));
	memset(&r->rule[0], 0, sizeof(r->rule[0]));
	r->slots = SLOTS_FEW;
	r->count = 1;
}

/* Where RULE is, or the free slot where it belongs. */
static uint16_t *rule_slot(struct cfi_rules *r, const struct wire_rule *rule)
{
	for (uint32_t i = rule_hash(rule);; i++) {
		uint16_t *slot = &r->slot[i & (r->slots - 1)];

		if (!*slot || !memcmp(&r->rule[*slot], rule, sizeof(*rule)))
			return slot;
	}
}

static void rules_spread(struct cfi_rules *r)
{
	r->slots *= 4;
	memset(r->slot, 0, r->slots * sizeof(*r->slot));
	for (uint32_t n = 1; n < r->count; n++)
		*rule_slot(r, &r->rule[n]) = (uint16_t)n;
}

/* The rule's index. When all are taken new ones are 0: those stacks end in [truncated]. */
static uint16_t rule_index(struct cfi_rules *r, const struct wire_rule *rule)
{
	uint16_t *slot;

	if (rule->cfa == CFA_NONE)
		return 0;
	slot = rule_slot(r, rule);
	if (*slot || r->count == WIRE_RULES)
		return *slot;
	if (r->count * 2 == r->slots && r->slots < SLOTS_MOST) {
		rules_spread(r);
		slot = rule_slot(r, rule);
	}
	*slot = (uint16_t)r->count;
	r->rule[r->count] = *rule;
	return (uint16_t)r->count++;
}

int cfi_init(struct cfi *cfi, struct wire_tables *tables, uint64_t pool_size)
{
	struct cfi_rules *rules = malloc(sizeof(*rules));

	if (!rules)
		return -ENOMEM;
	rules_begin(rules);
	*cfi = (struct cfi){
		.tables = tables, .pool_size = pool_size, .nrules = 1, .rules = rules
	};
	tables->rule[0] = rules->rule[0];
	return 0;
}

void cfi_release(struct cfi *cfi)
{
	free(cfi->rules);
	cfi->rules = NULL;
}

/* ---- what is known of a file --------------------------------------------- */

/*
 * The rows of one file's code, with rules numbered on their own. They are the same wherever the
 * file is mapped, so they are kept for the next process that maps it: g++ starts four programs, and
 * each maps the same libc.
 */
struct piece { /* rows that follow each other, with rules numbered on their own */
	uint32_t *offs;
	uint16_t *rule;
	size_t n, room;
	struct wire_rule *rules;
	uint32_t nrules;
};

#define PIECES 16u

struct rows {
	struct elf *elf; /* counted; NULL: free */
	uint64_t lo, hi;
	struct piece piece[PIECES];
	unsigned pieces;
	uint64_t used; /* when, for eviction */
};

#define KEPT	   64u
#define KEPT_BYTES (48u << 20)
static struct rows kept[KEPT];
static uint64_t kept_clock;
static struct cfi_rules *numbering; /* of what is being read */

static void piece_release(struct piece *p)
{
	free(p->offs);
	free(p->rule);
	free(p->rules);
	*p = (struct piece){ .offs = NULL };
}

static void rows_release(struct rows *r)
{
	if (r->elf)
		elf_unref(r->elf);
	for (unsigned i = 0; i < r->pieces; i++)
		piece_release(&r->piece[i]);
	*r = (struct rows){ .elf = NULL };
}

static size_t rows_count(const struct rows *r)
{
	size_t n = 0;

	for (unsigned i = 0; i < r->pieces; i++)
		n += r->piece[i].n;
	return n;
}

static size_t rows_bytes(const struct rows *r)
{
	return rows_count(r) * (sizeof(*r->piece->offs) + sizeof(*r->piece->rule));
}

void cfi_forget(void)
{
	for (size_t i = 0; i < KEPT; i++)
		rows_release(&kept[i]);
	free(numbering);
	numbering = NULL;
}

static struct rows *rows_find(const struct elf *elf, uint64_t lo, uint64_t hi)
{
	for (size_t i = 0; i < KEPT; i++)
		if (kept[i].elf == elf && kept[i].lo == lo && kept[i].hi == hi) {
			kept[i].used = ++kept_clock;
			return &kept[i];
		}
	return NULL;
}

/* A place for NEW among the kept ones; the least lately used make room. */
static struct rows *rows_keep(struct rows *new)
{
	for (;;) {
		struct rows *oldest = NULL, *free_one = NULL;
		size_t bytes = rows_bytes(new);

		for (size_t i = 0; i < KEPT; i++) {
			bytes += rows_bytes(&kept[i]);
			if (!kept[i].elf)
				free_one = &kept[i];
			else if (!oldest || kept[i].used < oldest->used)
				oldest = &kept[i];
		}
		if (free_one && (bytes <= KEPT_BYTES || !oldest)) {
			*free_one = *new;
			free_one->used = ++kept_clock;
			return free_one;
		}
		rows_release(oldest);
	}
}

/* ---- making rows --------------------------------------------------------- */

struct build {
	struct piece piece;
	struct cfi_rules *rules;
	int error;
	/* the rule of `last_index`, so that equal neighbours need no search */
	struct wire_rule last;
	uint16_t last_index;
	size_t touched; /* rows of the room whose memory is there */
};

/* Memory that a file's rows get at least, and is made for them at a time. */
enum { ROWS_FEW = 1024, ROWS_TOUCHED = 16384 };

static bool build_room(struct build *b, size_t room)
{
	struct piece *p = &b->piece;
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
	struct piece *p = &b->piece;
	size_t left = p->room - b->touched, more = left < ROWS_TOUCHED ? left : ROWS_TOUCHED;

	space_touch(p->offs + b->touched, more * sizeof(*p->offs));
	space_touch(p->rule + b->touched, more * sizeof(*p->rule));
	b->touched += more;
}

/* Appends a row. Offsets never descend; of two rows at one place the later one holds. */
static void build_row(struct build *b, uint32_t offset, uint16_t rule)
{
	struct piece *p = &b->piece;

	if (p->n && p->offs[p->n - 1] >= offset)
		p->n--;
	if (p->n && p->rule[p->n - 1] == rule)
		return;
	if (p->n == p->room && !build_room(b, p->room ? p->room * 2 : ROWS_FEW))
		return;
	if (p->n == b->touched)
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

static int gaps_synthesize(struct gaps *g, struct elf *elf, const struct callframe_list *frames,
			   uint64_t lo, uint64_t hi)
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
	if (!build_room(b, most)) /* then it grows as it is filled */
		b->error = 0;
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

	if (elf_eh_frame(elf, &eh, &hdr) && eh.size <= UINT32_MAX) {
		space_look(eh.bytes, eh.size);
		source = (struct callframe_source){ .data = eh.bytes,
						    .size = eh.size,
						    .vaddr = eh.vaddr };
	}
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
	struct piece *p = &b->piece;

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

/* ---- pieces, by several threads -------------------------------------------- */

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

static struct cfi_rules *own_numbering(void)
{
	if (!numbering)
		numbering = malloc(sizeof(*numbering));
	return numbering;
}

static int build_all(struct code *c)
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
			worker_job(c, own_numbering(), i);
		if (c->error[i])
			return c->error[i];
	}
	return 0;
}

/*
 * Reads ELF's code in [lo, hi) (the file's addresses). NULL and *error, or rows that stay until the
 * next such call.
 */
static struct rows *rows_read(struct elf *elf, uint64_t lo, uint64_t hi, int *error)
{
	struct gaps gaps = { .range = NULL };
	struct callframe_list frames;
	struct rows rows = { .elf = NULL };
	struct code code = { .frames = &frames,
			     .gaps = &gaps,
			     .size = (uint32_t)(hi - lo),
			     .entry = elf_entry(elf),
			     .rows = &rows };

	*error = scan_frames(&frames, elf, lo, hi);
	if (*error)
		return NULL;
	*error = gaps_synthesize(&gaps, elf, &frames, lo, hi);
	if (!*error) {
		code_divide(&code);
		*error = build_all(&code);
	}
	gaps_release(&gaps);
	callframe_release(&frames);
	if (*error) {
		rows_release(&rows);
		return NULL;
	}
	rows.elf = elf_ref(elf);
	rows.lo = lo;
	rows.hi = hi;
	return rows_keep(&rows);
}

/* ---- into an image ------------------------------------------------------- */

static uint64_t align_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

static void write_rules(struct cfi *cfi, const struct piece *p, uint16_t *to)
{
	static uint16_t number[WIRE_RULES]; /* the piece's -> the image's */

	for (uint32_t i = 0; i < p->nrules; i++)
		number[i] = rule_index(cfi->rules, &p->rules[i]);
	for (; cfi->nrules < cfi->rules->count; cfi->nrules++)
		cfi->tables->rule[cfi->nrules] = cfi->rules->rule[cfi->nrules];
	for (size_t i = 0; i < p->n; i++)
		to[i] = number[p->rule[i]];
}

/* The entries of the KiBs whose beginnings are in P, whose first row is number FIRST of all. */
static void write_index(uint32_t *index, const struct piece *p, size_t first, uint32_t *kib,
			uint64_t end)
{
	size_t row = 0;

	for (; (uint64_t)*kib * KIB < end; (*kib)++) {
		while (row + 1 < p->n && p->offs[row + 1] <= (uint64_t)*kib * KIB)
			row++;
		index[*kib] = (uint32_t)(first + row);
	}
}

static int rows_write(struct cfi *cfi, const struct rows *r, struct wire_module *out)
{
	uint8_t *pool = cfi->tables->pool;
	size_t n = rows_count(r), done = 0;
	uint64_t offs = align_up(cfi->pool_used, 64), rules = offs + n * sizeof(*r->piece->offs);
	uint64_t index = align_up(rules + n * sizeof(*r->piece->rule), 4);
	uint32_t kibs = (uint32_t)((r->hi - r->lo + KIB - 1) / KIB), kib = 0;
	uint64_t end = index + (kibs + 1ull) * 4;

	if (end > WIRE_POOL || (end > cfi->pool_size && !(cfi->grow && cfi->grow(cfi, end))))
		return -ENOSPC;
	space_touch(pool + offs, end - offs);
	for (unsigned i = 0; i < r->pieces; i++) {
		const struct piece *p = &r->piece[i];
		uint64_t next = i + 1 < r->pieces ? r->piece[i + 1].offs[0] : r->hi - r->lo;

		memcpy((uint32_t *)(void *)(pool + offs) + done, p->offs, p->n * sizeof(*p->offs));
		write_rules(cfi, p, (uint16_t *)(void *)(pool + rules) + done);
		write_index((uint32_t *)(void *)(pool + index), p, done, &kib, next);
		done += p->n;
	}
	((uint32_t *)(void *)(pool + index))[kibs] = (uint32_t)(n - 1);
	cfi->pool_used = end;
	out->rows = offs;
	out->rules = rules;
	out->index = index;
	out->nrows = (uint32_t)n;
	out->pad = 0;
	return 0;
}

int cfi_build_elf(struct cfi *cfi, struct elf *elf, raddr_t text_start, raddr_t text_end,
		  raddr_t bias, struct wire_module *out)
{
	struct wire_module m = { .start = text_start, .end = text_end };
	struct rows *rows;
	int rc = 0;

	if (text_end <= text_start || text_end - text_start > UINT32_MAX)
		return -ENOENT;
	rows = rows_find(elf, text_start - bias, text_end - bias);
	if (!rows)
		rows = rows_read(elf, text_start - bias, text_end - bias, &rc);
	if (!rows)
		return rc;
	if (rows_count(rows) == 1 && !rows->piece[0].rule[0])
		return -ENOENT; /* nothing is known about any of it */
	rc = rows_write(cfi, rows, &m);
	if (!rc)
		*out = m;
	return rc;
}

int cfi_build_rows(struct cfi *cfi, raddr_t start, raddr_t end, const struct cfi_row *row,
		   size_t count, struct wire_module *out)
{
	struct wire_module m = { .start = start, .end = end };
	struct rows rows = { .hi = end - start, .pieces = 1 };
	struct build b;
	int rc = build_begin(&b, own_numbering());

	for (size_t i = 0; !rc && i < count; i++)
		build_rule(&b, row[i].offset, &row[i].rule);
	if (!rc)
		rc = build_finish(&b);
	rows.piece[0] = b.piece;
	if (!rc)
		rc = b.piece.n ? rows_write(cfi, &rows, &m) : -ENOENT;
	rows_release(&rows);
	if (!rc)
		*out = m;
	return rc;
}

int cfi_build(struct cfi *cfi, const struct module *module, struct wire_module *out)
{
	return cfi_build_elf(cfi, module->elf, module->text_start, module->text_end, module->bias,
			     out);
}

const struct wire_rule *cfi_lookup(const struct cfi *cfi, const struct wire_module *m, uint64_t pc)
{
	const uint8_t *pool = cfi->tables->pool;
	const uint32_t *offs = (const uint32_t *)(const void *)(pool + m->rows);
	const uint16_t *rule = (const uint16_t *)(const void *)(pool + m->rules);
	const uint32_t *index = (const uint32_t *)(const void *)(pool + m->index);
	uint32_t off, lo, hi;

	if (pc < m->start || pc >= m->end)
		return NULL;
	off = (uint32_t)(pc - m->start);
	lo = __atomic_load_n(&index[off / KIB], __ATOMIC_RELAXED);
	hi = __atomic_load_n(&index[off / KIB + 1], __ATOMIC_RELAXED);
	if (lo > hi || hi >= m->nrows)
		return NULL;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo + 1) / 2;

		if (__atomic_load_n(&offs[mid], __ATOMIC_RELAXED) <= off)
			lo = mid;
		else
			hi = mid - 1;
	}
	return &cfi->rules->rule[rule[lo]];
}
