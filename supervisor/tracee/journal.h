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
 * All of PLANT is going to be done, or was, in the process PID with its agent at HOME. 0, -ENOSPC,
 * -errno.
 */
int journal_write(pid_t pid, raddr_t agent, const struct plant *plant) MUST_USE;
/* One more island than PLANT has is about to be mapped. 0, -ENOSPC, -errno. */
int journal_island(pid_t pid, raddr_t agent, const struct plant *plant, raddr_t start,
		   raddr_t end) MUST_USE;

/* What a former mtrun has left in a process. */
struct leftover {
	raddr_t agent;
	struct plant plant; /* what its journal says and its memory confirms */
};
/*
 * 1: *LEFT is filled (to be released with plant_release()); 0: nothing was left; -EPROTO: by
 * another version of mtrun; -errno.
 */
int journal_find(pid_t pid, struct leftover *left) MUST_USE;

#endif
