// SPDX-License-Identifier: GPL-3.0-or-later
#include "export/export.h"
#include "ledger/timeline.h"
#include "report/print.h"

/*
 * All of it as one JSON document, for programs: whose it is, `report --by stack --json`, and
 * `timeline --json` with a point only where the amount changes.
 */
static void put_program(struct json *j, const struct export *e)
{
	json_object(j, "program");
	json_int(j, "pid", e->pid);
	json_string(j, "command", e->command);
	json_string(j, "exe", e->exe);
	json_string(j, "command_line", e->command_line);
	json_uint(j, "began_ms", e->began_ms);
	json_uint(j, "now_ms", e->now_ms);
	json_end_object(j);
}

static void put_pair(struct json *j, const char *key, uint64_t ms, uint64_t bytes)
{
	json_array(j, key);
	json_uint(j, NULL, ms);
	json_uint(j, NULL, bytes);
	json_end_array(j);
}

static void put_timeline(struct json *j, const struct export *e)
{
	json_object(j, "timeline");
	json_uint(j, "interval_ms", TIMELINE_MS);
	json_array(j, "points");
	for (size_t i = 0; i < e->points && !ferror(j->out); i++)
		put_pair(j, NULL, e->point[i].from_ms, e->point[i].bytes);
	json_end_array(j);
	put_pair(j, "peak", e->peak_ms, e->peak);
	json_array(j, "marks");
	for (size_t i = 0; e->marks && i < marks_count(e->marks); i++) {
		json_array(j, NULL);
		json_uint(j, NULL, marks_at(e->marks, i)->ms);
		json_string(j, NULL, marks_at(e->marks, i)->label);
		json_end_array(j);
	}
	json_end_array(j);
	json_end_object(j);
}

int export_json(FILE *out, const struct export *e)
{
	struct json j;
	int err = export_rest(e);

	if (err)
		return err;
	json_init(&j, out);
	json_object(&j, NULL);
	json_string(&j, "exporter", "mtrun " MTRUN_VERSION);
	json_string(&j, "moment", e->moment);
	json_uint(&j, "clock_ms", e->began);
	put_program(&j, e);
	print_view_json(&j, "report", e->view, e->sites, true);
	put_timeline(&j, e);
	json_end_object(&j);
	json_finish(&j);
	return 0;
}
