/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "summary.h"

#include <inttypes.h>
#include <string.h>

#include "../supervisor/print.h"
#include "../supervisor/units.h"
#include "reporting.h"
#include "warm.h"

#define SUMMARY_ROWS 10

/* 1234567 -> 1,234,567 */
struct grouped { char text[32]; };
static const char *grouped(struct grouped *g, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			g->text[at++] = ',';
		g->text[at++] = digits[i];
	}
	g->text[at] = '\0';
	return g->text;
}
#define GROUPED(n) grouped(&(struct grouped){ "" }, n)

static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

static size_t stacks_with_something(const struct profile *profile)
{
	size_t n = 0;

	for (size_t i = 0; i < profile->count; i++)
		n += profile->row[i].count != 0;
	return n;
}

static size_t others(const struct shell *shell, const struct process *main)
{
	size_t n = 0;

	for (const struct process *p = session_processes(shell->session); p; p = p->next)
		n += p != main && p->state != PROCESS_REPLACED && p->pid != main->pid;
	return n;
}

static void print_numbers(const struct shell *shell, FILE *out, const struct process *p, const struct profile *profile)
{
	struct text_buffer time;
	struct stream_stats stream = p->last_stats;
	struct ledger_totals t;
	int64_t size = 0, count = 0;
	char end[64];
	size_t n;

	ledger_totals(p->ledger, &t);
	if (p->stream)
		stream_stats(p->stream, &stream);
	for (size_t i = 0; i < profile->count; i++) {
		size += profile->row[i].size;
		count += profile->row[i].count;
	}
	fprintf(out, "mtrun: %s (%d) %s", p->command ? p->command : "?", (int)p->pid,
		p->state == PROCESS_EXITED || p->state == PROCESS_HELD ? reporting_end(p->wait_status, end, sizeof(end)) : process_state_name(p->state));
	fprintf(out, " after %s", time_text(&time, shell_moment(shell, p)));
	n = others(shell, p);
	if (n)
		fprintf(out, "; %zu other process%s followed", n, n == 1 ? "" : "es");
	fprintf(out, "\n  peak        %s bytes at %s\n", GROUPED(t.peak), time_text(&time, t.peak_ms));
	fprintf(out, "  allocated   %s bytes in %s block%s; freed %s; %s temporary", GROUPED(t.total_allocated), GROUPED(t.allocs), plural(t.allocs),
		GROUPED(t.frees), GROUPED(t.temporary));
	if (t.maps)
		fprintf(out, "; %s map%s, %s unmap%s", GROUPED(t.maps), plural(t.maps), GROUPED(t.unmaps), plural(t.unmaps));
	n = stacks_with_something(profile);
	fprintf(out, "\n  still live  %s bytes in %s block%s from %s stack%s\n", GROUPED((uint64_t)size), GROUPED((uint64_t)count), plural((uint64_t)count), GROUPED(n),
		plural(n));
	if (stream.dropped || stream.bad)
		fprintf(out, "  not exact   %s events dropped, %s malformed\n", GROUPED(stream.dropped), GROUPED(stream.bad));
}

void summary_print(struct shell *shell, FILE *out)
{
	struct view_options options = { .key = VIEW_SITE, .sort = SORT_SIZE, .limit = SUMMARY_ROWS };
	struct process *p = shell_process(shell);
	struct profile_ask ask = { .now_ms = shell_moment(shell, p), .counted = session_options(shell->session)->count };
	struct sites *sites = shell_sites(shell, p);
	struct profile profile;
	struct view view;

	if (p->unsupervised) {
		fprintf(out, "mtrun: %s (%d): its allocations are not known: %s\n", p->command ? p->command : "?", (int)p->pid, p->unsupervised);
		return;
	}
	if (!sites || profile_from_ledger(&profile, p->ledger, &ask))
		return;
	print_numbers(shell, out, p, &profile);
	warm_profile(shell, p, sites, &profile, false);
	if (!view_make(&view, &profile, sites, &options)) {
		if (view.count)
			print_report(out, &view, false);
		view_release(&view);
	}
	profile_release(&profile);
}
