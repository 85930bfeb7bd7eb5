// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/print.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `text`: jeprof's table of functions, flat and cumulative. */
enum { ARG_CUM, ARG_ROWS, ARG_BYTES, ARG_WHEN };

static const struct argument arguments[] = { [ARG_CUM] = { "cum", 0, false },
					     [ARG_ROWS] = { "rows", 'n', true },
					     [ARG_BYTES] = { "bytes", 0, false },
					     WHEN_ARGUMENTS(ARG_WHEN),
					     ARGUMENTS_END };

struct request {
	bool cum, bytes, has_rows;
	size_t rows;
	struct reporting_when when;
};

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_CUM: r->cum = true; return 0;
	case ARG_BYTES: r->bytes = true; return 0;
	case ARG_ROWS:
		r->has_rows = true;
		return reporting_rows(shell, call, "-n", value, &r->rows);
	case ARG_WORD: return arguments_unexpected(shell, call, value);
	default: return reporting_when(shell, call, arg - ARG_WHEN, value, &r->when);
	}
}

static int text(struct shell *shell, struct call *call)
{
	struct request r = { .rows = VIEW_ALL };
	struct profile profile;
	struct sites *sites;
	struct table t;
	int err;

	if (arguments_each(shell, call, arguments, one, &r))
		return -1;
	if (!r.has_rows && !call->json)
		r.rows = shell->settings.rows;
	if (reporting_live(shell, call, &r.when, true, &profile, &sites))
		return -1;
	asking_unlock(shell->session);
	err = table_make(&t, &profile, sites, r.cum ? TABLE_CUM : TABLE_FLAT, r.rows);
	asking_lock(shell->session);
	profile_release(&profile);
	if (err)
		return shell_failed(shell, call, err);
	t.before = r.when.has_since ? NULL : shell_preattach(shell);
	if (call->json)
		print_table_json(call->out, &t);
	else
		print_table(call->out, &t, r.bytes, &call->layout);
	table_release(&t);
	return 0;
}

const struct command cmd_text = {
	.name = "text",
	.usage =
		"[--cum] [-n N] [--at TIME|peak] [--since|--base FILE|SNAP|TIME] [--bytes] [--full] [--json]",
	.summary = "functions with flat and cumulative bytes, as jeprof's table",
	.example = "text --cum -n 20",
	.help = "Columns: flat, flat%, sum%, cum, cum%, function; in MB (1048576 bytes), on a terminal in units that fit, with --bytes in bytes.\n"
		"flat is what the function itself asked an allocator for, sum% adds up flat% from the top, cum is what it and everything it\n"
		"called asked for (a function that recurs counts once per stack).\n"
		"\n"
		"  --cum        sort by cum\n"
		"  -n N         show N rows (text: 20, JSON: all); the others are summed in one last row\n"
		"  --at TIME    what was live then, as in `report`\n"
		"  --base FILE  what has come since, as in `report --since`\n"
		"  --full       names whole: as in a pipe",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_RECORD | COMMAND_FULL,
	.run = text,
};
