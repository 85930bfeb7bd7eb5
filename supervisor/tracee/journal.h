/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * journal.h - what we have done to a process' code, kept in the process itself (struct
 * wire_journal), so that another mtrun can undo it.
 */
#ifndef MTRUN_JOURNAL_H
#define MTRUN_JOURNAL_H

#include "base/types.h"
#include "inject/wire.h"
#include "patch/plant.h"

/*
 * Writes down all that PLANT says, before it is done, in the process PID with its agent at AGENT. 0, or
 * -errno; -ENOSPC: there is no room in the journal.
 */
int journal_write(pid_t pid, raddr_t agent, const struct plant *plant) MUST_USE;
/* An island, [START, END), is about to be mapped beside PLANT's. Returns as journal_write(). */
int journal_island(pid_t pid, raddr_t agent, const struct plant *plant, raddr_t start,
		   raddr_t end) MUST_USE;

/* What a former mtrun has left in a process. */
struct leftover {
	raddr_t agent;
	struct plant plant; /* what its journal says and its memory confirms */
};
/*
 * 1: *LEFT is filled (its plant to be released with plant_release()); 0: nothing was left; -EPROTO:
 * another version of mtrun has left something; or -errno.
 */
int journal_find(pid_t pid, struct leftover *left) MUST_USE;

#endif
