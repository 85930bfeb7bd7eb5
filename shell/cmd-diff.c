/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>

#include "../supervisor/print.h"
#include "../supervisor/view.h"
#include "command.h"
#include "reporting.h"

/* `diff`: what came between two moments. The same profile as `report --since`, printed as a difference. */
enum { ARG_ROWS, ARG_BY, ARG_STACKS, ARG_MATCH };

static const struct argument table[] = {
	[ARG_ROWS] = { "rows", 'n', true },
	[ARG_BY] = { "by", 0, true },
	[ARG_STACKS] = { "stacks", 0, false },
	[ARG_MATCH] = { "match", 0, true },
	ARGUMENTS_END
};

struct request {
	struct view_options view;
	struct moment moment[2];
	unsigned moments;		/* given */
	bool stacks, by, has_rows, has_regex;
	regex_t regex;
};

static int one(struct shell *shell, struct call *call, struct request *r, int arg, const char *value)
{
	switch (arg) {
	case ARG_ROWS:
		r->has_rows = true;
		return reporting_rows(shell, call, value, &r->view.limit);
	case ARG_BY:
		r->by = true;
		for (int i = 0; i <= VIEW_MODULE; i++)
			if (!strcmp(value, view_key_names[i])) {
				r->view.key = (enum view_key)i;
				return 0;
			}
		return shell_error(shell, call, "--by: '%s' is not accepted: site, stack, function, file or module", value);
	case ARG_STACKS:
		r->stacks = true;
		return 0;
	case ARG_MATCH:
		if (r->has_regex)
			regfree(&r->regex);
		r->has_regex = !reporting_regex(shell, call, "match", value, &r->regex);
		return r->has_regex ? 0 : -1;
	default:
		if (r->moments == 2)
			return shell_error(shell, call, "unexpected argument '%s' (`help diff` lists all)", value);
		if (r->moments == 1 && !strcmp(value, "now")) {
			r->moments++;
			return 0;
		}
		r->moments++;
		return reporting_moment(shell, call, r->moments == 1 ? "A" : "B", value, MOMENTS_SNAPSHOTS | MOMENTS_PEAK, &r->moment[r->moments - 1]);
	}
}

static int print(struct shell *shell, struct call *call, struct request *r)
{
	struct profile profile;
	struct sites *sites;
	struct view view;
	int err;

	if (!r->moments)
		return shell_error(shell, call, "what to compare with is missing: the name of a snapshot, or a TIME");
	if (r->stacks && !r->by)
		r->view.key = VIEW_STACK;
	if (!r->has_rows)
		r->view.limit = call->json ? VIEW_ALL : shell->settings.rows;
	r->view.match = r->has_regex ? &r->regex : NULL;
	if (reporting_profile(shell, call, &r->moment[1], &r->moment[0], 0, 0, &profile, &sites))
		return -1;
	profile_drop_unchanged(&profile);
	if (reporting_warm(shell, &profile, sites, r->view.key != VIEW_SITE || r->has_regex))
		return -1;
	err = view_make(&view, &profile, sites, &r->view);
	profile_release(&profile);
	if (err)
		return shell_error(shell, call, "out of memory");
	if (call->json)
		print_report_json(call->out, &view, sites, r->stacks || r->view.key == VIEW_STACK);
	else
		print_difference(call->out, &view, sites, r->stacks);
	view_release(&view);
	return 0;
}

static int diff(struct shell *shell, struct call *call)
{
	struct request r = { .view = { .key = VIEW_SITE, .sort = SORT_SIZE } };
	struct arguments a;
	int arg, bad = 0;

	arguments_init(&a, shell, call, table);
	while (!bad && (arg = arguments_next(&a)) != ARG_END)
		bad = arg == ARG_BAD || one(shell, call, &r, arg, a.value);
	if (!bad)
		bad = print(shell, call, &r);
	if (r.has_regex)
		regfree(&r.regex);
	return bad ? -1 : 0;
}

const struct command cmd_diff = {
	.name = "diff",
	.usage = "A [B] [-n N] [--by site|stack|function|file|module] [--stacks] [--match REGEX] [--json]",
	.summary = "what has come and gone between two moments, biggest growth first",
	.help = "A, B: the name of a snapshot, a TIME as in `report --at`, or peak; without B: now. Each row: growth (bytes at B - bytes at A), blocks at B, and\n"
		"where; at the end the sum. Rows that are cut off are summed in one, so that rows always add up.\n"
		"\n"
		"  -n N           show N rows (text: 20, JSON: all)\n"
		"  --by KEY       site (default), stack, function, file, module\n"
		"  --stacks       whole stacks\n"
		"  --match REGEX  only stacks with a frame whose function, FILE:LINE or module's file name matches (POSIX extended)",
	.flags = COMMAND_JSON,
	.run = diff,
};
