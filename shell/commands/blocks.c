// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "ledger/block_list.h"
#include "report/common_block.h"
#include "report/grid.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `blocks`: the live blocks themselves, one a row. */
enum { ARG_SITE, ARG_STACK, ARG_MIN_SIZE, ARG_ROWS, ARG_SORT };

static const struct argument arguments[] = {
	[ARG_SITE] = { "site", 0, true },	  [ARG_STACK] = { "stack", 0, true },
	[ARG_MIN_SIZE] = { "min-size", 0, true }, [ARG_ROWS] = { "rows", 'n', true },
	[ARG_SORT] = { "sort", 0, true },	  ARGUMENTS_END
};

struct collection {
	struct shell *shell;
	unsigned counted;
	uint64_t min_size;
	bool by_stack, by_site, by_age, has_rows;
	uint64_t stack;
	regex_t regex;
	struct sites *sites;
	uint8_t *site; /* 0: not looked at, 1: no, 2: yes */
	size_t nsites;
	size_t rows;
	struct block_list list;
	size_t *row; /* indexes of the list */
	size_t count, allocated;
	/* the first ROWS are in order, and what comes after the last of them is of no interest */
	bool dropped;
	uint64_t others_size; /* of those that were cut off */
	size_t others;
	unsigned compared;
	bool interrupted;
};

static bool site_matches(struct collection *c, uint32_t stack)
{
	uint32_t site = sites_of(c->sites, stack);
	const struct symbol_frame *f = &sites_site(c->sites, site)->frame;
	char place[4200];
	bool yes;

	if (site < c->nsites && c->site[site])
		return c->site[site] == 2;
	if (site >= c->nsites) {
		size_t n = (size_t)site * 2 + 256;
		uint8_t *more = realloc(c->site, n);

		if (!more)
			return false;
		memset(more + c->nsites, 0, n - c->nsites);
		c->site = more;
		c->nsites = n;
	}
	yes = f->function && !regexec(&c->regex, f->function, 0, NULL, 0);
	if (!yes && f->file) {
		snprintf(place, sizeof(place), "%s:%u", f->file, f->line);
		yes = !regexec(&c->regex, place, 0, NULL, 0);
	}
	c->site[site] = yes ? 2 : 1;
	return yes;
}

static struct ledger_block block_of(const struct collection *c, size_t row)
{
	return block_list_get(&c->list, row);
}

static int order(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int compare(const struct collection *c, size_t i, size_t k)
{
	struct ledger_block a = block_of(c, i), b = block_of(c, k);
	int by_age = c->by_age ? order(a.ms, b.ms) : 0, by_size = order(b.size, a.size);

	return by_age ? by_age : by_size ? by_size : order(a.address, b.address);
}

/* Once there was a Ctrl-C all rows are alike, so that sorting ends soon. */
static int compare_rows(const void *a, const void *b, void *ctx)
{
	struct collection *c = ctx;

	if (++c->compared % 65536 == 0)
		c->interrupted |= shell_interrupted(c->shell);
	return c->interrupted ? 0 : compare(c, *(const size_t *)a, *(const size_t *)b);
}

/*
 * Only the first ROWS are kept when that is few: twice as many are gathered, sorted, and the second
 * half summed.
 */
static void drop(struct collection *c, size_t keep)
{
	if (c->count)
		qsort_r(c->row, c->count, sizeof(*c->row), compare_rows, c);
	for (size_t i = keep; i < c->count; i++) {
		c->others_size += block_of(c, c->row[i]).size;
		c->others++;
	}
	if (c->count > keep)
		c->count = keep;
	c->dropped = true;
}

/* Whether block I comes after ROWS others already. */
static bool is_far(const struct collection *c, size_t i)
{
	return c->dropped && (!c->rows || compare(c, i, c->row[c->rows - 1]) > 0);
}

static bool is_wanted(struct collection *c, const struct ledger_block *b)
{
	return c->counted & (b->mapping ? LEDGER_COUNT_MMAP : LEDGER_COUNT_HEAP) &&
	       b->size >= c->min_size && (!c->by_stack || b->stack == c->stack) &&
	       (!c->by_site || site_matches(c, b->stack));
}

/* 0, -ENOMEM or -EINTR. */
static int collect(struct collection *c)
{
	for (size_t i = 0; i < c->list.count; i++) {
		struct ledger_block b = block_of(c, i);

		if (i % 4096 == 0 && shell_interrupted(c->shell))
			return -EINTR;
		if (!is_wanted(c, &b))
			continue;
		if (is_far(c, i)) {
			c->others_size += b.size;
			c->others++;
			continue;
		}
		if (c->rows < SIZE_MAX / 4 && c->count >= c->rows * 2 + 1000)
			drop(c, c->rows);
		if (array_room(&c->row, c->count, &c->allocated, sizeof(*c->row)))
			return -ENOMEM;
		c->row[c->count++] = i;
	}
	drop(c, c->rows);
	return c->interrupted ? -EINTR : 0;
}

static void print_json(FILE *out, const struct collection *c, uint64_t now)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_array(&j, "blocks");
	for (size_t i = 0; i < c->count && !ferror(out); i++) {
		struct ledger_block b = block_of(c, c->row[i]);

		json_newline(&j);
		json_object(&j, NULL);
		json_address(&j, "address", b.address);
		json_uint(&j, "size", b.size);
		json_uint(&j, "age_ms", now > b.ms ? now - b.ms : 0);
		json_int(&j, "thread", block_list_tid(&c->list, b.thread));
		json_uint(&j, "stack_id", b.stack);
		json_string(&j, "kind", b.mapping ? "mmap" : "heap");
		json_end_object(&j);
	}
	json_end_array(&j);
	json_object(&j, "others");
	json_uint(&j, "size", c->others_size);
	json_uint(&j, "count", c->others);
	json_end_object(&j);
	json_end_object(&j);
	json_finish(&j);
}

static void block_cells(struct grid *g, const struct collection *c, size_t row, uint64_t now,
			bool kinds)
{
	struct ledger_block b = block_of(c, row);
	const struct symbol_frame *f = &sites_site(c->sites, sites_of(c->sites, b.stack))->frame;
	struct text_buffer text;
	char name[COMMON_NAME];

	grid_cell(g, common_name(c->sites, b.stack, f, name));
	if (f->file)
		grid_cellf(g, "%s:%u", f->file, f->line);
	else
		grid_cell(g, f->module ? f->module : "??");
	grid_cell(g, layout_size(g->layout, &text, b.size));
	if (kinds)
		grid_cell(g, b.mapping ? "mmap" : "heap");
	grid_cell(g, age_text(&text, now > b.ms ? now - b.ms : 0));
	grid_cellf(g, "%d", (int)block_list_tid(&c->list, b.thread));
	grid_cellf(g, "%" PRIu32, b.stack);
	grid_cellf(g, "0x%012" PRIx64, b.address);
}

#define AT_ONCE 4096 /* rows that are laid out together */

static void print_screen(FILE *out, const struct collection *c, uint64_t now,
			 const struct layout *l)
{
	static const char *const others[] = { "SIZE", "KIND", "AGE", "THREAD", "STACK", "ADDRESS" };
	struct text_buffer size;
	bool kinds = false;
	struct grid g;

	for (size_t i = 0; i < c->count && !kinds; i++)
		kinds = block_of(c, c->row[i]).mapping;
	grid_init(&g, l);
	grid_column(&g, "FUNCTION", GRID_FUNCTION);
	grid_column(&g, "WHERE", GRID_PATH);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (i != 1 || kinds)
			grid_column(&g, others[i], i == 1 ? GRID_TEXT : GRID_NUMBER);
	for (size_t i = 0; i < c->count && !ferror(out); i++) {
		block_cells(&g, c, c->row[i], now, kinds);
		if (i % AT_ONCE == AT_ONCE - 1)
			grid_print(&g, out);
	}
	if (c->others) {
		grid_cellf(&g, "(others: %zu)", c->others);
		grid_cell(&g, "");
		grid_cell(&g, layout_size(l, &size, c->others_size));
		for (size_t i = 3; i < g.columns; i++)
			grid_cell(&g, "");
	}
	grid_print(&g, out);
	grid_release(&g);
}

static void print_text(FILE *out, const struct collection *c, uint64_t now)
{
	int width = 1;

	for (size_t i = 0; i < c->count; i++) {
		int n = snprintf(NULL, 0, "%" PRIu64, block_of(c, c->row[i]).size);

		width = n > width ? n : width;
	}
	for (size_t i = 0; i < c->count && !ferror(out); i++) {
		struct ledger_block b = block_of(c, c->row[i]);
		const struct symbol_frame *f =
			&sites_site(c->sites, sites_of(c->sites, b.stack))->frame;
		struct text_buffer age;

		escape_printf(out,
			      "0x%012" PRIx64 "  size:%-*" PRIu64
			      "  age:%-6s  thread:%-7d  stack:%-7" PRIu32 "  %s",
			      b.address, width, b.size, age_text(&age, now > b.ms ? now - b.ms : 0),
			      (int)block_list_tid(&c->list, b.thread), b.stack,
			      f->function ? f->function : "??");
		if (f->file)
			escape_printf(out, " at %s:%u", f->file, f->line);
		escape_printf(out, "%s\n", b.mapping ? " (mapping)" : "");
	}
	if (c->others)
		fprintf(out, "(others)        size:%" PRIu64 "  (%zu more)\n", c->others_size,
			c->others);
}

/*
 * Reads the symbols for the sites of N blocks: those of ROW, or (NULL) the first of the list. 0 or
 * -1.
 */
static int look_up(struct collection *c, const size_t *row, size_t n)
{
	struct profile profile = { .count = 0 };
	uint8_t *known = calloc(WIRE_NODES / 8, 1);
	size_t room = 0;

	for (size_t i = 0; known && i < n; i++) {
		uint32_t stack = c->list.block[row ? row[i] : i].stack;

		if (known[stack / 8] & 1 << stack % 8)
			continue;
		known[stack / 8] |= (uint8_t)(1 << stack % 8);
		if (array_room(&profile.row, profile.count, &room, sizeof(*profile.row)))
			break;
		profile.row[profile.count++] = (struct profile_row){ .stack = stack };
	}
	free(known);
	if (reporting_lookup(c->shell, &profile, c->sites, false))
		return -1;
	profile_release(&profile);
	return 0;
}

static int list(struct collection *c, struct call *call)
{
	struct shell *shell = c->shell;
	struct process *p = shell_process(shell);
	uint64_t now = shell_moment(shell, p);
	int err;

	c->counted = session_options(shell->session)->count;
	if (!c->has_rows)
		c->rows = call->json ? VIEW_ALL : shell->settings.rows;
	c->sites = shell_sites(shell, p);
	if (!c->sites)
		return -1;
	if (session_blocks(shell->session, p, false, &c->list))
		return shell_error(shell, call, "out of memory");
	if (c->by_site && look_up(c, NULL, c->list.count))
		return -1;
	asking_unlock(shell->session);
	err = collect(c);
	asking_lock(shell->session);
	if (err)
		return err == -EINTR ? -1 : shell_error(shell, call, "out of memory");
	if (!call->json && look_up(c, c->row, c->count))
		return -1;
	asking_unlock(shell->session);
	if (call->json)
		print_json(call->out, c, now);
	else if (call->layout.columns)
		print_screen(call->out, c, now, &call->layout);
	else
		print_text(call->out, c, now);
	asking_lock(shell->session);
	return 0;
}

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct collection *c = ctx;

	switch (arg) {
	case ARG_SITE:
		if (c->by_site)
			regfree(&c->regex);
		c->by_site = !reporting_regex(shell, call, "site", value, &c->regex);
		return c->by_site ? 0 : -1;
	case ARG_STACK:
		c->by_stack = true;
		return number_parse(value, &c->stack)
			       ? shell_error(
					 shell, call,
					 "--stack: invalid value '%s': expected a stack's number, as `report --by stack`"
					 " shows",
					 value)
			       : 0;
	case ARG_MIN_SIZE:
		return size_parse(value, &c->min_size)
			       ? shell_error(
					 shell, call,
					 "--min-size: invalid value '%s': expected " SIZE_ACCEPTED,
					 value)
			       : 0;
	case ARG_ROWS:
		c->has_rows = true;
		return reporting_rows(shell, call, "-n", value, &c->rows);
	case ARG_SORT:
		if (strcmp(value, "size") && strcmp(value, "age"))
			return shell_error(shell, call,
					   "--sort: invalid value '%s': expected size or age",
					   value);
		c->by_age = !strcmp(value, "age");
		return 0;
	default: return arguments_unexpected(shell, call, value);
	}
}

static int blocks(struct shell *shell, struct call *call)
{
	struct collection c = { .shell = shell };
	int bad = arguments_each(shell, call, arguments, one, &c);

	if (!bad && c.by_site && c.by_stack)
		bad = shell_error(shell, call, "--site cannot be combined with --stack");
	if (!bad)
		bad = list(&c, call);
	if (c.by_site)
		regfree(&c.regex);
	block_list_release(&c.list);
	free(c.row);
	free(c.site);
	return bad ? -1 : 0;
}

const struct command cmd_blocks = {
	.name = "blocks",
	.usage =
		"[--site REGEX|--stack ID] [--min-size SIZE] [-n N] [--sort size|age] [--bytes] [--full] [--json]",
	.summary = "the live blocks themselves, biggest first",
	.example = "blocks --site 'parse_row' --sort age -n 20",
	.help = "  --site REGEX     only those whose site's function or FILE:LINE matches\n"
		"  --stack ID       only those of one stack, by the number that `report --by stack` shows\n"
		"  --min-size SIZE  only those at least this large\n"
		"  -n N             show N rows (text: 20, JSON: all); the others are summed in one last row\n"
		"  --sort age       oldest first\n"
		"  --bytes          exact sizes on a terminal, too\n"
		"  --full           names and paths whole: as in a pipe",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_LIVE | COMMAND_RECORD | COMMAND_BYTES |
		 COMMAND_FULL,
	.run = blocks,
};
