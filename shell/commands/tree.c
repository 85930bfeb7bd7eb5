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

struct request {
	bool invert;
	uint64_t depth;
	struct reporting_scope scope;
};

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_INVERT: r->invert = true; return 0;
	case ARG_DEPTH:
		if (!number_parse(value, &r->depth) && r->depth >= 1 && r->depth <= UINT_MAX)
			return 0;
		return shell_error(shell, call,
				   "--depth: '%s' is not accepted: a number of levels from 1 on",
				   value);
	case ARG_ROWS:
	case ARG_AT: return reporting_scope(shell, call, arg == ARG_AT, value, &r->scope);
	default: return arguments_unexpected(shell, call, value);
	}
}

static int tree(struct shell *shell, struct call *call)
{
	struct request r = { .depth = UINT_MAX, .scope.rows = VIEW_ALL };
	struct profile profile;
	struct sites *sites;
	struct tree t;
	int err;

	if (arguments_each(shell, call, arguments, one, &r))
		return -1;
	if (reporting_live(shell, call, &r.scope.moment, true, &profile, &sites))
		return -1;
	asking_unlock(shell->session);
	err = tree_make(&t, &profile, sites, r.invert ? TREE_INVERT : 0, (unsigned)r.depth);
	asking_lock(shell->session);
	profile_release(&profile);
	if (!err && (err = tree_cut(&t, r.scope.rows)))
		tree_release(&t);
	if (err)
		return shell_failed(shell, call, err);
	t.before = shell_preattach(shell);
	if (call->json)
		print_tree_json(call->out, &t);
	else
		print_tree(call->out, &t, r.scope.has_rows ? 0 : MIN_SHARE);
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
