// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "export/trie.h"

/*
 * DHAT's JSON, version 2, for dh_view.html and the Firefox profiler: by stack what was allocated in
 * total, what was live at the peak (t-gmax) and at the end. Lifetimes are not known by stack, and
 * left out: the viewer shows NaN for them. Of `Max`, which is a stack's own peak, the larger of the
 * two is written. Stacks that read the same are one: the viewer accepts no two.
 */
struct place {
	uint64_t total, totals, peak, peaks, end, ends; /* bytes and blocks each */
	bool is_leaf;
};

static int collect(const struct export *e, struct trie *t, struct place **place,
		   const struct profile *at_peak)
{
	uint32_t node;
	int err = trie_view(t, e);

	for (size_t i = 0; i < at_peak->count && !err; i++)
		err = trie_stack(t, e, at_peak->row[i].stack, &node);
	*place = err ? NULL : calloc(t->nodes, sizeof(**place));
	return err ? err : *place ? 0 : -ENOMEM;
}

static void add_up(const struct export *e, const struct trie *t, struct place *place,
		   const struct profile *at_peak)
{
	for (size_t i = 0; i < e->view->count; i++) {
		const struct view_row *r = &e->view->row[i];
		struct place *p = &place[t->leaf[r->stack]];

		uint64_t live = r->size > 0 ? (uint64_t)r->size : 0,
			 lives = r->count > 0 ? (uint64_t)r->count : 0;

		/* of what has come since a moment the total may not be known */
		p->is_leaf = true;
		p->total += r->total_size > live ? r->total_size : live;
		p->totals += r->total_count > lives ? r->total_count : lives;
		p->end += live;
		p->ends += lives;
	}
	for (size_t i = 0; i < at_peak->count; i++) {
		struct place *p = &place[t->leaf[at_peak->row[i].stack]];

		p->is_leaf = true;
		p->peak += (uint64_t)at_peak->row[i].size;
		p->peaks += (uint64_t)at_peak->row[i].count;
	}
}

/* `0xADDRESS: FUNCTION (FILE:LINE)`, or `(in MODULE)`. */
static int put_frame(struct json *j, const struct trie_frame *f)
{
	char line[16], *text;

	snprintf(line, sizeof(line), ":%u", f->at.line);
	if (asprintf(&text, "0x%llX: %s (%s%s%s)", (unsigned long long)f->address,
		     export_name(&f->at), f->at.file ? "" : "in ",
		     f->at.file	    ? f->at.file
		     : f->at.module ? f->at.module
				    : "???",
		     f->at.file ? line : "") < 0)
		return -ENOMEM;
	json_newline(j);
	json_string(j, NULL, text);
	free(text);
	return 0;
}

static void put_place(struct json *j, const struct trie *t, const struct place *p, uint32_t leaf)
{
	bool peak = p->peak > p->end;

	json_newline(j);
	json_object(j, NULL);
	json_uint(j, "tb", p->total);
	json_uint(j, "tbk", p->totals);
	json_uint(j, "mb", peak ? p->peak : p->end);
	json_uint(j, "mbk", peak ? p->peaks : p->ends);
	json_uint(j, "gb", p->peak);
	json_uint(j, "gbk", p->peaks);
	json_uint(j, "eb", p->end);
	json_uint(j, "ebk", p->ends);
	json_array(j, "fs");
	for (uint32_t node = leaf; node; node = t->node[node].parent)
		json_uint(j, NULL, t->node[node].frame + 1);
	json_end_array(j);
	json_end_object(j);
}

static int put_document(struct json *j, const struct export *e, const struct trie *t,
			const struct place *place)
{
	int err = 0;

	json_object(j, NULL);
	json_uint(j, "dhatFileVersion", 2);
	json_string(j, "mode", "heap");
	json_string(j, "verb", "Allocated");
	json_bool(j, "bklt", true);
	json_bool(j, "bkacc", false);
	json_string(j, "tu", "us");
	json_string(j, "Mtu", "s");
	json_uint(j, "tuth", 0);
	json_string(j, "cmd", e->command_line ? e->command_line : "unknown");
	json_int(j, "pid", e->pid);
	json_uint(j, "tg", (e->peak_ms > e->began_ms ? e->peak_ms - e->began_ms : 0) * 1000);
	json_uint(j, "te", (e->now_ms - e->began_ms) * 1000);
	json_array(j, "pps");
	for (uint32_t i = 1; i < t->nodes && !ferror(j->out); i++)
		if (place[i].is_leaf)
			put_place(j, t, &place[i], i);
	json_end_array(j);
	json_array(j, "ftbl");
	json_string(j, NULL, "[root]");
	for (size_t i = 0; i < t->frames && !err && !ferror(j->out); i++)
		err = put_frame(j, &t->frame[i]);
	json_end_array(j);
	json_end_object(j);
	json_finish(j);
	return err;
}

int export_dhat(FILE *out, const struct export *e)
{
	struct profile at_peak = { 0 };
	struct place *place = NULL;
	struct trie t;
	struct json j;
	int err = trie_init(&t, false);

	if (!err)
		err = e->past && e->points ? e->past(e->ctx, e->peak_ms, &at_peak)
					   : export_profile(e, &at_peak);
	if (!err)
		err = collect(e, &t, &place, &at_peak);
	if (!err) {
		add_up(e, &t, place, &at_peak);
		json_init(&j, out);
		j.shown = true;
		err = put_document(&j, e, &t, place);
	}
	free(place);
	profile_release(&at_peak);
	trie_release(&t);
	return err;
}
