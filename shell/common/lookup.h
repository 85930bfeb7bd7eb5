/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * lookup.h - the symbols that a report needs are read before it is made, so that the target is
 * served meanwhile: it may take seconds. So may what has to be asked of a process.
 */
#ifndef MTRUN_LOOKUP_H
#define MTRUN_LOOKUP_H

#include "process/process.h"
#include "process/profile.h"

struct shell;
struct process;
struct sites;

/*
 * Turns the session's loop until the sites of all stacks of P's PROFILE are known, or (WHOLE) all
 * their frames. Shows on a terminal after a second how far it is. Ends early when the command is
 * interrupted. Nothing of the ledger may be in use; P is there afterwards.
 */
void lookup_profile(struct shell *shell, struct process *p, struct sites *sites,
		    const struct profile *profile, bool whole);
/* lookup_profile() for COUNT addresses. */
void lookup_addresses(struct shell *shell, struct process *p, const struct symbol_question *q,
		      size_t count);
/* lookup_profile() for one stack, all of it. */
void lookup_stack(struct shell *shell, struct process *p, struct sites *sites, uint32_t stack);
/*
 * TEXT of LEN bytes: what ADDR of P is, which is in no block (classify_address()). The loop turns
 * while P is looked at.
 */
void lookup_place(struct shell *shell, struct process *p, raddr_t addr, char *text, size_t len);

#endif
