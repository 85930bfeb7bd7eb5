// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/unseen.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/proc.h"
#include "ledger/ledger.h"
#include "session/session.h"
#include "shell/common/shell.h"
#include "shell/common/usage.h"

/*
 * The kernel says in a few words how large the data of a process is (/proc/PID/statm). Only when
 * that has grown by more than what is counted are the mappings looked at (usage.h). What is
 * unaccounted when the process is first looked at was there before, and allocators' own tables grow
 * with what they hold: neither is told.
 */
#define EVERY_MS 1000u
#define LEAST	 (1u << 20) /* bytes */
#define PART	 8u	    /* of what is counted */

static int64_t data_bytes(const struct process *p)
{
	char *text = NULL;
	uint64_t pages = 0;
	int n = proc_read(p->via, "statm", &text) > 0
			? sscanf(text, "%*u %*u %*u %*u %*u %" SCNu64, &pages)
			: 0;

	free(text);
	return n == 1 ? (int64_t)(pages * 4096) : -1;
}

static void look(struct session *session, struct process *p)
{
	struct process_unseen *u = &p->unseen;
	struct ledger_totals totals;
	struct usage usage;
	int64_t data = data_bytes(p);
	uint64_t counted;

	if (data < 0)
		return;
	ledger_totals(p->ledger, &totals);
	counted = totals.heap + totals.mmap;
	if (u->begun && data - (int64_t)counted < u->rest + (int64_t)LEAST / 2)
		return;
	usage_read(session, &usage, p, &totals);
	if (!usage.mapped_known)
		return;
	if (!u->begun)
		u->base = usage.unaccounted < LEAST ? 0 : p->attached ? usage.unaccounted : 0;
	u->begun = true;
	u->rest = data - (int64_t)counted;
	u->bytes = usage.unaccounted > u->base ? usage.unaccounted - u->base : 0;
	if (u->told || u->bytes < LEAST + counted / PART)
		return;
	u->told = true;
	message_say(
		"%d (%s): the limit cannot see %" PRIu64
		" bytes, which it has mapped by system calls that are not hooked (`unaccounted` in `status`)",
		(int)p->pid, p->command ? p->command : "?", u->bytes);
}

void unseen_turn(struct shell *shell)
{
	uint64_t now = session_ms(shell->session);

	if (!session_limit_now(shell->session))
		return;
	for (struct process *p = session_processes(shell->session); p; p = p->next) {
		if (p->state > PROCESS_STOPPED || !p->stream || p->off ||
		    now < p->began_ms + EVERY_MS / 2 || now - p->unseen.checked_ms < EVERY_MS / 2)
			continue;
		p->unseen.checked_ms = now;
		process_ref(p);
		look(shell->session, p);
		process_unref(p);
		break; /* the list may be another one now */
	}
}

void unseen_summary(FILE *out, const struct process *p)
{
	if (p->unseen.told)
		escape_printf(
			out,
			"  not seen    %" PRIu64
			" bytes, mapped by system calls that are not hooked: no limit holds for them\n",
			p->unseen.bytes);
}
