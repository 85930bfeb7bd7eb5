// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/heapfile.h"

#include "export/export.h"

/*
 * The .heap file that `dump` writes, of another moment, or of some stacks only. It has whole
 * stacks: who reads it leaves out what he likes.
 */
int export_heap(FILE *out, const struct export *e)
{
	static const struct modules no_modules;
	struct heap_facts facts = { .pid = e->pid,
				    .command = e->command,
				    .exe = e->exe,
				    .why = "export",
				    .clock_ms = e->began + e->view->ms,
				    .sample = e->view->estimated ? e->sample : 0,
				    .counted = e->counted,
				    .peak = e->peak,
				    .peak_ms = e->peak_ms,
				    .marks = e->marks,
				    .modules = e->modules ? e->modules : &no_modules };
	struct profile p;
	int err = export_profile(e, &p);

	if (err)
		return err;
	p.has_totals = e->view->has_totals && !e->total;
	if (p.has_totals)
		p.count = e->view->count;
	for (size_t n = 0; p.has_totals && n < p.count; n++) {
		const struct view_row *r = &e->view->row[n];

		p.row[n] = (struct profile_row){ .stack = r->stack,
						 .size = r->size,
						 .count = r->count,
						 .total_size = r->total_size,
						 .total_count = r->total_count,
						 .temporary = r->temporary };
	}
	err = heap_write(out, &facts, &p, e->sites);
	profile_release(&p);
	return err;
}
