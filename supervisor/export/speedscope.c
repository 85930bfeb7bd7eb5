// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>

#include "base/json.h"
#include "export/trie.h"

/*
 * speedscope's own file. One profile is what was asked for; if that is what is live now, a second
 * one is what was allocated in total. Samples are stacks, their weights bytes; a stack without
 * bytes is in none. Frames are functions: by a line it would tell apart what it adds up.
 */
static void put_frames(struct json *j, const struct trie *t)
{
	json_object(j, "shared");
	json_array(j, "frames");
	for (size_t i = 0; i < t->frames && !ferror(j->out); i++) {
		const struct symbol_frame *f = &t->frame[i].at;

		json_newline(j);
		json_object(j, NULL);
		json_string(j, "name", export_name(f));
		if (f->file)
			json_string(j, "file", f->file);
		else if (f->module)
			json_string(j, "file", f->module);
		json_end_object(j);
	}
	json_end_array(j);
	json_end_object(j);
}

static int64_t amount(const struct export *e, const struct view_row *r, bool total)
{
	int64_t size = total ? (int64_t)r->total_size : export_size(e, r);

	return size > 0 ? size : 0;
}

/*
 * From the outermost frame inwards; LEAF's ancestors are found from the other end, so their numbers
 * wait on the C stack.
 */
static void put_sample(struct json *j, const struct trie *t, uint32_t leaf)
{
	uint32_t depth = 0, *frame;

	for (uint32_t node = leaf; node; node = t->node[node].parent)
		depth++;
	frame = __builtin_alloca(depth * sizeof(*frame));
	for (uint32_t node = leaf, i = depth; node; node = t->node[node].parent)
		frame[--i] = t->node[node].frame;
	json_array(j, NULL);
	for (uint32_t i = 0; i < depth; i++)
		json_uint(j, NULL, frame[i]);
	json_end_array(j);
}

static void put_profile(struct json *j, const struct export *e, const struct trie *t,
			const char *name, bool total)
{
	const struct view *v = e->view;
	int64_t sum = 0;

	json_object(j, NULL);
	json_string(j, "type", "sampled");
	json_string(j, "name", name);
	json_string(j, "unit", "bytes");
	json_array(j, "samples");
	for (size_t i = 0; i < v->count && !ferror(j->out); i++)
		if (amount(e, &v->row[i], total)) {
			json_newline(j);
			put_sample(j, t, t->leaf[v->row[i].stack]);
		}
	json_end_array(j);
	json_array(j, "weights");
	for (size_t i = 0; i < v->count && !ferror(j->out); i++)
		if (amount(e, &v->row[i], total)) {
			json_int(j, NULL, amount(e, &v->row[i], total));
			sum += amount(e, &v->row[i], total);
		}
	json_end_array(j);
	json_uint(j, "startValue", 0);
	json_int(j, "endValue", sum);
	json_end_object(j);
}

int export_speedscope(FILE *out, const struct export *e)
{
	char name[300], *what = e->total ? "allocated" : "live";
	struct trie t;
	struct json j;
	int err = trie_init(&t, false);

	t.functions = true;
	if (!err)
		err = trie_view(&t, e);
	if (!err) {
		json_init(&j, out);
		j.shown = true;
		json_object(&j, NULL);
		json_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
		json_string(&j, "exporter", "mtrun@" MTRUN_VERSION);
		json_string(&j, "name", e->command);
		json_uint(&j, "activeProfileIndex", 0);
		put_frames(&j, &t);
		json_array(&j, "profiles");
		snprintf(name, sizeof(name), "%s %s", what, e->moment);
		put_profile(&j, e, &t, name, e->total);
		if (e->view->has_totals && !e->view->is_difference && !e->total)
			put_profile(&j, e, &t, "allocated in total", true);
		json_end_array(&j);
		json_end_object(&j);
		json_finish(&j);
	}
	trie_release(&t);
	return err;
}
