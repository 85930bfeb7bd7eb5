// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/leak_checking.h"

#include <errno.h>
#include <string.h>

#include "base/escape.h"
#include "base/message.h"
#include "report/sites.h"
#include "session/asking.h"
#include "shell/common/leaking.h"
#include "shell/common/shell.h"
#include "shell/common/suppressing.h"

/*
 * Found by looking at every process after each turn, as what is due to be dumped is. While one is
 * checked the loop turns, and others may come to their end: they are found afterwards.
 */
#define SHOWN (1u << LEAK_DEFINITE | 1u << LEAK_POSSIBLE) /* as memcheck does */

static void print(struct shell *shell, const struct process *p, struct sites *sites,
		  struct leak_report *r)
{
	bool full = session_options(shell->session)->leak_check == LEAK_CHECK_FULL;

	leaking_choose(r, full ? SHOWN : 0);
	asking_unlock(shell->session);
	escape_printf(message_own(), "mtrun: leaks of %s (%d) at its end:\n",
		      p->command ? p->command : "?", (int)p->pid);
	print_leaks(message_own(), r, shell->settings.rows, sites, NULL);
	message_flush();
	asking_lock(shell->session);
}

/* 0, or -errno with WHY in one line, which is empty if the user has had enough. */
static int check(struct shell *shell, struct process *p, char *why, size_t len)
{
	const char *refused = leaking_refused(shell, p);
	struct sites *sites = shell_own_sites(shell, p);
	struct leak_report r = { 0 };
	struct leaking l;
	int err = refused ? -EINVAL : sites ? 0 : -ENOMEM;

	if (err)
		snprintf(why, len, "%s", refused ? refused : strerror(-err));
	else
		err = leaking_make(shell, p, &l, why, len);
	if (!err) {
		err = leaking_report(&l, false, &r);
		leaking_release(&l);
		if (!err)
			err = suppressing_apply(shell, p, sites, &r);
		if (err)
			snprintf(why, len, "%s", err == -EINTR ? "" : strerror(-err));
	}
	if (!err) {
		r.at_end = true;
		shell->leaked_definitely |= r.sum[LEAK_DEFINITE].blocks > 0;
		print(shell, p, sites, &r);
	}
	leaking_report_release(&r);
	sites_free(sites);
	return err;
}

/* What ends us does not end this; Ctrl-C meanwhile does. */
static void check_one(struct shell *shell, struct process *p)
{
	bool interrupted = shell->interrupted;
	char why[300] = "";

	process_ref(p);
	shell->interrupted = false;
	if (check(shell, p, why, sizeof(why))) {
		message_error("%s (%d) was not checked for leaks: %s",
			      p->command ? p->command : "?", (int)p->pid,
			      *why ? why : "interrupted");
		shell->failed++;
	}
	shell->interrupted |= interrupted;
	session_checked(shell->session, p);
	process_unref(p);
}

void leak_checking_turn(struct shell *shell, bool end)
{
	struct process *p = session_processes(shell->session);

	if (shell->leak_checking)
		return;
	shell->leak_checking = true;
	while (p)
		if (p->to_check && (end || shell->screen || !session_holds(shell->session, p))) {
			check_one(shell, p);
			/* the list may be another one now */
			p = session_processes(shell->session);
		} else {
			p = p->next;
		}
	shell->leak_checking = false;
}

/*
 * Those that are at their last instant are checked now. That another one was not is a failure,
 * unless it is a signal that lets it go: who sends one knows.
 */
void leak_checking_let_go(struct shell *shell)
{
	struct process *p;

	if (!session_options(shell->session)->leak_check)
		return;
	leak_checking_turn(shell, true);
	for (p = session_processes(shell->session); p; p = p->next) {
		if (p->state > PROCESS_STOPPED || !p->ledger_used || p->unsupervised)
			continue;
		message_error("%s (%d) was not checked for leaks: it was let go before its end",
			      p->command ? p->command : "?", (int)p->pid);
		shell->failed += !shell->leave;
	}
}
