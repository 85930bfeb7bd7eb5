// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/units.h"
#include "session/options.h"
#include "session/recorder.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/*
 * `log`: the files that a mode with a log writes (supervisor/log/): what there is, and other
 * settings.
 */
struct listing {
	FILE *out;
	struct json *json;
	uint64_t bytes;
	size_t count;
};

static void list_text(void *ctx, const char *path, uint64_t bytes)
{
	struct text_buffer size;
	struct listing *l = ctx;

	escape_printf(l->out, "%8s  %s\n", size_text(&size, bytes), path);
	l->bytes += bytes;
	l->count++;
}

static void list_json(void *ctx, const char *path, uint64_t bytes)
{
	struct listing *l = ctx;

	json_object(l->json, NULL);
	json_string(l->json, "file", path);
	json_uint(l->json, "bytes", bytes);
	json_end_object(l->json);
}

static int show(struct shell *shell, struct call *call)
{
	const struct options *o = session_options(shell->session);
	struct listing l = { .out = call->out };
	struct text_buffer size;
	struct json j;

	if (call->call_form) {
		fprintf(call->out, "%" PRIu32 "\n", o->log_files);
		return 0;
	}
	if (!call->json) {
		escape_printf(call->out, "%s: directory '%s', files of %s, %" PRIu32 " at most\n",
			      modes[o->mode].logged ? "on" : "off", o->log_dir,
			      size_text(&size, o->log_size), o->log_files);
		session_each_log(shell->session, list_text, &l);
		return 0;
	}
	json_init(&j, call->out);
	l.json = &j;
	json_object(&j, NULL);
	json_bool(&j, "on", modes[o->mode].logged);
	json_string(&j, "dir", o->log_dir);
	json_uint(&j, "size", o->log_size);
	json_uint(&j, "files", o->log_files);
	json_array(&j, "log_files");
	session_each_log(shell->session, list_json, &l);
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
	return 0;
}

static int turn(struct shell *shell, const struct call *call, bool on)
{
	enum mode mode = session_options(shell->session)->mode;
	char why[600];

	if (modes[mode].logged == on)
		return 0;
	if (!shell_can_set(shell, call))
		return -1;
	if (session_record(shell->session, mode_logged(mode, on), why, sizeof(why)))
		return shell_error(shell, call, "%s", why);
	return 0;
}

static int rotate(struct shell *shell, const struct call *call)
{
	char why[600];

	if (!modes[session_options(shell->session)->mode].logged)
		return shell_error(shell, call, "it is off: first `log on`");
	if (session_rotate_log(shell->session, why, sizeof(why)))
		return shell_error(shell, call, "%s", why);
	return 0;
}

static int set_files(struct shell *shell, const struct call *call, const char *value)
{
	uint32_t files;

	if (options_log_files(value, &files))
		return shell_error(shell, call, "invalid value '%s': expected " LOG_FILES_ACCEPTED,
				   value);
	session_log_files(shell->session, files);
	if (call->call_form)
		fputs("true\n", call->out);
	return 0;
}

static int set_size(struct shell *shell, const struct call *call, const char *value)
{
	uint64_t size;

	if (options_log_size(value, &size))
		return shell_error(shell, call, "invalid value '%s': expected " LOG_SIZE_ACCEPTED,
				   value);
	session_log_size(shell->session, size);
	return 0;
}

static int set_dir(struct shell *shell, const struct call *call, const char *value)
{
	char why[600];

	if (session_log_dir(shell->session, value, why, sizeof(why)))
		return shell_error(shell, call, "%s", why);
	return 0;
}

struct request {
	const char *what, *value;
};

static int argument(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	(void)arg; /* it has no options but --json */
	if (r->value)
		return arguments_unexpected(shell, call, value);
	*(r->what ? &r->value : &r->what) = value;
	return 0;
}

static int log_files(struct shell *shell, struct call *call)
{
	static const struct argument none[] = { ARGUMENTS_END };
	static const struct {
		const char *name;
		int (*set)(struct shell *shell, const struct call *call, const char *value);
	} settings[] = { { "files", set_files }, { "size", set_size }, { "dir", set_dir } };

	struct request r = { 0 };

	if (arguments_each(shell, call, none, argument, &r))
		return -1;
	if (!r.what)
		return show(shell, call);
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		if (!strcmp(r.what, settings[i].name))
			return r.value ? settings[i].set(shell, call, r.value)
				       : shell_error(shell, call, "%s: missing value", r.what);
	if (r.value)
		return arguments_unexpected(shell, call, r.value);
	if (!strcmp(r.what, "on") || !strcmp(r.what, "off"))
		return turn(shell, call, r.what[1] == 'n');
	if (!strcmp(r.what, "rotate"))
		return rotate(shell, call);
	return shell_error(
		shell, call,
		"invalid value '%s': expected on, off, rotate, files N, size SIZE or dir DIR",
		r.what);
}

const struct command cmd_log = {
	.name = "log",
	.group = GROUP_RECORD,
	.usage = "[on|off|rotate|files N|size SIZE|dir DIR] [--json]",
	.summary = "log files: whether they are written, and which there are; another setting",
	.example = "log files 8",
	.help = "With a log, every allocation and release is in files named memlog<day>_<id>-<n>.mtlog, so that `mtrun -r DIR` can be asked later what was live at any\n"
		"moment. `log on` and `off` switch between the modes mem-fast and log-fast, mem and log (`record`). A file has at most\n"
		"SIZE bytes (100M) and is then followed by the next one; there are at most N of them (10), and the oldest is deleted. rotate: the next one is begun now; dir:\n"
		"in DIR. Each file can be read alone. When a file cannot be written any more, that is said once, and recording goes on in memory; `log on` resumes.",
	.flags = COMMAND_JSON | COMMAND_LIVE,
	.run = log_files,
};
