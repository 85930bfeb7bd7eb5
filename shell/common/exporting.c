// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/exporting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/proc.h"
#include "ledger/timeline.h"
#include "log/replay.h"
#include "process/profile_make.h"
#include "session/asking.h"
#include "shell/common/shell.h"

/*
 * The writers of formats know no session: what they may say about the process is copied here,
 * before the answer begins. Only what was live at earlier moments is asked for as they come to it.
 */
static bool is_there(const struct shell *shell, const struct process *p)
{
	/* else the pid may be another's by now */
	return !session_log(shell->session) &&
	       (p->state == PROCESS_RUNNING || p->state == PROCESS_STOPPED ||
		p->state == PROCESS_HELD);
}

static unsigned others(const struct shell *shell, const struct process *p)
{
	unsigned n = 0;

	for (const struct process *o = session_processes(shell->session); o; o = o->next)
		n += o != p && o->state != PROCESS_REPLACED;
	return n;
}

static char *arguments(const struct shell *shell, const struct process *p)
{
	const struct replay *log = session_log(shell->session);
	const char *told = log && p->pid == session_processes(shell->session)->pid
				   ? replay_run(log)->command_line
				   : NULL;
	/* a log has no others' */
	bool own = is_there(shell, p) || p->attached || p == session_processes(shell->session);
	const char *text = p->exe ? p->exe : p->command ? p->command : "";

	if (told)
		text = told;
	else if (own && p->command_line)
		text = p->command_line;
	return strdup(text);
}

#define YIELD_POINTS 4096u

static int collect(struct exporting *x)
{
	struct export *e = &x->export;
	size_t room = 0;

	for (uint64_t at = e->began_ms, end = e->now_ms + 1; at < end;) {
		struct ledger_interval i;

		if (array_room(&x->point, e->points, &room, sizeof(*x->point)))
			return -ENOMEM;
		if (e->points % YIELD_POINTS == 0)
			session_yield(x->shell->session);
		ledger_interval(x->process->ledger, at, &i);
		i.to_ms = i.to_ms < end ? i.to_ms : end;
		x->point[e->points++] =
			(struct export_point){ at, i.to_ms, i.bytes,
					       i.ms > at && i.ms < i.to_ms ? i.ms : at };
		at = i.to_ms;
	}
	e->point = x->point;
	return 0;
}

static int ask(struct exporting *x, struct profile_ask *question, struct profile *out)
{
	struct session *s = x->shell->session;
	bool unlocked = asking_is_unlocked();
	int err;

	question->counted = session_options(s)->count;
	if (unlocked)
		asking_lock(s);
	err = session_profile(s, x->process, question, out);
	if (unlocked)
		asking_unlock(s);
	return err;
}

static int past(void *ctx, uint64_t ms, struct profile *out)
{
	return ask(ctx, &(struct profile_ask){ .detail = PROFILE_PAST, .at_ms = ms }, out);
}

static int parts(void *ctx, unsigned detail, struct profile *out)
{
	struct exporting *x = ctx;

	return ask(x,
		   &(struct profile_ask){ .detail = detail | PROFILE_NO_STACKS,
					  .now_ms = session_ms(x->shell->session) },
		   out);
}

static bool interrupted(void *ctx) { return shell_interrupted(((struct exporting *)ctx)->shell); }

static ssize_t lifetimes(void *ctx, struct log_lifetime **out)
{
	struct exporting *x = ctx;

	return replay_lifetimes(x->process->told, interrupted, x, out, &x->activity);
}

/* NULL: there is none, or no memory, which is as good. */
static char *copy_of(const char *text) { return text ? strdup(text) : NULL; }

int exporting_init(struct exporting *x, struct shell *shell, struct process *p)
{
	bool one_moment = p->source->one_moment;
	struct process_recorded r;
	struct ledger_totals totals;
	struct export *e = &x->export;

	ledger_totals(p->ledger, &totals);
	*x = (struct exporting){ .shell = shell,
				 .process = p,
				 .command = copy_of(p->command),
				 .exe = copy_of(p->exe),
				 .command_line = arguments(shell, p) };
	*e = (struct export){ .pid = p->pid,
			      .command = x->command,
			      .exe = x->exe,
			      .command_line = x->command_line,
			      .others = others(shell, p),
			      .modules = &x->modules,
			      .counted = session_options(shell->session)->count,
			      .sample = session_options(shell->session)->sampled,
			      .began = session_clock(shell->session),
			      .began_ms = p->recorded_ms,
			      .now_ms = shell_moment(shell, p),
			      .peak = totals.peak,
			      .peak_ms = totals.peak_ms,
			      .activity = &x->activity,
			      .marks = &x->marks,
			      .past = past,
			      .parts = p->told ? NULL : parts,
			      .lifetimes = session_log(shell->session) ? lifetimes : NULL,
			      .thread_names = is_there(shell, p) ? p->via : 0,
			      .interrupted = interrupted,
			      .ctx = x };
	if (p->source->recorded) { /* of a run that is over */
		p->source->recorded(p, &r);
		e->began = r.clock_ms;
		e->peak = r.peak;
		e->peak_ms = r.peak_ms;
		e->sample = r.sample;
		e->counted = r.counted;
	}
	if (x->command_line && modules_copy(&x->modules, &p->modules) == 0 &&
	    marks_copy(&x->marks, &p->marks) == 0 && (one_moment || collect(x) == 0) &&
	    (p->told || ledger_activity(p->ledger, &x->activity) == 0))
		return 0;
	exporting_release(x);
	return -ENOMEM;
}

void exporting_release(struct exporting *x)
{
	free(x->command);
	free(x->exe);
	free(x->command_line);
	free(x->point);
	modules_release(&x->modules);
	marks_release(&x->marks);
	activity_release(&x->activity);
	*x = (struct exporting){ 0 };
}
