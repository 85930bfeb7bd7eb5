// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/heapfile_status.h"

#include <inttypes.h>
#include <time.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "report/heapfile.h"
#include "report/print.h"

/*
 * `status` of a file: whose it is, of when, how much. The keys are those of a live process; what no
 * file tells is null.
 */

static const char *reason(const char *why)
{
	switch (*why) {
	case 'i': return "each so many bytes";
	case 'm': return "at a new peak";
	case 'u': return "when it was asked for";
	case 'e': return "by `export`";
	case 'f': return "at the end";
	case 'l': return "at the limit";
	default: return "for an unknown reason";
	}
}

static const char *const unknown[] = {
	"state",  "exit_status", "usable",    "mmap_reserved", "mmap_resident", "image",
	"other",  "unaccounted", "frees",     "maps",	       "unmaps",	"unknown_frees",
	"room",	  "limit_hits",	 "errors",    "threads",       "rss",		"mode",
	"events", "dropped",	 "truncated", "deep",	       "waited_ms",	"log_files",
};

void heapfile_totals(const struct process *p, struct process_totals *t)
{
	const struct heap *heap = p->told;
	const struct heap_facts *f = &heap->facts;
	struct profile_row all = profile_sum(&heap->profile);
	bool ever = heap->profile.has_totals;

	*t = (struct process_totals){
		.allocated = f->limit_hit ? (int64_t)f->allocated : -1,
		.live = all.size,
		/* what is of one kind is known if the file has no other */
		.heap = f->counted == LEDGER_COUNT_HEAP ? all.size : -1,
		.mmap = f->counted == LEDGER_COUNT_MMAP ? all.size : -1,
		.peak = heap->foreign ? -1 : (int64_t)f->peak,
		.peak_ms = heap->foreign ? -1 : (int64_t)f->peak_ms,
		.live_blocks = all.count,
		.allocs = ever ? (int64_t)all.total_count : -1,
		.frees = -1,
		.maps = -1,
		.unmaps = -1,
		.temporary = ever ? (int64_t)all.temporary : -1,
		.total_allocated = ever ? (int64_t)all.total_size : -1,
	};
}

static void known_json(struct json *j, const char *key, int64_t value)
{
	json_uint_known(j, key, value >= 0, (uint64_t)value);
}

/* The one there is, with the keys that each process has. */
static void processes_json(struct json *j, const struct process *p, const struct process_totals *t)
{
	static const char *const no[] = { "ppid", "state" };

	json_array(j, "processes");
	json_newline(j);
	json_object(j, NULL);
	json_uint_known(j, "pid", p->pid, (uint64_t)p->pid);
	json_string(j, "command", p->command);
	json_nulls(j, no, sizeof(no) / sizeof(*no));
	known_json(j, "heap", t->heap);
	known_json(j, "mmap", t->mmap);
	known_json(j, "allocs", t->allocs);
	json_end_object(j);
	json_end_array(j);
}

void heapfile_status_json(const struct process *p, unsigned count, struct json *j)
{
	const struct heap *heap = p->told;
	const struct heap_facts *f = &heap->facts;
	struct process_totals t;

	(void)count; /* the file's own */
	heapfile_totals(p, &t);
	json_uint_known(j, "pid", p->pid, (uint64_t)p->pid);
	json_string(j, "command", p->command);
	json_string(j, "why", f->why);
	json_string(j, "written_by", heap->foreign ? heap->foreign : "mtrun");
	json_uint(j, "clock_ms", f->clock_ms);
	json_uint(j, "elapsed_ms", heap->profile.ms);
	json_int(j, "total_size", t.live);
	json_int(j, "live_blocks", t.live_blocks);
	known_json(j, "heap", t.heap);
	known_json(j, "mmap", t.mmap);
	known_json(j, "total_allocated", t.total_allocated);
	known_json(j, "allocs", t.allocs);
	known_json(j, "peak", t.peak);
	known_json(j, "peak_ms", t.peak_ms);
	json_uint(j, "sample", f->sample);
	known_json(j, "allocated", t.allocated);
	json_uint_known(j, "limit", f->limit_hit, f->limit);
	json_nulls(j, unknown, sizeof(unknown) / sizeof(*unknown));
	json_array(j, "modules");
	for (size_t i = 0; i < p->modules.count; i++)
		json_string(j, NULL, p->modules.module[i]->path);
	json_end_array(j);
	processes_json(j, p, &t);
}

static void print_limit(FILE *out, const struct heap_facts *f, struct sites *sites,
			const struct layout *l)
{
	if (!f->limit_hit)
		return;
	escape_printf(out,
		      "limit      %" PRIu64 " byte%s: with %" PRIu64 " allocated, %" PRIu64
		      " more %s asked for",
		      f->limit, plural(f->limit), f->allocated, f->request,
		      f->request == 1 ? "was" : "were");
	sites = f->request_stack ? sites : NULL;
	fputs(sites ? " by\n" : "\n", out);
	if (sites)
		print_stack(out, sites, f->request_stack, l);
}

void heapfile_status(const struct process *p, unsigned count, FILE *out, struct sites *sites,
		     const struct layout *l)
{
	const struct heap *heap = p->told;
	const struct heap_facts *f = &heap->facts;
	time_t seconds = (time_t)(f->clock_ms / 1000);
	struct text_buffer time;
	struct profile_row all;
	char clock[32] = "?";
	struct tm tm;
	size_t stacks;

	(void)count;
	all = profile_sum(&heap->profile);
	if (localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", &tm);
	if (heap->foreign) {
		escape_printf(out, "program    %s\n", p->exe ? p->exe : "unknown");
		escape_printf(out, "written    by %s; the file is of %s\n", heap->foreign, clock);
	} else {
		escape_printf(out, "process    %d (%s)%s%s\n", (int)p->pid,
			      p->command ? p->command : "?", p->exe ? ", " : "",
			      p->exe ? p->exe : "");
		escape_printf(out, "written    %s, %s after tracing began, %s\n", clock,
			      time_text(&time, heap->profile.ms), reason(f->why));
	}
	stacks = profile_holding(&heap->profile);
	escape_printf(out,
		      "live       %" PRId64 " byte%s in %" PRId64 " block%s from %zu stack%s\n",
		      all.size, plural((uint64_t)all.size), all.count, plural((uint64_t)all.count),
		      stacks, plural(stacks));
	if (heap->profile.has_totals)
		escape_printf(out, "allocated  %" PRIu64 " byte%s in %" PRIu64 " block%s\n",
			      all.total_size, plural(all.total_size), all.total_count,
			      plural(all.total_count));
	if (!heap->foreign)
		escape_printf(out, "peak       %" PRIu64 " byte%s at %s\n", f->peak,
			      plural(f->peak), time_text(&time, f->peak_ms));
	if (f->sample)
		escape_printf(out,
			      "sampled    one allocation per %" PRIu64
			      " byte%s: the numbers are estimates\n",
			      f->sample, plural(f->sample));
	print_limit(out, f, sites, l);
}
