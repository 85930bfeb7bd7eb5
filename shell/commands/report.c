// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdlib.h>

#include "base/proc.h"
#include "base/units.h"
#include "process/profile.h"
#include "report/print.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/selection.h"
#include "shell/common/shell.h"

/*
 * `report`: what is live, by any key. The command only says which profile it wants and how to look
 * at it; the work is profile.c's and view.c's.
 */
enum { ARG_SORT = SELECT_OPTIONS, ARG_MIN_AGE, ARG_USABLE, ARG_ALL, ARG_REVERSE, ARG_WHEN };

static const struct argument table[] = { SELECTION_ARGUMENTS,
					 [ARG_SORT] = { "sort", 0, true },
					 [ARG_MIN_AGE] = { "min-age", 0, true },
					 [ARG_USABLE] = { "usable", 0, false },
					 [ARG_ALL] = { "all", 0, false },
					 [ARG_REVERSE] = { "reverse", 0, false },
					 WHEN_ARGUMENTS(ARG_WHEN),
					 ARGUMENTS_END };

struct request {
	struct selection s;
	struct reporting_when when;
	unsigned detail;
	uint64_t min_age;
	bool usable, all;
	bool totals; /* rows with nothing live are asked for, and what each has allocated ever */
};

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;
	int n;

	switch (arg) {
	case ARG_SORT:
		n = selection_choice(shell, call, "sort", value, view_sort_names, VIEW_SORTS);
		r->s.view.sort = (enum view_sort)n;
		return n < 0 ? -1 : 0;
	case ARG_MIN_AGE:
		if (time_parse(value, &r->min_age))
			return shell_error(shell, call,
					   "--min-age: invalid value '%s': expected " TIME_ACCEPTED,
					   value);
		return 0;
	case ARG_USABLE: r->usable = true; return 0;
	case ARG_ALL: r->all = true; return 0;
	case ARG_REVERSE: r->s.view.reverse = true; return 0;
	case ARG_WORD: return arguments_unexpected(shell, call, value);
	default:
		return arg >= ARG_WHEN
			       ? reporting_when(shell, call, arg - ARG_WHEN, value, &r->when)
			       : selection_option(shell, call, &r->s, arg, value, VIEW_KEYS);
	}
}

/* What does not go together is said, not guessed. */
static int agree(const struct shell *shell, struct call *call, struct request *r)
{
	const struct view_options *v = &r->s.view;
	bool live_only = v->key == VIEW_THREAD || v->key == VIEW_SIZE || r->min_age;
	bool totals = r->all || v->sort == SORT_TOTAL || v->sort == SORT_TEMPORARY;

	r->totals = totals;
	r->s.view.only_held = !totals;
	if (selection_agree(shell, call, &r->s))
		return -1;
	if ((live_only || r->usable) && shell_subject(shell)->told)
		return shell_error(
			shell, call,
			"--by thread, --by size, --min-age and --usable are about single blocks: %s has sums by stack only",
			shell_subject(shell)->source->name);
	if (live_only && (r->when.at.kind || r->when.has_since))
		return shell_error(
			shell, call,
			"--at and --since cannot be combined with --by thread, --by size or --min-age: of the past, only sums per stack are kept");
	if (r->usable && (r->when.at.kind || r->when.has_since))
		return shell_error(
			shell, call,
			"--usable cannot be combined with --at or --since: what the allocator set aside is known of live blocks only");
	if (totals && (r->when.at.kind == MOMENT_PAST ||
		       (r->when.has_since && r->when.since.kind == MOMENT_PAST)))
		return shell_error(
			shell, call,
			"--all, --sort total and --sort temporary cannot be combined with a TIME: of the past, only what was live is kept");
	if (live_only && totals)
		return shell_error(
			shell, call,
			"--by thread, --by size and --min-age are about live blocks: they cannot be combined with --all, --sort total or --sort temporary");
	if (v->key == VIEW_THREAD)
		r->detail |= PROFILE_THREADS;
	if (v->key == VIEW_SIZE)
		r->detail |= PROFILE_SIZES;
	/* the totals of a row are those of all its stacks */
	if (totals || (call->json && !live_only))
		r->detail |= PROFILE_DEAD;
	return 0;
}

/* Of those that live; to be freed. A number of what has ended may be somebody else's by now. */
static char (*thread_names(const struct process *p, const struct view *v))[PROC_NAME]
{
	bool here = !p->source->name && (p->state <= PROCESS_STOPPED || p->state == PROCESS_HELD);
	char(*name)[PROC_NAME] = calloc(v->count + 1, sizeof(*name));

	for (size_t i = 0; name && here && i < v->count; i++)
		proc_name(p->pid, (pid_t)v->row[i].thread, name[i]);
	return name;
}

static int print(struct shell *shell, struct call *call, struct request *r)
{
	char(*names)[PROC_NAME] = NULL;
	struct usable usable;
	struct sites *sites;
	struct view view;

	if (r->usable) {
		reporting_usable(shell, &usable, shell_process(shell));
		r->s.usable = usable.rule == USABLE_UNKNOWN ? NULL : &usable;
	}
	if (selection_view(shell, call, &r->s, &r->when.at,
			   r->when.has_since ? &r->when.since : NULL, r->detail, r->min_age, &view,
			   &sites))
		return -1;
	view.usable_unknown = r->usable && !r->s.usable ? usable.why : NULL;
	if (!r->when.has_since && !r->min_age && !r->s.has_regex)
		view.before = shell_preattach(shell);
	view.off_ms = shell_subject(shell)->off ? &shell_subject(shell)->off_ms : NULL;
	if (view.key == VIEW_THREAD && call->layout.columns)
		names = thread_names(shell_subject(shell), &view);
	view.thread_name = (const char(*)[PROC_NAME])names;
	asking_unlock(shell->session); /* the view is ours, and its stacks are known */
	if (call->call_form)
		print_report_gs(call->out, &view);
	else if (call->json)
		print_report_json(call->out, &view, sites, r->s.stacks || view.key == VIEW_STACK);
	else if (r->s.stacks)
		print_report_stacks(call->out, &view, sites, &call->layout);
	else
		print_report(call->out, &view, sites, r->totals, &call->layout);
	asking_lock(shell->session);
	view_release(&view);
	free(names);
	return 0;
}

static int report(struct shell *shell, struct call *call)
{
	struct request r = { .s.view = { .key = VIEW_SITE, .sort = SORT_SIZE } };
	int bad = arguments_each(shell, call, table, one, &r) || agree(shell, call, &r) ||
		  print(shell, call, &r);

	selection_release(&r.s);
	return bad ? -1 : 0;
}

const struct command cmd_report = {
	.name = "report",
	.usage =
		"[-n N] [--by site|stack|function|file|module|thread|size] [--sort size|count|total|temporary] [--stacks] [--at TIME|peak]"
		" [--since|--base FILE|SNAP|TIME] [--min-age TIME] [--match REGEX] [--usable] [--all] [--reverse] [--bytes] [--full] [--json]",
	.summary = "what is live, biggest first",
	.example = "report --by function -n 10",
	.help = "Rows are gathered --by site if nothing else is said: walking out from the allocator, the first frame, inlined ones included, whose\n"
		"function is no allocator, not in namespace std, __gnu_cxx, core or alloc, and not in libc, libstdc++, libc++ or ld.so.\n"
		"Well-known wrappers such as xmalloc are passed over, too (`help sites` lists them); `set site-skip REGEX` passes over more.\n"
		"With -p, and after `record off`, what glibc's heap had in use when recording began is a row of its own, `[before attach]`, without a stack and outside of the total.\n"
		"\n"
		"  -n N            show N rows (text: 20, JSON: all); the others are summed in one last row, so that rows always add up\n"
		"  --by KEY        site, stack, function, file, module, thread (that allocated), size (of the blocks)\n"
		"  --sort KEY      live size (default) or count; total: ever allocated; temporary: freed before their thread's next allocation\n"
		"                  (the last two show also rows with nothing live)\n"
		"  --stacks        whole stacks, headed `# N: BYTES bytes`, the biggest last\n"
		"  --at peak       what was live at the peak\n"
		"  --at TIME       what was live then: at the local maximum of the 100 ms that hold TIME, seconds since tracing began (also 250ms, 2m),\n"
		"                  -10s is ten seconds ago, or before the record's end; or a clock time, 03:12:07 or 2026-11-20T03:12:07\n"
		"  --since SNAP    what has come since a snapshot or a TIME, or what is more than in a .heap file; less is negative, biggest growth first\n"
		"                  (where nothing has grown, what shrank most). --base is another name of it\n"
		"  --min-age TIME  only blocks at least this old\n"
		"  --match REGEX   only stacks with a frame whose function, FILE:LINE or module's path matches (POSIX extended)\n"
		"  --usable        beside the size also what the allocator set aside for it; a mapping's is its size\n"
		"  --all           also rows with nothing live, and what each has allocated ever\n"
		"  --reverse       smallest first\n"
		"  --bytes         exact sizes; on a terminal they are in K, M, G otherwise\n"
		"  --full          names, paths and stacks whole, sizes exact: as in a pipe",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_RECORD | COMMAND_BYTES | COMMAND_FULL,
	.run = report,
};
