// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>

#include "export/export.h"
#include "process/profile_make.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/exporting.h"
#include "shell/common/reporting.h"
#include "shell/serve/server.h"

/*
 * The page of `export html`, as of now, which goes on: it listens to the /events of its process.
 */
static int write_page(struct answer *a, struct exporting *x, struct profile *profile,
		      struct sites *sites)
{
	struct view_options options = { .key = VIEW_STACK, .sort = SORT_SIZE, .limit = VIEW_ALL };
	const char *pid = answer_parameter(a, "pid");
	struct view view;
	char events[64];
	int err = view_make(&view, profile, sites, &options);

	if (err)
		return err;
	x->export.view = &view;
	x->export.sites = sites;
	x->export.moment = "now";
	snprintf(events, sizeof(events), "events%s%s", pid ? "?pid=" : "", pid ? pid : "");
	x->export.events = shell_subject(&a->s->shell)->source->one_moment ? NULL : events;
	err = export_html(a->out, &x->export);
	view_release(&view);
	return err;
}

static void page(struct answer *a)
{
	static const struct moment now;
	struct shell *shell = &a->s->shell;
	struct profile profile;
	struct exporting x;
	struct sites *sites;
	int err;

	shell->said[0] = '\0';
	if (reporting_profile(shell, NULL, &now, NULL, PROFILE_DEAD, 0, NULL, &profile, &sites) ||
	    reporting_lookup(shell, &profile, sites, true)) {
		answer_refuse(a, 500, "%s", *shell->said ? shell->said : "no answer");
		return;
	}
	err = exporting_init(&x, shell, shell_subject(shell));
	if (!err) {
		x.export.lifetimes = NULL; /* nobody waits so long for a page */
		asking_unlock(shell->session);
		err = write_page(a, &x, &profile, sites);
		asking_lock(shell->session);
		exporting_release(&x);
	}
	profile_release(&profile);
	if (err)
		answer_refuse(a, 500, "out of memory");
}

void answer_page(struct answer *a)
{
	struct shell *shell = &a->s->shell;

	a->type = "text/html; charset=utf-8";
	asking_lock(shell->session);
	shell->about = answer_process(a);
	if (shell->about)
		page(a);
	shell_leave_subject(shell);
	asking_unlock(shell->session);
}
