/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
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
	const struct shell *shell;
	size_t seen;
	unsigned counted;
	uint64_t min_size;
	bool by_stack, by_site, by_age, has_rows;
	uint64_t stack;
	regex_t regex;
	struct sites *sites;
	uint8_t *site; /* 0: not looked at, 1: no, 2: yes */
	size_t nsites;
	size_t rows;
	struct ledger_block *block;
	size_t count, allocated;
	/* the first ROWS are in order, and what comes after the last of them is of no interest */
	bool dropped;
	uint64_t others_size; /* of those that were cut off */
	size_t others;
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

static int order(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int by_size(const void *pa, const void *pb)
{
	const struct ledger_block *a = pa, *b = pb;
	int c = order(b->size, a->size);

	return c ? c : order(a->address, b->address);
}

static int by_age(const void *pa, const void *pb)
{
	const struct ledger_block *a = pa, *b = pb;
	int c = order(a->ms, b->ms);

	return c ? c : by_size(pa, pb);
}

static int append(struct collection *c, const struct ledger_block *b)
{
	if (array_room(&c->block, c->count, &c->allocated, sizeof(*c->block)))
		return -ENOMEM;
	c->block[c->count++] = *b;
	return 0;
}

/*
 * Only the first ROWS are kept when that is few: twice as many are gathered, sorted, and the second
 * half summed.
 */
static void drop(struct collection *c, size_t keep)
{
	if (c->count)
		qsort(c->block, c->count, sizeof(*c->block), c->by_age ? by_age : by_size);
	for (size_t i = keep; i < c->count; i++) {
		c->others_size += c->block[i].size;
		c->others++;
	}
	if (c->count > keep)
		c->count = keep;
	c->dropped = true;
}

/* Whether B comes after ROWS others already. */
static bool is_far(const struct collection *c, const struct ledger_block *b)
{
	return c->dropped &&
	       (!c->rows || (c->by_age ? by_age : by_size)(b, &c->block[c->rows - 1]) > 0);
}

static int collect(void *ctx, const struct ledger_block *b)
{
	struct collection *c = ctx;

	if (++c->seen % 4096 == 0 && shell_interrupted(c->shell))
		return -EINTR;
	if (!(c->counted & (b->mapping ? LEDGER_COUNT_MMAP : LEDGER_COUNT_HEAP)) ||
	    b->size < c->min_size)
		return 0;
	if ((c->by_stack && b->stack != c->stack) || (c->by_site && !site_matches(c, b->stack)))
		return 0;
	if (is_far(c, b)) {
		c->others_size += b->size;
		c->others++;
		return 0;
	}
	if (c->rows < SIZE_MAX / 4 && c->count >= c->rows * 2 + 1000)
		drop(c, c->rows);
	return append(c, b);
}

static void print_json(FILE *out, const struct collection *c, struct process *p, uint64_t now)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_array(&j, "blocks");
	for (size_t i = 0; i < c->count && !ferror(out); i++) {
		const struct ledger_block *b = &c->block[i];

		json_newline(&j);
		json_object(&j, NULL);
		json_address(&j, "address", b->address);
		json_uint(&j, "size", b->size);
		json_uint(&j, "age_ms", now > b->ms ? now - b->ms : 0);
		json_int(&j, "thread", ledger_thread_tid(p->ledger, b->thread));
		json_uint(&j, "stack_id", b->stack);
		json_string(&j, "kind", b->mapping ? "mmap" : "heap");
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

static void print_text(FILE *out, const struct collection *c, struct process *p, uint64_t now)
{
	int width = 1;

	for (size_t i = 0; i < c->count; i++) {
		int n = snprintf(NULL, 0, "%" PRIu64, c->block[i].size);

		width = n > width ? n : width;
	}
	for (size_t i = 0; i < c->count && !ferror(out); i++) {
		const struct ledger_block *b = &c->block[i];
		const struct symbol_frame *f =
			&sites_site(c->sites, sites_of(c->sites, b->stack))->frame;
		struct text_buffer age;

		escape_printf(out,
			      "0x%012" PRIx64 "  size:%-*" PRIu64
			      "  age:%-6s  thread:%-7d  stack:%-7" PRIu32 "  %s",
			      b->address, width, b->size,
			      age_text(&age, now > b->ms ? now - b->ms : 0),
			      (int)ledger_thread_tid(p->ledger, b->thread), b->stack,
			      f->function ? f->function : "??");
		if (f->file)
			escape_printf(out, " at %s:%u", f->file, f->line);
		escape_printf(out, "%s\n", b->mapping ? " (mapping)" : "");
	}
	if (c->others)
		fprintf(out, "(others)        size:%" PRIu64 "  (%zu more)\n", c->others_size,
			c->others);
}

static int list(struct shell *shell, struct call *call, struct collection *c, struct process *p)
{
	uint64_t now = shell_moment(shell, p);
	int err;

	c->counted = session_options(shell->session)->count;
	if (!c->has_rows)
		c->rows = call->json ? VIEW_ALL : shell->settings.rows;
	err = ledger_each_block(p->ledger, collect, c);
	if (err)
		return err == -EINTR ? -1 : shell_error(shell, call, "out of memory");
	asking_unlock(shell->session);
	drop(c, c->rows);
	asking_lock(shell->session);
	if (call->json)
		print_json(call->out, c, p, now);
	else
		print_text(call->out, c, p, now);
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
					 "--stack: '%s' is not accepted: a stack's number, as `report --by stack`"
					 " shows",
					 value)
			       : 0;
	case ARG_MIN_SIZE:
		return size_parse(value, &c->min_size)
			       ? shell_error(shell, call,
					     "--min-size: '%s' is not accepted: " SIZE_ACCEPTED,
					     value)
			       : 0;
	case ARG_ROWS: c->has_rows = true; return reporting_rows(shell, call, value, &c->rows);
	case ARG_SORT:
		if (strcmp(value, "size") && strcmp(value, "age"))
			return shell_error(shell, call, "--sort: '%s' is not accepted: size or age",
					   value);
		c->by_age = !strcmp(value, "age");
		return 0;
	default: return arguments_unexpected(shell, call, value);
	}
}

/* Sites are looked up while the ledger's blocks are walked: they must be there by then. */
static int look_up(struct shell *shell, struct call *call)
{
	struct profile profile;
	struct sites *sites;

	if (reporting_live(shell, call, NULL, false, &profile, &sites))
		return -1;
	profile_release(&profile);
	return 0;
}

static int blocks(struct shell *shell, struct call *call)
{
	struct collection c = { .shell = shell };
	struct process *p;
	int bad = arguments_each(shell, call, arguments, one, &c);

	if (!bad && c.by_site && c.by_stack)
		bad = shell_error(shell, call, "--site and --stack do not go together");
	if (!bad) {
		bad = (c.by_site || !call->json) && look_up(shell, call);
		p = shell_process(shell);
		c.sites = bad ? NULL : shell_sites(shell, p);
		bad = !c.sites || list(shell, call, &c, p);
	}
	if (c.by_site)
		regfree(&c.regex);
	free(c.block);
	free(c.site);
	return bad ? -1 : 0;
}

const struct command cmd_blocks = {
	.name = "blocks",
	.usage = "[--site REGEX|--stack ID] [--min-size SIZE] [-n N] [--sort size|age] [--json]",
	.summary = "the live blocks themselves, biggest first",
	.help = "  --site REGEX     only those whose site's function or FILE:LINE matches\n"
		"  --stack ID       only those of one stack, by the number that `report --by stack` shows\n"
		"  --min-size SIZE  only those at least this large\n"
		"  -n N             show N rows (text: 20, JSON: all); the others are summed in one last row\n"
		"  --sort age       oldest first",
	.flags = COMMAND_JSON | COMMAND_LIVE | COMMAND_RECORD,
	.run = blocks,
};
