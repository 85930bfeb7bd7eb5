// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/text.h"
#include "export/moments.h"
#include "export/page.h"
#include "ledger/activity.h"
#include "process/profile_make.h"
#include "report/common_block.h"
#include "report/kept.h"
#include "report/print_leaks.h"
#include "symbols/short_name.h"

/*
 * html.c - one page with memory over time, and what was live at any moment of it. Here the numbers
 * are written, as JSON; page.js draws them.
 *
 * The page is bounded, whatever the program was: the curve has so many points (of many the
 * highest), some of them are key moments, of which it is known what each stack held (page.c).
 */
#define CURVE	1500u
#define KEPT	200u /* sites that keep pages */
#define THREADS 100u

extern const char page_js[], page_js_end[], page_css[], page_css_end[];

/* What is longer than PAGE_LONGEST bytes is cut there, not within a character. */
static void put_cut(struct json *j, const char *name)
{
	char text[PAGE_LONGEST + 4];
	size_t n = page_length(name);

	if (n < PAGE_LONGEST) {
		json_string(j, NULL, name);
		return;
	}
	while (n && ((unsigned char)name[n] & 0xc0) == 0x80)
		n--;
	memcpy(text, name, n);
	strcpy(text + n, "...");
	json_string(j, NULL, text);
}

/* Of a C++ name that is too long, what people leave out goes first. */
static void put_name(struct json *j, const char *name)
{
	char *brief = page_length(name) < PAGE_LONGEST ? NULL
						       : short_name(name, SHORT_DEFAULTS, true);

	put_cut(j, brief ? brief : name);
	free(brief);
}

/* What was there before the attach has no stacks, and is in no sum. */
static void put_before(struct json *j, const struct preattach_heap *b)
{
	if (!b)
		return;
	json_object(j, "before");
	if (b->state == PREATTACH_KNOWN) {
		json_uint(j, "bytes", b->bytes);
		json_uint(j, "blocks", b->blocks);
	} else {
		json_string(j, "unknown", b->why);
	}
	json_end_object(j);
}

static void put_program(struct page *p)
{
	json_string(&p->j, "version", MTRUN_VERSION);
	json_string(&p->j, "command", p->e->command);
	json_array(&p->j, "command_line");
	put_name(&p->j, p->e->command_line ? p->e->command_line : "");
	json_end_array(&p->j);
	json_int(&p->j, "pid", p->e->pid);
	json_uint(&p->j, "others", p->e->others);
	json_uint(&p->j, "clock_ms", p->e->began);
	json_uint(&p->j, "began_ms", p->e->began_ms);
	json_uint(&p->j, "now_ms", p->e->now_ms);
	json_uint(&p->j, "peak", p->e->peak);
	json_uint(&p->j, "peak_ms", p->e->peak_ms);
	json_bool(&p->j, "estimated", p->e->view->estimated);
	if (p->e->events)
		json_string(&p->j, "events", p->e->events);
	put_before(&p->j, p->e->view->before);
	json_array(&p->j, "marks");
	for (size_t i = 0; p->e->marks && i < marks_count(p->e->marks); i++) {
		json_array(&p->j, NULL);
		json_uint(&p->j, NULL, marks_at(p->e->marks, i)->ms);
		json_string(&p->j, NULL, marks_at(p->e->marks, i)->label);
		json_end_array(&p->j);
	}
	json_end_array(&p->j);
}

static int put_curve(struct page *p)
{
	struct export_point *point;
	size_t *index;
	ssize_t n = moments_refine(p->e, &point);

	if (n < 0)
		return (int)n;
	n = moments_choose(point, (size_t)n, CURVE, &index, NULL);
	if (n < 0) {
		free(point);
		return (int)n;
	}
	json_newline(&p->j);
	json_array(&p->j, "curve");
	for (ssize_t i = 0; i < n; i++) {
		json_uint(&p->j, NULL, point[index[i]].from_ms);
		json_uint(&p->j, NULL, point[index[i]].bytes);
	}
	json_end_array(&p->j);
	free(index);
	free(point);
	return 0;
}

static void put_moment(struct json *j, uint64_t ms, uint64_t allocs, uint64_t temporary)
{
	json_uint(j, NULL, ms);
	json_uint(j, NULL, allocs);
	json_uint(j, NULL, temporary);
}

/*
 * What was allocated up to some moments, and temporarily; evenly from each to the next. A point is
 * about the end of its ms.
 */
static void put_activity(struct page *p)
{
	const struct activity *a = export_activity(p->e);
	const struct activity_point *before = NULL;

	json_newline(&p->j);
	json_array(&p->j, "activity");
	for (size_t i = 0; i < a->count; i++) {
		const struct activity_point *at = &a->point[i];
		uint64_t begins = at->ms - at->ms % a->step;

		if (begins > (before ? before->ms + 1 : 0))
			put_moment(&p->j, begins, before ? before->allocs : 0,
				   before ? before->temporary : 0);
		put_moment(&p->j, at->ms + 1, at->allocs, at->temporary);
		before = at;
	}
	json_end_array(&p->j);
}

static const char *module_of(const struct symbol_frame *f) { return f->module ? f->module : ""; }

/* What has no name but its address is told by its module: `libfoo.so+0x1234`. */
static void put_function(struct json *j, const struct symbol_frame *f)
{
	const char *name = export_name(f);
	char text[PAGE_LONGEST];

	if (!strncmp(name, "0x", 2) && f->module) {
		snprintf(text, sizeof(text), "%s+%s", text_last_part(f->module), name);
		name = text;
	}
	put_name(j, name);
}

static void put_place(struct json *j, const struct symbol_frame *f)
{
	put_name(j, f->file ? f->file : module_of(f));
}

/* Its number in the page's list of modules, which it is added to. */
static int module_number(struct page *p, const char *path, size_t *number)
{
	for (*number = 0; *number < p->modules; ++*number)
		if (!strcmp(p->module[*number], path))
			return 0;
	if (array_room(&p->module, p->modules, &p->module_room, sizeof(*p->module)))
		return -ENOMEM;
	p->module[p->modules++] = path;
	return 0;
}

static int put_frames(struct page *p)
{
	struct json *j = &p->j;
	size_t module;

	json_newline(j);
	json_array(j, "frames");
	json_array(j, NULL);
	json_string(j, NULL, "(others)");
	json_string(j, NULL, "");
	json_end_array(j);
	for (size_t i = 0; i < p->trie.frames; i++) {
		const struct symbol_frame *f = &p->trie.frame[i].at;

		if (!p->frame_number[i])
			continue;
		if (module_number(p, module_of(f), &module))
			return -ENOMEM;
		json_newline(j);
		json_array(j, NULL);
		put_function(j, f);
		put_place(j, f);
		json_uint(j, NULL, module);
		json_end_array(j);
	}
	json_end_array(j);
	return 0;
}

/*
 * The nodes that stay, those of what is folded behind them; then node and site of each column, -1
 * for what it does not tell.
 */
static void put_nodes(struct page *p)
{
	struct json *j = &p->j;
	uint32_t nodes = 0;

	json_newline(j);
	json_array(j, "nodes");
	for (size_t i = 1; i < p->trie.nodes; i++) {
		if (!p->kept[i])
			continue;
		nodes++;
		json_uint(j, NULL, p->node_number[p->trie.node[i].parent]);
		json_uint(j, NULL, p->frame_number[p->trie.node[i].frame]);
	}
	for (size_t i = 0; i < p->columns; i++)
		if (p->column[i].kind == COLUMN_FOLDED) {
			json_uint(j, NULL, p->node_number[p->column[i].node]);
			json_uint(j, NULL, 0);
		}
	json_end_array(j);
	json_newline(j);
	json_uint(j, "named", p->stacks - p->folded);
	json_uint(j, "of", p->stacks);
	json_array(j, "columns");
	for (size_t i = 0; i < p->columns; i++) {
		const struct column *c = &p->column[i];

		nodes += c->kind == COLUMN_FOLDED;
		json_int(j, NULL,
			 c->kind == COLUMN_SITE	    ? -1
			 : c->kind == COLUMN_FOLDED ? (int64_t)nodes
						    : (int64_t)p->node_number[c->node]);
		json_int(j, NULL, c->kind == COLUMN_FOLDED ? -1 : (int64_t)c->site);
	}
	json_end_array(j);
}

/* The columns' sites by their numbers. */
static int put_sites(struct page *p)
{
	struct json *j = &p->j;
	char common[COMMON_NAME];
	size_t module;

	json_newline(j);
	json_array(j, "sites");
	for (uint32_t i = 0; i < p->nsites; i++) {
		const struct page_site *s = &p->site[i];
		const struct symbol_frame *f = &sites_site(p->e->sites, s->site)->frame;
		const char *name;

		/* what its heaviest stack is for says nothing of a site that has much else */
		name = common_name(p->e->sites, s->heaviest > s->weight * 0.9 ? s->stack : 0, f,
				   common);
		if (module_number(p, module_of(f), &module))
			return -ENOMEM;
		json_newline(j);
		json_array(j, NULL);
		json_uint(j, NULL, i + 1);
		if (name == common)
			put_name(j, name);
		else
			put_function(j, f);
		put_place(j, f);
		json_uint(j, NULL, f->file ? f->line : 0);
		json_uint(j, NULL, module);
		json_end_array(j);
	}
	json_end_array(j);
	return 0;
}

/* Paths; -1 or the number of the program's own. */
static void put_modules(struct page *p)
{
	struct json *j = &p->j;
	int64_t own = -1;

	json_newline(j);
	json_array(j, "modules");
	for (size_t i = 0; i < p->modules; i++) {
		put_name(j, p->module[i]);
		if (p->e->exe && !strcmp(p->e->exe, p->module[i]))
			own = (int64_t)i;
	}
	json_end_array(j);
	json_int(j, "own", own);
}

/* What was allocated since the start, in all; of each column bytes, blocks, and temporary ones. */
static void put_totals(struct page *p)
{
	struct total sum = page_sum(p->e->view);
	struct json *j = &p->j;

	if (!p->total)
		return;
	json_newline(j);
	json_array(j, "total");
	json_uint(j, NULL, sum.bytes);
	json_uint(j, NULL, sum.count);
	json_uint(j, NULL, sum.temporary);
	json_end_array(j);
	json_array(j, "totals");
	for (size_t i = 0; i < p->columns; i++) {
		json_uint(j, NULL, p->total[i].bytes);
		json_uint(j, NULL, p->total[i].count);
		json_uint(j, NULL, p->total[i].temporary);
	}
	json_end_array(j);
}

/*
 * How long the record is; of each column how long its blocks lived in all, and how many they are.
 */
static void put_lifetimes(struct page *p)
{
	struct json *j = &p->j;

	if (!p->life)
		return;
	json_newline(j);
	json_uint(j, "lived_of", p->e->now_ms - p->e->began_ms);
	json_array(j, "lived");
	for (size_t i = 0; i < p->columns; i++) {
		json_uint(j, NULL, p->life[i].block_ms);
		json_uint(j, NULL, p->life[i].blocks);
	}
	json_end_array(j);
}

/* ---- single blocks ------------------------------------------------------- */

/* Live blocks by size, in powers of two: from which size on, bytes, blocks. */
static void put_sizes(struct json *j, const struct profile *profile)
{
	struct amount sum[65] = { 0 };

	json_newline(j);
	json_array(j, "sizes");
	for (size_t i = 0; i < profile->count; i++) {
		const struct profile_row *r = &profile->row[i];
		int power = r->block ? 64 - __builtin_clzll(r->block) : 0;

		sum[power].bytes += r->size;
		sum[power].count += r->count;
	}
	for (int power = 0; power < 65; power++) {
		if (!sum[power].count)
			continue;
		json_array(j, NULL);
		json_uint(j, NULL, power ? 1ull << (power - 1) : 0);
		json_int(j, NULL, sum[power].bytes);
		json_int(j, NULL, sum[power].count);
		json_end_array(j);
	}
	json_end_array(j);
}

static int most_bytes_first(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static void put_thread(struct json *j, uint32_t tid, const char *name, struct amount a)
{
	json_array(j, NULL);
	json_uint(j, NULL, tid);
	json_string(j, NULL, name);
	json_int(j, NULL, a.bytes);
	json_int(j, NULL, a.count);
	json_end_array(j);
}

/* Threads with their names, if they are there still; thread 0: all others. */
static void put_threads(struct page *p, struct profile *profile)
{
	struct json *j = &p->j;
	struct amount others = { 0 };
	char name[PROC_NAME];

	qsort(profile->row, profile->count, sizeof(*profile->row), most_bytes_first);
	json_newline(j);
	json_array(j, "threads");
	for (size_t i = 0; i < profile->count; i++) {
		const struct profile_row *r = &profile->row[i];

		if (i >= THREADS) {
			others.bytes += r->size;
			others.count += r->count;
			continue;
		}
		*name = '\0';
		if (p->e->thread_names)
			proc_name(p->e->thread_names, (pid_t)r->thread, name);
		put_thread(j, r->thread, name, (struct amount){ r->size, r->count });
	}
	if (others.count)
		put_thread(j, 0, "", others);
	json_end_array(j);
}

/* What cannot be told is left out. */
static void put_blocks(struct page *p)
{
	struct profile profile;

	if (!p->e->parts || p->e->view->is_difference)
		return;
	if (!p->e->parts(p->e->ctx, PROFILE_SIZES, &profile)) {
		put_sizes(&p->j, &profile);
		profile_release(&profile);
	}
	if (!p->e->parts(p->e->ctx, PROFILE_THREADS, &profile)) {
		put_threads(p, &profile);
		profile_release(&profile);
	}
}

static void put_changes(struct page *p, size_t key, size_t before)
{
	for (size_t i = 0; i < p->columns; i++) {
		struct amount now = p->held[key * p->columns + i],
			      then = before < p->keys ? p->held[before * p->columns + i]
						      : (struct amount){ 0 };

		if (now.bytes == then.bytes && now.count == then.count)
			continue;
		json_uint(&p->j, NULL, i);
		json_int(&p->j, NULL, now.bytes);
		json_int(&p->j, NULL, now.count);
	}
}

static void put_keys(struct page *p)
{
	size_t before = SIZE_MAX;

	json_newline(&p->j);
	json_array(&p->j, "keys");
	for (size_t k = 0; k < p->keys; k++) {
		const struct key *key = &p->key[k];

		if (key->left_out)
			continue;
		json_newline(&p->j);
		json_array(&p->j, NULL);
		json_uint(&p->j, NULL, key->from_ms);
		json_uint(&p->j, NULL, key->ms);
		json_int(&p->j, NULL, key->all.bytes);
		json_int(&p->j, NULL, key->all.count);
		json_array(&p->j, NULL);
		put_changes(p, k, before);
		json_end_array(&p->j);
		json_end_array(&p->j);
		before = k;
	}
	json_end_array(&p->j);
}

static void put_kept(struct page *p)
{
	const struct kept *kept = p->e->kept;
	struct residency_kept rest = kept_rest(kept, KEPT);
	const struct residency_kept *sum[] = { &p->e->residency->all, &rest,
					       &p->e->residency->several };
	static const char *const key[] = { "all", "others", "several" };
	struct json *j = &p->j;

	for (int i = 0; i < 3; i++) {
		json_array(j, key[i]);
		json_uint(j, NULL, sum[i]->pages * PAGE);
		json_uint(j, NULL, sum[i]->live_bytes);
		json_end_array(j);
	}
	json_array(j, "kept");
	for (size_t i = 0; i < kept->count && i < KEPT; i++) {
		const struct symbol_frame *f = &kept->site[i].frame;

		json_newline(j);
		json_array(j, NULL);
		json_uint(j, NULL, kept->site[i].pages * PAGE);
		json_uint(j, NULL, kept->site[i].live_bytes);
		put_function(j, f);
		put_place(j, f);
		json_uint(j, NULL, f->file ? f->line : 0);
		json_end_array(j);
	}
	json_end_array(j);
}

static void put_residency(struct page *p)
{
	const struct residency *r = p->e->residency;
	struct json *j = &p->j;

	if (!r)
		return;
	json_newline(j);
	json_object(j, "residency");
	json_uint(j, "rss", r->rss);
	json_uint(j, "mtrun", r->bytes[RESIDENCY_MTRUN]);
	json_uint(j, "swapped", r->swapped);
	json_uint(j, "live_bytes", r->live_bytes);
	json_array(j, "rows");
	for (int i = 0; i < RESIDENCY_ROWS; i++) {
		json_array(j, NULL);
		json_string(j, NULL, residency_words[i].name);
		json_uint(j, NULL, r->bytes[i]);
		json_string(j, NULL, residency_words[i].meaning);
		json_end_array(j);
	}
	json_end_array(j);
	put_kept(p);
	json_end_object(j);
}

static void put_sum(struct json *j, const char *what, struct leak_sum sum)
{
	json_array(j, NULL);
	json_string(j, NULL, what);
	json_uint(j, NULL, sum.bytes);
	json_uint(j, NULL, sum.blocks);
	json_end_array(j);
}

/* One record: its kind, what it has, what is lost with it, its site, and the node of its stack. */
static void put_leak(struct page *p, const struct leak_record *l, uint32_t node)
{
	const struct symbol_frame *f =
		&sites_site(p->e->sites, sites_of(p->e->sites, l->stack))->frame;
	struct json *j = &p->j;

	json_newline(j);
	json_array(j, NULL);
	json_uint(j, NULL, l->kind);
	json_uint(j, NULL, l->bytes);
	json_uint(j, NULL, l->blocks);
	json_uint(j, NULL, l->indirect_bytes);
	json_uint(j, NULL, l->indirect_blocks);
	put_function(j, f);
	put_place(j, f);
	json_uint(j, NULL, f->file ? f->line : 0);
	json_uint(j, NULL, node);
	json_end_array(j);
}

static void put_leaks(struct page *p)
{
	const struct leak_report *r = p->e->leaks;
	struct json *j = &p->j;
	struct leak_sum others = { 0 };

	if (!r)
		return;
	json_newline(j);
	json_object(j, "leaks");
	json_array(j, "sums");
	for (int kind = 0; kind < LEAK_KINDS; kind++)
		put_sum(j, leak_kind_words[kind], r->sum[kind]);
	put_sum(j, "suppressed", r->suppressed);
	json_end_array(j);
	json_string(j, "captured_by", capture_way_name(r->way));
	json_fixed(j, "pause_ms", r->pause_ns / 1000, 3);
	json_string(j, "remark", r->remark[0] ? r->remark : NULL);
	json_array(j, "records");
	for (size_t i = 0; i < page_leaks(p); i++)
		put_leak(p, &r->record[i], p->node_number[p->lost[i]]);
	json_end_array(j);
	for (size_t i = page_leaks(p); i < r->records; i++) {
		others.bytes += r->record[i].bytes;
		others.blocks += r->record[i].blocks;
	}
	json_array(j, "others");
	json_uint(j, NULL, others.bytes);
	json_uint(j, NULL, others.blocks);
	json_uint(j, NULL, r->records - page_leaks(p));
	json_end_array(j);
	json_end_object(j);
}

static int put_page(struct page *p)
{
	int err;

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>mtrun</title>\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'",
	      p->out);
	if (p->e->events)
		fputs("; connect-src 'self'", p->out);
	fputs("\">\n<style>\n", p->out);
	fwrite(page_css, 1, (size_t)(page_css_end - page_css), p->out);
	fputs("</style>\n</head>\n<body>\n<noscript>This page needs JavaScript: all of it is in the page, nothing is loaded from elsewhere.</noscript>\n"
	      "<script type=\"application/json\" id=\"data\">\n",
	      p->out);
	json_init(&p->j, p->out);
	p->j.in_page = p->j.shown = true;
	json_object(&p->j, NULL);
	put_program(p);
	err = put_curve(p);
	put_activity(p);
	if (!err)
		err = put_frames(p);
	put_nodes(p);
	if (!err)
		err = put_sites(p);
	put_modules(p);
	put_totals(p);
	put_lifetimes(p);
	put_keys(p);
	put_blocks(p);
	put_residency(p);
	put_leaks(p);
	json_end_object(&p->j);
	json_finish(&p->j);
	fputs("</script>\n<script>\n", p->out);
	fwrite(page_js, 1, (size_t)(page_js_end - page_js), p->out);
	fputs("</script>\n</body>\n</html>\n", p->out);
	return err;
}

int export_html(FILE *out, const struct export *e)
{
	struct page p = { .out = out, .e = e };
	int err = page_choose(&p);

	if (!err)
		err = put_page(&p);
	page_release(&p);
	return err;
}
