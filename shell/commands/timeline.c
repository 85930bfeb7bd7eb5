// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/message.h"
#include "base/units.h"
#include "ledger/timeline.h"
#include "report/print.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/plot.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/*
 * `timeline`: what was live over time. The ledger knows it in steps; here they become rows of 100
 * ms, or a picture. The last row is what is live now: where the present interval has been higher
 * than that already, both are shown, as if it ended here.
 */
enum { ARG_FROM, ARG_TO, ARG_PLOT, ARG_TABLE, ARG_CSV };

static const struct argument table[] = {
	[ARG_FROM] = { "from", 0, true },  [ARG_TO] = { "to", 0, true },
	[ARG_PLOT] = { "plot", 0, false }, [ARG_TABLE] = { "table", 0, false },
	[ARG_CSV] = { "csv", 0, false },   ARGUMENTS_END
};

#define YIELD_STEPS 4096u

struct request {
	uint64_t from, to; /* ms */
	bool has_from, has_to;
	int shape; /* ARG_PLOT, ..., or -1 */
	struct plot_step *step;
	size_t steps, room;
	struct plot_mark *mark;
	size_t marks;
	struct marks kept; /* whose labels those are */
	struct ledger_timeline timeline;
	const char *about; /* what stands before a number */
	bool off;
	uint64_t off_ms;
};

static int step_add(struct request *r, const struct plot_step *s)
{
	if (array_room(&r->step, r->steps, &r->room, sizeof(*r->step)))
		return -ENOMEM;
	r->step[r->steps++] = *s;
	return 0;
}

static uint64_t live(const struct process *p, unsigned count)
{
	struct ledger_totals t;

	ledger_totals(p->ledger, &t);
	return (count & LEDGER_COUNT_HEAP ? t.heap : 0) + (count & LEDGER_COUNT_MMAP ? t.mmap : 0);
}

/* The steps between R's times, in whole intervals. */
static int collect(struct shell *shell, struct process *p, struct request *r)
{
	uint64_t now = shell_moment(shell, p), end = r->to - r->to % TIMELINE_MS + TIMELINE_MS,
		 at = r->from - r->from % TIMELINE_MS;
	uint64_t present = live(p, session_options(shell->session)->count);
	int err = 0;

	while (at < end && !err) {
		struct ledger_interval i;
		struct plot_step s = { .from_ms = at };

		if (r->steps % YIELD_STEPS == 0)
			session_yield(shell->session);
		ledger_interval(p->ledger, at, &i);
		s.to_ms = i.to_ms < end ? i.to_ms : end;
		s.bytes = i.bytes;
		s.ms = i.ms > at && i.ms < s.to_ms ? i.ms : at;
		err = step_add(r, &s);
		at = s.to_ms;
	}
	if (!err && end > now && r->step[r->steps - 1].bytes != present)
		err = step_add(r, &(struct plot_step){ at, at + TIMELINE_MS, present, at });
	return err;
}

static int collect_marks(const struct process *p, struct request *r)
{
	uint64_t first = r->step[0].from_ms, end = r->step[r->steps - 1].to_ms;
	size_t n;

	if (marks_copy(&r->kept, &p->marks))
		return -ENOMEM;
	n = marks_count(&r->kept);
	r->mark = malloc((n + 1) * sizeof(*r->mark));
	if (!r->mark)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct mark *m = marks_at(&r->kept, i);

		if (m->ms >= first && m->ms < end)
			r->mark[r->marks++] = (struct plot_mark){ m->ms, m->label };
	}
	return 0;
}

static void collect_facts(const struct process *p, struct request *r)
{
	struct ledger_totals t;

	ledger_timeline(p->ledger, &r->timeline);
	ledger_totals(p->ledger, &t);
	r->about = print_about(t.estimated);
	r->off = p->off;
	r->off_ms = p->off_ms;
}

/* ---- shapes -------------------------------------------------------------- */

static void points_json(struct json *j, const char *key, const struct request *r)
{
	json_array(j, key);
	for (size_t i = 0; i < r->steps && !ferror(j->out); i++)
		for (uint64_t ms = r->step[i].from_ms; ms < r->step[i].to_ms; ms += TIMELINE_MS) {
			json_array(j, NULL);
			json_uint(j, NULL, ms);
			json_uint(j, NULL, r->step[i].bytes);
			json_end_array(j);
		}
	json_end_array(j);
}

static void print_json(struct call *call, const struct request *r)
{
	const struct plot_step *peak = plot_peak(r->step, r->steps);
	struct json j;

	json_init(&j, call->out);
	if (call->call_form) {
		points_json(&j, NULL, r);
		json_finish(&j);
		return;
	}
	json_object(&j, NULL);
	json_uint(&j, "interval_ms", TIMELINE_MS);
	points_json(&j, "points", r);
	json_array(&j, "peak");
	json_uint(&j, NULL, peak->ms);
	json_uint(&j, NULL, peak->bytes);
	json_end_array(&j);
	json_array(&j, "marks");
	for (size_t i = 0; i < r->marks; i++) {
		json_array(&j, NULL);
		json_uint(&j, NULL, r->mark[i].ms);
		json_string(&j, NULL, r->mark[i].label);
		json_end_array(&j);
	}
	json_end_array(&j);
	if (r->off)
		json_uint(&j, "off_since_ms", r->off_ms);
	json_uint(&j, "coarse_until_ms", r->timeline.coarse_until_ms);
	json_uint(&j, "coarse_ms", r->timeline.coarse_ms);
	json_end_object(&j);
	json_finish(&j);
}

static void print_csv(struct call *call, const struct request *r)
{
	fputs("ms,bytes\n", call->out);
	for (size_t i = 0; i < r->steps && !ferror(call->out); i++)
		for (uint64_t ms = r->step[i].from_ms; ms < r->step[i].to_ms; ms += TIMELINE_MS)
			fprintf(call->out, "%" PRIu64 ",%" PRIu64 "\n", ms, r->step[i].bytes);
}

static const char *note(const struct request *r, char text[160])
{
	const struct ledger_timeline *t = &r->timeline;
	struct text_buffer until, step;

	if (!t->coarse_until_ms)
		return NULL;
	snprintf(text, 160,
		 "before %s intervals are longer, up to %s: the memory for the timeline is used up",
		 time_text(&until, t->coarse_until_ms), time_text(&step, t->coarse_ms));
	return text;
}

static void print_rows(struct call *call, const struct request *r)
{
	const struct plot_step *peak = plot_peak(r->step, r->steps);
	char text[160];
	size_t m = 0;

	escape_printf(call->out, "%12s %20s\n", "seconds", "bytes");
	for (size_t i = 0; i < r->steps && !ferror(call->out); i++)
		for (uint64_t ms = r->step[i].from_ms; ms < r->step[i].to_ms; ms += TIMELINE_MS) {
			snprintf(text, sizeof(text), "%s%" PRIu64, r->about, r->step[i].bytes);
			escape_printf(call->out, "%10" PRIu64 ".%01" PRIu64 " %20s", ms / 1000,
				      ms % 1000 / 100, text);
			if (&r->step[i] == peak && peak->ms >= ms && peak->ms < ms + TIMELINE_MS)
				fputs("  peak", call->out);
			for (; m < r->marks && r->mark[m].ms < ms + TIMELINE_MS; m++)
				escape_printf(call->out, "  mark: %s", r->mark[m].label);
			putc('\n', call->out);
		}
	if (note(r, text))
		escape_printf(call->out, "%s\n", text);
}

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);
	uint64_t n;

	return value && number_parse(value, &n) == 0 && n > 0 && n < 10000 ? (unsigned)n
									   : otherwise;
}

static void print_plot(struct call *call, const struct request *r)
{
	struct plot plot = { .utf8 = layout_unicode(),
			     .step = r->step,
			     .steps = r->steps,
			     .mark = r->mark,
			     .marks = r->marks,
			     .about = r->about };
	struct winsize size = { 0 };
	char text[160];

	if (!call->layout.columns || ioctl(message_fd(), TIOCGWINSZ, &size))
		size = (struct winsize){ 0 };
	plot.columns = size.ws_col ? size.ws_col : from_environment("COLUMNS", 80);
	plot.rows = (size.ws_row ? size.ws_row : from_environment("LINES", 24)) - 4u;
	if (plot.rows > 10000)
		plot.rows = 10;
	plot.note = note(r, text);
	plot_print(call->out, &plot);
}

static void print(struct call *call, const struct request *r)
{
	bool screen = call->layout.columns;

	if (call->json)
		print_json(call, r);
	else if (r->shape == ARG_CSV)
		print_csv(call, r);
	else if (r->shape == ARG_PLOT || (r->shape < 0 && screen))
		print_plot(call, r);
	else
		print_rows(call, r);
}

/* ---- the command --------------------------------------------------------- */

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_FROM:
		r->has_from = true;
		return reporting_time(shell, call, "--from", value, &r->from);
	case ARG_TO: r->has_to = true; return reporting_time(shell, call, "--to", value, &r->to);
	case ARG_WORD: return arguments_unexpected(shell, call, value);
	default:
		if (r->shape >= 0 && r->shape != arg)
			return shell_error(shell, call,
					   "only one of --plot, --table, --json and --csv");
		r->shape = arg;
		return 0;
	}
}

static int answer(struct shell *shell, struct call *call, struct request *r)
{
	struct process *p = shell_process(shell);

	if (call->json && r->shape >= 0)
		return shell_error(shell, call, "only one of --plot, --table, --json and --csv");
	if (!r->has_from)
		r->from = p->recorded_ms;
	if (!r->has_to)
		r->to = shell_moment(shell, p);
	if (r->from > r->to)
		return shell_error(shell, call, "--from is later than --to");
	if (collect(shell, p, r) || collect_marks(p, r))
		return shell_error(shell, call, "out of memory");
	collect_facts(p, r);
	asking_unlock(shell->session);
	print(call, r);
	asking_lock(shell->session);
	if (!call->json && r->shape != ARG_CSV)
		reporting_off(call->out, p);
	return 0;
}

static int timeline(struct shell *shell, struct call *call)
{
	struct request r = { .shape = -1 };
	int bad = arguments_each(shell, call, table, one, &r) || answer(shell, call, &r);

	free(r.step);
	free(r.mark);
	marks_release(&r.kept);
	return bad ? -1 : 0;
}

const struct command cmd_timeline = {
	.name = "timeline",
	.group = GROUP_TIME,
	.usage = "[--from TIME] [--to TIME] [--plot|--table|--json|--csv]",
	.summary = "what was live over time, in intervals of 100 ms",
	.example = "timeline --plot",
	.help = "Each interval is shown at its local maximum; the last one is what is live now. TIME: seconds since tracing began (also 250ms, 2m), or a clock\n"
		"time, 03:12:07 or 2026-11-20T03:12:07; -10s is ten seconds ago, or before the record's end (--from: or its beginning, if that is later).\n"
		"Marks are what the program says by mtrun_mark(). When 64 MB are used up, older intervals are merged into longer ones, and it is said.\n"
		"\n"
		"  --plot     as a picture as wide as the screen: what is shown on a terminal\n"
		"  --table    one line each: what is shown elsewhere\n"
		"  --csv      ms,bytes",
	.flags = COMMAND_LIST | COMMAND_AS_IS | COMMAND_JSON | COMMAND_TIMES,
	.run = timeline,
};
