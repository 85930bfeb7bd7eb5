// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/heapfile_import.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/intern.h"
#include "base/maps.h"
#include "base/outside.h"
#include "base/text.h"
#include "ledger/ledger.h"
#include "symbols/elf.h"
#include "symbols/site_rule.h"
#include "symbols/symbols.h"

/*
 * The heap profiles of jemalloc and gperftools:
 *
 *	heap_v2/524288                      heap profile:   12:  34567 [    20:   45678] @ heapprofile
 *	  t*: 12: 34567 [0: 0]                  1:   1024 [     1:   1024] @ 0x55f7ccd55a36 0x55f7...
 *	@ 0x55f7ccd55a36 0x55f7ccd556e5     MAPPED_LIBRARIES:
 *	  t*: 1: 1024 [0: 0]                ...
 *	MAPPED_LIBRARIES:
 *	55f7ccd55000-55f7ccd56000 r-xp 00001000 fe:00 11199540 /usr/bin/prog
 *
 * in front of either may be jeprof's table of symbols. Amounts are read as jeprof reads them: what
 * was sampled is scaled up. Names are looked up in the files that the maps name, as they are here
 * now; nothing says whether they are the same as then.
 *
 * The file comes from somewhere: everything that is made of it is in proportion to its size. The
 * maps come last, so the rows are kept as addresses first.
 */
#define ADDRESS	   ((UINT64_C(1) << 47) - 1)
#define PARTS_MOST 64u

struct import_row {
	size_t first, count;	   /* in `address` */
	uint64_t live[2], ever[2]; /* blocks, bytes */
};
struct place {		     /* what is at an address */
	size_t first, count; /* in h->frame */
	bool allocator;
};
struct symbol_line {
	uint64_t address;
	const char *
		name; /* each of its functions behind the other's NUL and a byte, outermost first */
	unsigned parts;
};
struct import {
	struct heap *h;
	char *at, *end;
	uint64_t *address; /* innermost first */
	size_t addresses, address_room;
	struct import_row *row;
	size_t rows, row_room;
	struct symbol_line *symbol;
	size_t symbols, symbol_room;
	bool named; /* it has symbols, if there is anything that needs any */
	/* how amounts were sampled, as jeprof counts the ways: 0: not */
	int algorithm;
	double period;
	double bytes;	      /* in all rows together */
	struct intern places; /* by address */
	struct place *place;
	size_t place_room, frame_room;
	char *why;
	size_t len;
};

static int wrong(struct import *im, const char *why)
{
	snprintf(im->why, im->len, "%s", why);
	return -EINVAL;
}

static int no_memory(struct import *im) { return wrong(im, "out of memory"); }

/* ---- text ---------------------------------------------------------------- */

/* The next line without its end; NULL: there is none. */
static char *next_line(struct import *im)
{
	char *line = im->at, *newline;

	if (line >= im->end)
		return NULL;
	newline = memchr(line, '\n', (size_t)(im->end - line));
	im->at = newline ? newline + 1 : im->end;
	if (newline)
		*newline = '\0';
	if (newline && newline > line && newline[-1] == '\r')
		newline[-1] = '\0';
	return line;
}

/* `12: 34567 [20: 45678]` at *AT, which is moved behind it. */
static bool amounts(char **at, uint64_t live[2], uint64_t ever[2])
{
	int n = 0;

	if (sscanf(*at, " %" SCNu64 ": %" SCNu64 " [ %" SCNu64 ": %" SCNu64 "]%n", &live[0],
		   &live[1], &ever[0], &ever[1], &n) != 4 ||
	    !n)
		return false;
	*at += n;
	return live[0] <= PROFILE_SUM_MOST && live[1] <= PROFILE_SUM_MOST &&
	       ever[0] <= PROFILE_SUM_MOST && ever[1] <= PROFILE_SUM_MOST;
}

/* ` 0x12 0x34` at TEXT become the addresses of ROW. */
static int stack(struct import *im, const char *text, struct import_row *row)
{
	row->first = im->addresses;
	row->count = 0;
	for (char *end;; text = end) {
		uint64_t address = strtoull(text, &end, 16);

		if (end == text)
			return 0;
		if (array_room(&im->address, im->addresses, &im->address_room,
			       sizeof(*im->address)))
			return no_memory(im);
		im->address[im->addresses++] = address;
		row->count++;
	}
}

static int add_row(struct import *im, const struct import_row *row)
{
	if (array_room(&im->row, im->rows, &im->row_room, sizeof(*im->row)))
		return no_memory(im);
	im->row[im->rows++] = *row;
	return 0;
}

/* ---- the parts of the file ----------------------------------------------- */

/* `outer--inner` becomes several texts: how many. */
static unsigned part(char *name)
{
	unsigned n = 1;

	for (char *at = name; (at = strstr(at, "--")) && n < PARTS_MOST; at += 2, n++)
		*at = '\0';
	return n;
}

/* Behind `--- symbol`, up to `--- heap`. */
static int take_symbols(struct import *im)
{
	char *line;

	while ((line = next_line(im)) && !text_begins(line, "--- heap")) {
		uint64_t address;
		char *name;

		if (text_begins(line, "binary="))
			im->h->facts.exe = line + 7;
		address = strtoull(line, &name, 16);
		if (name == line || *name != ' ')
			continue;
		if (array_room(&im->symbol, im->symbols, &im->symbol_room, sizeof(*im->symbol)))
			return no_memory(im);
		im->symbol[im->symbols++] =
			(struct symbol_line){ address, name + 1, part(name + 1) };
	}
	return line ? 0 : wrong(im, "it is cut off");
}

/* `@ heapprofile`, `@ heap_v2/524288`, `@ heap/524288` */
static void take_type(struct import *im, const char *text)
{
	const char *slash = strchr(text, '/');

	if (!strstr(text, "heap") || text_begins(text, "heapprofile"))
		return;
	im->algorithm = strstr(text, "_v2") ? 2 : 1;
	im->period = slash ? strtod(slash + 1, NULL) : 0;
	if (im->algorithm == 1)
		im->period /= 2;
	if (!(im->period > 0))
		im->period = 128 * 1024;
}

static bool ends_rows(const char *line)
{
	return text_begins(line, "MAPPED_LIBRARIES:") || text_begins(line, "--- Memory map:");
}

/* Behind `heap profile:`. */
static int take_gperftools(struct import *im, char *header)
{
	struct import_row row;
	char *line = header, *type;

	if (!amounts(&line, row.live, row.ever))
		return wrong(im, "it is not a .heap file");
	im->h->profile.has_totals = row.ever[1];
	type = strstr(line, "@ ");
	if (type)
		take_type(im, type + 2);
	while ((line = next_line(im)) && !ends_rows(line)) {
		int err;

		if (!amounts(&line, row.live, row.ever) || !text_begins(line, " @"))
			continue;
		err = stack(im, line + 2, &row);
		if (!err)
			err = add_row(im, &row);
		if (err)
			return err;
	}
	return line ? 0 : wrong(im, "it is cut off");
}

/* Behind `heap_v2/`. */
static int take_jemalloc(struct import *im, const char *header)
{
	struct import_row row = { 0 };
	bool in_stack = false;
	char *line;

	im->period = strtod(header, NULL);
	im->algorithm = im->period > 0 ? 2 : 0;
	while ((line = next_line(im)) && !ends_rows(line)) {
		char *at = line + strspn(line, " ");
		int err = 0;

		if (*at == '@') {
			err = stack(im, at + 1, &row);
			in_stack = true;
		} else if (text_begins(at, "t*:")) {
			at += 3;
			if (!amounts(&at, row.live, row.ever))
				continue;
			if (in_stack)
				err = add_row(im, &row);
			else
				im->h->profile.has_totals = row.ever[1];
		}
		if (err)
			return err;
	}
	return line ? 0 : wrong(im, "it is cut off");
}

/*
 * A file of our own that is cut off where these end has the same form so far, but only rows of
 * executable pages: then it is not complete.
 */
static int take_maps(struct import *im)
{
	struct maps maps;
	bool whole = im->named;
	int err = maps_parse(&maps, im->at, (size_t)(im->end - im->at));

	if (err)
		return no_memory(im);
	for (size_t i = 0; i < maps.count && !whole; i++)
		whole = !maps.map[i].exec;
	if (im->end[-1] != '\n' && im->end[-1] != '\0')
		whole = false;
	err = whole ? modules_recorded(&im->h->modules, im->h->outside, &maps) : 0;
	maps_release(&maps);
	if (!whole)
		return wrong(im, "it is cut off, or it has no symbols");
	return err < 0 ? no_memory(im) : 0;
}

/* ---- names --------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
	const struct symbol_line *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int add_frame(struct import *im, struct place *place, const struct symbol_frame *f)
{
	struct heap *h = im->h;

	if (array_room(&h->frame, h->frames, &im->frame_room, sizeof(*h->frame)))
		return -ENOMEM;
	h->frame[h->frames++] = *f;
	place->count++;
	place->allocator |= f->skip & SKIP_ALLOCATOR;
	return 0;
}

/* Of the table. */
static int add_named(struct import *im, struct place *place, const struct symbol_line *s)
{
	int err = 0;

	for (unsigned i = s->parts; i-- > 0 && !err;) {
		struct symbol_frame f = { .function = s->name,
					  .module = im->h->facts.exe,
					  .address = s->address,
					  .inlined = i > 0 };

		for (unsigned k = 0; k < i; k++)
			f.function += strlen(f.function) + 2;
		f.skip = site_classify(NULL, f.function);
		err = add_frame(im, place, &f);
	}
	return err;
}

/* An allocator's library; its own functions have no names, often. */
static bool is_allocator(const struct heap *h, const struct module *m)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	return m && m != h->modules.module[0] && !(m->roles & (MODULE_LIBC | MODULE_LDSO)) &&
	       elf_find(m->elf, "malloc", &cursor, &symbol);
}

static int add_looked_up(struct import *im, struct place *place, uint64_t address)
{
	struct heap *h = im->h;
	const struct module *m = modules_find(&h->modules, address, UINT32_MAX);
	struct symbol_frames f = symbols_resolve(h->symbols, m, address, true);
	int err = 0;

	place->allocator = is_allocator(h, m);
	for (size_t i = 0; i < f.count && !err; i++)
		err = add_frame(im, place, &f.frame[i]);
	return err;
}

/* The number of the place at ADDRESS; 0: out of memory. */
static uint32_t place_at(struct import *im, uint64_t address)
{
	size_t before = im->places.count;
	uint32_t n = intern(&im->places, (const void *)(uintptr_t)(address ? address : 1));
	struct symbol_line key = { .address = address }, *s;
	struct place *place;
	int err;

	if (!n || n <= before)
		return n;
	if (array_room(&im->place, n - 1, &im->place_room, sizeof(*im->place)))
		return 0;
	place = &im->place[n - 1];
	*place = (struct place){ .first = im->h->frames };
	s = im->symbols ? bsearch(&key, im->symbol, im->symbols, sizeof(*s), by_address) : NULL;
	err = s && *s->name ? add_named(im, place, s) : add_looked_up(im, place, address);
	return err ? 0 : n;
}

/* ---- stacks -------------------------------------------------------------- */

/*
 * As jeprof: where the call is, the innermost address being that already where there is a table of
 * symbols.
 */
static uint64_t lookup(const struct import *im, const struct import_row *row, size_t i)
{
	uint64_t address = im->address[row->first + i];

	return address - (i > 0 || !im->symbols);
}

/*
 * The numbers of a row's places take the place of its addresses. As jeprof does, the allocator's
 * outermost function and all that it called are dropped.
 */
static int find_places(struct import *im, struct import_row *row)
{
	size_t inner = 0;

	for (size_t i = 0; i < row->count; i++) {
		uint32_t n = place_at(im, lookup(im, row, i));

		if (!n)
			return -ENOMEM;
		im->address[row->first + i] = n;
		if (im->place[n - 1].allocator && i + 1 < row->count)
			inner = i + 1;
	}
	row->first += inner;
	row->count -= inner;
	return 0;
}

/* The stack of ROW, whose frames are in their final place. *ID: 0 if it has none. */
static int add_stack(struct import *im, struct intern *nodes, const struct import_row *row,
		     uint32_t *id)
{
	*id = 0;
	for (size_t i = row->count; i-- > 0;) {
		uint64_t n = im->address[row->first + i], parent = *id;
		const struct place *place = &im->place[n - 1];
		size_t before = nodes->count;
		uint64_t pc = (uint64_t)(uintptr_t)im->places.key[n - 1] + 1;
		int err;

		*id = intern(nodes, (const void *)(uintptr_t)(parent << 32 | n));
		if (!*id)
			return -ENOMEM;
		if (*id <= before)
			continue;
		err = stacks_add(im->h->stacks, *id, (uint32_t)parent,
				 pc & ADDRESS ? pc & ADDRESS : 1, &im->h->frame[place->first],
				 place->count);
		if (err)
			return err;
	}
	return 0;
}

/* One amount of a sample, scaled up as jeprof does. */
static void scale(const struct import *im, const uint64_t raw[2], double scaled[2])
{
	double ratio, by = 1;

	if (im->algorithm && raw[0]) {
		ratio = (double)raw[1] / (double)raw[0] / im->period;
		if (im->algorithm == 2)
			by = ratio > 0 ? 1 / (1 - exp(-ratio)) : 1;
		else
			by = ratio > 0 && ratio < 1 ? 1 / ratio : 1;
	}
	scaled[0] = (double)raw[0] * by;
	scaled[1] = (double)raw[1] * by;
}

/* ROWS: by node, which row of the profile it is, plus 1. */
static int add_amounts(struct import *im, uint32_t *rows, const struct import_row *row, uint32_t id)
{
	struct profile *p = &im->h->profile;
	struct profile_row *to = rows[id] ? &p->row[rows[id] - 1] : &p->row[p->count];
	double live[2], ever[2];

	scale(im, row->live, live);
	scale(im, row->ever, ever);
	im->bytes += live[1] + ever[1];
	if (im->bytes > (double)PROFILE_SUM_MOST)
		return -ERANGE;
	if (!rows[id])
		rows[id] = (uint32_t)++p->count;
	to->stack = id;
	to->count += llround(live[0]);
	to->size += llround(live[1]);
	if (p->has_totals) {
		to->total_count += (uint64_t)llround(ever[0]);
		to->total_size += (uint64_t)llround(ever[1]);
	}
	return 0;
}

static int make_profile(struct import *im)
{
	struct heap *h = im->h;
	struct intern nodes = { 0 };
	uint32_t *rows, id;
	int err = 0;

	for (size_t i = 0; i < im->rows && !err; i++)
		err = find_places(im, &im->row[i]);
	rows = calloc(im->addresses + 1, sizeof(*rows));
	h->profile.row = calloc(im->rows + 1, sizeof(*h->profile.row));
	h->stacks = stacks_new();
	if (!rows || !h->profile.row || !h->stacks)
		err = -ENOMEM;
	for (size_t i = 0; i < im->rows && !err; i++) {
		err = add_stack(im, &nodes, &im->row[i], &id);
		if (!err)
			err = add_amounts(im, rows, &im->row[i], id);
	}
	free(rows);
	intern_release(&nodes);
	return !err		? 0
	       : err == -ENOMEM ? no_memory(im)
	       : err == -ERANGE ? wrong(im, "its rows have more bytes than there are")
				: wrong(im, "its stacks are too deep");
}

/* ---- the whole ----------------------------------------------------------- */

bool heap_is_importable(const char *text)
{
	return text_begins(text, "heap profile: ") || text_begins(text, "heap_v2/") ||
	       text_begins(text, "--- symbol\n");
}

static void name(struct heap *h)
{
	for (size_t i = 0; i < h->modules.count && !h->facts.exe; i++)
		if (h->modules.module[i]->path[0] == '/')
			h->facts.exe = h->modules.module[i]->path;
	h->facts.command = text_last_part(h->facts.exe);
	h->facts.counted = LEDGER_COUNT_HEAP;
}

static int take(struct import *im)
{
	char *line;
	int err = 0;

	if (memchr(im->at, '\0', (size_t)(im->end - im->at)))
		return wrong(im, "it is damaged: there are zero bytes in it");
	line = next_line(im);
	if (text_begins(line, "--- symbol")) {
		im->named = true;
		err = take_symbols(im);
		line = err ? NULL : next_line(im);
	}
	if (err || !line)
		return err ? err : wrong(im, "it is cut off");
	if (im->symbols)
		qsort(im->symbol, im->symbols, sizeof(*im->symbol), by_address);
	if (text_begins(line, "heap profile:")) {
		im->h->foreign = "gperftools";
		err = take_gperftools(im, line + 13);
	} else if (text_begins(line, "heap_v2/")) {
		im->h->foreign = "jemalloc";
		err = take_jemalloc(im, line + 8);
	} else {
		err = wrong(im, "it is not a .heap file");
	}
	if (!err)
		err = take_maps(im);
	if (!err)
		err = make_profile(im);
	if (err)
		return err;
	name(im->h);
	im->h->facts.sample = im->algorithm && im->period > 1 ? (uint64_t)im->period : 0;
	return 0;
}

int heap_import(struct heap *h, size_t size, char *why, size_t len)
{
	struct import im = { .h = h, .at = h->text, .end = h->text + size, .why = why, .len = len };
	int err;

	*why = '\0';
	h->outside = outside_of_owner(h->owner);
	h->symbols = h->outside ? symbols_new(h->outside) : NULL;
	err = h->symbols ? take(&im) : no_memory(&im);
	free(im.address);
	free(im.row);
	free(im.symbol);
	free(im.place);
	intern_release(&im.places);
	return err;
}
