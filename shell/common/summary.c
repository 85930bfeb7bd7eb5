// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/summary.h"

#include <inttypes.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/units.h"
#include "report/print.h"
#include "session/ended.h"
#include "shell/common/answer_stream.h"
#include "shell/common/erring.h"
#include "shell/common/fold.h"
#include "shell/common/limit_text.h"
#include "shell/common/lookup.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "shell/common/unseen.h"

/*
 * What a batch run leaves on the terminal: totals and peak, the sites that hold most, and what else
 * was worth a line. It is printed while the process is held, so all numbers are of its last
 * instant.
 */

#define SUMMARY_ROWS 10

/* 1234567 -> 1,234,567 */
struct grouped {
	char text[40];
};
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

/* In a sentence: on a terminal in units. */
static const char *bytes(struct grouped *g, const struct layout *l, uint64_t n)
{
	struct text_buffer b;
	struct grouped exact;

	if (l->columns)
		snprintf(g->text, sizeof(g->text), "%s", layout_bytes(l, &b, n));
	else
		snprintf(g->text, sizeof(g->text), "%.25s byte%s", grouped(&exact, n), plural(n));
	return g->text;
}
#define BYTES(n) bytes(&(struct grouped){ "" }, l, n)

static size_t others(const struct shell *shell, const struct process *main)
{
	size_t n = session_ended_list(shell->session)->others;

	for (const struct process *p = session_processes(shell->session); p; p = p->next)
		n += p != main && p->state != PROCESS_REPLACED && p->pid != main->pid;
	return n;
}

/* Of every process that has met it; of the named one also that it has not. */
static void print_limit(const struct shell *shell, FILE *out, const struct process *named,
			const struct layout *l)
{
	const struct ended_count *forgotten = &session_ended_list(shell->session)->limit;
	uint64_t limit = session_limit_now(shell->session);

	if (limit && !named->limit.hits)
		escape_printf(out, "  limit       %s, never reached\n", BYTES(limit));
	for (const struct process *p = session_processes(shell->session); p; p = p->next) {
		uint64_t refused = limit_refused_count(p);

		if (!p->limit.hits)
			continue;
		escape_printf(out, "  limit       %s, hit %s time%s",
			      limit ? BYTES(limit) : "no bytes", GROUPED(p->limit.hits),
			      plural(p->limit.hits));
		if (p != named)
			escape_printf(out, " by %s (%d)", p->command ? p->command : "?",
				      (int)p->pid);
		if (refused)
			escape_printf(out, ", %s request%s refused", GROUPED(refused),
				      plural(refused));
		putc('\n', out);
	}
	if (forgotten->processes)
		escape_printf(out,
			      "  limit       hit %s time%s by %s process%s that ended before\n",
			      GROUPED(forgotten->count), plural(forgotten->count),
			      GROUPED(forgotten->processes), forgotten->processes == 1 ? "" : "es");
}

/* P's, and those of all others. */
static void print_errors(const struct shell *shell, FILE *out, const struct process *p)
{
	const struct ended_count *forgotten = &session_ended_list(shell->session)->errors;
	uint64_t count = forgotten->count, processes = forgotten->processes;

	if (p->errors.count) {
		fputs("  errors      ", out);
		erring_counts(out, &p->errors);
		putc('\n', out);
	}
	for (const struct process *o = session_processes(shell->session); o; o = o->next) {
		if (o == p || !o->errors.count)
			continue;
		count += o->errors.count;
		processes++;
	}
	if (count)
		escape_printf(out, "  errors      %s in %s other process%s\n", GROUPED(count),
			      GROUPED(processes), processes == 1 ? "" : "es");
}

/* Where another process had more than P: a program may leave its work to a child. */
static void print_larger(const struct shell *shell, FILE *out, const struct process *p,
			 uint64_t peak, const struct layout *l)
{
	const struct process *largest = NULL;
	struct ledger_totals t;

	for (const struct process *o = session_processes(shell->session); o; o = o->next) {
		if (o->pid == p->pid || o->unsupervised)
			continue;
		ledger_totals(o->ledger, &t);
		if (t.peak > peak) {
			peak = t.peak;
			largest = o;
		}
	}
	if (!largest)
		return;
	ledger_totals(largest->ledger, &t);
	escape_printf(out, "  larger      %s (%d): peak %s%s, still live %s%s (`processes`)\n",
		      largest->command ? largest->command : "?", (int)largest->pid,
		      print_about(t.estimated), BYTES(t.peak), print_about(t.estimated),
		      BYTES(t.heap + t.mmap));
}

/* Counted in what is above, but not to be asked any more. */
static void print_forgotten(const struct shell *shell, FILE *out)
{
	uint64_t n = session_ended_list(shell->session)->others;

	if (n)
		escape_printf(out,
			      "  forgotten   what %s other process%s allocated by which stack\n",
			      GROUPED(n), n == 1 ? "" : "es");
}

static void print_numbers(const struct shell *shell, FILE *out, const struct process *p,
			  const struct profile *profile, const struct layout *l)
{
	struct text_buffer time;
	struct stream_stats stream = p->last_stats;
	struct ledger_totals t;
	int64_t size = 0, count = 0;
	const char *about;
	char end[64];
	size_t n;

	ledger_totals(p->ledger, &t);
	about = print_about(t.estimated);
	if (p->stream)
		stream_stats(p->stream, &stream);
	for (size_t i = 0; i < profile->count; i++) {
		size += profile->row[i].size;
		count += profile->row[i].count;
	}
	escape_printf(out, "mtrun: %s (%d) %s", p->command ? p->command : "?", (int)p->pid,
		      process_state_ended(p->state)
			      ? wait_status_text(p->wait_status, end, sizeof(end))
			      : process_state_name(process_state_seen(p)));
	if (session_limit_killed(shell->session))
		fputs(p->limit.hits ? " at its limit" : ", another process at its limit", out);
	escape_printf(out, " after %s", time_text(&time, shell_elapsed(shell, p)));
	n = others(shell, p);
	if (n)
		escape_printf(out, "; %zu other process%s followed", n, n == 1 ? "" : "es");
	if (p->off)
		escape_printf(out, "\n  off since   %s: the numbers are those of then",
			      time_text(&time, p->off_ms));
	escape_printf(out, "\n  peak        %s%s at %s\n", about, BYTES(t.peak),
		      time_text(&time, t.peak_ms));
	escape_printf(out, "  allocated   %s%s in %s%s block%s; freed %s%s; %s%s temporary", about,
		      BYTES(t.total_allocated), about, GROUPED(t.allocs), plural(t.allocs), about,
		      GROUPED(t.frees), about, GROUPED(t.temporary));
	if (t.maps)
		escape_printf(out, "; %s map%s, %s unmap%s", GROUPED(t.maps), plural(t.maps),
			      GROUPED(t.unmaps), plural(t.unmaps));
	n = profile_holding(profile);
	escape_printf(out, "\n  still live  %s%s in %s%s block%s from %s stack%s\n", about,
		      BYTES((uint64_t)size), about, GROUPED((uint64_t)count),
		      plural((uint64_t)count), GROUPED(n), plural(n));
	print_larger(shell, out, p, t.peak, l);
	print_limit(shell, out, p, l);
	print_errors(shell, out, p);
	unseen_summary(out, p);
	print_forgotten(shell, out);
	if (stream.dropped || stream.bad)
		escape_printf(out, "  not exact   %s event%s dropped, %s malformed\n",
			      GROUPED(stream.dropped), plural(stream.dropped), GROUPED(stream.bad));
}

static void print_sites(struct shell *shell, FILE *out, struct process *p, struct sites *sites,
			const struct profile *profile, enum view_sort sort, const struct layout *l)
{
	struct view_options options = { .key = VIEW_SITE, .sort = sort, .limit = SUMMARY_ROWS };
	struct view view;

	lookup_profile(shell, p, sites, profile, false);
	if (view_make(&view, profile, sites, &options))
		return;
	if (view.count)
		print_report(out, &view, sites, false, l);
	view_release(&view);
}

static void print_refused(struct shell *shell, FILE *out, struct process *p, struct sites *sites,
			  const struct layout *l)
{
	struct profile profile;

	if (!p->limit.refusals || limit_refusals(p, &profile))
		return;
	fputs("refused at the limit:\n", out);
	print_sites(shell, out, p, sites, &profile, SORT_COUNT, l);
	profile_release(&profile);
}

static void print(struct shell *shell, FILE *out, const struct layout *l)
{
	struct process *p = shell_process(shell);
	struct profile_ask ask = { .now_ms = shell_moment(shell, p),
				   .counted = session_options(shell->session)->count };
	struct sites *sites = shell_sites(shell, p);
	struct profile profile;

	if (p->unsupervised) {
		bool ended = process_state_ended(p->state);
		char end[64];

		escape_printf(out, "mtrun: %s (%d)%s%s: its allocations are not known: %s\n",
			      p->command ? p->command : "?", (int)p->pid, ended ? " " : "",
			      ended ? wait_status_text(p->wait_status, end, sizeof(end)) : "",
			      p->unsupervised);
		return;
	}
	if (!sites || process_profile(p, &ask, &profile))
		return;
	print_numbers(shell, out, p, &profile, l);
	/* told at the hit */
	if (!(p->limit.told && session_limit_killed(shell->session)))
		print_sites(shell, out, p, sites, &profile, SORT_SIZE, l);
	profile_release(&profile);
	print_refused(shell, out, p, sites, l);
}

void summary_print(struct shell *shell, FILE *out)
{
	struct layout layout = answer_layout(message_own_fd());
	FILE *fold = fold_sentences(out, &layout);

	layout.said = true;
	print(shell, fold ? fold : out, &layout);
	if (fold)
		fclose(fold);
}
