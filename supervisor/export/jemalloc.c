// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/intern.h"
#include "export/export.h"

/*
 * jemalloc's heap profile in its text form, heap_v2, with jeprof's table of symbols in front:
 * jeprof needs neither the program nor its libraries.
 *
 * heap_v2/0: the amounts are as they are, jeprof scales nothing. jeprof looks up the innermost
 * address of a stack as it is and all others less 1, and its table is by address. So each location
 * gets an address that no other has, its own if it can, and that is what the table has; callers are
 * written plus 1.
 */
#define INVENTED (1ull << 63) /* no address of a program's */

struct writer {
	FILE *out;
	const struct export *e;
	struct intern locations; /* by frames */
	struct intern taken;	 /* addresses */
	struct {
		raddr_t address;
		size_t frames;
	} * location; /* of each number */
	size_t room;
};

/* The number of location L, 0: out of memory. */
static uint32_t location(struct writer *w, const struct export_location *l)
{
	size_t before = w->locations.count, addresses = w->taken.count;
	uint32_t n = intern(&w->locations, l->frames.frame);
	raddr_t address;

	if (n == 0 || n <= before)
		return n;
	if (array_room(&w->location, n - 1, &w->room, sizeof(*w->location)))
		return 0;
	w->location[n - 1].frames = l->frames.count;
	address = export_address(w->e, l);
	w->location[n - 1].address = address;
	if (address && !intern(&w->taken, (const void *)(uintptr_t)address))
		return 0;
	if (!address || w->taken.count == addresses)
		w->location[n - 1].address = INVENTED + n;
	return n;
}

static int find_locations(struct writer *w)
{
	struct export_stack stack = { 0 };
	int err = 0;

	for (size_t i = 0; i < w->e->view->count && !err; i++) {
		err = export_rest(w->e);
		if (!err)
			err = export_stack(w->e, &w->e->view->row[i], &stack);
		for (size_t k = 0; !err && k < stack.count; k++)
			err = location(w, &stack.location[k]) ? 0 : -ENOMEM;
	}
	export_stack_release(&stack);
	return err;
}

/*
 * `--` separates functions that are inlined into each other, lines end names, and nothing else may
 * stand there.
 */
static void put_name(FILE *out, const char *name)
{
	char as[ESCAPE_UNIT];

	for (size_t len; *name; name += len) {
		len = escape_unit(name, as);
		if (*as)
			fputs_unlocked(as, out);
		else
			fwrite_unlocked(name, 1, len, out);
		if (name[0] == '-' && name[1] == '-')
			putc_unlocked(' ', out);
	}
}

/* Outermost first. */
static void put_symbols(struct writer *w)
{
	fprintf(w->out, "--- symbol\nbinary=");
	put_name(w->out, w->e->exe ? w->e->exe : "unknown");
	putc('\n', w->out);
	for (size_t i = 0; i < w->locations.count && !ferror(w->out); i++) {
		const struct symbol_frame *f = w->locations.key[i];

		fprintf(w->out, "0x%016" PRIx64 " ", w->location[i].address);
		for (size_t k = w->location[i].frames; k-- > 0;) {
			put_name(w->out, export_name(&f[k]));
			if (k)
				fputs("--", w->out);
		}
		putc('\n', w->out);
	}
	fputs("---\n--- heap\n", w->out);
}

/* Of a moment that is past the totals may not be known: they are at least what was live. */
static void put_amounts(struct writer *w, int64_t count, int64_t size, uint64_t total_count,
			uint64_t total_size)
{
	if (count > 0 && total_count < (uint64_t)count)
		total_count = (uint64_t)count;
	if (size > 0 && total_size < (uint64_t)size)
		total_size = (uint64_t)size;
	fprintf(w->out, "  t*: %" PRId64 ": %" PRId64 " [%" PRIu64 ": %" PRIu64 "]\n", count, size,
		total_count, total_size);
}

static void put_total(struct writer *w)
{
	uint64_t total_count = 0, total_size = 0;
	int64_t count = 0, size = 0;

	for (size_t i = 0; i < w->e->view->count; i++) {
		const struct view_row *r = &w->e->view->row[i];

		count += export_count(w->e, r);
		size += export_size(w->e, r);
		total_count += w->e->view->has_totals ? r->total_count : 0;
		total_size += w->e->view->has_totals ? r->total_size : 0;
	}
	fputs("heap_v2/0\n", w->out);
	put_amounts(w, count, size, total_count, total_size);
}

static int put_stacks(struct writer *w)
{
	bool totals = w->e->view->has_totals;
	struct export_stack stack = { 0 };
	int err = 0;

	for (size_t i = 0; i < w->e->view->count && !err && !ferror(w->out); i++) {
		const struct view_row *r = &w->e->view->row[i];

		err = export_rest(w->e);
		if (!err)
			err = export_stack(w->e, r, &stack);
		if (err)
			break;
		putc('@', w->out);
		for (size_t k = 0; k < stack.count; k++)
			fprintf(w->out, " 0x%" PRIx64,
				w->location[location(w, &stack.location[k]) - 1].address + (k > 0));
		putc('\n', w->out);
		put_amounts(w, export_count(w->e, r), export_size(w->e, r),
			    totals ? r->total_count : 0, totals ? r->total_size : 0);
	}
	export_stack_release(&stack);
	return err;
}

int export_jemalloc(FILE *out, const struct export *e)
{
	struct writer w = { .out = out, .e = e };
	int err = find_locations(&w);

	if (!err) {
		put_symbols(&w);
		put_total(&w);
		err = put_stacks(&w);
	}
	if (!err)
		export_modules(out, e);
	intern_release(&w.locations);
	intern_release(&w.taken);
	free(w.location);
	return err;
}
