/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <limits.h>

#include "base/units.h"
#include "report/print.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `tree`: who calls whom, with what each branch holds. */
enum { ARG_INVERT, ARG_DEPTH, ARG_ROWS, ARG_AT };

static const struct argument arguments[] = { [ARG_INVERT] = { "invert", 0, false },
					     [ARG_DEPTH] = { "depth", 0, true },
					     [ARG_ROWS] = { "rows", 'n', true },
					     [ARG_AT] = { "at", 0, true },
					     ARGUMENTS_END };

/* per mille of the whole: smaller branches are summed in the text */
#define MIN_SHARE 5

static int tree(struct shell *shell, struct call *call)
{
	uint64_t depth = UINT_MAX;
	size_t rows = VIEW_ALL;
	bool has_rows = false;
	bool invert = false;
	struct moment moment = { 0 };
	struct profile profile;
	struct sites *sites;
	struct arguments a;
	struct tree t;
	int arg, err;

	arguments_init(&a, shell, call, arguments);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_BAD)
			return -1;
		if (arg == ARG_WORD)
			return arguments_unexpected(shell, call, a.value);
		invert |= arg == ARG_INVERT;
		if (arg == ARG_DEPTH &&
		    (number_parse(a.value, &depth) || depth < 1 || depth > UINT_MAX))
			return shell_error(
				shell, call,
				"--depth: '%s' is not accepted: a number of levels from 1 on",
				a.value);
		has_rows |= arg == ARG_ROWS;
		if (arg == ARG_ROWS && reporting_rows(shell, call, a.value, &rows))
			return -1;
		if (arg == ARG_AT &&
		    reporting_moment(shell, call, "--at", a.value, MOMENTS_PEAK, &moment))
			return -1;
	}
	if (reporting_live(shell, call, &moment, true, &profile, &sites))
		return -1;
	asking_leave(shell->session);
	err = tree_make(&t, &profile, sites, invert ? TREE_INVERT : 0, (unsigned)depth);
	asking_return(shell->session);
	profile_release(&profile);
	if (!err && (err = tree_cut(&t, rows)))
		tree_release(&t);
	if (err)
		return shell_failed(shell, call, err);
	t.before = shell_preattach(shell);
	if (call->json)
		print_tree_json(call->out, &t);
	else
		print_tree(call->out, &t, has_rows ? 0 : MIN_SHARE);
	tree_release(&t);
	return 0;
}

const struct command cmd_tree = {
	.name = "tree",
	.usage = "[--invert] [--depth N] [-n N] [--at TIME|peak] [--json]",
	.summary = "the call tree with what each branch holds",
	.help = "Each line: bytes of all live allocations made in or below the function, their share of the whole, the function. A function with\n"
		"one callee only is followed by it without further indentation; branches below 0.5 % are summed as (others), what a function\n"
		"asked for itself is (self).\n"
		"\n"
		"  --invert   from the functions that allocate outwards to their callers\n"
		"  --depth N  at most N levels\n"
		"  -n N       the N biggest branches, however small; the others are summed where they are\n"
		"  --at TIME  what was live then, as in `report`",
	.flags = COMMAND_JSON | COMMAND_RECORD,
	.run = tree,
};
