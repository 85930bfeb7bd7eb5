// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/reporting.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/pattern.h"
#include "base/units.h"
#include "ledger/timeline.h"
#include "log/replay.h"
#include "process/usable_rule.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/command.h"
#include "shell/common/comparing.h"
#include "shell/common/functions.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * Shared by report, text, tree and blocks, so that the same option means and accepts the same
 * everywhere.
 */
int reporting_rows(const struct shell *shell, struct call *call, const char *option,
		   const char *value, size_t *rows)
{
	uint64_t n;

	if (!strcmp(value, "all")) {
		*rows = VIEW_ALL;
		return 0;
	}
	if (number_parse(value, &n))
		return shell_error(shell, call,
				   "%s: invalid value '%s': expected a number of rows, or all",
				   option, value);
	*rows = (size_t)n;
	return 0;
}

int reporting_regex(const struct shell *shell, struct call *call, const char *option,
		    const char *value, regex_t *regex)
{
	const char *why;

	if (!pattern_compile(regex, value, &why))
		return 0;
	return shell_error(shell, call, "--%s: '%s' is not a valid regular expression: %s", option,
			   value, why);
}

/* C++ names are demangled for it, some 10^6 in a second: the loop turns meanwhile. */
int reporting_address(struct shell *shell, struct call *call, const char *text, raddr_t *address)
{
	struct process *p = shell_subject(shell);
	struct functions_cursor at = { 0 };
	int found = 0;

	if (address_parse(text, address) == 0)
		return 0;
	process_ref(p);
	while (!shell_interrupted(shell) &&
	       (found = functions_find(p, text, &at, FUNCTIONS_SLICE_MS, address)) == 0)
		session_yield(shell->session);
	process_unref(p);
	if (found > 0)
		return 0;
	return found ? shell_error(
			       shell, call,
			       "invalid value '%s': expected an address, 0x... or decimal, or a symbol's name (a function that is only inlined has none)",
			       text)
		     : -1;
}

/* ---- moments ------------------------------------------------------------- */

/*
 * Whether all that was ever traced begins with P: time counts from when tracing began, which is
 * some time before P was ready to run, on a busy machine more than an interval.
 */
static bool is_first(const struct shell *shell, const struct process *p)
{
	return p->recorded_ms == p->began_ms &&
	       (p->attached || p == session_processes(shell->session));
}

/* *MS is in the interval after that of END, the present, at most. */
static int in_record(struct shell *shell, struct call *call, const char *what, const char *value,
		     uint64_t end, uint64_t *ms)
{
	struct process *p = shell_process(shell);
	uint64_t elapsed = session_ms(shell->session);
	struct text_buffer from, to;
	int err = moment_parse(value, session_clock(shell->session), elapsed, end, ms);

	if (err == -EINVAL)
		return shell_error(shell, call, "%s: invalid value '%s': expected " MOMENT_ACCEPTED,
				   what, value);
	if (!err && *ms < p->recorded_ms && is_first(shell, p))
		*ms = p->recorded_ms;
	/* Whole intervals: the present one, and where it begins the next, are in it. */
	if (err || *ms / TIMELINE_MS > end / TIMELINE_MS + 1 ||
	    *ms / TIMELINE_MS < p->recorded_ms / TIMELINE_MS)
		return shell_error(shell, call, "%s%s'%s' is outside the recording (%s to %s)",
				   call->call_form ? "" : what, call->call_form ? "" : ": ", value,
				   time_text(&from, p->recorded_ms), time_text(&to, end));
	return 0;
}

/* Of VALUE, -10s: whether the record does not go back so far. */
static bool is_before_record(struct shell *shell, const char *value, uint64_t end)
{
	uint64_t ms;
	int err = *value == '-' ? moment_parse(value, 0, 0, end, &ms) : -EINVAL;

	return err == -ERANGE || (!err && ms < shell_process(shell)->recorded_ms);
}

int reporting_time(struct shell *shell, struct call *call, const char *what, const char *value,
		   uint64_t *ms)
{
	uint64_t end = shell_moment(shell, shell_process(shell));

	if (!strcmp(what, "--from") && is_before_record(shell, value, end)) {
		*ms = shell_process(shell)->recorded_ms;
		return 0;
	}
	if (in_record(shell, call, what, value, end, ms))
		return -1;
	if (*ms > end)
		*ms = end;
	return 0;
}

/*
 * Anything that is there and is no time; a name that ends as it should is one in any case, so that
 * it is said what is wrong with it.
 */
static bool is_file(const char *value)
{
	size_t len = strlen(value);
	uint64_t ms;

	return (len > 5 && !strcmp(value + len - 5, ".heap")) ||
	       (moment_parse(value, 0, 0, 0, &ms) == -EINVAL && access(value, F_OK) == 0);
}

/* VALUE is neither a snapshot of the process that is asked about nor a time: why. */
static int no_moment(struct shell *shell, struct call *call, const char *what, const char *value)
{
	const struct process *subject = shell_subject(shell);

	for (const struct process *p = session_processes(shell->session); p; p = p->next)
		if (p != subject && snapshots_find(&p->snapshots, value))
			return p->pid == subject->pid
				       ? shell_error(shell, call,
						     "%s: '%s' was taken before process %d "
						     "executed another program",
						     what, value, (int)p->pid)
				       : shell_error(shell, call,
						     "%s: '%s' is a snapshot of process %d, not "
						     "of %d",
						     what, value, (int)p->pid, (int)subject->pid);
	return shell_error(
		shell, call,
		"%s: '%s' is neither a snapshot (`snapshot` lists them) nor a time: " MOMENT_ACCEPTED,
		what, value);
}

int reporting_moment(struct shell *shell, struct call *call, const char *what, const char *value,
		     unsigned kinds, struct moment *m)
{
	const struct snapshots *all = &shell_subject(shell)->snapshots;
	const struct snapshot *snapshot = kinds & MOMENTS_SNAPSHOTS ? snapshots_find(all, value)
								    : NULL;
	uint64_t ms, end = shell_moment(shell, shell_process(shell));

	*m = (struct moment){ .kind = MOMENT_PAST };
	if (shell->said) /* who asks from elsewhere names no files */
		kinds &= ~(unsigned)MOMENTS_FILES;
	if (!snapshot && kinds & MOMENTS_FILES && is_file(value)) {
		*m = (struct moment){ .kind = MOMENT_FILE, .file = value };
		return 0;
	}
	if (shell_subject(shell)->source->one_moment)
		return shell_error(shell, call,
				   "%s: '%s' cannot be asked for: a .heap file holds one moment%s",
				   what, value,
				   kinds & MOMENTS_FILES
					   ? ", which can be compared with another .heap file"
					   : "");
	if (snapshot) {
		m->kind = MOMENT_SNAPSHOT;
		strcpy(m->name, snapshot->name);
		return 0;
	}
	if (kinds & MOMENTS_PEAK && !strcmp(value, "peak")) {
		m->kind = MOMENT_PEAK;
		return 0;
	}
	if (kinds & MOMENTS_SNAPSHOTS && moment_parse(value, 0, 0, 0, &ms) == -EINVAL)
		return no_moment(shell, call, what, value);
	if (!(kinds & MOMENTS_SNAPSHOTS) && kinds & MOMENTS_PEAK &&
	    moment_parse(value, 0, 0, 0, &ms) == -EINVAL)
		return shell_error(shell, call,
				   "%s: invalid value '%s': expected peak, " MOMENT_ACCEPTED, what,
				   value);
	/* what has come within a time that is longer than the record is all that has come */
	if (kinds & MOMENTS_SNAPSHOTS && is_before_record(shell, value, end)) {
		m->ms = shell_process(shell)->recorded_ms;
		return 0;
	}
	if (in_record(shell, call, what, value, end, &m->ms))
		return -1;
	/* where timeline has the present, if it is not the last interval's maximum */
	if (m->ms / TIMELINE_MS > end / TIMELINE_MS)
		m->kind = MOMENT_NOW;
	return 0;
}

/* Memory for a copy is found with the session unlocked: it may be another snapshot then. */
static int snapshot_at(struct shell *shell, const struct process *p, const char *name,
		       struct profile *profile)
{
	const struct snapshot *snapshot = snapshots_find(&p->snapshots, name);
	size_t rows = snapshot ? snapshot->profile.count : 0;
	int err;

	asking_unlock(shell->session);
	err = profile_reserve(profile, rows);
	asking_lock(shell->session);
	if (err)
		return err;
	snapshot = snapshots_find(&p->snapshots, name);
	err = snapshot ? profile_copy(profile, &snapshot->profile) : -ENOENT;
	if (err)
		profile_release(profile);
	return err;
}

static int take_profile(struct shell *shell, struct process *p, const struct moment *m,
			struct profile_ask *ask, struct profile *profile)
{
	if (p->source->one_moment)
		return process_profile(p, ask, profile);
	switch (m->kind) {
	case MOMENT_SNAPSHOT: return snapshot_at(shell, p, m->name, profile);
	case MOMENT_PEAK: ask->detail |= PROFILE_PEAK; break;
	case MOMENT_PAST:
		ask->detail |= PROFILE_PAST;
		ask->at_ms = m->ms;
		break;
	default: break;
	}
	return session_profile(shell->session, p, ask, profile);
}

static int profile_at(struct shell *shell, struct process *p, const struct moment *m,
		      struct profile_ask *ask, struct profile *profile)
{
	int err = take_profile(shell, p, m, ask, profile);

	if (!err && profile->estimated && !profile->has_variance) /* a log's */
		profile_reckon_variance(profile, session_options(shell->session)->sampled);
	return err;
}

static int cannot(const struct shell *shell, struct call *call, int err, const struct moment *m)
{
	const struct process *p = shell_subject(shell);

	if (err == -EBADMSG)
		return shell_error(shell, call, "%s", process_trouble(p));
	return err == -ENOENT ? shell_error(shell, call, "there is no snapshot '%s'", m->name)
			      : shell_error(shell, call, "out of memory");
}

/* One side of a comparison, its stacks being the comparison's. SITES: the process' own. */
static int side(struct shell *shell, struct call *call, const struct moment *m,
		struct profile_ask ask, struct profile *profile, struct sites *sites)
{
	struct process *p = shell_subject(shell);
	int err;

	if (m->kind == MOMENT_FILE)
		return comparing_file(shell, call, m->file, ask.detail, profile);
	err = profile_at(shell, p, m, &ask, profile);
	if (err)
		return cannot(shell, call, err, m);
	return reporting_lookup(shell, profile, sites, true)
		       ? -1
		       : comparing_add(shell, call, profile, sites);
}

/* Where a file is one of the moments. *SITES: in, the process' own; out, the comparison's. */
static int compare(struct shell *shell, struct call *call, const struct moment *m,
		   const struct moment *since, const struct profile_ask *ask,
		   struct profile *profile, struct sites **sites)
{
	struct profile before = { 0 };
	int err;

	if (comparing_begin(shell))
		return shell_error(shell, call, "out of memory");
	if (side(shell, call, m, *ask, profile, *sites))
		return -1;
	if (since && side(shell, call, since, *ask, &before, *sites)) {
		profile_release(profile);
		return -1;
	}
	*sites = comparing_sites(shell);
	for (size_t i = 0; i < profile->count; i++)
		sites_settle(*sites, profile->row[i].stack, true);
	for (size_t i = 0; i < before.count; i++)
		sites_settle(*sites, before.row[i].stack, true);
	asking_unlock(shell->session);
	err = since ? profile_subtract(profile, &before) : 0;
	profile_release(&before);
	asking_lock(shell->session);
	if (err)
		profile_release(profile);
	return err ? shell_error(shell, call, "out of memory") : 0;
}

/*
 * Snapshots stay when recording begins anew, but what they hold and what is live later are not of
 * one record.
 */
static int one_record(const struct shell *shell, struct call *call, const struct process *p,
		      const struct moment *m, const struct moment *since)
{
	const struct moment *both[] = { since, m };
	const struct snapshot *old = NULL;
	unsigned olds = 0;

	for (size_t i = 0; i < 2; i++) {
		const struct snapshot *snapshot =
			both[i]->kind == MOMENT_SNAPSHOT
				? snapshots_find(&p->snapshots, both[i]->name)
				: NULL;

		if (snapshot && snapshot->profile.ms < p->recorded_ms) {
			old = snapshot;
			olds++;
		}
	}
	if (olds != 1)
		return 0;
	return shell_error(
		shell, call,
		"the snapshot '%s' was taken before recording was off and began anew: what it holds is not known any more",
		old->name);
}

int reporting_profile(struct shell *shell, struct call *call, const struct moment *m,
		      const struct moment *since, unsigned detail, uint64_t min_age,
		      const struct usable *usable, struct profile *profile, struct sites **sites)
{
	struct process *p = shell_process(shell);
	struct profile_ask ask = { .now_ms = shell_moment(shell, p),
				   .counted = session_options(shell->session)->count,
				   .min_age_ms = min_age,
				   .usable = usable,
				   .detail = detail | (since ? PROFILE_DEAD : 0) },
			   ask_since = ask;
	struct profile before = { 0 };
	int err;

	*sites = shell_sites(shell, p);
	if (!*sites)
		return -1;
	if (m->kind == MOMENT_FILE || (since && since->kind == MOMENT_FILE))
		return compare(shell, call, m, since, &ask, profile, sites);
	if (since && one_record(shell, call, p, m, since))
		return -1;
	/* from here on only the profile and the stacks are asked, whatever the program does */
	err = profile_at(shell, p, m, &ask, profile);
	if (!err && since) {
		err = profile_at(shell, p, since, &ask_since, &before);
		asking_unlock(shell->session);
		if (!err)
			err = profile_subtract(profile, &before);
		profile_release(&before);
		asking_lock(shell->session);
		if (err)
			profile_release(profile);
	}
	return err ? cannot(shell, call, err, since ? since : m) : 0;
}

int reporting_when(struct shell *shell, struct call *call, int arg, const char *value,
		   struct reporting_when *when)
{
	if (arg == WHEN_AT)
		return reporting_moment(shell, call, "--at", value, MOMENTS_PEAK, &when->at);
	when->has_since = true;
	return reporting_moment(shell, call, arg == WHEN_SINCE ? "--since" : "--base", value,
				MOMENTS_SNAPSHOTS | MOMENTS_PEAK | MOMENTS_FILES, &when->since);
}

int reporting_lookup(struct shell *shell, struct profile *profile, struct sites *sites, bool whole)
{
	lookup_profile(shell, shell_subject(shell), sites, profile, whole);
	if (!shell_interrupted(shell))
		return 0;
	profile_release(profile);
	return -1;
}

int reporting_live(struct shell *shell, struct call *call, const struct reporting_when *when,
		   bool whole, struct profile *profile, struct sites **sites)
{
	static const struct reporting_when now;

	when = when ? when : &now;
	if (reporting_profile(shell, call, &when->at, when->has_since ? &when->since : NULL, 0, 0,
			      NULL, profile, sites))
		return -1;
	if (when->has_since)
		profile_drop_unchanged(profile);
	return reporting_lookup(shell, profile, *sites, whole);
}

/* ---- off ----------------------------------------------------------------- */

const char *reporting_off_hint(const struct process *p)
{
	return p->state > PROCESS_STOPPED ? "" : ": nothing is recorded (`record mem-fast` does)";
}

void reporting_off(FILE *out, const struct process *p)
{
	struct text_buffer time;

	if (p->off)
		escape_printf(out, "off since %s%s\n", time_text(&time, p->off_ms),
			      reporting_off_hint(p));
}

void reporting_usable(struct shell *shell, struct usable *u, const struct process *p)
{
	struct load_order order;

	load_order_begin(&order, p);
	if (order.exe) {
		asking_unlock(shell->session);
		load_order_read(&order);
		asking_lock(shell->session);
	}
	usable_init(u, p, &order);
	load_order_release(&order);
	if (!p->off)
		return;
	u->rule = USABLE_UNKNOWN;
	snprintf(u->why, sizeof(u->why), "nothing is recorded, and the blocks may be gone");
}
