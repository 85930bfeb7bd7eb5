// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/text.h"
#include "base/units.h"
#include "log/replay.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/opening.h"
#include "shell/common/shell.h"

/* `open`: another log instead of the one that is open; alone, which ones there are beside it. */
static void print_set(FILE *out, const struct log_set *set, bool is_open)
{
	const char *name = text_last_part(set->file[0].path);
	time_t seconds = (time_t)(set->clock_ms / 1000);
	struct text_buffer size;
	uint64_t bytes = 0;
	char clock[32] = "?";
	struct tm tm;

	for (size_t i = 0; i < set->files; i++)
		bytes += set->file[i].bytes;
	if (localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", &tm);
	escape_printf(out, "%c %-28.*s %s  %8s in %zu file%s, %" PRIu32 " to %" PRIu32 "\n",
		      is_open ? '*' : ' ', (int)strcspn(name, "-"), name, clock,
		      size_text(&size, bytes), set->files, plural(set->files), set->file[0].number,
		      set->file[set->files - 1].number);
}

static void left_out(void *ctx, const char *text)
{
	(void)ctx;
	message_say("%s", text);
}

static int list(struct shell *shell, struct call *call)
{
	const struct replay *log = session_log(shell->session);
	const char *file, *slash;
	struct log_sets sets;
	char *dir, why[512];
	uint64_t bytes;
	int err;

	if (!log)
		return shell_error(shell, call, "missing name of a directory or of log files");
	file = replay_file(log, 0, &bytes);
	slash = strrchr(file, '/');
	dir = slash ? strndup(file, (size_t)(slash + 1 - file)) : strdup("./");
	if (!dir)
		return shell_error(shell, call, "out of memory");
	err = log_sets_find(&sets, &dir, 1, left_out, NULL, why, sizeof(why));
	free(dir);
	if (err)
		return shell_error(shell, call, "%s", why);
	for (size_t i = 0; i < sets.count; i++)
		print_set(call->out, &sets.set[i],
			  sets.set[i].clock_ms == replay_clock_ms(log) &&
				  sets.set[i].set == replay_set(log));
	log_sets_release(&sets);
	return 0;
}

static int open_paths(struct shell *shell, struct call *call)
{
	struct arguments a;
	size_t paths = 0;
	char **path = calloc((size_t)call->argc + 1, sizeof(*path)), why[512];
	int arg, bad = 0;

	if (!path)
		return shell_error(shell, call, "out of memory");
	arguments_init(&a, shell, call, NULL);
	while ((arg = arguments_next(&a)) == ARG_WORD)
		path[paths++] = (char *)a.value;
	if (arg != ARG_END)
		bad = -1;
	else if (!paths)
		bad = list(shell, call);
	else if (opening_log(shell, path, paths, call->out, why, sizeof(why)))
		bad = *why ? shell_error(shell, call, "%s", why) : -1;
	free(path);
	return bad;
}

static int open_log(struct shell *shell, struct call *call)
{
	if (!session_options(shell->session)->open)
		return shell_error(shell, call, "only available with `mtrun -r PATH`");
	return open_paths(shell, call);
}

const struct command cmd_open = {
	.name = "open",
	.group = GROUP_FILES,
	.usage = "[PATH...]",
	.summary = "open another log; alone: list those beside the one that is open",
	.example = "open memlog20261124_4711-1.mtlog",
	.help = "PATH: a directory, of whose logs the newest is opened, as far back as its files go on in each other; or files of one run, one after the other.\n"
		"With mtrun -r.",
	.flags = COMMAND_AS_IS,
	.run = open_log,
};
