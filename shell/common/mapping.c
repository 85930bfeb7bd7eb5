/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "shell/common/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "process/process.h"
#include "process/profile.h"
#include "session/asking.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * A page may be kept by blocks of one site but of several stacks, so the sites must be known before
 * the blocks are laid over the pages, and which stacks have blocks is not known before that. So with
 * sites it is done twice: the first time only finds the stacks, whose symbols are then looked up.
 * Stacks that have come since are few; after the last time they stay alone.
 */
#define SLICE 20000 /* blocks between two turns of the loop: half a millisecond */
#define TIMES 3

const char *mapping_refused(const struct shell *shell, const struct process *p)
{
	struct ledger_totals totals;

	ledger_totals(p->ledger, &totals);
	if (p->source->name)
		return "what is open has no memory";
	if (p->state != PROCESS_RUNNING && p->state != PROCESS_STOPPED && p->state != PROCESS_HELD)
		return p->state == PROCESS_DETACHED
			       ? "the process was let go: what is live is not known any more"
			       : "the process has ended: it has no memory";
	if (p->off)
		return "nothing is recorded (`record mem-fast` does): what is live is not known";
	if (totals.estimated || session_options(shell->session)->agent.sample)
		return "needs every block, and only samples of them are recorded";
	return NULL;
}

/* ---- sites --------------------------------------------------------------- */

struct groups {
	uint32_t *site; /* by stack; 0: not known */
	size_t count;
};

static int groups_reach(struct groups *g, size_t count)
{
	uint32_t *more;

	if (count <= g->count)
		return 0;
	more = realloc(g->site, count * sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset(more + g->count, 0, (count - g->count) * sizeof(*more));
	g->site = more;
	g->count = count;
	return 0;
}

/* The sites of all stacks that were met for the first time. */
static int look_up(struct shell *shell, struct process *p, struct sites *sites,
		   const struct residency_look *l, struct groups *g)
{
	struct profile profile = { 0 };
	size_t room = 0;
	int err = 0;

	for (uint32_t at = 0, stack; !err && (stack = residency_fresh(l, &at)) != UINT32_MAX;) {
		err = array_room(&profile.row, profile.count, &room, sizeof(*profile.row));
		if (!err)
			profile.row[profile.count++] = (struct profile_row){ .stack = stack };
	}
	if (!err && profile.count) {
		lookup_profile(shell, p, sites, &profile, false);
		err = shell_interrupted(shell) ? -EINTR : groups_reach(g, l->nfresh * 64);
	}
	for (size_t i = 0; i < profile.count && !err; i++)
		g->site[profile.row[i].stack] = sites_of(sites, profile.row[i].stack);
	profile_release(&profile);
	return err;
}

/* ---- the whole ----------------------------------------------------------- */

/* All blocks; with WHOLE at once, as they do not stay in their places for long enough. */
static int lay(struct shell *shell, struct process *p, struct residency_look *l,
	       const struct groups *g, bool whole)
{
	int more = residency_group(l, g->site, g->count);

	if (!more)
		more = 1;
	while (more > 0) {
		more = residency_blocks(l, p, whole ? SIZE_MAX : SLICE);
		if (more > 0 && !whole)
			session_yield(shell->session);
		if (shell_interrupted(shell))
			return -EINTR;
	}
	return more;
}

static int blocks(struct shell *shell, struct process *p, struct sites *sites,
		  struct residency_look *l, struct groups *g)
{
	int err = -EAGAIN;

	for (int time = 1; time <= TIMES && err == -EAGAIN; time++) {
		uint32_t at = 0;

		err = lay(shell, p, l, g, time == TIMES);
		if (err || !sites || residency_fresh(l, &at) == UINT32_MAX || time == TIMES)
			continue;
		err = look_up(shell, p, sites, l, g);
		err = err ? err : -EAGAIN;
	}
	return err;
}

int mapping_make(struct shell *shell, struct process *p, struct sites *sites, struct mapping *m)
{
	struct residency_look l;
	struct groups g = { 0 };
	int err;

	*m = (struct mapping){ 0 };
	err = residency_begin(&l, p);
	if (!err) {
		asking_unlock(shell->session);
		err = residency_read(&l);
		asking_lock(shell->session);
	}
	if (!err)
		err = residency_divide(&l, p);
	if (!err)
		err = blocks(shell, p, sites, &l, &g);
	if (!err) {
		asking_unlock(shell->session);
		err = residency_sum(&l, &m->residency);
		asking_lock(shell->session);
	}
	residency_end(&l);
	free(g.site);
	if (!err) {
		struct mapped *last = &shell->mapped;

		*last = (struct mapped){ .pid = p->pid,
					 .began_ms = p->began_ms,
					 .ms = session_ms(shell->session),
					 .rss = m->residency.rss };
		memcpy(last->bytes, m->residency.bytes, sizeof(last->bytes));
	}
	if (!err && sites)
		err = kept_make(&m->kept, &m->residency, sites);
	if (err)
		mapping_release(m);
	return err;
}

void mapping_release(struct mapping *m)
{
	residency_release(&m->residency);
	kept_release(&m->kept);
	*m = (struct mapping){ 0 };
}
