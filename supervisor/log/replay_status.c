// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/replay_status.h"

#include <inttypes.h>
#include <time.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "log/replay.h"
#include "report/print.h"

/*
 * Whose it is, from when to when, what was live at its end. The keys are those that `status` has of
 * a process; what no log tells is null.
 */

static void json_files(struct json *j, const struct replay *log)
{
	uint64_t bytes;

	json_array(j, "log_files");
	for (size_t i = 0; i < replay_files(log); i++)
		json_string(j, NULL, replay_file(log, i, &bytes));
	json_end_array(j);
}

static const char *const unknown[] = {
	"usable", "mmap_resident", "other", "unaccounted", "limit",	"room", "limit_hits",
	"errors", "threads",	   "rss",   "mode",	   "truncated", "deep", "waited_ms",
};

void replay_status_json(const struct process *p, unsigned count, struct json *j)
{
	const struct replay *log = replay_whole(p->told);
	const struct log_run *run = replay_run(log);
	struct ledger_totals t;

	ledger_totals(p->ledger, &t);
	json_int(j, "pid", p->pid);
	json_string(j, "command", p->command);
	json_string(j, "state", process_state_name(p->state));
	if (process_state_ended(p->state))
		json_int(j, "exit_status", wait_status_number(p->wait_status));
	else
		json_null(j, "exit_status");
	json_uint(j, "allocated", process_allocated(p, count));
	json_uint(j, "heap", t.heap);
	json_uint(j, "mmap", t.mmap);
	json_uint(j, "mmap_reserved", t.mmap_reserved);
	json_uint(j, "image", p->image_bytes);
	json_uint(j, "peak", t.peak);
	json_uint(j, "peak_ms", t.peak_ms);
	json_uint(j, "live_blocks", t.live_blocks);
	json_uint(j, "allocs", t.allocs);
	json_uint(j, "frees", t.frees);
	json_uint(j, "maps", t.maps);
	json_uint(j, "unmaps", t.unmaps);
	json_uint(j, "unknown_frees", t.unknown_frees);
	json_uint(j, "temporary", t.temporary);
	json_uint(j, "total_allocated", t.total_allocated);
	json_uint(j, "sample", run->sample);
	json_uint(j, "clock_ms", replay_clock_ms(log));
	json_uint(j, "began_ms", p->began_ms);
	json_uint(j, "recorded_ms", p->recorded_ms);
	json_uint(j, "elapsed_ms", p->ended_ms ? p->ended_ms : replay_ended_ms(log));
	json_uint(j, "events", replay_events(log));
	json_null(j, "dropped");
	json_files(j, log);
	json_nulls(j, unknown, sizeof(unknown) / sizeof(*unknown));
	json_string(j, "unsupervised", p->unsupervised);
}

static void print_record(FILE *out, const struct replay *log)
{
	uint64_t bytes, all = 0, began = replay_began_ms(log), ms = replay_ended_ms(log) - began;
	time_t seconds = (time_t)((replay_clock_ms(log) + began) / 1000);
	struct text_buffer size, time;
	size_t files = replay_files(log);
	char clock[32] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", &tm);
	for (size_t i = 0; i < files; i++) {
		replay_file(log, i, &bytes);
		all += bytes;
	}
	escape_printf(out, "record     %s from %s", time_text(&time, ms), clock);
	if (began)
		escape_printf(out, ", %s after tracing began", time_text(&time, began));
	escape_printf(out, "; %" PRIu64 " event%s in %zu file%s, %s\n", replay_events(log),
		      plural(replay_events(log)), files, plural(files), size_text(&size, all));
	escape_printf(out, "           %s", replay_file(log, 0, &bytes));
	if (files > 1)
		escape_printf(out, " to %s", replay_file(log, files - 1, &bytes));
	putc('\n', out);
}

static void print_process(FILE *out, const struct process *p, unsigned count,
			  const struct ledger_totals *t)
{
	const char *about = print_about(t->estimated);
	struct text_buffer time, size;
	char end[64];

	escape_printf(out, "process    %d (%s)%s%s, %s at %s\n", (int)p->pid,
		      p->command ? p->command : "?", p->exe ? ", " : "", p->exe ? p->exe : "",
		      process_state_ended(p->state)
			      ? wait_status_text(p->wait_status, end, sizeof(end))
			      : process_state_name(p->state),
		      time_text(&time, p->ended_ms));
	if (p->unsupervised)
		escape_printf(out, "           its allocations are not known: %s\n",
			      p->unsupervised);
	escape_printf(out,
		      "allocated  %s%" PRIu64 " byte%s%s then: heap %s%" PRIu64 ", mmap %" PRIu64
		      ", image %" PRIu64 "\n",
		      about, process_allocated(p, count), plural(process_allocated(p, count)),
		      size_aside(&size, process_allocated(p, count)), about, t->heap, t->mmap,
		      p->image_bytes);
	escape_printf(out, "peak       %s%" PRIu64 " byte%s%s without the image, at %s\n", about,
		      t->peak, plural(t->peak), size_aside(&size, t->peak),
		      time_text(&time, t->peak_ms));
	escape_printf(out,
		      "blocks     %s%" PRIu64 " live; %s%" PRIu64 " allocated, %s%" PRIu64
		      " freed, %s%" PRIu64 " of them temporary; %s%" PRIu64 " byte%s ever\n",
		      about, t->live_blocks, about, t->allocs, about, t->frees, about, t->temporary,
		      about, t->total_allocated, plural(t->total_allocated));
}

void replay_status(const struct process *p, unsigned count, FILE *out, struct sites *sites,
		   const struct layout *l)
{
	const struct replay *log = replay_whole(p->told);
	struct ledger_totals t;
	struct text_buffer size;
	size_t n = replay_processes(log);

	(void)sites;
	(void)l;
	ledger_totals(p->ledger, &t);
	print_process(out, p, count, &t);
	print_record(out, log);
	if (replay_run(log)->sample)
		escape_printf(out,
			      "sampled    one allocation per %s bytes: the numbers are estimates\n",
			      size_text(&size, replay_run(log)->sample));
	if (n > 1)
		fprintf(out, "processes  %zu (`processes` lists them)\n", n);
}
