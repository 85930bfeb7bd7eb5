// SPDX-License-Identifier: GPL-3.0-or-later
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "base/units.h"
#include "report/print.h"
#include "session/api_answer.h"
#include "session/asking.h"
#include "session/options.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/limit_text.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `limit`: the limit, what is left of it, and what was refused; or another one. */
struct request {
	const char *limit; /* NULL: only asked about */
	bool change_action, stacks, has_rows;
	enum limit_action action;
	size_t rows;
};

enum { ARG_ON, ARG_ROWS, ARG_STACKS };
static const struct argument table[] = { [ARG_ON] = { "on", 0, true },
					 [ARG_ROWS] = { "rows", 'n', true },
					 [ARG_STACKS] = { "stacks", 0, false },
					 ARGUMENTS_END };

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_ON:
		r->change_action = true;
		if (options_on_limit(value, &r->action))
			return shell_error(shell, call,
					   "--on: invalid value '%s': expected " ON_LIMIT_ACCEPTED,
					   value);
		return 0;
	case ARG_ROWS:
		r->has_rows = true;
		return reporting_rows(shell, call, "-n", value, &r->rows);
	case ARG_STACKS: r->stacks = true; return 0;
	default:
		if (r->limit)
			return arguments_unexpected(shell, call, value);
		r->limit = value;
		return 0;
	}
}

static int parse(struct shell *shell, struct call *call, struct request *r)
{
	if (arguments_each(shell, call, table, one, r))
		return -1;
	if ((r->limit || r->change_action) && (call->json || r->stacks || r->has_rows))
		return shell_error(
			shell, call,
			"--json, --stacks and -n are about what was refused: they cannot be combined with a new limit or --on");
	return 0;
}

/* ---- change -------------------------------------------------------------- */

static int change(struct shell *shell, struct call *call, const struct request *r)
{
	uint64_t limit = 0;
	int err;

	if (r->limit && strcmp(r->limit, "off") && options_limit(r->limit, &limit))
		return shell_error(shell, call,
				   "invalid value '%s': expected " LIMIT_ACCEPTED "; or off",
				   r->limit);
	if (!shell_can_set(shell, call))
		return -1;
	if (limit && session_options(shell->session)->agent.sample)
		return shell_error(shell, call,
				   "a limit needs every allocation: first `sample off`");
	if (limit && modes[session_options(shell->session)->mode].off)
		return shell_error(
			shell, call,
			"a limit needs every allocation, and nothing is recorded: first `record mem-fast`");
	if (r->change_action)
		session_limit_action(shell->session, r->action);
	for (struct process *p = session_processes(shell->session); p; p = p->next)
		p->limit.told = false; /* the first refusal under it is told again */
	err = r->limit ? session_limit(shell->session, limit) : 0;
	return err ? shell_error(shell, call, "it could not be set in all processes: %s",
				 strerror(-err))
		   : 0;
}

/* ---- show ---------------------------------------------------------------- */

static void print_json(const struct shell *shell, FILE *out, const struct process *p,
		       uint64_t allocated, const struct view *v, struct sites *sites)
{
	uint64_t limit = session_limit_now(shell->session);
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "pid", p->pid);
	json_uint(&j, "allocated", allocated);
	if (limit) {
		json_uint(&j, "limit", limit);
		json_uint(&j, "room", limit_room(limit, allocated));
	} else {
		json_null(&j, "limit");
		json_null(&j, "room");
	}
	json_string(&j, "action", limit_action_names[session_limit_action_now(shell->session)]);
	json_uint(&j, "hits", p->limit.hits);
	json_uint(&j, "refused", limit_refused_count(p));
	json_array(&j, "refusals");
	for (size_t i = 0; i <= v->count; i++) {
		const struct view_row *r = i < v->count ? &v->row[i] : &v->others;
		const struct symbol_frame *f = &r->frame;

		if (i == v->count && !v->others.merged)
			break;
		json_newline(&j);
		json_object(&j, NULL);
		json_int(&j, "count", r->count);
		json_int(&j, "bytes", r->size);
		json_string(&j, "function", r->merged ? "(others)" : f->function);
		json_string(&j, "file", f->file);
		if (f->line)
			json_uint(&j, "line", f->line);
		else
			json_null(&j, "line");
		json_string(&j, "module", f->module);
		if (!r->merged) {
			json_uint(&j, "stack_id", r->stack);
			print_stack_json(&j, "stack", sites, r->stack);
		}
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

static void print_text(const struct shell *shell, const struct call *call, const struct process *p,
		       uint64_t allocated, const struct view *v, struct sites *sites, bool stacks)
{
	uint64_t limit = session_limit_now(shell->session), refused = limit_refused_count(p);
	struct text_buffer size;
	FILE *out = call->out;

	if (limit)
		escape_printf(out, "limit      %" PRIu64 " byte%s%s; at a hit: %s\n", limit,
			      plural(limit), size_aside(&size, limit),
			      limit_action_names[session_limit_action_now(shell->session)]);
	else
		fputs("limit      none\n", out);
	escape_printf(out, "allocated  %" PRIu64 " byte%s%s", allocated, plural(allocated),
		      size_aside(&size, allocated));
	if (limit)
		escape_printf(out, ", room for %" PRIu64 "%s", limit_room(limit, allocated),
			      size_aside(&size, limit_room(limit, allocated)));
	escape_printf(out, "\nhits       %" PRIu64 "; %" PRIu64 " request%s refused\n",
		      p->limit.hits, refused, plural(refused));
	if (refused && stacks)
		print_report_stacks(out, v, sites, &call->layout);
	else if (refused)
		print_report(out, v, sites, false, &call->layout);
}

static int show(struct shell *shell, struct call *call, const struct request *r)
{
	struct process *p = shell_process(shell);
	struct view_options options = { .key = r->stacks || call->json ? VIEW_STACK : VIEW_SITE,
					.sort = SORT_COUNT,
					.limit = r->has_rows  ? r->rows
						 : call->json ? VIEW_ALL
							      : shell->settings.rows };
	struct sites *sites = shell_sites(shell, p);
	struct profile profile;
	struct view view;
	uint64_t allocated;
	int err;

	if (!sites || limit_refusals(p, &profile))
		return shell_error(shell, call, "out of memory");
	if (reporting_lookup(shell, &profile, sites, options.key == VIEW_STACK))
		return -1;
	allocated = process_allocated(p, session_options(shell->session)->count);
	asking_unlock(shell->session);
	err = view_make(&view, &profile, sites, &options);
	asking_lock(shell->session);
	profile_release(&profile);
	if (err)
		return shell_failed(shell, call, err);
	if (call->json)
		print_json(shell, call->out, p, allocated, &view, sites);
	else
		print_text(shell, call, p, allocated, &view, sites, r->stacks);
	view_release(&view);
	return 0;
}

static int limit(struct shell *shell, struct call *call)
{
	struct request r = { 0 };

	if (parse(shell, call, &r))
		return -1;
	return r.limit || r.change_action ? change(shell, call, &r) : show(shell, call, &r);
}

const struct command cmd_limit = {
	.name = "limit",
	.group = GROUP_CONTROL,
	.usage = "[SIZE|off] [--on kill|stop|fail|report] [-n N] [--stacks] [--json]",
	.summary =
		"the most a process may have allocated: change it; alone: what is left of it, and the sites that were refused",
	.example = "limit 512M --on stop",
	.help = "It holds for each process on its own, for what -c counts, from the next request on, also when it is below what is in use. A request that\n"
		"waits at the old limit is looked at again with `cont`. --on: what a hit does.\n"
		"  kill    all processes are killed\n"
		"  stop    the process is frozen; at the prompt everything can be asked, then `limit SIZE` and `cont`, or `kill`; in batch the commands\n"
		"          of `on limit` and those after `wait limit` are run, then all are killed unless the process runs on\n"
		"  fail    the request fails as if there were no memory (NULL and ENOMEM, bad_alloc, MAP_FAILED), each is counted\n"
		"  report  it is said once per crossing, and granted\n"
		"Alone: size and count are those of the refused requests, by site, or --stacks by their whole stacks.",
	.flags = COMMAND_JSON | COMMAND_LIVE,
	.run = limit,
};
