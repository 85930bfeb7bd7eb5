// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "report/view.h"
#include "session/options.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `set`: one table of settings, each with how it is changed and shown. */
static int set_rows(struct shell *shell, struct call *call, const char *value)
{
	return reporting_rows(shell, call, "rows", value, &shell->settings.rows);
}

static void show_rows(const struct shell *shell, FILE *out)
{
	if (shell->settings.rows == VIEW_ALL)
		fputs("all", out);
	else
		fprintf(out, "%zu", shell->settings.rows);
}

static int set_site_skip(struct shell *shell, struct call *call, const char *value)
{
	const char *why = "";

	if (!shell_sites(shell, shell_process(shell))) /* at least one that compiles it */
		return -1;
	return shell_site_skip(shell, value, &why)
		       ? shell_error(shell, call,
				     "site-skip: '%s' is not a valid regular expression: %s", value,
				     why)
		       : 0;
}

static void show_site_skip(const struct shell *shell, FILE *out)
{
	escape_printf(out, "'%s'", shell->settings.site_skip);
}

static int set_site_wrappers(struct shell *shell, struct call *call, const char *value)
{
	bool on = !strcmp(value, "on");

	if (!on && strcmp(value, "off"))
		return shell_error(shell, call,
				   "site-wrappers: invalid value '%s': expected on or off", value);
	shell->settings.stay_in_wrappers = !on;
	return 0;
}

static void show_site_wrappers(const struct shell *shell, FILE *out)
{
	fputs(shell->settings.stay_in_wrappers ? "off" : "on", out);
}

static int set_free_stacks(struct shell *shell, struct call *call, const char *value)
{
	bool on = !strcmp(value, "on");

	if (!on && strcmp(value, "off"))
		return shell_error(shell, call,
				   "free-stacks: invalid value '%s': expected on or off", value);
	session_free_stacks(shell->session, on);
	return 0;
}

static void show_free_stacks(const struct shell *shell, FILE *out)
{
	fputs(session_options(shell->session)->agent.free_stacks ? "on" : "off", out);
}

static int set_errors(struct shell *shell, struct call *call, const char *value)
{
	enum error_action action;

	if (options_errors(value, &action))
		return shell_error(shell, call,
				   "errors: invalid value '%s': expected " ERRORS_ACCEPTED, value);
	session_errors(shell->session, action);
	return 0;
}

static void show_errors(const struct shell *shell, FILE *out)
{
	escape_printf(out, "%s", error_action_names[session_errors_now(shell->session)]);
}

static const struct {
	const char *name, *help, *values; /* values: some that it may have */
	int (*set)(struct shell *shell, struct call *call, const char *value);
	void (*show)(const struct shell *shell, FILE *out);
} settings[] = {
	{ "rows", "how many rows text lists show, or all", "all", set_rows, show_rows },
	{ "site-skip", "functions that the search for a site passes over, too ('': none)", "",
	  set_site_skip, show_site_skip },
	{ "site-wrappers", "whether it passes over well-known wrappers (`help sites` lists them)",
	  "on off", set_site_wrappers, show_site_wrappers },
	{ "free-stacks", "whether `trace` can say which call freed a block", "on off",
	  set_free_stacks, show_free_stacks },
	{ "errors", "what happens at a double free and the like: report, stop or off",
	  "report stop off", set_errors, show_errors },
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))

const char *setting_name(size_t i) { return i < SETTINGS ? settings[i].name : NULL; }

const char *setting_values(const char *name)
{
	size_t i = 0;

	while (i < SETTINGS && strcmp(settings[i].name, name))
		i++;
	return i < SETTINGS ? settings[i].values : "";
}

#define VALUE_WIDTH 7 /* of most values */

static int show(const struct shell *shell, struct call *call, size_t i)
{
	char *value = NULL;
	size_t len;
	FILE *text = open_memstream(&value, &len);

	if (!text)
		return shell_error(shell, call, "out of memory");
	settings[i].show(shell, text);
	fclose(text);
	escape_printf(call->out, "%-13s %-*s # %s\n", settings[i].name, VALUE_WIDTH, value,
		      settings[i].help);
	free(value);
	return 0;
}

static int set(struct shell *shell, struct call *call)
{
	size_t i;

	if (call->argc == 1) {
		for (i = 0; i < SETTINGS; i++)
			show(shell, call, i);
		return 0;
	}
	for (i = 0; i < SETTINGS && strcmp(settings[i].name, call->argv[1]); i++)
		;
	if (i == SETTINGS)
		return shell_error(shell, call, "there is no setting '%s' (`set` lists all)",
				   call->argv[1]);
	if (call->argc == 2)
		return show(shell, call, i);
	if (call->argc > 3)
		return shell_error(shell, call,
				   "unexpected argument '%s' (quote a value that has blanks in it)",
				   call->argv[3]);
	return settings[i].set(shell, call, call->argv[2]);
}

const struct command cmd_set = {
	.name = "set",
	.group = GROUP_RECORD,
	.usage = "[NAME [VALUE]]",
	.summary = "change a setting; alone: list all with their values",
	.example = "set site-skip ^pool_",
	.help = "Callers of well-known wrappers such as xmalloc are sites, not the wrappers (`help sites`); `set site-wrappers off` has it otherwise.\n"
		"`set site-skip 'my_alloc|Pool_'` makes the callers of others the sites. The expression is POSIX extended and is looked for anywhere\n"
		"in a function's name.\n"
		"`set free-stacks on`: from now on a stack is taken at each free, too, which costs as much as at each allocation. `trace` then tells\n"
		"who freed a block and who had allocated it. `off` keeps what was gathered.\n"
		"`set errors stop`: as --errors; errors of before are not looked for again.",
	.run = set,
};
