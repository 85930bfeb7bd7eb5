// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/patient.h"
#include "base/units.h"
#include "report/grid.h"
#include "report/print.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/mapping.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `map`: what resident memory is made of; `map --frag`: who keeps pages by little. */
enum { ARG_FRAG, ARG_ROWS };

static const struct argument arguments[] = {
	[ARG_FRAG] = { "frag", 0, false }, [ARG_ROWS] = { "rows", 'n', true }, ARGUMENTS_END
};

struct request {
	bool frag, has_rows;
	size_t rows;
};

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_FRAG: r->frag = true; return 0;
	case ARG_ROWS:
		r->frag = r->has_rows = true;
		return reporting_rows(shell, call, "-n", value, &r->rows);
	default: return arguments_unexpected(shell, call, value);
	}
}

static size_t shown(const struct request *r, const struct mapping *m)
{
	return r->rows < m->kept.count ? r->rows : m->kept.count;
}

/* ---- text ---------------------------------------------------------------- */

static void print_row(const struct call *call, const char *name, uint64_t bytes, uint64_t of,
		      const char *text)
{
	const struct layout *l = &call->layout;
	struct text_buffer size;
	FILE *out = call->out;

	escape_printf(out, "%-8s", name);
	if (!l->columns || l->exact)
		fprintf(out, " %15" PRIu64, bytes);
	if (!l->columns || !l->exact)
		escape_printf(out, " %7s", size_text(&size, bytes));
	if (of)
		fprintf(out, " %5.1f%%", 100.0 * (double)bytes / (double)of);
	else
		fputs("       ", out);
	escape_printf(out, "  %s\n", text);
}

static void print_map(const struct call *call, const struct residency *r, const struct process *p)
{
	FILE *out = call->out;
	struct text_buffer size;
	char live[64];

	snprintf(live, sizeof(live), "pages with %s of live blocks",
		 size_text(&size, r->live_bytes));
	print_row(call, "rss", r->rss, r->rss, "");
	for (int i = 0; i < RESIDENCY_ROWS; i++)
		print_row(call, residency_words[i].name, r->bytes[i], r->rss,
			  i == RESIDENCY_LIVE ? live : residency_words[i].meaning);
	print_row(call, "swap", r->swapped, 0, "swapped out: not in RSS");
	if (r->late)
		fputs("the pages of some mappings could not be looked at in time: they are in no row\n",
		      out);
	if (p->unsupervised)
		escape_printf(out, "its blocks are not known: %s\n", p->unsupervised);
	else if (p->attached || p->recorded_ms > p->began_ms)
		fputs("blocks from before recording began are not known: their pages are in metadata\n",
		      out);
}

static void print_kept_row(FILE *out, uint64_t pages, uint64_t live, const int *width)
{
	fprintf(out, "kept:%-*" PRIu64 "  live:%-*" PRIu64 "  pages:%-*" PRIu64 "  ", width[0],
		pages * PAGE, width[1], live, width[2], pages);
}

static void kept_cells(struct grid *g, const char *function, const char *place, uint64_t pages,
		       uint64_t live)
{
	struct text_buffer size;

	grid_cell(g, function);
	grid_cell(g, place);
	grid_cell(g, layout_size(g->layout, &size, pages * PAGE));
	grid_cell(g, layout_size(g->layout, &size, live));
	grid_cellf(g, "%" PRIu64, pages);
}

static void site_cells(struct grid *g, const struct kept_site *s)
{
	const struct symbol_frame *f = &s->frame;
	char *place = NULL;

	if (f->file && asprintf(&place, "%s:%u", f->file, f->line) < 0)
		place = NULL;
	kept_cells(g, f->function ? f->function : "??",
		   place       ? place
		   : f->module ? f->module
			       : "",
		   s->pages, s->live_bytes);
	free(place);
}

static void screen_frag(const struct call *call, const struct mapping *m, size_t n)
{
	static const char *const amounts[] = { "KEPT", "LIVE", "PAGES" };
	const struct residency *r = &m->residency;
	struct residency_kept rest = kept_rest(&m->kept, n);
	char others[40];
	struct grid g;

	grid_init(&g, &call->layout);
	grid_column(&g, "FUNCTION", GRID_FUNCTION);
	grid_column(&g, "WHERE", GRID_PATH);
	for (size_t i = 0; i < sizeof(amounts) / sizeof(*amounts); i++)
		grid_column(&g, amounts[i], GRID_NUMBER);
	for (size_t i = 0; i < n; i++)
		site_cells(&g, &m->kept.site[i]);
	snprintf(others, sizeof(others), "(others: %zu)", m->kept.count - n);
	if (rest.pages)
		kept_cells(&g, others, "", rest.pages, rest.live_bytes);
	if (r->several.pages)
		kept_cells(&g, "(by several sites)", "", r->several.pages, r->several.live_bytes);
	grid_print(&g, call->out);
	grid_release(&g);
}

static void print_frag(const struct call *call, const struct mapping *m, size_t n)
{
	FILE *out = call->out;
	const struct residency *r = &m->residency;
	struct residency_kept rest = kept_rest(&m->kept, n);
	struct text_buffer kept, live;
	int width[3];

	escape_printf(out,
		      "%" PRIu64 " page%s (%s) of which at most half is live: %s of live blocks\n",
		      r->all.pages, plural(r->all.pages), size_text(&kept, r->all.pages * PAGE),
		      size_text(&live, r->all.live_bytes));
	if (call->layout.columns) {
		screen_frag(call, m, n);
		return;
	}
	width[0] = snprintf(NULL, 0, "%" PRIu64, r->all.pages * PAGE);
	width[1] = snprintf(NULL, 0, "%" PRIu64, r->all.live_bytes);
	width[2] = snprintf(NULL, 0, "%" PRIu64, r->all.pages);
	for (size_t i = 0; i < n && !ferror(out); i++) {
		const struct symbol_frame *f = &m->kept.site[i].frame;

		print_kept_row(out, m->kept.site[i].pages, m->kept.site[i].live_bytes, width);
		escape_printf(out, "%s", f->function ? f->function : "??");
		if (f->file)
			escape_printf(out, " at %s:%u", f->file, f->line);
		else if (f->module)
			escape_printf(out, " in %s", f->module);
		putc('\n', out);
	}
	if (rest.pages) {
		print_kept_row(out, rest.pages, rest.live_bytes, width);
		fprintf(out, "(others)  (%zu more)\n", m->kept.count - n);
	}
	if (r->several.pages) {
		print_kept_row(out, r->several.pages, r->several.live_bytes, width);
		fputs("(by blocks of several sites)\n", out);
	}
}

/* ---- JSON ---------------------------------------------------------------- */

static void kept_json(struct json *j, uint64_t pages, uint64_t live)
{
	json_uint(j, "pages", pages);
	json_uint(j, "kept_bytes", pages * PAGE);
	json_uint(j, "live_bytes", live);
}

static void sum_json(struct json *j, const char *key, const struct residency_kept *k)
{
	json_object(j, key);
	kept_json(j, k->pages, k->live_bytes);
	json_end_object(j);
}

static void frag_json(struct json *j, const struct mapping *m, size_t n)
{
	struct residency_kept rest = kept_rest(&m->kept, n);

	json_array(j, "frag");
	for (size_t i = 0; i < n; i++) {
		const struct symbol_frame *f = &m->kept.site[i].frame;

		json_newline(j);
		json_object(j, NULL);
		kept_json(j, m->kept.site[i].pages, m->kept.site[i].live_bytes);
		print_frame_json(j, f);
		json_string(j, "module", f->module);
		json_uint(j, "stack_id", m->kept.site[i].stack);
		json_end_object(j);
	}
	json_end_array(j);
	sum_json(j, "frag_all", &m->residency.all);
	sum_json(j, "frag_others", &rest);
	sum_json(j, "frag_several", &m->residency.several);
}

static void print_json(FILE *out, const struct mapping *m, size_t n)
{
	const struct residency *r = &m->residency;
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_uint(&j, "rss", r->rss);
	for (int i = 0; i < RESIDENCY_ROWS; i++)
		json_uint(&j, residency_words[i].key, r->bytes[i]);
	json_uint(&j, "swap", r->swapped);
	json_uint(&j, "live_bytes", r->live_bytes);
	json_bool(&j, "complete", !r->late);
	frag_json(&j, m, n);
	json_end_object(&j);
	json_finish(&j);
}

/* ---- the command --------------------------------------------------------- */

static int cannot(const struct shell *shell, const struct call *call, int err)
{
	if (err == -EINTR)
		return -1;
	if (err == -ENOMEM)
		return shell_error(shell, call, "out of memory");
	if (err == -ESRCH)
		return shell_error(shell, call, "the process has ended: it has no memory");
	return shell_error(shell, call, "cannot read its mappings and pages in /proc: %s",
			   err == -ETIMEDOUT ? PATIENT_LATE : strerror(-err));
}

static int map(struct shell *shell, struct call *call)
{
	struct request r = { 0 };
	struct sites *sites = NULL;
	struct mapping m;
	struct process *p;
	const char *refused;
	int err;

	if (arguments_each(shell, call, arguments, one, &r))
		return -1;
	r.frag |= call->json; /* programs get all there is */
	if (!r.has_rows)
		r.rows = call->json ? VIEW_ALL : shell->settings.rows;
	p = shell_process(shell);
	refused = mapping_refused(shell, p);
	if (refused)
		return shell_error(shell, call, "%s", refused);
	if (r.frag && !(sites = shell_sites(shell, p)))
		return -1;
	err = mapping_make(shell, p, sites, &m);
	if (err)
		return cannot(shell, call, err);
	asking_unlock(shell->session);
	if (call->json)
		print_json(call->out, &m, shown(&r, &m));
	else if (r.frag)
		print_frag(call, &m, shown(&r, &m));
	else
		print_map(call, &m.residency, p);
	asking_lock(shell->session);
	mapping_release(&m);
	return 0;
}

const struct command cmd_map = {
	.name = "map",
	.usage = "[--frag] [-n N] [--bytes] [--full] [--json]",
	.summary = "what resident memory is made of, and who keeps it",
	.example = "map --frag",
	.help = "Each page that the kernel counts in RSS is in one row. live: any byte of it is of a live block. free: blocks have been in it, none is\n"
		"live. metadata: other anonymous memory: what allocators need for themselves or have rounded up to, libc's. mmap: the program's own\n"
		"anonymous mappings. stacks: of threads. image: the executable. files: libraries with their data, other files. shared: shared memory.\n"
		"mtrun: what mtrun has in the process. The process is not stopped. Not with --sample, nor while recording is off.\n"
		"\n"
		"  --frag   pages of which at most half is live, and the sites of the blocks that keep them: kept would be given back if the blocks\n"
		"           of that site were gone; live is what those have in there. JSON has them in any case\n"
		"  -n N     --frag with N sites (text: 20, JSON: all); the others are summed in one row\n"
		"  --bytes  exact sizes on a terminal, too\n"
		"  --full   names and paths whole: as in a pipe",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_LIVE | COMMAND_BYTES | COMMAND_FULL,
	.run = map,
};
