// SPDX-License-Identifier: GPL-3.0-or-later
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/units.h"
#include "ledger/activity.h"
#include "symbols/elf.h"
#include "symbols/module.h"

/*
 * The table of formats, and what all writers need: the amounts and the stacks of the view that they
 * print.
 */
const struct export_format export_formats[] = {
	{ "heap", EXPORT_TOTALS, export_heap, NULL },
	{ "jemalloc", EXPORT_TOTALS, export_jemalloc, NULL },
	{ "pprof", EXPORT_SIGNED | EXPORT_TOTALS | EXPORT_BINARY, export_pprof, NULL },
	{ "folded", 0, export_folded, NULL },
	{ "flamegraph", 0, export_flamegraph, NULL },
	{ "graph", EXPORT_SIGNED, export_graph, graph_endings },
	{ "massif", EXPORT_TIMELINE | EXPORT_TOTALS, export_massif, NULL },
	{ "heaptrack", EXPORT_TIMELINE | EXPORT_TOTALS, export_heaptrack, NULL },
	{ "dhat", EXPORT_TIMELINE | EXPORT_TOTALS, export_dhat, NULL },
	{ "speedscope", EXPORT_TOTALS, export_speedscope, NULL },
	{ "csv", EXPORT_SIGNED, export_csv, NULL },
	{ "json", EXPORT_SIGNED | EXPORT_TOTALS, export_json, NULL },
	{ "html", EXPORT_TIMELINE | EXPORT_TOTALS | EXPORT_RESIDENCY | EXPORT_LEAKS, export_html,
	  NULL },
	{ NULL, 0, NULL, NULL }
};

const struct export_format *export_format(const char *name)
{
	for (const struct export_format *f = export_formats; f->name; f++)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

/* ---- amounts ------------------------------------------------------------- */

const struct activity *export_activity(const struct export *e)
{
	static const struct activity none = { .step = ACTIVITY_MS };

	return e->activity ? e->activity : &none;
}

int64_t export_size(const struct export *e, const struct view_row *r)
{
	return e->total ? (int64_t)r->total_size : r->size;
}
int64_t export_count(const struct export *e, const struct view_row *r)
{
	return e->total ? (int64_t)r->total_count : r->count;
}

int64_t export_total(const struct export *e)
{
	int64_t sum = 0;

	for (size_t i = 0; i < e->view->count; i++)
		sum += export_size(e, &e->view->row[i]);
	return sum;
}

const char *export_amount(struct text_buffer *b, int64_t bytes)
{
	size_t n;

	if (bytes > -1024 && bytes < 1024) {
		snprintf(b->text, sizeof(b->text), "%d byte%s", (int)bytes,
			 plural((uint64_t)bytes));
		return b->text;
	}
	size_text(b, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes);
	n = strlen(b->text);
	snprintf(b->text + n - 1, sizeof(b->text) - n + 1, " %ciB", b->text[n - 1]);
	if (bytes < 0) {
		memmove(b->text + 1, b->text, strlen(b->text) + 1);
		b->text[0] = '-';
	}
	return b->text;
}

const char *export_noun(const struct export *e)
{
	return e->total			? "allocated in total"
	       : e->view->is_difference ? "more than before"
					: "live";
}

int export_rest(const struct export *e)
{
	int err = sites_rest(e->sites);

	return !err && e->interrupted && e->interrupted(e->ctx) ? -EINTR : err;
}

int export_profile(const struct export *e, struct profile *p)
{
	*p = (struct profile){ .ms = e->view->ms,
			       .since_ms = e->view->since_ms,
			       .is_difference = e->view->is_difference,
			       .estimated = e->view->estimated };
	p->row = calloc(e->view->count + 1, sizeof(*p->row));
	if (!p->row)
		return -ENOMEM;
	for (size_t i = 0; i < e->view->count; i++) {
		const struct view_row *r = &e->view->row[i];

		if (export_size(e, r) || export_count(e, r))
			p->row[p->count++] = (struct profile_row){ .stack = r->stack,
								   .size = export_size(e, r),
								   .count = export_count(e, r) };
	}
	return 0;
}

/* ---- stacks -------------------------------------------------------------- */

static int add(struct export_stack *s, const struct export_location *location)
{
	if (array_room(&s->location, s->count, &s->room, sizeof(*s->location)))
		return -ENOMEM;
	s->location[s->count++] = *location;
	return 0;
}

/* How many frames at the inner end of F are an allocator's. */
static size_t allocators(struct symbol_frames f)
{
	size_t n = 0;

	while (n < f.count && f.frame[n].skip & SKIP_ALLOCATOR)
		n++;
	return n;
}

int export_stack(const struct export *e, const struct view_row *r, struct export_stack *stack)
{
	size_t inner = 0, skip = 0;

	stack->count = 0;
	for (uint32_t node = r->stack;;) {
		struct export_location l = { sites_frames(e->sites, node), node };

		if (add(stack, &l))
			return -ENOMEM;
		node = sites_parent(e->sites, node);
		if (!node)
			break;
	}
	while (inner < stack->count && (skip = allocators(stack->location[inner].frames)) ==
					       stack->location[inner].frames.count)
		inner++;
	if (inner == stack->count)
		return 0; /* nothing else is known of it */
	stack->count -= inner;
	memmove(stack->location, stack->location + inner, stack->count * sizeof(*stack->location));
	stack->location[0].frames.frame += skip;
	stack->location[0].frames.count -= skip;
	return 0;
}

raddr_t export_address(const struct export *e, const struct export_location *l)
{
	return sites_address(e->sites, l->node);
}

void export_stack_release(struct export_stack *stack)
{
	free(stack->location);
	*stack = (struct export_stack){ 0 };
}

const char *export_name(const struct symbol_frame *f)
{
	return f->function && *f->function ? f->function : "??";
}

/*
 * Where in its file M's text is: a log does not say, but it is as far from the beginning as in
 * memory, unless the linker was told otherwise.
 */
static uint64_t file_offset(const struct module *m)
{
	uint64_t vaddr = m->text_start - m->bias;
	const struct elf_segment *segment;
	size_t n = m->elf ? elf_segments(m->elf, &segment) : 0;

	for (size_t i = 0; i < n; i++)
		if (vaddr - segment[i].vaddr < segment[i].filesz)
			return segment[i].offset + vaddr - segment[i].vaddr;
	return m->text_start - m->start;
}

void export_modules(FILE *out, const struct export *e)
{
	const struct modules *all = e->modules;

	fputs("\nMAPPED_LIBRARIES:\n", out);
	for (size_t i = 0; all && i < all->count; i++) {
		const struct module *m = all->module[i];

		fprintf(out, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64 " 00:00 %" PRIu64 " ",
			(uint64_t)m->text_start, (uint64_t)m->text_end, file_offset(m), m->inode);
		escape_printf(out, "%s\n", m->path);
	}
}
