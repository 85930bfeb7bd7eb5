// SPDX-License-Identifier: GPL-3.0-or-later

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "shell/common/answer_stream.h"
#include "shell/common/asked_snapshots.h"
#include "shell/common/command.h"
#include "shell/common/comparing.h"
#include "shell/common/dumping.h"
#include "shell/common/erring.h"
#include "shell/common/events.h"
#include "shell/common/functions.h"
#include "shell/common/leak_checking.h"
#include "shell/common/leaking.h"
#include "shell/common/limiting.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "shell/common/unseen.h"
#include "shell/prompt/alias.h"
#include "shell/prompt/grammar.h"
#include "shell/prompt/interactive.h"
#include "shell/prompt/interval_lines.h"
#include "shell/prompt/screen.h"
#include "shell/serve/serve.h"

/*
 * The life of a shell, and of the shells of other askers (struct serve): how one begins and ends,
 * what it does after each turn of the session's loop, how it waits, and the process that is asked
 * about. Whatever it waits for, input, a `wait` or a shell command, the loop turns meanwhile.
 */

#define AWAIT_MS 100  /* of a turn while it waits */
#define YOUNG_MS 1000 /* a shell command that began less than that ago may lose a signal */
/* a batch run keeps the program's last instant no longer than this */
#define HOLD_MS 60000

/* ---- life ---------------------------------------------------------------- */

void shell_init(struct shell *shell, struct session *session, struct suppressions *suppressions)
{
	uint64_t interval = session_options(session)->interval_ms, now = session_ms(session);
	int err;

	*shell = (struct shell){ .session = session,
				 .suppressions = suppressions,
				 .settings = { .rows = 20, .site_skip = strdup("") } };
	snapshots_for_program(shell);
	err = interval_set(shell, interval ? interval - now % interval : 0, interval);
	if (err)
		message_error("--interval: no timer: %s", strerror(-err));
	limiting_init(shell);
	dumping_init(shell);
}

void shell_forget(struct shell *shell)
{
	shell_leave_subject(shell);
	shell_forget_sites(shell);
	comparing_release(shell);
	leaking_forget(shell);
	functions_free(shell->functions);
	shell->functions = NULL;
}

int shell_asker_init(struct shell *shell, struct session *session)
{
	*shell = (struct shell){ .session = session,
				 .settings = { .rows = 20, .site_skip = strdup("") },
				 .said = calloc(1, SHELL_SAID) };
	if (shell->settings.site_skip && shell->said)
		return 0;
	free(shell->settings.site_skip);
	free(shell->said);
	return -ENOMEM;
}

void shell_asker_takes(struct shell *shell, const struct shell *from)
{
	char *site_skip = strdup(from->settings.site_skip);

	shell->settings.rows = from->settings.rows;
	shell->settings.stay_in_wrappers = from->settings.stay_in_wrappers;
	if (!site_skip)
		return;
	free(shell->settings.site_skip);
	shell->settings.site_skip = site_skip;
}

void shell_asker_release(struct shell *shell)
{
	shell_forget(shell);
	free(shell->settings.site_skip);
	free(shell->said);
	*shell = (struct shell){ 0 };
}

void shell_release(struct shell *shell)
{
	serve_stop(shell->serve);
	interval_release(shell);
	dumping_release(shell);
	shell_forget(shell);
	events_free(shell->events);
	free(shell->settings.site_skip);
	*shell = (struct shell){ 0 };
}

int shell_turn(struct shell *shell, int ms)
{
	uint64_t now = session_ms(shell->session),
		 enough = session_options(shell->session)->duration_ms;
	int err;

	if (enough && !shell->traced_enough && now < enough &&
	    (ms < 0 || (uint64_t)ms > enough - now))
		ms = (int)(enough - now < 60000 ? enough - now : 60000);
	if (shell->events)
		ms = events_due(shell, ms);
	answer_flush(shell); /* what was said in the last turn, before it waits */
	err = session_turn(shell->session, ms);
	if (message_deferred())
		answer_flush(shell);
	if (shell->suspended)
		interactive_suspend(shell);
	now = session_ms(shell->session);
	if (((enough && now >= enough) || (shell->leave && !shell->screen)) &&
	    !shell->traced_enough && !session_ended(shell->session)) {
		shell->traced_enough = true;
		session_settle(shell->session);
		leak_checking_let_go(shell);
		session_detach(shell->session);
	}
	if (!shell->ended && session_ended(shell->session)) {
		shell->ended = true;
		shell->ended_ms = now;
	}
	if (shell->ended && now > shell->ended_ms + HOLD_MS && !shell->screen)
		session_hold(shell->session, false);
	dumping_turn(shell);
	leak_checking_turn(shell, false);
	unseen_turn(shell);
	if (shell->events)
		events_turn(shell);
	else {
		limiting_turn(shell, NULL);
		erring_turn(shell, NULL);
	}
	return err;
}

/*
 * A /bin/sh that is just being started can lose a signal: dash keeps one that comes while it forks
 * for later, and then executes another program. So Ctrl-C in its first moments is repeated as long
 * as it is still there, after longer and longer pauses: a busy machine may give it no turn for some
 * hundred milliseconds.
 */
struct repeat {
	uint64_t when, pause; /* ms; 0: no Ctrl-C yet; a pause of 0 then: no more */
};

static void repeat_interrupt(const struct shell *shell, struct repeat *r)
{
	uint64_t now = session_ms(shell->session);

	if (!r->when) {
		r->pause = now - shell->spawned_ms < YOUNG_MS ? AWAIT_MS : 0;
		r->when = now + r->pause;
	}
	if (!r->pause || now < r->when)
		return;
	kill(0, SIGINT);
	r->pause = r->pause < YOUNG_MS ? r->pause * 2 : 0;
	r->when = now + r->pause;
}

int shell_await(struct shell *shell, int fd, enum await_end end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct repeat repeat = { 0 };
	int err = 0;

	if (session_watch(shell->session, fd, POLLIN, NULL, NULL) < 0)
		return -ENOSPC;
	while (!err && poll(&p, 1, 0) == 0) {
		if (end == AWAIT_LEAVE && shell->screen && shell_interrupted(shell))
			repeat_interrupt(shell, &repeat);
		err = (end >= AWAIT_LEAVE && shell->leave) ||
				      (end == AWAIT_INTERRUPT && shell_interrupted(shell))
			      ? -EINTR
			      : shell_turn(shell, AWAIT_MS);
	}
	session_watch(shell->session, fd, 0, NULL, NULL);
	return err;
}

int shell_spawn(struct shell *shell, struct spawned *child, const char *command, int out,
		enum spawn_input input)
{
	int err;

	shell_flush(shell);
	err = spawn_shell(child, command, out, input);
	shell->spawned_ms = session_ms(shell->session);
	shell->spawned = err ? 0 : child->pid;
	if (!err && shell_interrupted(shell))
		kill(child->pid, SIGINT);
	return err;
}

/* timeout(1) and others send a signal to a process, and then to its group, which it is in */
#define AGAIN_MS 1000

void shell_told_to_leave(struct shell *shell, bool by_user)
{
	uint64_t now = clock_ms();

	if (!shell->leave)
		shell->left_ms = now;
	else if (!by_user || now - shell->left_ms < AGAIN_MS)
		return;
	shell->leave = shell->interrupted = true;
}

bool shell_interrupted(const struct shell *shell)
{
	sigset_t set;

	return shell->interrupted ||
	       (shell->screen && sigpending(&set) == 0 && sigismember(&set, SIGINT) == 1);
}

void shell_flush(struct shell *shell)
{
	answer_flush(shell);
	if (shell->screen)
		screen_flush(shell->screen);
}

struct process *shell_process(struct shell *shell)
{
	session_settle(shell->session);
	if (!shell->about)
		shell->about = process_ref(session_main(shell->session));
	return shell->about;
}

struct process *shell_subject(const struct shell *shell)
{
	return shell->about ? shell->about : session_main(shell->session);
}

void shell_leave_subject(struct shell *shell)
{
	process_unref(shell->about);
	shell->about = NULL;
}

const struct preattach_heap *shell_preattach(struct shell *shell)
{
	const struct process *p = shell_subject(shell);

	return p->preattach.state == PREATTACH_NONE ? NULL : &p->preattach;
}

void shell_let_go(struct shell *shell)
{
	session_settle(shell->session);
	session_hold(shell->session, false);
	leak_checking_let_go(shell);
	session_detach(shell->session);
	shell->detached = true;
	dumping_turn(shell);
}

struct process *shell_alive(struct shell *shell, const struct call *call)
{
	struct process *p = shell_process(shell);

	if (p->state == PROCESS_RUNNING || p->state == PROCESS_STOPPED)
		return p;
	shell_over(shell, call, p);
	return NULL;
}

int shell_over(const struct shell *shell, const struct call *call, const struct process *p)
{
	return shell_error(shell, call,
			   p->state == PROCESS_DETACHED ? "process %d is detached"
							: "process %d has ended",
			   (int)p->pid);
}

/* A program that was launched can be run again. */
bool shell_can_set(struct shell *shell, const struct call *call)
{
	if (!session_options(shell->session)->npids || !session_all_gone(shell->session))
		return true;
	shell_over(shell, call, session_main(shell->session));
	return false;
}

uint64_t shell_elapsed(const struct shell *shell, const struct process *p)
{
	return p->ended_ms ? p->ended_ms : session_ms(shell->session);
}

uint64_t shell_moment(const struct shell *shell, const struct process *p)
{
	return p->off ? p->off_ms : shell_elapsed(shell, p);
}
