/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * journal.h - what we have done to a process' code, kept in the process itself (struct wire_journal), so that another mtrun can undo it.
 */
#ifndef MTRUN_JOURNAL_H
#define MTRUN_JOURNAL_H

#include "../inject/wire.h"
#include "plant.h"
#include "types.h"

/* All of PLANT is going to be done, or was. 0, -ENOSPC. */
int journal_write(struct wire_journal *journal, const struct plant *plant) MUST_USE;
/* An island is about to be mapped. 0, -ENOSPC. */
int journal_island(struct wire_journal *journal, raddr_t start, raddr_t end) MUST_USE;
void journal_no_island(struct wire_journal *journal);	/* the last one was not */

/* What a former mtrun has left in a process. */
struct leftover {
	raddr_t home;
	struct plant plant;		/* what its journal says and its memory confirms */
};
/* 1: *LEFT is filled (to be released with plant_release()); 0: nothing was left; -EPROTO: by another version of mtrun; -errno. */
int journal_find(pid_t pid, struct leftover *left) MUST_USE;

#endif
