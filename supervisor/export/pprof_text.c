// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>

#include "base/escape.h"
#include "export/export.h"

/*
 * The text of Go's runtime/pprof for a heap profile with debug=1: a line of sums, a line for each
 * stack with its return addresses, and below it comments with the functions, for people. `go tool
 * pprof` reads it, too, and finds the names in the modules that the end of the text lists.
 *
 * Behind `heap/` Go writes twice its sampling period, and readers scale up by it. Our amounts are
 * scaled already, or exact: the period is 1.
 */
#define PERIOD 1u

static void put_amounts(FILE *out, const struct view_row *r)
{
	/* readers refuse bytes without a block; of estimates that may be */
	escape_printf(out, "%" PRId64 ": %" PRId64 " [%" PRIu64 ": %" PRIu64 "] @",
		      r->size && !r->count ? 1 : r->count, r->size,
		      r->total_size && !r->total_count ? 1 : r->total_count, r->total_size);
}

static void put_sums(FILE *out, const struct view *v)
{
	struct view_row all = { 0 };

	for (size_t i = 0; i < v->count; i++) {
		all.size += v->row[i].size;
		all.count += v->row[i].count;
		all.total_size += v->row[i].total_size;
		all.total_count += v->row[i].total_count;
	}
	fputs("heap profile: ", out);
	put_amounts(out, &all);
	fprintf(out, " heap/%u\n", 2 * PERIOD);
}

static void put_frame(FILE *out, raddr_t address, const struct symbol_frame *f)
{
	escape_printf(out, "#\t%#" PRIx64 "\t%s", (uint64_t)address, export_name(f));
	if (f->file)
		escape_printf(out, "\t%s:%u", f->file, f->line);
	else if (f->module)
		escape_printf(out, "\t%s", f->module);
	putc('\n', out);
}

static void put_stack(FILE *out, const struct export *e, const struct export_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++) {
		raddr_t address = export_address(e, &stack->location[i]);

		if (address)
			fprintf(out, " %#" PRIx64, (uint64_t)address + 1);
	}
	putc('\n', out);
	for (size_t i = 0; i < stack->count; i++) {
		const struct export_location *l = &stack->location[i];

		for (size_t k = 0; k < l->frames.count; k++)
			put_frame(out, export_address(e, l), &l->frames.frame[k]);
	}
	putc('\n', out);
}

int export_pprof_text(FILE *out, const struct export *e)
{
	struct export_stack stack = { 0 };
	int err = 0;

	put_sums(out, e->view);
	for (size_t i = 0; i < e->view->count && !err && !ferror(out); i++) {
		err = export_rest(e);
		if (!err)
			err = export_stack(e, &e->view->row[i], &stack);
		if (err)
			break;
		put_amounts(out, &e->view->row[i]);
		put_stack(out, e, &stack);
	}
	export_stack_release(&stack);
	if (!err)
		export_modules(out, e);
	return err;
}
