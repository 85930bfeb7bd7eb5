// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "report/print.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/selection.h"
#include "shell/common/shell.h"

/*
 * `diff`: what came between two moments. The same profile as `report --since`, printed as a
 * difference.
 */
static const struct argument table[] = { SELECTION_ARGUMENTS, ARGUMENTS_END };

struct request {
	struct selection s;
	struct moment moment[2];
	unsigned moments; /* given */
};

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	if (arg != ARG_WORD)
		return selection_option(shell, call, &r->s, arg, value, VIEW_MODULE + 1);
	if (r->moments == 2)
		return arguments_unexpected(shell, call, value);
	if (r->moments++ == 1 && !strcmp(value, "now"))
		return 0;
	return reporting_moment(shell, call, r->moments == 1 ? "A" : "B", value,
				MOMENTS_SNAPSHOTS | MOMENTS_PEAK | MOMENTS_FILES,
				&r->moment[r->moments - 1]);
}

static int print(struct shell *shell, struct call *call, struct request *r)
{
	struct sites *sites;
	struct view view;

	if (!r->moments)
		return shell_error(
			shell, call,
			shell->said /* over HTTP */
				? "what to compare with is missing: since=, the name of a snapshot or a TIME"
				: "what to compare with is missing: the name of a snapshot, a TIME, or a .heap file");
	if (selection_agree(shell, call, &r->s) ||
	    selection_view(shell, call, &r->s, &r->moment[1], &r->moment[0],
			   call->json ? PROFILE_DEAD : 0, 0, &view, &sites))
		return -1;
	if (call->json)
		print_report_json(call->out, &view, sites, r->s.stacks || view.key == VIEW_STACK);
	else
		print_difference(call->out, &view, sites, r->s.stacks, &call->layout);
	view_release(&view);
	return 0;
}

static int diff(struct shell *shell, struct call *call)
{
	struct request r = { .s.view = { .key = VIEW_SITE, .sort = SORT_SIZE, .only_held = true } };
	int bad = arguments_each(shell, call, table, one, &r) || print(shell, call, &r);

	selection_release(&r.s);
	return bad ? -1 : 0;
}

const struct command cmd_diff = {
	.name = "diff",
	.group = GROUP_TIME,
	.usage =
		"A [B] [-n N] [--by site|stack|function|file|module] [--stacks] [--match REGEX] [--bytes] [--full] [--json]",
	.summary = "what has come and gone between two moments, biggest growth first",
	.example = "diff -10s",
	.help = "A, B: the name of a snapshot, a TIME as in `report --at`, peak, or a .heap file; without B: now. Each row: growth (bytes at B - bytes at A), blocks\n"
		"at B, and where; at the end the sum. The biggest growth is first; where nothing has grown, what shrank most. Rows that are cut off are\n"
		"summed in one, so that rows always add up. With a file, stacks are the same if their functions, files and lines are: it may be of\n"
		"another run, or of another build.\n"
		"\n"
		"  -n N           show N rows (text: 20, JSON: all)\n"
		"  --by KEY       site (default), stack, function, file, module\n"
		"  --stacks       whole stacks\n"
		"  --match REGEX  only stacks with a frame whose function, FILE:LINE or module's path matches (POSIX extended)\n"
		"  --bytes        exact sizes on a terminal, too\n"
		"  --full         names, paths and stacks whole: as in a pipe",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_RECORD | COMMAND_BYTES | COMMAND_FULL,
	.run = diff,
};
