/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "export/moments.h"
#include "export/trie.h"
#include "report/kept.h"
#include "report/print_leaks.h"

/*
 * One page with memory over time, and what was live at any moment of it. Here the numbers are
 * written, as JSON; page.js draws them.
 *
 * The page is bounded, whatever the program was: the curve has so many points (of many the
 * highest), some of them are key moments, of which it is known what each stack held. Of the stacks
 * those that held the most at any of these are named, as many as fit; the others are summed by
 * site, so that the table of sites has nothing left out but very many sites; what these held is the
 * difference to the moment's sum, which the page shows as `(others)`. So rows always add up. A
 * moment is written as what differs from the one before; if that is too much, only each second
 * (fourth, ...) one stays, the peak and the last one in any case.
 */
#define CURVE  1500u
#define KEYS   150u
#define STACKS 3000u
#define SITES  1000u /* for stacks that are not named */
/* bytes for functions, files and the nodes of stacks, about */
#define NAMES	(2u << 20)
#define CHANGES 160000u /* between key moments */
#define LONGEST 500u	/* bytes of a name */
#define KEPT	200u	/* sites that keep pages */
#define LEAKS	200u	/* records of what is lost */

struct amount {
	int64_t bytes, count;
};
struct key {
	uint64_t from_ms, to_ms, ms;
	struct amount all;
	bool left_out; /* it is not known any more what was live then */
};
struct candidate {
	uint32_t stack;
	int64_t most;
};
struct page {
	FILE *out;
	const struct export *e;
	struct json j;
	struct trie trie;
	struct key *key; /* the last one is now */
	size_t keys, peak;
	struct candidate *stack; /* biggest first */
	size_t stacks, of;	 /* named, of how many */
	uint32_t *rest;		 /* sites of others */
	size_t rests;
	size_t columns;	  /* stacks and rests */
	int64_t *most;	  /* by stack id */
	uint32_t *number; /* by stack id: its column, plus 1; 0: none */
	size_t ids;
	struct amount *held;  /* [key][column] */
	uint32_t lost[LEAKS]; /* by record: the node of its stack */
};
extern const char page_js[], page_js_end[], page_css[], page_css_end[];

/* ---- moments ------------------------------------------------------------- */

static int choose_keys(struct page *p)
{
	size_t *index, peak;
	ssize_t n = moments_choose(p->e, KEYS, &index, NULL);

	if (n < 0)
		return (int)n;
	p->key = calloc((size_t)n + 1, sizeof(*p->key));
	if (!p->key) {
		free(index);
		return -ENOMEM;
	}
	peak = n ? moments_highest(p->e, index, (size_t)n) : 0;
	for (size_t i = 0; i < (size_t)n; i++) {
		const struct export_point *point = &p->e->point[index[i]];

		p->key[i] = (struct key){ .from_ms = point->from_ms,
					  .to_ms = point->to_ms,
					  .ms = point->ms,
					  .all.bytes = (int64_t)point->bytes };
	}
	p->peak = peak;
	p->key[n] = (struct key){
		p->e->now_ms, p->e->now_ms, p->e->now_ms, { export_total(p->e), 0 }, false
	};
	p->keys = (size_t)n + 1;
	free(index);
	return 0;
}

static int profile_of(const struct page *p, size_t key, struct profile *profile)
{
	int err = export_rest(p->e);

	if (err)
		return err;
	return key + 1 == p->keys ? export_profile(p->e, profile)
				  : p->e->past(p->e->ctx, p->key[key].ms, profile);
}

/* ---- stacks -------------------------------------------------------------- */

static int reach(struct page *p, uint32_t stack)
{
	size_t n = p->ids ? p->ids : 1024;
	int64_t *most;

	if (stack < p->ids)
		return 0;
	while (n <= stack)
		n *= 2;
	most = reallocarray(p->most, n, sizeof(*most));
	if (!most)
		return -ENOMEM;
	memset(most + p->ids, 0, (n - p->ids) * sizeof(*most));
	p->most = most;
	p->ids = n;
	return 0;
}

/* What each stack held at most, at any of the moments. */
static int look(struct page *p)
{
	int err = 0;

	for (size_t k = 0; k < p->keys && !err; k++) {
		struct profile profile;

		err = profile_of(p, k, &profile);
		if (err)
			break;
		for (size_t i = 0; i < profile.count && !err; i++) {
			err = reach(p, profile.row[i].stack);
			if (!err && profile.row[i].size > p->most[profile.row[i].stack])
				p->most[profile.row[i].stack] = profile.row[i].size;
		}
		profile_release(&profile);
	}
	return err;
}

static int biggest_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->most != y->most)
		return x->most > y->most ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static size_t length(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	return n < LONGEST ? n : LONGEST;
}

/* About how long frames and nodes from these on are in the page. */
static size_t weight(const struct trie *t, size_t frames, size_t nodes)
{
	size_t sum = (t->nodes - nodes) * 12;

	for (size_t i = frames; i < t->frames; i++)
		sum += length(t->frame[i].at.function) + length(t->frame[i].at.file) + 16;
	return sum;
}

static int choose_stacks(struct page *p)
{
	size_t used = 0;
	uint32_t node;
	int err = 0;

	p->stack = calloc(p->ids + 1, sizeof(*p->stack));
	p->number = calloc(p->ids + 1, sizeof(*p->number));
	if (!p->stack || !p->number)
		return -ENOMEM;
	for (size_t i = 0; i < p->ids; i++)
		if (p->most[i] > 0)
			p->stack[p->of++] = (struct candidate){ (uint32_t)i, p->most[i] };
	qsort(p->stack, p->of, sizeof(*p->stack), biggest_first);
	while (p->stacks < p->of && p->stacks < STACKS && used < NAMES && !err) {
		size_t frames = p->trie.frames, nodes = p->trie.nodes;

		err = export_rest(p->e);
		if (!err)
			err = trie_stack(&p->trie, p->e, p->stack[p->stacks].stack, &node);
		used += weight(&p->trie, frames, nodes);
		p->stacks++;
		p->number[p->stack[p->stacks - 1].stack] = (uint32_t)p->stacks;
	}
	return err;
}

/* The columns of stacks that are not named. */
static int choose_sites(struct page *p)
{
	size_t room = 0;
	uint32_t *column = NULL; /* by site, plus 1 */
	int err = 0;

	p->rest = calloc(SITES, sizeof(*p->rest));
	for (size_t i = p->stacks; p->rest && i < p->of && !err; i++) {
		uint32_t site = sites_of(p->e->sites, p->stack[i].stack);

		if (site >= room) {
			size_t more = site * 2 + 1024;
			uint32_t *moved = reallocarray(column, more, sizeof(*column));

			if (!moved) {
				err = -ENOMEM;
				break;
			}
			memset(moved + room, 0, (more - room) * sizeof(*column));
			column = moved;
			room = more;
		}
		if (!column[site] && p->rests < SITES) {
			p->rest[p->rests++] = site;
			column[site] = (uint32_t)(p->stacks + p->rests);
		}
		p->number[p->stack[i].stack] = column[site];
		err = export_rest(p->e);
	}
	p->columns = p->stacks + p->rests;
	free(column);
	return p->rest ? err : -ENOMEM;
}

static size_t leaks_shown(const struct page *p)
{
	const struct leak_report *r = p->e->leaks;

	return !r ? 0 : r->records < LEAKS ? r->records : LEAKS;
}

static int choose_leaks(struct page *p)
{
	int err = 0;

	for (size_t i = 0; i < leaks_shown(p) && !err; i++) {
		err = export_rest(p->e);
		if (!err)
			err = trie_stack(&p->trie, p->e, p->e->leaks->record[i].stack, &p->lost[i]);
	}
	return err;
}

static int fill(struct page *p)
{
	int err = 0;

	p->held = calloc(p->keys * p->columns + 1, sizeof(*p->held));
	if (!p->held)
		return -ENOMEM;
	for (size_t k = 0; k < p->keys && !err; k++) {
		struct profile profile;
		struct amount all = { 0 };

		err = profile_of(p, k, &profile);
		for (size_t i = 0; !err && i < profile.count; i++) {
			const struct profile_row *r = &profile.row[i];
			uint32_t number = r->stack < p->ids ? p->number[r->stack] : 0;

			all.bytes += r->size;
			all.count += r->count;
			if (number) {
				p->held[k * p->columns + number - 1].bytes += r->size;
				p->held[k * p->columns + number - 1].count += r->count;
			}
		}
		if (!err)
			profile_release(&profile);
		/* merged with a higher one meanwhile */
		p->key[k].left_out = all.bytes != p->key[k].all.bytes;
		p->key[k].all = all;
	}
	return err;
}

/* ---- fewer moments ------------------------------------------------------- */

static size_t changes(const struct page *p, size_t key, size_t before)
{
	const struct amount *now = &p->held[key * p->columns],
			    *then = before < p->keys ? &p->held[before * p->columns] : NULL;
	size_t n = 0;

	for (size_t i = 0; i < p->columns; i++)
		n += then ? now[i].bytes != then[i].bytes || now[i].count != then[i].count
			  : now[i].bytes || now[i].count;
	return n;
}

static void thin_out(struct page *p)
{
	for (size_t step = 1; step < p->keys; step *= 2) {
		size_t sum = 0, before = SIZE_MAX;

		for (size_t k = 0; k < p->keys; k++) {
			if (k % step && k != p->peak && k + 1 != p->keys)
				p->key[k].left_out = true;
			if (p->key[k].left_out)
				continue;
			sum += changes(p, k, before);
			before = k;
		}
		if (sum <= CHANGES)
			return;
	}
}

/* ---- writing ------------------------------------------------------------- */

/* A name is cut at LONGEST bytes, not within a character. */
static void put_name(struct json *j, const char *name)
{
	char text[LONGEST + 4];
	size_t n = length(name);

	if (n < LONGEST) {
		json_string(j, NULL, name);
		return;
	}
	while (n && ((unsigned char)name[n] & 0xc0) == 0x80)
		n--;
	memcpy(text, name, n);
	strcpy(text + n, "...");
	json_string(j, NULL, text);
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
	size_t *index;
	ssize_t n = moments_choose(p->e, CURVE, &index, NULL);

	if (n < 0)
		return (int)n;
	json_newline(&p->j);
	json_array(&p->j, "curve");
	for (ssize_t i = 0; i < n; i++) {
		json_uint(&p->j, NULL, p->e->point[index[i]].from_ms);
		json_uint(&p->j, NULL, p->e->point[index[i]].bytes);
	}
	json_end_array(&p->j);
	free(index);
	return 0;
}

static uint32_t site_of(const struct page *p, size_t column)
{
	return column < p->stacks ? sites_of(p->e->sites, p->stack[column].stack)
				  : p->rest[column - p->stacks];
}

static void put_stacks(struct page *p)
{
	struct json *j = &p->j;

	json_newline(j);
	json_array(j, "frames");
	for (size_t i = 0; i < p->trie.frames; i++) {
		const struct symbol_frame *f = &p->trie.frame[i].at;

		json_newline(j);
		json_array(j, NULL);
		put_name(j, export_name(f));
		put_name(j, f->file ? f->file : f->module ? f->module : "");
		json_end_array(j);
	}
	json_end_array(j);
	json_newline(j);
	json_array(j, "nodes");
	for (size_t i = 1; i < p->trie.nodes; i++) {
		json_uint(j, NULL, p->trie.node[i].parent);
		json_uint(j, NULL, p->trie.node[i].frame);
	}
	json_end_array(j);
	json_newline(j);
	json_uint(j, "named", p->stacks);
	json_uint(j, "of", p->of);
	/* node and site; those that are not named have node 0 */
	json_array(j, "columns");
	for (size_t i = 0; i < p->columns; i++) {
		json_uint(j, NULL, i < p->stacks ? p->trie.leaf[p->stack[i].stack] : 0);
		json_uint(j, NULL, site_of(p, i));
	}
	json_end_array(j);
}

/* The columns' sites by their numbers. */
static int put_sites(struct page *p)
{
	size_t n = sites_count(p->e->sites) + 1;
	bool *said = calloc(n, sizeof(*said));
	struct json *j = &p->j;

	if (!said)
		return -ENOMEM;
	json_newline(j);
	json_array(j, "sites");
	for (size_t i = 0; i < p->columns; i++) {
		uint32_t number = site_of(p, i);
		const struct symbol_frame *f = &sites_site(p->e->sites, number)->frame;

		if (number >= n || said[number])
			continue;
		said[number] = true;
		json_newline(j);
		json_array(j, NULL);
		json_uint(j, NULL, number);
		put_name(j, export_name(f));
		put_name(j, f->file ? f->file : f->module ? f->module : "");
		json_uint(j, NULL, f->file ? f->line : 0);
		json_end_array(j);
	}
	json_end_array(j);
	free(said);
	return 0;
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
		json_uint(j, NULL, sum[i]->pages * TALLY_PAGE);
		json_uint(j, NULL, sum[i]->live_bytes);
		json_end_array(j);
	}
	json_array(j, "kept");
	for (size_t i = 0; i < kept->count && i < KEPT; i++) {
		const struct symbol_frame *f = &kept->site[i].frame;

		json_newline(j);
		json_array(j, NULL);
		json_uint(j, NULL, kept->site[i].pages * TALLY_PAGE);
		json_uint(j, NULL, kept->site[i].live_bytes);
		put_name(j, export_name(f));
		put_name(j, f->file ? f->file : f->module ? f->module : "");
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
	put_name(j, export_name(f));
	put_name(j, f->file ? f->file : f->module ? f->module : "");
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
	for (size_t i = 0; i < leaks_shown(p); i++)
		put_leak(p, &r->record[i], p->lost[i]);
	json_end_array(j);
	for (size_t i = leaks_shown(p); i < r->records; i++) {
		others.bytes += r->record[i].bytes;
		others.blocks += r->record[i].blocks;
	}
	json_array(j, "others");
	json_uint(j, NULL, others.bytes);
	json_uint(j, NULL, others.blocks);
	json_uint(j, NULL, r->records - leaks_shown(p));
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
	put_stacks(p);
	if (!err)
		err = put_sites(p);
	put_keys(p);
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
	int err = trie_init(&p.trie, false);

	p.trie.functions = true;
	if (!err)
		err = choose_keys(&p);
	if (!err)
		err = look(&p);
	if (!err)
		err = choose_stacks(&p);
	if (!err)
		err = choose_sites(&p);
	if (!err)
		err = choose_leaks(&p);
	if (!err)
		err = fill(&p);
	if (!err) {
		thin_out(&p);
		err = put_page(&p);
	}
	free(p.key);
	free(p.stack);
	free(p.rest);
	free(p.most);
	free(p.number);
	free(p.held);
	trie_release(&p.trie);
	return err;
}
