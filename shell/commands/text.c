/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/print.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `text`: jeprof's table of functions, flat and cumulative. */
enum { ARG_CUM, ARG_ROWS, ARG_BYTES, ARG_AT };

static const struct argument arguments[] = { [ARG_CUM] = { "cum", 0, false },
					     [ARG_ROWS] = { "rows", 'n', true },
					     [ARG_BYTES] = { "bytes", 0, false },
					     [ARG_AT] = { "at", 0, true },
					     ARGUMENTS_END };

static int text(struct shell *shell, struct call *call)
{
	bool cum = false, bytes = false, has_rows = false;
	size_t rows = VIEW_ALL;
	struct moment moment = { 0 };
	struct profile profile;
	struct sites *sites;
	struct arguments a;
	struct table t;
	int arg, err;

	arguments_init(&a, shell, call, arguments);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_BAD)
			return -1;
		if (arg == ARG_WORD)
			return arguments_unexpected(shell, call, a.value);
		cum |= arg == ARG_CUM;
		bytes |= arg == ARG_BYTES;
		has_rows |= arg == ARG_ROWS;
		if (arg == ARG_ROWS && reporting_rows(shell, call, a.value, &rows))
			return -1;
		if (arg == ARG_AT &&
		    reporting_moment(shell, call, "--at", a.value, MOMENTS_PEAK, &moment))
			return -1;
	}
	if (!has_rows && !call->json)
		rows = shell->settings.rows;
	if (reporting_live(shell, call, &moment, true, &profile, &sites))
		return -1;
	asking_leave(shell->session);
	err = table_make(&t, &profile, sites, cum, rows);
	asking_return(shell->session);
	profile_release(&profile);
	if (err)
		return shell_failed(shell, call, err);
	t.before = shell_preattach(shell);
	if (call->json)
		print_table_json(call->out, &t);
	else
		print_table(call->out, &t, bytes);
	table_release(&t);
	return 0;
}

const struct command cmd_text = {
	.name = "text",
	.usage = "[--cum] [-n N] [--at TIME|peak] [--bytes] [--json]",
	.summary = "functions with flat and cumulative bytes, as jeprof's table",
	.help = "Columns: flat, flat%, sum%, cum, cum%, function; in MB (1048576 bytes), or with --bytes in bytes.\n"
		"flat is what the function itself asked an allocator for, sum% adds up flat% from the top, cum is what it and everything it\n"
		"called asked for (a function that recurs counts once per stack).\n"
		"\n"
		"  --cum    sort by cum\n"
		"  -n N     show N rows (text: 20, JSON: all); the others are summed in one last row\n"
		"  --at     what was live then, as in `report`",
	.flags = COMMAND_JSON | COMMAND_RECORD,
	.run = text,
};
