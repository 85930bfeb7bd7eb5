// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/session_state.h"

#include <errno.h>

#include "ledger/block_list.h"
#include "process/profile_make.h"

/*
 * copies.c - copies for an asker: the live blocks of a process, and profiles.
 *
 * There may be ten million blocks, so they are copied in slices, with the session unlocked in
 * between (ledger/block_list.h). The sums by stack are copied in the first hold of the lock, so
 * both are of one moment. In the loop's thread, or where nothing else runs, all is copied at once.
 */

#define SLICE	  131072u  /* blocks: some 2 ms */
#define ROWS_MOST 1000000u /* 80 MB, allocated in advance; there may be more */

void session_list_copy(struct session *s, struct listing *g)
{
	bool more = true;

	while (more) {
		asking_unlock(s);
		listing_prepare(g, SLICE);
		asking_lock(s);
		more = listing_slice(g, SLICE);
	}
}

/* The list that was begun as G, which is freed. 0 or -errno */
static int make_list(struct session *s, struct listing *g, bool sorted, struct block_list *out)
{
	int err;

	session_list_copy(s, g);
	asking_unlock(s);
	err = listing_end(g, sorted, out);
	asking_lock(s);
	return err;
}

int session_blocks(struct session *s, const struct process *p, bool sorted, struct block_list *out)
{
	struct listing *g = listing_begin(p->ledger);

	return g ? make_list(s, g, sorted, out) : -ENOMEM;
}

/* P's sums by stack. *G: the list of its blocks, if that is needed, begun at the same moment. */
static int copy_sums(struct session *s, const struct process *p, const struct profile_ask *ask,
		     struct profile *profile, struct listing **g)
{
	size_t rows = ledger_stacks_seen(p->ledger);
	int err;

	if (p->source->name) /* from a file: no program runs that would wait */
		return process_profile(p, ask, profile);
	asking_unlock(s);
	err = profile_reserve(profile, rows < ROWS_MOST ? rows : ROWS_MOST);
	asking_lock(s);
	if (err)
		return err;
	if (profile_needs_blocks(ask)) {
		*g = listing_begin(p->ledger);
		err = *g ? 0 : -ENOMEM;
	}
	return err ? err : profile_from_ledger(profile, p->ledger, ask);
}

static int add_blocks(struct session *s, const struct profile_ask *ask, struct profile *profile,
		      struct listing *g)
{
	struct block_list blocks;
	int err = make_list(s, g, ask->usable, &blocks);

	if (err)
		return err;
	asking_unlock(s);
	err = profile_add_blocks(profile, &blocks, ask);
	block_list_release(&blocks);
	asking_lock(s);
	return err;
}

int session_profile(struct session *s, const struct process *p, const struct profile_ask *ask,
		    struct profile *profile)
{
	struct listing *g = NULL;
	int err;

	*profile = (struct profile){ 0 };
	err = copy_sums(s, p, ask, profile, &g);
	if (!err && g)
		err = add_blocks(s, ask, profile, g);
	else if (g)
		listing_cancel(g);
	if (err) {
		profile_release(profile);
		return err;
	}
	asking_unlock(s);
	profile_settle(profile);
	asking_lock(s);
	return 0;
}
