// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "ledger/block_list.h"
#include "process/process.h"
#include "process/profile.h"
#include "session/asking.h"
#include "shell/common/lookup.h"
#include "shell/common/shell.h"

/*
 * A page may be kept by blocks of one site but of several stacks, so the sites must be known before
 * the blocks are laid over the pages.
 */
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

/* Each stack of BLOCKS once. 0 or -ENOMEM; *END is above all of them. */
static int gather(const struct block_list *blocks, struct profile *profile, size_t *end)
{
	uint8_t *known = calloc(WIRE_NODES / 8, 1);
	int err = known ? 0 : -ENOMEM;
	size_t room = 0;

	for (size_t i = 0; i < blocks->count && !err; i++) {
		uint32_t stack = blocks->block[i].stack;

		if (stack >= WIRE_NODES || known[stack / 8] & 1 << stack % 8)
			continue;
		known[stack / 8] |= (uint8_t)(1 << stack % 8);
		err = array_room(&profile->row, profile->count, &room, sizeof(*profile->row));
		if (!err)
			profile->row[profile->count++] = (struct profile_row){ .stack = stack };
		*end = stack >= *end ? (size_t)stack + 1 : *end;
	}
	free(known);
	return err;
}

/* *SITE: the site of each stack of BLOCKS, for the caller to free; 0: of no stack there. */
static int look_up(struct shell *shell, struct process *p, struct sites *sites,
		   const struct block_list *blocks, uint32_t **site, size_t *end)
{
	struct profile profile = { 0 };
	int err;

	asking_unlock(shell->session);
	err = gather(blocks, &profile, end);
	asking_lock(shell->session);
	if (!err) {
		lookup_profile(shell, p, sites, &profile, false);
		*site = calloc(*end + 1, sizeof(**site));
		err = shell_interrupted(shell) ? -EINTR : *site ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < profile.count && !err; i++)
		(*site)[profile.row[i].stack] = sites_of(sites, profile.row[i].stack);
	profile_release(&profile);
	return err;
}

/* ---- the whole ----------------------------------------------------------- */

static int lay(struct shell *shell, struct process *p, struct sites *sites,
	       struct residency_look *l, struct residency *out)
{
	struct block_list blocks;
	uint32_t *site = NULL;
	size_t end = 0;
	int err = session_blocks(shell->session, p, false, &blocks);

	if (err)
		return err;
	if (sites)
		err = look_up(shell, p, sites, &blocks, &site, &end);
	asking_unlock(shell->session);
	if (!err)
		err = residency_lay(l, &blocks, site, end);
	if (!err)
		err = residency_sum(l, out);
	block_list_release(&blocks);
	free(site);
	asking_lock(shell->session);
	return err;
}

static void remember(struct shell *shell, const struct process *p, const struct residency *r)
{
	struct mapped *last = &shell->mapped;

	*last = (struct mapped){ .pid = p->pid,
				 .began_ms = p->began_ms,
				 .ms = session_ms(shell->session),
				 .rss = r->rss };
	memcpy(last->bytes, r->bytes, sizeof(last->bytes));
}

/* Without the session's lock: who waits for a process holds up no other. */
static int open_memory(struct shell *shell, const struct process *p, struct residency_look *l)
{
	pid_t via = p->via;
	int err;

	asking_unlock(shell->session);
	err = residency_open(l, via);
	asking_lock(shell->session);
	if (!err && mapping_refused(shell, p))
		err = -ESRCH;
	return err ? err : residency_begin(l, p);
}

int mapping_make(struct shell *shell, struct process *p, struct sites *sites, struct mapping *m)
{
	struct residency_look l;
	int err;

	*m = (struct mapping){ 0 };
	err = open_memory(shell, p, &l);
	if (!err) {
		asking_unlock(shell->session);
		err = residency_read(&l);
		asking_lock(shell->session);
	}
	if (!err)
		err = residency_divide(&l, p);
	if (!err)
		err = lay(shell, p, sites, &l, &m->residency);
	residency_end(&l);
	if (!err)
		remember(shell, p, &m->residency);
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
