// SPDX-License-Identifier: GPL-3.0-or-later
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
enum { ARG_INVERT, ARG_DEPTH, ARG_ROWS, ARG_WHEN };

static const struct argument arguments[] = { [ARG_INVERT] = { "invert", 0, false },
					     [ARG_DEPTH] = { "depth", 0, true },
					     [ARG_ROWS] = { "rows", 'n', true },
					     WHEN_ARGUMENTS(ARG_WHEN),
					     ARGUMENTS_END };

/* per mille of the whole: smaller branches are summed in the text */
#define MIN_SHARE 5

struct request {
	bool invert, has_rows;
	uint64_t depth;
	size_t rows;
	struct reporting_when when;
};

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_INVERT: r->invert = true; return 0;
	case ARG_DEPTH:
		if (!number_parse(value, &r->depth) && r->depth >= 1 && r->depth <= UINT_MAX)
			return 0;
		return shell_error(
			shell, call,
			"--depth: invalid value '%s': expected a number of levels from 1 on",
			value);
	case ARG_ROWS:
		r->has_rows = true;
		return reporting_rows(shell, call, "-n", value, &r->rows);
	case ARG_WORD: return arguments_unexpected(shell, call, value);
	default: return reporting_when(shell, call, arg - ARG_WHEN, value, &r->when);
	}
}

static int tree(struct shell *shell, struct call *call)
{
	struct request r = { .depth = UINT_MAX, .rows = VIEW_ALL };
	struct profile profile;
	struct sites *sites;
	struct tree t;
	int err;

	if (arguments_each(shell, call, arguments, one, &r))
		return -1;
	if (reporting_live(shell, call, &r.when, true, &profile, &sites))
		return -1;
	asking_unlock(shell->session);
	err = tree_make(&t, &profile, sites, r.invert ? TREE_INVERT : 0, (unsigned)r.depth);
	asking_lock(shell->session);
	profile_release(&profile);
	if (!err && (err = tree_cut(&t, r.rows)))
		tree_release(&t);
	if (err)
		return shell_failed(shell, call, err);
	t.before = r.when.has_since ? NULL : shell_preattach(shell);
	if (call->json)
		print_tree_json(call->out, &t);
	else
		print_tree(call->out, &t, r.has_rows ? 0 : MIN_SHARE, &call->layout);
	tree_release(&t);
	return 0;
}

const struct command cmd_tree = {
	.name = "tree",
	.usage =
		"[--invert] [--depth N] [-n N] [--at TIME|peak] [--since|--base FILE|SNAP|TIME] [--bytes] [--full] [--json]",
	.summary = "the call tree with what each branch holds",
	.example = "tree --depth 6",
	.help = "Each line: bytes of all live allocations made in or below the function, their share of the whole, the function. A function with\n"
		"one callee only is followed by it without further indentation; branches below 0.5 % are summed as (others), what a function\n"
		"asked for itself is (self).\n"
		"\n"
		"  --invert     from the functions that allocate outwards to their callers\n"
		"  --depth N    at most N levels\n"
		"  -n N         the N biggest branches, however small; the others are summed where they are\n"
		"  --at TIME    what was live then, as in `report`\n"
		"  --base FILE  what has come since, as in `report --since`\n"
		"  --bytes      exact sizes on a terminal, too\n"
		"  --full       names whole, all functions: as in a pipe",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_RECORD | COMMAND_BYTES | COMMAND_FULL,
	.run = tree,
};
