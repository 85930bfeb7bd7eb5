// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "ledger/block_list.h"
#include "process/usable.h"
#include "report/print.h"
#include "session/asking.h"
#include "session/ended.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/erring.h"
#include "shell/common/limit_text.h"
#include "shell/common/mapping.h"
#include "shell/common/process_rows.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "shell/common/usage.h"

/*
 * `status`: the state of things on one screen. All numbers are of one moment: everything that had
 * happened when it was asked for.
 */

/* usable sizes are read where that takes no more than some 50 ms */
#define USABLE_PAGES  32768u
#define USABLE_BLOCKS 3000000u
/* of a process that has no more than that, resident memory is divided anew: 20 ms */
#define MAP_BLOCKS   200000u
#define MAP_RSS	     (512u << 20)
#define MAP_MAPPINGS 4000u
#define MAP_SHARE    20u /* parts below one of so many are summed */

struct facts {
	const struct layout *layout;
	struct process *p;
	struct ledger_totals t;
	const char *about; /* what stands before numbers of it */
	struct ledger_timeline timeline;
	struct stream_stats stream;
	struct usage usage;
	struct usable rule;
	int usable_error; /* as of usable_sum(); -EFBIG: not told here */
	uint64_t usable;  /* of the heap */
	uint64_t allocated, limit, elapsed, self_rss, self_cpu;
	unsigned count;
};

static bool begin_in_few_pages(const struct block_list *blocks)
{
	size_t pages = 0;

	for (size_t i = 0; i < blocks->count; i++)
		pages += !i || blocks->block[i].address >> 12 != blocks->block[i - 1].address >> 12;
	return pages <= USABLE_PAGES;
}

/*
 * Those of one page stand together, as a table by pages tells them: to sort them takes as long as
 * all the rest. -EFBIG: there are too many.
 */
static int group_by_page(struct block_list *blocks)
{
	int err = begin_in_few_pages(blocks) ? 0 : block_list_sort(blocks);

	return err ? err : begin_in_few_pages(blocks) ? 0 : -EFBIG;
}

static int usable_of(struct shell *shell, const struct facts *f, uint64_t *sum)
{
	struct block_list blocks;
	int err;

	if (f->rule.rule == USABLE_UNKNOWN)
		return -ENOTSUP;
	if (f->t.live_blocks > USABLE_BLOCKS)
		return -EFBIG;
	err = session_blocks(shell->session, f->p, false, &blocks);
	if (err)
		return err;
	asking_unlock(shell->session);
	err = group_by_page(&blocks);
	if (!err)
		err = usable_sum(&f->rule, &blocks, sum);
	block_list_release(&blocks);
	asking_lock(shell->session);
	return err;
}

static void collect(struct shell *shell, struct facts *f)
{
	f->p = shell_process(shell);
	f->count = session_options(shell->session)->count;
	reporting_usable(shell, &f->rule, f->p);
	ledger_totals(f->p->ledger, &f->t);
	f->about = print_about(f->t.estimated);
	ledger_timeline(f->p->ledger, &f->timeline);
	f->stream = f->p->last_stats;
	if (f->p->stream)
		stream_stats(f->p->stream, &f->stream);
	f->allocated = process_allocated(f->p, f->count);
	f->limit = session_limit_now(shell->session);
	f->elapsed = shell_elapsed(shell, f->p);
	session_self(shell->session, &f->self_rss, &f->self_cpu);
	/* what follows takes its time: other things happen meanwhile */
	f->usable_error = usable_of(shell, f, &f->usable);
	usage_read(shell->session, &f->usage, f->p, &f->t);
	/* those of now are nothing that heap and mmap of then could be among */
	f->usage.mapped_known &= !f->p->off;
}

static void log_file_json(void *ctx, const char *path, uint64_t bytes)
{
	(void)bytes;
	json_string(ctx, NULL, path);
}

/* What ended while it was off stays so. */
static const char *mode_name(const struct shell *shell, const struct process *p)
{
	return modes[p->off ? MODE_OFF : session_options(shell->session)->mode].name;
}

static void print_json(struct shell *shell, FILE *out, const struct facts *f)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "pid", f->p->pid);
	json_string(&j, "state", process_state_name(process_state_seen(f->p)));
	if (process_state_ended(f->p->state))
		json_int(&j, "exit_status", wait_status_number(f->p->wait_status));
	else
		json_null(&j, "exit_status");
	json_uint(&j, "allocated", f->allocated);
	json_uint(&j, "heap", f->t.heap);
	json_uint_known(&j, "usable", !f->usable_error, f->usable);
	json_uint(&j, "mmap", f->t.mmap);
	json_uint(&j, "mmap_reserved", f->t.mmap_reserved);
	json_uint_known(&j, "mmap_resident", f->usage.mapped_known && f->usage.resident_known,
			f->usage.mmap_resident);
	json_uint(&j, "image", f->p->image_bytes);
	json_uint_known(&j, "other", f->usage.mapped_known, f->usage.other);
	json_uint_known(&j, "unaccounted", f->usage.mapped_known, f->usage.unaccounted);
	if (f->p->preattach.state != PREATTACH_NONE) {
		json_uint_known(&j, "before_attach", f->p->preattach.state == PREATTACH_KNOWN,
				f->p->preattach.bytes);
		json_uint_known(&j, "before_attach_blocks",
				f->p->preattach.state == PREATTACH_KNOWN, f->p->preattach.blocks);
		if (f->p->preattach.state == PREATTACH_UNKNOWN)
			json_string(&j, "before_attach_unknown", f->p->preattach.why);
	}
	json_uint(&j, "peak", f->t.peak);
	json_uint(&j, "peak_ms", f->t.peak_ms);
	json_uint(&j, "live_blocks", f->t.live_blocks);
	json_uint(&j, "allocs", f->t.allocs);
	json_uint(&j, "frees", f->t.frees);
	json_uint(&j, "maps", f->t.maps);
	json_uint(&j, "unmaps", f->t.unmaps);
	json_uint(&j, "unknown_frees", f->t.unknown_frees);
	json_uint(&j, "temporary", f->t.temporary);
	json_uint(&j, "total_allocated", f->t.total_allocated);
	json_uint_known(&j, "limit", f->limit, f->limit);
	json_uint_known(&j, "room", f->limit, limit_room(f->limit, f->allocated));
	json_uint(&j, "limit_hits", f->p->limit.hits);
	json_uint(&j, "errors", f->p->errors.count);
	json_uint(&j, "threads", f->p->threads);
	json_uint_known(&j, "rss", f->usage.rss >= 0, (uint64_t)f->usage.rss);
	json_string(&j, "mode", mode_name(shell, f->p));
	json_uint(&j, "sample", session_options(shell->session)->agent.sample);
	json_uint_known(&j, "off_since_ms", f->p->off, f->p->off_ms);
	json_uint(&j, "recorded_ms", f->p->recorded_ms);
	json_uint(&j, "elapsed_ms", f->elapsed);
	json_uint(&j, "events", f->stream.events);
	json_uint(&j, "dropped", f->stream.dropped);
	json_uint(&j, "truncated", f->stream.truncated);
	json_uint(&j, "deep", f->stream.deep);
	json_uint(&j, "waited_ms", f->stream.waited_ms);
	json_array(&j, "log_files");
	session_each_log(shell->session, log_file_json, &j);
	json_end_array(&j);
	json_object(&j, "timeline");
	json_uint(&j, "memory", f->timeline.memory);
	json_uint(&j, "coarse_until_ms", f->timeline.coarse_until_ms);
	json_uint(&j, "coarse_ms", f->timeline.coarse_ms);
	json_end_object(&j);
	json_string(&j, "unsupervised", f->p->unsupervised);
	json_object(&j, "mtrun");
	json_uint(&j, "rss", f->self_rss);
	json_uint(&j, "cpu_ms", f->self_cpu);
	json_uint(&j, "gaps", f->stream.gaps);
	json_uint(&j, "bad_events", f->stream.bad);
	json_int(&j, "missing", f->p->stream ? stream_missing(f->p->stream) : f->p->missing);
	json_end_object(&j);
	processes_json(&j, shell, f->p, &f->t);
	json_end_object(&j);
	json_finish(&j);
}

static void print_state(FILE *out, const struct facts *f)
{
	struct text_buffer time;
	char end[64];

	escape_printf(out, "program    %d (%s), ", (int)f->p->pid,
		      f->p->command ? f->p->command : "?");
	if (process_state_ended(f->p->state))
		escape_printf(out, "%s", wait_status_text(f->p->wait_status, end, sizeof(end)));
	else
		escape_printf(out, "%s, %u thread%s", process_state_name(process_state_seen(f->p)),
			      f->p->threads, plural(f->p->threads));
	escape_printf(out, ", %s\n", time_text(&time, f->elapsed));
	if (f->p->unsupervised)
		escape_printf(out, "           its allocations are not known: %s\n",
			      f->p->unsupervised);
}

static const char *usable_reason(const struct facts *f)
{
	switch (f->usable_error) {
	case -EFBIG: return "as report --usable tells";
	case -ENOTSUP: return f->rule.why;
	default: return "out of memory";
	}
}

#define AMOUNT(n) layout_size(f->layout, &(struct text_buffer){ "" }, n)

static void print_memory(FILE *out, const struct facts *f)
{
	struct text_buffer size;

	escape_printf(out, "memory     heap %s%s (usable ", f->about, AMOUNT(f->t.heap));
	if (f->usable_error)
		escape_printf(out, "%s%s",
			      f->usable_error == -EFBIG ? "" : "unknown: ", usable_reason(f));
	else
		escape_printf(out, "%s%s", f->about, AMOUNT(f->usable));
	escape_printf(out, ") + mmap %s + image %s", AMOUNT(f->t.mmap), AMOUNT(f->p->image_bytes));
	if (f->usage.mapped_known)
		escape_printf(out, " + other %s%s + unaccounted %s = %s mapped; RSS %s", f->about,
			      AMOUNT(f->usage.other), AMOUNT(f->usage.unaccounted),
			      AMOUNT(f->usage.mapped), size_text(&size, (uint64_t)f->usage.rss));
	putc('\n', out);
	if (f->t.mmap_reserved)
		escape_printf(out, "           of its own mappings %s reserved, %s accessible, ",
			      size_text(&size, f->t.mmap_reserved),
			      size_text(&(struct text_buffer){ "" }, f->t.mmap));
	if (f->t.mmap_reserved && f->usage.mapped_known && f->usage.resident_known)
		escape_printf(out, "%s resident\n", size_text(&size, f->usage.mmap_resident));
	else if (f->t.mmap_reserved)
		fprintf(out, "resident not known\n");
}

/* Whether what resident memory is made of could be told now. */
static bool divide(struct shell *shell, const struct facts *f)
{
	struct mapping m;

	if (f->t.live_blocks > MAP_BLOCKS || f->usage.rss < 0 || f->usage.rss > MAP_RSS ||
	    !f->usage.mapped_known || f->usage.mappings > MAP_MAPPINGS ||
	    mapping_make(shell, f->p, NULL, &m))
		return false;
	mapping_release(&m);
	return true;
}

/* It, or that of the last `map`. */
static void print_resident(struct shell *shell, FILE *out, const struct facts *f)
{
	const struct mapped *last = &shell->mapped;
	uint64_t rss, rest, now = shell_elapsed(shell, f->p);
	struct text_buffer size;
	bool fresh;

	if (mapping_refused(shell, f->p))
		return;
	fresh = divide(shell, f);
	if (last->pid != f->p->pid || last->began_ms != f->p->began_ms)
		return;
	rest = rss = last->rss - last->bytes[RESIDENCY_MTRUN]; /* as above */
	escape_printf(out, "           of RSS ");
	for (int i = 0; i < RESIDENCY_MTRUN; i++) {
		if (!rss || last->bytes[i] < rss / MAP_SHARE)
			continue;
		rest -= last->bytes[i];
		escape_printf(out, "%s %s, ", size_text(&size, last->bytes[i]),
			      residency_words[i].name);
	}
	escape_printf(out, "%s else (`map` says more", size_text(&size, rest));
	if (!fresh)
		escape_printf(out, "; as of %s ago",
			      age_text(&size, now > last->ms ? now - last->ms : 0));
	fputs(")\n", out);
}

/* What was there is not among what is counted: it is said beside it. */
static void print_before(FILE *out, const struct process *p)
{
	const char *when = p->recorded_ms > p->began_ms ? "recording began" : "the attach";
	const struct preattach_heap *b = &p->preattach;
	struct text_buffer size;

	if (b->state == PREATTACH_KNOWN)
		escape_printf(out,
			      "           before %s its heap had %" PRIu64
			      " byte%s%s in use, in %" PRIu64 " block%s: not among these\n",
			      when, b->bytes, plural(b->bytes), size_aside(&size, b->bytes),
			      b->blocks, plural(b->blocks));
	else if (b->state == PREATTACH_UNKNOWN)
		escape_printf(out, "           what its heap had in use before %s is unknown: %s\n",
			      when, b->why);
}

static void print_allocated(FILE *out, const struct facts *f)
{
	struct text_buffer size, time;

	escape_printf(out, "allocated  %s%" PRIu64 " byte%s%s: %s%s%s%s%s\n", f->about,
		      f->allocated, plural(f->allocated), size_aside(&size, f->allocated),
		      f->count & LEDGER_COUNT_HEAP ? "heap" : "",
		      f->count & LEDGER_COUNT_HEAP && f->count & LEDGER_COUNT_MMAP ? " + " : "",
		      f->count & LEDGER_COUNT_MMAP ? "mmap" : "",
		      f->count & COUNT_IMAGE && f->count != COUNT_IMAGE ? " + " : "",
		      f->count & COUNT_IMAGE ? "image" : "");
	print_before(out, f->p);
	escape_printf(
		out, "peak       %s%" PRIu64 " byte%s%s without the image, at %s%s\n", f->about,
		f->t.peak, plural(f->t.peak), size_aside(&size, f->t.peak),
		time_text(&time, f->t.peak_ms),
		ledger_is_threaded(f->p->ledger)
			? "; approximate with several threads: their blocks below 4K are ordered to 1 ms"
			: "");
}

static void print_limit(const struct shell *shell, FILE *out, const struct facts *f)
{
	uint64_t room = limit_room(f->limit, f->allocated), refused = limit_refused_count(f->p);
	struct text_buffer size;

	if (f->limit)
		escape_printf(out,
			      "limit      %" PRIu64 " byte%s%s, room for %" PRIu64
			      "%s; at a hit: %s",
			      f->limit, plural(f->limit), size_aside(&size, f->limit), room,
			      size_aside(&(struct text_buffer){ "" }, room),
			      limit_action_names[session_limit_action_now(shell->session)]);
	else
		fputs("limit      none", out);
	if (f->p->limit.hits)
		escape_printf(out, "; %" PRIu64 " hit%s", f->p->limit.hits,
			      plural(f->p->limit.hits));
	if (refused)
		fprintf(out, ", %" PRIu64 " refused (`limit` lists them)", refused);
	putc('\n', out);
}

static double per_second(uint64_t n, const struct facts *f)
{
	uint64_t end = f->p->off ? f->p->off_ms : f->elapsed, ms = end - f->p->recorded_ms;

	return ms ? (double)n * 1000 / (double)ms : 0;
}

static void print_counts(FILE *out, const struct facts *f)
{
	const char *about = f->about;

	escape_printf(out,
		      "blocks     %s%" PRIu64 " live; %s%" PRIu64 " allocated (%.0f/s), %s%" PRIu64
		      " freed (%.0f/s), %s%" PRIu64 " of them temporary; %s%" PRIu64
		      " byte%s ever\n",
		      about, f->t.live_blocks, about, f->t.allocs, per_second(f->t.allocs, f),
		      about, f->t.frees, per_second(f->t.frees, f), about, f->t.temporary, about,
		      f->t.total_allocated, plural(f->t.total_allocated));
	if (f->t.maps || f->t.unmaps || f->t.unknown_frees)
		escape_printf(out,
			      "           %" PRIu64 " map%s, %" PRIu64 " unmap%s, %" PRIu64
			      " free%s of blocks %s\n",
			      f->t.maps, plural(f->t.maps), f->t.unmaps, plural(f->t.unmaps),
			      f->t.unknown_frees, plural(f->t.unknown_frees),
			      f->p->attached || f->p->recorded_ms > f->p->began_ms
				      ? "allocated before recording"
				      : "that are not live");
	if (f->p->errors.count) {
		fputs("errors     ", out);
		erring_counts(out, &f->p->errors);
		putc('\n', out);
	}
}

struct logs {
	size_t count;
	char last[256];
};

static void count_log(void *ctx, const char *path, uint64_t bytes)
{
	struct logs *l = ctx;

	(void)bytes;
	l->count++;
	snprintf(l->last, sizeof(l->last), "%s", path);
}

static void print_logs(const struct shell *shell, FILE *out)
{
	struct logs l = { 0 };

	session_each_log(shell->session, count_log, &l);
	if (l.count)
		escape_printf(out, "%zu log file%s up to '%s'", l.count, plural(l.count), l.last);
	else
		fputs("no log files", out);
}

static void print_recording(struct shell *shell, FILE *out, const struct facts *f)
{
	uint64_t sample = session_options(shell->session)->agent.sample;
	char what[64] = ", all allocations";
	struct text_buffer size, time;
	size_t n = 0;

	if (f->p->off)
		snprintf(what, sizeof(what), " since %s", time_text(&time, f->p->off_ms));
	else if (sample)
		snprintf(what, sizeof(what), ", one allocation per %s bytes",
			 size_text(&size, sample));
	escape_printf(out, "recording  %s%s%s; ", mode_name(shell, f->p), what,
		      f->p->off ? reporting_off_hint(f->p) : "");
	print_logs(shell, out);
	escape_printf(out,
		      "; %" PRIu64 " event%s, %" PRIu64 " dropped; %" PRIu64 " stack%s truncated",
		      f->stream.events, plural(f->stream.events), f->stream.dropped,
		      f->stream.truncated, plural(f->stream.truncated));
	if (f->stream.deep)
		fprintf(out, ", %" PRIu64 " of them at --depth", f->stream.deep);
	putc('\n', out);
	if (f->stream.gaps || f->stream.bad)
		escape_printf(out,
			      "           %" PRIu64
			      " event%s never came (their thread was killed in between), %" PRIu64
			      " %s malformed\n",
			      f->stream.gaps, plural(f->stream.gaps), f->stream.bad,
			      f->stream.bad == 1 ? "was" : "were");
	if (f->p->recorded_ms > f->p->began_ms)
		escape_printf(out, "           what is recorded begins at %s: it was off before\n",
			      time_text(&time, f->p->recorded_ms));
	escape_printf(out, "mtrun      %s of memory, %s of CPU; the program waited %s for it\n",
		      size_text(&size, f->self_rss),
		      time_text(&(struct text_buffer){ "" }, f->self_cpu),
		      time_text(&time, f->stream.waited_ms));
	if (f->timeline.coarse_until_ms)
		escape_printf(out,
			      "timeline   %s of memory; before %s it is in intervals of up to %s\n",
			      size_text(&size, f->timeline.memory),
			      time_text(&time, f->timeline.coarse_until_ms),
			      time_text(&(struct text_buffer){ "" }, f->timeline.coarse_ms));
	for (const struct process *p = session_processes(shell->session); p; p = p->next)
		n++;
	n += session_ended_list(shell->session)->count +
	     session_ended_list(shell->session)->dropped;
	if (n > 1)
		fprintf(out, "processes  %zu (`processes` lists them)\n", n);
}

static void print_refused(FILE *out, const struct process *p)
{
	for (size_t i = 0; i < p->plant.nrefused; i++)
		escape_printf(out, "not hooked %s\n", p->plant.refused[i]);
}

/* Of what -r opened. */
static void of_file(struct shell *shell, struct call *call, struct process *p)
{
	unsigned count = session_options(shell->session)->count;
	struct json j;

	if (!call->json) {
		p->source->status(p, count, call->out, shell_sites(shell, p), &call->layout);
		return;
	}
	json_init(&j, call->out);
	json_object(&j, NULL);
	p->source->status_json(p, count, &j);
	if (!p->source->one_moment)
		processes_json(&j, shell, NULL, NULL);
	json_end_object(&j);
	json_finish(&j);
}

static int status(struct shell *shell, struct call *call)
{
	struct process *subject = shell_subject(shell);
	struct facts f = { 0 };

	if (arguments_none(shell, call))
		return -1;
	if (subject->source->status) {
		of_file(shell, call, subject);
		return 0;
	}
	f.layout = &call->layout;
	collect(shell, &f);
	if (call->json) {
		print_json(shell, call->out, &f);
		return 0;
	}
	print_state(call->out, &f);
	print_memory(call->out, &f);
	print_resident(shell, call->out, &f);
	print_allocated(call->out, &f);
	print_limit(shell, call->out, &f);
	print_counts(call->out, &f);
	print_recording(shell, call->out, &f);
	if (session_options(shell->session)->verbose)
		print_refused(call->out, f.p);
	return 0;
}

const struct command cmd_status = {
	.name = "status",
	.usage = "[--bytes] [--json]",
	.summary = "state, memory, counts, and what mtrun itself costs",
	.example = "status --json > status.json",
	.help = "heap: live bytes as the program asked for them; usable: what the allocator set aside for those blocks, where that can be told at once. mmap:\n"
		"accessible bytes of its own mappings. image: the executable's text. other: libraries, files, stacks, and what allocators\n"
		"hold beyond the live blocks. unaccounted: anonymous memory that nothing here explains. Their sum is what is mapped; RSS is how\n"
		"much of it is in memory, without mtrun's part in it (`map` has that, and the kernel's figure), and below is what that is made of: now, or of a\n"
		"large process as of the last `map`. With -p, allocated and the limit count from the attach on; what glibc's heap had in use before is beside\n"
		"it, as mallinfo2() counts, and in no sum. The peak is exact while one thread runs; with several threads the order of their allocations of less\n"
		"than 4K is known to a millisecond, and the peak as far as that allows. On a terminal the parts are in K, M, G; --bytes: exact. -v: also functions that could not be hooked.",
	.flags = COMMAND_JSON | COMMAND_BYTES,
	.run = status,
};
