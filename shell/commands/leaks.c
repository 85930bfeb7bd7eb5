// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "process/profile.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/leaking.h"
#include "shell/common/lookup.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "shell/common/suppressing.h"

/* `leaks`: what nothing points to any more. */
enum { ARG_KINDS, ARG_NEW, ARG_ROWS, ARG_SUPPRESSIONS };

static const struct argument arguments[] = { [ARG_KINDS] = { "kinds", 0, true },
					     [ARG_NEW] = { "new", 0, false },
					     [ARG_ROWS] = { "rows", 'n', true },
					     [ARG_SUPPRESSIONS] = { "gen-suppressions", 0, false },
					     ARGUMENTS_END };

#define KIND(kind) (1u << (kind))
#define KINDS_ALL  (LEAKING_LOST | KIND(LEAK_REACHABLE))

struct request {
	unsigned kinds;
	bool fresh, has_rows, suppressions;
	size_t rows;
};

/* LIST: kinds with commas between. 0, or -1 (said). */
static int take_kinds(struct shell *shell, struct call *call, const char *list, unsigned *kinds)
{
	*kinds = 0;
	for (const char *at = list, *end;; at = end + 1) {
		size_t len;
		int kind = 0;

		end = strchrnul(at, ',');
		len = (size_t)(end - at);
		while (kind < LEAK_KINDS && (strlen(leak_kind_names[kind]) != len ||
					     strncmp(at, leak_kind_names[kind], len) != 0))
			kind++;
		if (kind < LEAK_KINDS)
			*kinds |= KIND(kind);
		else if (len == 3 && !strncmp(at, "all", len))
			*kinds |= KINDS_ALL;
		else
			return shell_error(
				shell, call,
				"--kinds: invalid value '%s': expected definite, indirect, possible, reachable, some with commas between, or all",
				list);
		if (!*end)
			return 0;
	}
}

static int one(struct shell *shell, struct call *call, void *ctx, int arg, const char *value)
{
	struct request *r = ctx;

	switch (arg) {
	case ARG_KINDS: return take_kinds(shell, call, value, &r->kinds);
	case ARG_NEW: r->fresh = true; return 0;
	case ARG_SUPPRESSIONS: r->suppressions = true; return 0;
	case ARG_ROWS:
		r->has_rows = true;
		return reporting_rows(shell, call, "-n", value, &r->rows);
	default: return arguments_unexpected(shell, call, value);
	}
}

/* 0, -EINTR or -ENOMEM. */
static int print(struct shell *shell, const struct call *call, struct process *p,
		 struct sites *sites, const struct leak_report *report, size_t rows)
{
	struct profile profile = { .count = rows < report->records ? rows : report->records };

	profile.row = calloc(profile.count + 1, sizeof(*profile.row));
	if (!profile.row)
		return -ENOMEM;
	for (size_t i = 0; i < profile.count; i++)
		profile.row[i].stack = report->record[i].stack;
	lookup_profile(shell, p, sites, &profile, true);
	profile_release(&profile);
	if (shell_interrupted(shell))
		return -EINTR;
	asking_unlock(shell->session);
	if (call->json)
		print_leaks_json(call->out, report, rows, sites);
	else
		print_leaks(call->out, report, rows, sites, &call->layout);
	asking_lock(shell->session);
	return 0;
}

/* The process need not wait for what comes after the scan. */
static int scan(struct shell *shell, struct call *call, struct process *p, const struct request *r,
		struct leak_report *report)
{
	struct leaking l;
	char why[256];
	int err;

	if (leaking_make(shell, p, &l, why, sizeof(why)))
		return *why ? shell_error(shell, call, "%s", why) : -1;
	err = leaking_report(&l, r->fresh, report);
	leaking_remember(&l);
	leaking_release(&l);
	return err ? shell_error(shell, call, "out of memory") : 0;
}

static int leaks(struct shell *shell, struct call *call)
{
	struct request r = { .kinds = LEAKING_LOST };
	struct leak_report report;
	struct process *p;
	struct sites *sites;
	const char *refused;
	int bad;

	if (arguments_each(shell, call, arguments, one, &r))
		return -1;
	if (r.suppressions && call->json)
		return shell_error(shell, call,
				   "--gen-suppressions cannot be combined with --json");
	if (!r.has_rows)
		r.rows = call->json ? VIEW_ALL : shell->settings.rows;
	p = shell_process(shell);
	refused = leaking_refused(shell, p);
	if (refused)
		return shell_error(shell, call, "%s", refused);
	sites = shell_sites(shell, p);
	if (!sites || scan(shell, call, p, &r, &report))
		return -1;
	bad = suppressing_apply(shell, p, sites, &report);
	leaking_choose(&report, r.kinds);
	call->as_is = r.suppressions;
	if (!bad && r.suppressions)
		bad = suppressing_print(call->out, shell, p, sites, &report, r.rows);
	else if (!bad)
		bad = print(shell, call, p, sites, &report, r.rows);
	leaking_report_release(&report);
	return bad == -ENOMEM ? shell_error(shell, call, "out of memory") : bad;
}

const struct command cmd_leaks = {
	.name = "leaks",
	.usage = "[--kinds LIST] [--new] [-n N] [--gen-suppressions] [--full] [--json]",
	.summary = "live blocks that nothing points to any more",
	.example = "leaks --kinds definite",
	.help = "The memory is captured as of one instant and searched for pointers, from the registers, stacks in use and all writable mappings through\n"
		"the live blocks. definite: nothing points to it. indirect: only lost blocks do. possible: what points to it points somewhere into it.\n"
		"reachable: it is held. Pointers behind a prefix (a length, a reference count, a list's links) hold a block where they are usual for its\n"
		"stack, or its bytes say what the prefix is. Records are by stack, definite ones first; bytes of a definite one include those that are lost\n"
		"with it. Pointers that are hidden (xor, tags, files) are not seen.\n"
		"\n"
		"  --kinds LIST  definite, indirect, possible, reachable, with commas between, or all; default: all but reachable\n"
		"  --new         only what was not lost at the last scan: `every 60s { leaks --new }`\n"
		"  -n N          show N records (text: 20, JSON: all); the others are summed in one line\n"
		"  --gen-suppressions\n"
		"                print a suppression for each record instead, for --suppressions and for Valgrind\n"
		"  --full        names, paths and stacks whole: as in a pipe",
	.flags = COMMAND_LIST | COMMAND_JSON | COMMAND_LIVE | COMMAND_FULL,
	.run = leaks,
};
