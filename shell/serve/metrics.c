// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "report/view.h"
#include "session/asking.h"
#include "session/options.h"
#include "shell/common/limit_text.h"
#include "shell/common/reporting.h"
#include "shell/common/usage.h"
#include "shell/serve/server.h"

/*
 * /metrics: OpenMetrics 1.0 if the asker accepts it, else the text format 0.0.4 that it grew from.
 * They differ in the name that a counter's family is announced with, in units, and in the last
 * line.
 *
 * One series for each process that is supervised, at most PROCESSES of them, and for the SITES
 * biggest sites of the one that questions are about: the number of series is bounded, whatever the
 * program does. A site's labels are what it is, not its rank, so that a series stays the same one.
 */
#define PROCESSES 100u
#define SITES	  50u

enum metric_kind { GAUGE, COUNTER, INFO };

struct metrics_process {
	pid_t pid;
	char *command;
	struct process_totals totals;
	int64_t waited_ms, dropped; /* -1: not known */
	struct rss_look look;
	int64_t rss;
};

struct metrics {
	FILE *out;
	bool open; /* OpenMetrics */
	size_t count;
	struct metrics_process process[PROCESSES];
	uint64_t limit, allocated, hits; /* of the chosen one; limit 0: none */
	uint64_t self_rss, self_cpu_ms;
	pid_t pid;
};

static void family(const struct metrics *m, const char *name, enum metric_kind kind,
		   const char *unit, const char *help)
{
	static const char *const kinds[] = { "gauge", "counter", "info" };
	const char *suffix = kind == COUNTER ? "_total" : kind == INFO ? "_info" : "";

	if (m->open)
		suffix = "";
	escape_printf(m->out, "# HELP %s%s %s\n", name, suffix, help);
	escape_printf(m->out, "# TYPE %s%s %s\n", name, suffix,
		      kind == INFO && !m->open ? "gauge" : kinds[kind]);
	if (m->open && unit)
		escape_printf(m->out, "# UNIT %s %s\n", name, unit);
}

/* Within quotes: backslash, quote and newline are escaped, and what escape.h escapes anyway. */
static void put_label(FILE *out, const char *text)
{
	char *shown = escape_copy(text ? text : "");

	for (const char *at = shown ? shown : ""; *at; at++) {
		if (*at == '"' || *at == '\\')
			putc('\\', out);
		putc(*at, out);
	}
	free(shown);
}

static void put_process(const struct metrics *m, const char *name, const struct metrics_process *p)
{
	escape_printf(m->out, "%s{pid=\"%d\",command=\"", name, (int)p->pid);
	put_label(m->out, p->command);
	fputs("\"", m->out);
}

/* -1: not known */
static int64_t value_of(const struct metrics_process *p, size_t which)
{
	switch (which) {
	case 0: return p->totals.allocated;
	case 1: return p->totals.heap;
	case 2: return p->totals.mmap;
	case 3: return p->totals.peak;
	case 4: return p->totals.live_blocks;
	case 5: return p->totals.allocs;
	case 6: return p->totals.frees;
	case 7: return p->totals.maps;
	case 8: return p->totals.unmaps;
	case 9: return p->totals.total_allocated;
	case 10: return p->dropped;
	case 11: return p->rss;
	default: return -1;
	}
}

/* Of no process known: the family is left out. */
static bool is_known(const struct metrics *m, size_t which)
{
	for (size_t i = 0; i < m->count; i++)
		if (value_of(&m->process[i], which) >= 0)
			return true;
	return false;
}

static void put_processes(const struct metrics *m)
{
	static const struct {
		const char *name;
		enum metric_kind kind;
		const char *unit, *help;
	} table[] = {
		{ "mtrun_allocated_bytes", GAUGE, "bytes", "What counts as allocated (--count)." },
		{ "mtrun_heap_bytes", GAUGE, "bytes", "Live bytes of the heap, as requested." },
		{ "mtrun_mmap_bytes", GAUGE, "bytes",
		  "Accessible bytes of the program's own mappings." },
		{ "mtrun_peak_bytes", GAUGE, "bytes",
		  "The most that was live at once, without the image." },
		{ "mtrun_live_blocks", GAUGE, NULL, "Live blocks." },
		{ "mtrun_allocations", COUNTER, NULL, "Calls that gave a block." },
		{ "mtrun_frees", COUNTER, NULL, "Calls that took a block." },
		{ "mtrun_maps", COUNTER, NULL, "Calls that made a mapping." },
		{ "mtrun_unmaps", COUNTER, NULL, "Calls that took one." },
		{ "mtrun_requested_bytes", COUNTER, "bytes",
		  "All bytes that were ever requested." },
		{ "mtrun_dropped_events", COUNTER, NULL, "Events that were lost." },
		{ "mtrun_resident_bytes", GAUGE, "bytes",
		  "Resident bytes of the process, without mtrun's part in it." },
	};

	for (size_t k = 0; k < sizeof(table) / sizeof(*table); k++) {
		if (!is_known(m, k))
			continue;
		family(m, table[k].name, table[k].kind, table[k].unit, table[k].help);
		for (size_t i = 0; i < m->count; i++) {
			char name[64];

			if (value_of(&m->process[i], k) < 0)
				continue;
			snprintf(name, sizeof(name), "%s%s", table[k].name,
				 table[k].kind == COUNTER ? "_total" : "");
			put_process(m, name, &m->process[i]);
			fprintf(m->out, "} %" PRId64 "\n", value_of(&m->process[i], k));
		}
	}
	for (size_t i = 0; i < m->count; i++) {
		if (m->process[i].waited_ms < 0)
			continue;
		if (!i)
			family(m, "mtrun_waited_seconds", COUNTER, "seconds",
			       "For how long threads of the program waited for mtrun.");
		put_process(m, "mtrun_waited_seconds_total", &m->process[i]);
		fprintf(m->out, "} %.3f\n", (double)m->process[i].waited_ms / 1000);
	}
}

static void put_limit(const struct metrics *m)
{
	if (!m->limit)
		return;
	family(m, "mtrun_limit_bytes", GAUGE, "bytes", "The limit in force.");
	fprintf(m->out, "mtrun_limit_bytes{pid=\"%d\"} %" PRIu64 "\n", (int)m->pid, m->limit);
	family(m, "mtrun_room_bytes", GAUGE, "bytes", "What may still be allocated below it.");
	fprintf(m->out, "mtrun_room_bytes{pid=\"%d\"} %" PRIu64 "\n", (int)m->pid,
		limit_room(m->limit, m->allocated));
	family(m, "mtrun_limit_hits", COUNTER, NULL, "Requests that would have crossed it.");
	fprintf(m->out, "mtrun_limit_hits_total{pid=\"%d\"} %" PRIu64 "\n", (int)m->pid, m->hits);
}

static void put_site(const struct metrics *m, const char *name, const struct view_row *r,
		     int64_t value)
{
	escape_printf(m->out, "%s{pid=\"%d\",function=\"", name, (int)m->pid);
	put_label(m->out, r->frame.function ? r->frame.function : "?");
	fputs("\",file=\"", m->out);
	put_label(m->out, r->frame.file);
	fprintf(m->out, "\",line=\"%u\",module=\"", r->frame.line);
	put_label(m->out, r->frame.module);
	fprintf(m->out, "\"} %" PRId64 "\n", value);
}

/* As they are printed, where there is no text is an empty one. */
static bool same_label(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

/* Whether a row before number I has the same labels: one series of a name may be there once. */
static bool is_repeated(const struct view *view, size_t i)
{
	const struct symbol_frame *f = &view->row[i].frame;

	for (size_t k = 0; k < i; k++) {
		const struct symbol_frame *g = &view->row[k].frame;

		if (f->line == g->line && same_label(f->function, g->function) &&
		    same_label(f->file, g->file) && same_label(f->module, g->module))
			return true;
	}
	return false;
}

static void put_sites(const struct metrics *m, const struct view *view)
{
	family(m, "mtrun_site_live_bytes", GAUGE, "bytes",
	       "Live bytes by the line that allocated them, the biggest ones.");
	for (size_t i = 0; i < view->count; i++)
		if (!is_repeated(view, i))
			put_site(m, "mtrun_site_live_bytes", &view->row[i], view->row[i].size);
	family(m, "mtrun_site_live_blocks", GAUGE, NULL, "Live blocks of the same lines.");
	for (size_t i = 0; i < view->count; i++)
		if (!is_repeated(view, i))
			put_site(m, "mtrun_site_live_blocks", &view->row[i], view->row[i].count);
}

static void put_self(const struct metrics *m)
{
	family(m, "mtrun_self_resident_bytes", GAUGE, "bytes", "mtrun's own memory.");
	fprintf(m->out, "mtrun_self_resident_bytes %" PRIu64 "\n", m->self_rss);
	family(m, "mtrun_self_cpu_seconds", COUNTER, "seconds", "mtrun's own time.");
	fprintf(m->out, "mtrun_self_cpu_seconds_total %.3f\n", (double)m->self_cpu_ms / 1000);
	family(m, "mtrun_build", INFO, NULL, "The version of mtrun.");
	escape_printf(m->out, "mtrun_build_info{version=\"%s\"} 1\n", MTRUN_VERSION);
}

/* ---- copies, with the session's lock ------------------------------------- */

static void copy_process(struct metrics *m, const struct session *s, const struct process *p)
{
	struct metrics_process *to = &m->process[m->count++];
	struct stream_stats stats = p->last_stats;

	*to = (struct metrics_process){ .pid = p->pid,
					.command = strdup(p->command ? p->command : "?") };
	process_totals(p, session_options(s)->count, &to->totals);
	if (p->stream)
		stream_stats(p->stream, &stats);
	to->waited_ms = p->source->name ? -1 : (int64_t)stats.waited_ms; /* no file tells these */
	to->dropped = p->source->name ? -1 : (int64_t)stats.dropped;
	rss_look_begin(&to->look, p);
}

/* SUBJECT, and unless PID chose it all others that run. */
static void copy(struct metrics *m, const struct session *s, const struct process *subject,
		 bool alone)
{
	session_self(s, &m->self_rss, &m->self_cpu_ms);
	m->pid = subject->pid;
	m->limit = session_limit_now(s);
	m->allocated = process_allocated(subject, session_options(s)->count);
	m->hits = subject->limit.hits;
	copy_process(m, s, subject);
	for (const struct process *p = session_processes(s); p && !alone; p = p->next)
		if (p != subject && m->count < PROCESSES &&
		    (p->state == PROCESS_RUNNING || p->state == PROCESS_STOPPED))
			copy_process(m, s, p);
}

/* The biggest sites of the chosen process. 0, or -1 (refused). */
static int view_sites(struct answer *a, struct view *view)
{
	struct view_options options = { .key = VIEW_SITE, .sort = SORT_SIZE, .limit = SITES };
	struct shell *shell = &a->s->shell;
	struct profile profile;
	struct sites *sites;
	int err;

	shell->said[0] = '\0';
	if (reporting_live(shell, NULL, NULL, false, &profile, &sites)) {
		answer_refuse(a, 500, "%s", *shell->said ? shell->said : "no answer");
		return -1;
	}
	asking_unlock(shell->session);
	err = view_make(view, &profile, sites, &options);
	asking_lock(shell->session);
	profile_release(&profile);
	if (err)
		answer_refuse(a, 500, "out of memory");
	return err ? -1 : 0;
}

static bool accepts_openmetrics(struct evhttp_request *req)
{
	const char *accept = evhttp_find_header(evhttp_request_get_input_headers(req), "Accept");

	return accept && strstr(accept, "application/openmetrics-text");
}

void answer_metrics(struct answer *a)
{
	struct metrics *m = calloc(1, sizeof(*m));
	struct shell *shell = &a->s->shell;
	struct view view = { 0 };
	bool viewed = false;

	if (!m) {
		answer_refuse(a, 500, "out of memory");
		return;
	}
	m->out = a->out;
	m->open = accepts_openmetrics(a->req);
	asking_lock(shell->session);
	shell->about = answer_process(a);
	if (shell->about) {
		shell_process(shell); /* everything that has happened is in its ledger */
		copy(m, shell->session, shell->about, answer_parameter(a, "pid"));
		viewed = view_sites(a, &view) == 0;
	}
	shell_leave_subject(shell);
	asking_unlock(shell->session);
	for (size_t i = 0; i < m->count; i++)
		m->process[i].rss = rss_look_end(&m->process[i].look);
	if (viewed) {
		put_processes(m);
		put_limit(m);
		put_sites(m, &view);
		put_self(m);
		if (m->open)
			fputs("# EOF\n", m->out);
		view_release(&view);
	}
	a->type = m->open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			  : "text/plain; version=0.0.4; charset=utf-8";
	for (size_t i = 0; i < m->count; i++)
		free(m->process[i].command);
	free(m);
}
