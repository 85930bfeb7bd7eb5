/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "reporting.h"

#include <string.h>
#include <sys/wait.h>

#include "../supervisor/units.h"
#include "../supervisor/view.h"

/* Shared by report, text, tree and blocks, so that the same option means and accepts the same everywhere. */
int reporting_rows(const struct shell *shell, struct call *call, const char *value, size_t *rows)
{
	uint64_t n;

	if (!strcmp(value, "all")) {
		*rows = VIEW_ALL;
		return 0;
	}
	if (number_parse(value, &n))
		return shell_error(shell, call, "-n: '%s' is not accepted: a number of rows, or all", value);
	*rows = (size_t)n;
	return 0;
}

int reporting_regex(const struct shell *shell, struct call *call, const char *option, const char *value, regex_t *regex)
{
	int err = regcomp(regex, value, REG_EXTENDED | REG_NOSUB);
	char why[128];

	if (!err)
		return 0;
	regerror(err, regex, why, sizeof(why));
	return shell_error(shell, call, "--%s: '%s' is no POSIX extended regular expression: %s", option, value, why);
}

int reporting_live(struct shell *shell, struct call *call, struct profile *profile, struct sites **sites)
{
	struct process *p = shell_process(shell);
	struct profile_ask ask = { .now_ms = shell_moment(shell, p), .counted = session_options(shell->session)->count };

	*sites = shell_sites(shell, p);
	if (!*sites)
		return -1;
	return profile_from_ledger(profile, p->ledger, &ask) ? shell_error(shell, call, "out of memory") : 0;
}

const char *reporting_end(int wait_status, char *text, size_t len)
{
	if (WIFSIGNALED(wait_status))
		snprintf(text, len, "killed by SIG%s", sigabbrev_np(WTERMSIG(wait_status)) ? sigabbrev_np(WTERMSIG(wait_status)) : "?");
	else
		snprintf(text, len, "exited with status %d", WEXITSTATUS(wait_status));
	return text;
}

int reporting_exit_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
