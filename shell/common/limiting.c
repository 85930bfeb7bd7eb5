// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/limiting.h"

#include <stdlib.h>

#include "base/message.h"
#include "shell/common/dumping.h"
#include "shell/common/limit_text.h"
#include "shell/common/shell.h"

/*
 * The session calls on_hit() with the process frozen, within a turn of its loop, where no command
 * may run; and on_whole() by an asker of its own, while the process stays frozen. So `kill` is
 * `stop` as long as `on limit` has commands: the shell runs them when the hit is told, with
 * everything still to be seen, and then it is killed. Where they let it go on with nothing changed
 * it meets the limit again with the same request: in batch that would go on for ever, so they are
 * not run a second time.
 */

/* A process that stays stopped at the limit, NULL: none. */
static struct process *frozen(const struct shell *shell)
{
	for (struct process *p = session_processes(shell->session); p; p = p->next) {
		p->limit.frozen &= p->state == PROCESS_STOPPED;
		if (p->limit.frozen)
			return p;
	}
	return NULL;
}

/* What happens now. */
static void tell(struct shell *shell, const struct limit_hit *hit, enum limit_action action,
		 bool again)
{
	const struct process *p = hit->process;
	const char *name = p->command ? p->command : "?",
		   *when = shell->limiting.kill ? ", when the commands of `on limit` have run" : "";
	size_t others = 0;

	for (const struct process *other = session_processes(shell->session); other;
	     other = other->next)
		others += other != p && other->state <= PROCESS_STOPPED;
	if (action == LIMIT_KILL && others)
		message_say("%s (%d) is killed at its limit, and %zu other process%s%s", name,
			    (int)p->pid, others, others == 1 ? "" : "es", when);
	else if (action == LIMIT_KILL)
		message_say("%s (%d) is killed at its limit%s", name, (int)p->pid, when);
	else if (action == LIMIT_STOP && shell->screen)
		message_say(
			"%s (%d) is stopped at its limit, the request waits: `limit SIZE` and `cont` let it go on, `kill` ends it",
			name, (int)p->pid);
	else if (action == LIMIT_STOP && again)
		message_say("%s (%d) is killed: it met its limit again with the same request", name,
			    (int)p->pid);
	else if (action == LIMIT_STOP)
		message_say(
			"%s (%d) is stopped at its limit, the request waits; it is killed unless the commands let it go on (`limit SIZE; cont`)",
			name, (int)p->pid);
	else if (hit->image)
		message_say("%s (%d) starts nevertheless: %s", name, (int)p->pid,
			    action == LIMIT_FAIL ? "every request of it is refused"
						 : "every request of it is granted");
	else if (action == LIMIT_FAIL)
		message_say(
			"the request fails; %s (%d) goes on, and what is refused from now on is counted (`limit` lists it)",
			name, (int)p->pid);
	else
		message_say("the request is granted: %s (%d) goes on", name, (int)p->pid);
}

/* The text has said what held it; the file says all. */
static void dump(struct shell *shell, struct shell *teller, const struct limit_hit *hit)
{
	struct dumped d;
	int err;

	if (!session_options(shell->session)->output)
		return;
	err = dumping_limit(shell, teller, hit, &d);
	if (err)
		dumping_failed(shell, &d, err);
	else
		message_say("all of it is in '%s'", d.file);
	free(d.file);
}

static bool same(const struct limit_hit *a, const struct limit_hit *b)
{
	return a->tid == b->tid && a->request == b->request && a->stack == b->stack &&
	       a->allocated == b->allocated && a->limit == b->limit;
}

/* `wait limit` and `on limit` hear of it, when what is said of it is out. */
static void count(struct shell *shell, const struct limit_hit *hit, bool again)
{
	shell->limiting.hits += !again;
	hit->process->limit.due = !again;
	message_flush();
}

static bool on_hit(void *ctx, const struct limit_hit *hit)
{
	struct shell *shell = ctx;
	struct limiting *l = &shell->limiting;
	struct limit *limit = &hit->process->limit;
	enum limit_action action = session_limit_action_now(shell->session);
	bool stays = action == LIMIT_KILL || action == LIMIT_STOP,
	     again = stays && same(&limit->last, hit);
	bool whole = (stays || !limit->told) && !again;

	limit->frozen = stays;
	if (l->kill) /* by the time its turn comes it will have been killed */
		return false;
	limit->told = true;
	limit->last = *hit;
	if (action == LIMIT_KILL && l->commands) {
		l->kill = true;
		session_limit_action(shell->session, LIMIT_STOP);
	}
	l->action = action;
	if (whole)
		return true;
	if (stays || action == LIMIT_REPORT)
		limit_line(message_own(), hit);
	if (stays)
		tell(shell, hit, action, again);
	count(shell, hit, again);
	return false;
}

/* In a thread of its own: the shell may be at work, with its own process and symbols. */
static void on_whole(void *ctx, const struct limit_hit *hit)
{
	struct shell *shell = ctx, teller;
	enum limit_action action = shell->limiting.action;

	limit_line(message_own(), hit);
	if (shell_asker_init(&teller, shell->session) == 0) {
		shell_asker_takes(&teller, shell);
		limit_text(&teller, message_own(), hit);
		dump(shell, &teller, hit);
		shell_asker_release(&teller);
	}
	tell(shell, hit, action, false);
	count(shell, hit, false);
}

void limiting_init(struct shell *shell)
{
	session_on_limit(shell->session,
			 &(struct limit_listener){ .hit = on_hit, .tell = on_whole, .ctx = shell });
}

void limiting_turn(struct shell *shell, const char *text)
{
	struct limiting *l = &shell->limiting;
	struct process *p = session_processes(shell->session);

	while (p && !p->limit.due)
		p = p->next;
	if (!p)
		return;
	p->limit.due = false;
	if (p->limit.frozen || text)
		shell_run_of(shell, p, p->limit.frozen, text);
	if (!l->kill)
		return;
	l->kill = false;
	session_limit_action(shell->session, LIMIT_KILL);
	if (frozen(shell))
		session_limit_kill(shell->session);
}

void limiting_give_up(struct shell *shell)
{
	const struct process *p = frozen(shell);

	if (p && !p->limit.due && !shell->screen && !session_is_telling(shell->session, NULL))
		session_limit_kill(shell->session);
}
