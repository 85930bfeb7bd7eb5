// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/selection.h"
#include "session/asking.h"

#include <string.h>

#include "process/profile.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/*
 * What `report` and `diff` do alike, so that an option means and accepts the same in both; they
 * differ in which moments they take and how they print.
 */

int selection_choice(const struct shell *shell, struct call *call, const char *option,
		     const char *value, const char *const *names, int n)
{
	char all[128] = "";

	for (int i = 0; i < n; i++)
		if (!strcmp(value, names[i]))
			return i;
	for (int i = 0; i < n; i++) {
		strcat(all, i ? i == n - 1 ? " or " : ", " : "");
		strcat(all, names[i]);
	}
	return shell_error(shell, call, "--%s: invalid value '%s': expected %s", option, value,
			   all);
}

int selection_option(struct shell *shell, struct call *call, struct selection *s, int arg,
		     const char *value, int keys)
{
	int n;

	switch (arg) {
	case SELECT_ROWS:
		s->has_rows = true;
		return reporting_rows(shell, call, "-n", value, &s->view.limit);
	case SELECT_BY:
		n = selection_choice(shell, call, "by", value, view_key_names, keys);
		s->view.key = (enum view_key)n;
		s->by = true;
		return n < 0 ? -1 : 0;
	case SELECT_STACKS: s->stacks = true; return 0;
	default:
		if (s->has_regex)
			regfree(&s->regex);
		s->has_regex = !reporting_regex(shell, call, "match", value, &s->regex);
		return s->has_regex ? 0 : -1;
	}
}

int selection_agree(const struct shell *shell, struct call *call, struct selection *s)
{
	if (s->stacks && !s->by)
		s->view.key = VIEW_STACK;
	if (s->stacks && s->view.key != VIEW_STACK && s->view.key != VIEW_SITE)
		return shell_error(shell, call, "--stacks goes with --by stack and --by site only");
	if (!s->has_rows)
		s->view.limit = call->json ? VIEW_ALL : shell->settings.rows;
	s->view.match = s->has_regex ? &s->regex : NULL;
	return 0;
}

int selection_view(struct shell *shell, struct call *call, struct selection *s,
		   const struct moment *m, const struct moment *since, unsigned detail,
		   uint64_t min_age, struct view *view, struct sites **sites)
{
	bool whole = s->view.key != VIEW_SITE || s->has_regex ||
		     (s->stacks && s->view.limit == VIEW_ALL);
	struct profile profile;
	int err;

	if ((s->view.key == VIEW_THREAD || s->view.key == VIEW_SIZE) && !s->has_regex)
		detail |= PROFILE_NO_STACKS;
	if (reporting_profile(shell, call, m, since, detail, min_age, s->usable, &profile, sites))
		return -1;
	if (since && !(detail & PROFILE_DEAD))
		profile_drop_unchanged(&profile);
	if (!(detail & PROFILE_NO_STACKS) && reporting_lookup(shell, &profile, *sites, whole))
		return -1;
	asking_unlock(shell->session);
	err = view_make(view, &profile, *sites, &s->view);
	asking_lock(shell->session);
	profile_release(&profile);
	return err ? shell_failed(shell, call, err) : 0;
}

void selection_release(struct selection *s)
{
	if (s->has_regex)
		regfree(&s->regex);
}
