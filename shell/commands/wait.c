// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "base/units.h"
#include "session/ended.h"
#include "shell/common/command.h"
#include "shell/common/erring.h"
#include "shell/common/events.h"
#include "shell/common/limiting.h"
#include "shell/common/shell.h"

/*
 * `wait`: a script goes on when something has happened. The session's loop turns meanwhile; a
 * condition is looked at after each turn, so at least every few milliseconds while the program is
 * busy.
 */
#define TURN_MS 5

enum what { WAIT_TIME, WAIT_EXIT, WAIT_LIMIT, WAIT_ERROR, WAIT_CONDITION };
enum relation { ABOVE, AT_LEAST, BELOW, AT_MOST, EQUAL, UNEQUAL };

struct condition {
	enum what what;
	uint64_t ms;
	int quantity;
	enum relation relation;
	uint64_t value;
	bool has_timeout;
	uint64_t timeout;
};

enum quantity {
	Q_ALLOCATED,
	Q_HEAP,
	Q_MMAP,
	Q_PEAK,
	Q_LIVE_BLOCKS,
	Q_ALLOCS,
	Q_FREES,
	Q_MAPS,
	Q_UNMAPS,
	Q_TOTAL_ALLOCATED,
	Q_RSS,
	Q_THREADS,
	Q_PROCESSES,
	Q_EVENTS,
	QUANTITIES
};
static const struct {
	const char *name;
	bool bytes;
} quantities[QUANTITIES] = {
	[Q_ALLOCATED] = { "allocated", true },
	[Q_HEAP] = { "heap", true },
	[Q_MMAP] = { "mmap", true },
	[Q_PEAK] = { "peak", true },
	[Q_LIVE_BLOCKS] = { "live_blocks", false },
	[Q_ALLOCS] = { "allocs", false },
	[Q_FREES] = { "frees", false },
	[Q_MAPS] = { "maps", false },
	[Q_UNMAPS] = { "unmaps", false },
	[Q_TOTAL_ALLOCATED] = { "total_allocated", true },
	[Q_RSS] = { "rss", true },
	[Q_THREADS] = { "threads", false },
	[Q_PROCESSES] = { "processes", false },
	[Q_EVENTS] = { "events", false },
};
const char *wait_quantity(size_t i) { return i < QUANTITIES ? quantities[i].name : NULL; }

static const char *const relations[] = { ">", ">=", "<", "<=", "==", "!=" };

#define ACCEPTED \
	"TIME, exit, limit, error, or a condition such as `heap > 50M` or `allocs >= 1000`; then optionally timeout TIME"

static uint64_t quantity(struct shell *shell, int which)
{
	const struct process *p = session_main(shell->session);
	struct stream_stats stats = p->last_stats;
	struct ledger_totals t;
	uint64_t n = 0;
	int64_t kb;

	ledger_totals(p->ledger, &t);
	switch (which) {
	case Q_ALLOCATED: return process_allocated(p, session_options(shell->session)->count);
	case Q_HEAP: return t.heap;
	case Q_MMAP: return t.mmap;
	case Q_PEAK: return t.peak;
	case Q_LIVE_BLOCKS: return t.live_blocks;
	case Q_ALLOCS: return t.allocs;
	case Q_FREES: return t.frees;
	case Q_MAPS: return t.maps;
	case Q_UNMAPS: return t.unmaps;
	case Q_TOTAL_ALLOCATED: return t.total_allocated;
	case Q_RSS:
		kb = proc_status_field(p->via, "VmRSS");
		return kb > 0 ? (uint64_t)kb * 1024 : 0;
	case Q_THREADS: return p->threads;
	case Q_PROCESSES:
		for (p = session_processes(shell->session); p; p = p->next)
			n += p->state == PROCESS_RUNNING || p->state == PROCESS_STOPPED;
		return n;
	default:
		if (p->stream)
			stream_stats(p->stream, &stats);
		return stats.events;
	}
}

static bool holds(uint64_t a, enum relation relation, uint64_t b)
{
	switch (relation) {
	case ABOVE: return a > b;
	case AT_LEAST: return a >= b;
	case BELOW: return a < b;
	case AT_MOST: return a <= b;
	case EQUAL: return a == b;
	default: return a != b;
	}
}

/* NAME OP VALUE with or without blanks between. */
static int parse_expression(char *text, struct condition *c)
{
	size_t name = strcspn(text, " \t<>=!"), op;
	char *at = text + name + strspn(text + name, " \t");

	c->quantity = -1;
	for (int i = 0; i < QUANTITIES; i++)
		if (strlen(quantities[i].name) == name && !strncmp(text, quantities[i].name, name))
			c->quantity = i;
	op = strspn(at, "<>=!");
	for (c->relation = ABOVE; c->relation <= UNEQUAL; c->relation++)
		if (strlen(relations[c->relation]) == op &&
		    !strncmp(at, relations[c->relation], op))
			break;
	if (c->quantity < 0 || c->relation > UNEQUAL)
		return -EINVAL;
	at += op + strspn(at + op, " \t");
	return size_parse(at, &c->value);
}

static int parse(const struct shell *shell, struct call *call, struct condition *c)
{
	char *text = strdup(call->rest ? call->rest : ""), *timeout;
	size_t len;
	int err = 0;

	*c = (struct condition){ 0 };
	if (!text)
		return shell_error(shell, call, "out of memory");
	timeout = strstr(text, "timeout");
	if (timeout && timeout > text && strchr(" \t", timeout[-1]) && strchr(" \t", timeout[7])) {
		const char *value = timeout + 7 + strspn(timeout + 7, " \t");

		if (time_parse(value, &c->timeout))
			err = shell_error(shell, call,
					  "timeout: invalid value '%s': expected " TIME_ACCEPTED,
					  value);
		c->has_timeout = true;
		*timeout = '\0';
	}
	for (len = strlen(text); len && strchr(" \t", text[len - 1]); len--)
		text[len - 1] = '\0';
	if (!err) {
		if (!strcmp(text, "exit"))
			c->what = WAIT_EXIT;
		else if (!strcmp(text, "limit"))
			c->what = WAIT_LIMIT;
		else if (!strcmp(text, "error"))
			c->what = WAIT_ERROR;
		else if (!time_parse(text, &c->ms))
			c->what = WAIT_TIME;
		else if (!parse_expression(text, c))
			c->what = WAIT_CONDITION;
		else
			err = shell_error(shell, call, "invalid value '%s': expected " ACCEPTED,
					  call->rest ? call->rest : "");
	}
	free(text);
	return err;
}

/* Nothing but waiting is left to do about what stays stopped. */
static void give_up(struct shell *shell)
{
	limiting_give_up(shell);
	erring_give_up(shell);
}

/*
 * By `stop` or -S, and nothing is there that could run `cont` meanwhile: C would be waited for
 * without end. What a limit or an error has stopped is give_up()'s, and a scan for leaks that
 * somebody else has asked for lets it go on.
 */
static bool is_stopped_for_good(struct shell *shell, const struct condition *c)
{
	const struct process *p = session_main(shell->session);

	return c->what != WAIT_TIME && !c->has_timeout && p->state == PROCESS_STOPPED && p->stays &&
	       !events_any(shell);
}

/* The program has ended, and no turn will bring what C waits for. */
static int at_end(struct shell *shell, const struct call *call, const struct condition *c)
{
	switch (c->what) {
	case WAIT_ERROR:
		return shell_error(shell, call, "the program ended without %s error",
				   shell->erring.errors ? "another" : "an");
	case WAIT_LIMIT:
		return shell_error(shell, call, "the program ended without meeting its limit%s",
				   shell->limiting.hits ? " again" : "");
	case WAIT_CONDITION:
		session_settle(shell->session);
		if (holds(quantity(shell, c->quantity), c->relation, c->value))
			return 0;
		return shell_error(shell, call, "the program ended and `%s` had not come true",
				   call->rest);
	default: return 0;
	}
}

static int wait(struct shell *shell, struct call *call)
{
	uint64_t begin = session_ms(shell->session), now;
	struct condition c;
	bool after_end;

	if (parse(shell, call, &c))
		return -1;
	if (c.what == WAIT_EXIT)
		session_hold(shell->session, true);
	session_settle(shell->session);
	after_end = session_ended(shell->session) && c.what == WAIT_TIME;
	for (;;) {
		int timeout = TURN_MS;

		now = session_ms(shell->session);
		if (c.what == WAIT_CONDITION &&
		    holds(quantity(shell, c.quantity), c.relation, c.value))
			return 0;
		if (c.what == WAIT_TIME && now - begin >= c.ms)
			return 0;
		if (c.what == WAIT_LIMIT && shell->limiting.hits > shell->limiting.waited) {
			shell->limiting.waited = shell->limiting.hits;
			return 0;
		}
		if (c.what == WAIT_ERROR && shell->erring.errors > shell->erring.waited) {
			shell->erring.waited = shell->erring.errors;
			return 0;
		}
		if (session_ended(shell->session) && !after_end)
			return at_end(shell, call, &c);
		if (c.has_timeout && now - begin >= c.timeout)
			return shell_error(shell, call, "timed out: `%s`", call->rest);
		if (c.what != WAIT_CONDITION) {
			timeout = 200;
			if (c.what == WAIT_TIME && c.ms - (now - begin) < (uint64_t)timeout)
				timeout = (int)(c.ms - (now - begin));
			if (c.has_timeout && c.timeout - (now - begin) < (uint64_t)timeout)
				timeout = (int)(c.timeout - (now - begin));
		}
		if (!events_running(shell) || c.what == WAIT_EXIT)
			give_up(shell);
		if (is_stopped_for_good(shell, &c))
			return shell_error(shell, call,
					   "the program is stopped, `cont` runs it: `%s`",
					   call->rest);
		if (shell_turn(shell, timeout))
			return shell_error(shell, call, "the program can no longer be followed");
		if (shell_interrupted(shell))
			return -1;
	}
}

const struct command cmd_wait = {
	.name = "wait",
	.group = GROUP_TIME,
	.usage = "TIME|exit|limit|error|EXPR [timeout TIME]",
	.summary = "for scripts: go on when it happens",
	.example = "wait heap > 50M timeout 1m; report",
	.help = "`wait 5s`, or to the program's end, if that comes first; `wait exit`: the program is at its last instant (kept there until\n"
		"the script ends), or tracing has ended; `wait limit`: a request has met the limit (one hit for each such wait; in batch what `stop` has stopped is killed at the next wait); `wait error`: something\n"
		"was freed wrongly (the same); `wait heap > 50M`,\n"
		"`wait allocs >= 1000`: one of allocated heap mmap peak live_blocks allocs frees maps unmaps total_allocated rss threads\n"
		"processes events, one of > >= < <= == !=, a number (SIZE).\n"
		"A condition that did not come true before the program's end or the timeout is an error, and so is waiting for a program that `stop` has stopped.",
	.flags = COMMAND_AS_IS | COMMAND_REST | COMMAND_LIVE,
	.run = wait,
};
