// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>

#include "base/escape.h"
#include "base/units.h"
#include "report/grid.h"
#include "report/print.h"
#include "session/ended.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/process_rows.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `processes`: the tree, those that ended included. */

static void row_text(FILE *out, const struct ended *e, bool chosen)
{
	const char *about = print_about(e->totals.estimated);
	char end[64], heap[24], allocs[24];

	snprintf(heap, sizeof(heap), "%s%" PRIu64, about, e->totals.heap);
	snprintf(allocs, sizeof(allocs), "%s%" PRIu64, about, e->totals.allocs);
	escape_printf(out, "%c %7d %7d  %-9s %12s %12" PRIu64 " %12s  %s", chosen ? '*' : ' ',
		      (int)e->pid, (int)e->ppid, process_state_name(e->state), heap, e->totals.mmap,
		      allocs, e->command ? e->command : "?");
	if (process_state_ended(e->state) && e->wait_status)
		escape_printf(out, " (%s)", wait_status_text(e->wait_status, end, sizeof(end)));
	if (e->unsupervised)
		escape_printf(out, " (not known: %s)", e->unsupervised);
	putc('\n', out);
}

static void row_cells(struct grid *g, const struct ended *e, bool chosen)
{
	const char *about = print_about(e->totals.estimated);
	struct text_buffer size;
	char end[64] = "";

	if (process_state_ended(e->state) && e->wait_status)
		wait_status_text(e->wait_status, end, sizeof(end));
	grid_cellf(g, "%s%d", chosen ? "*" : "", (int)e->pid);
	grid_cellf(g, "%d", (int)e->ppid);
	grid_cell(g, process_state_name(e->state));
	grid_cellf(g, "%s%s", about, layout_size(g->layout, &size, e->totals.heap));
	grid_cell(g, layout_size(g->layout, &size, e->totals.mmap));
	grid_cellf(g, "%s%" PRIu64, about, e->totals.allocs);
	grid_cellf(g, "%s%s%s%s%s%s%s", e->command ? e->command : "?", *end ? " (" : "", end,
		   *end ? ")" : "", e->unsupervised ? " (not known: " : "",
		   e->unsupervised ? e->unsupervised : "", e->unsupervised ? ")" : "");
}

static void print_screen(struct shell *shell, const struct call *call, const struct process *chosen)
{
	static const char *const titles[] = { "PID",  "PPID",	"STATE",  "HEAP",
					      "MMAP", "ALLOCS", "COMMAND" };
	const struct ended_list *list = session_ended_list(shell->session);
	struct grid g;

	grid_init(&g, &call->layout);
	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
		grid_column(&g, titles[i], i == 2 ? GRID_TEXT : i == 6 ? GRID_NAME : GRID_NUMBER);
	for (size_t i = 0; i < list->count; i++)
		row_cells(&g, ended_line(list, i), false);
	for (const struct process *p = session_processes(shell->session); p; p = p->next) {
		struct ended e = ended_of(p);

		row_cells(&g, &e, p == chosen);
	}
	grid_print(&g, call->out);
	grid_release(&g);
}

static int processes(struct shell *shell, struct call *call)
{
	const struct ended_list *list = session_ended_list(shell->session);
	const struct process *chosen;

	if (arguments_none(shell, call))
		return -1;
	chosen = shell_process(shell);
	if (call->json) {
		struct json j;

		json_init(&j, call->out);
		json_object(&j, NULL);
		processes_json(&j, shell, NULL, NULL);
		json_end_object(&j);
		json_finish(&j);
		return 0;
	}
	if (list->dropped)
		escape_printf(call->out,
			      "%" PRIu64 " that ended before these are not listed any more\n",
			      list->dropped);
	if (call->layout.columns) {
		print_screen(shell, call, chosen);
		return 0;
	}
	escape_printf(call->out, "  %7s %7s  %-9s %12s %12s %12s  %s\n", "PID", "PPID", "STATE",
		      "HEAP", "MMAP", "ALLOCS", "COMMAND");
	for (size_t i = 0; i < list->count; i++)
		row_text(call->out, ended_line(list, i), false);
	for (const struct process *p = session_processes(shell->session); p; p = p->next) {
		struct ended e = ended_of(p);

		row_text(call->out, &e, p == chosen);
	}
	return 0;
}

const struct command cmd_processes = {
	.name = "processes",
	.usage = "[--bytes] [--json]",
	.summary = "the program and the processes that it started",
	.example = "processes",
	.help = "A process that executed another program is listed as replaced, with what it had; * marks the one that questions are about.\n"
		"Of the latest thousand that ended (fewer where their tables take more than 96 MB), the biggest of all among them, everything can be asked\n"
		"(`process PID`); of up to ten thousand before them the line here is left.",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_TIMES | COMMAND_BYTES,
	.run = processes,
};
