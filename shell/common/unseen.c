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
#include "shell/common/untraced.h"
#include "shell/common/usage.h"

/*
 * The kernel says in a few words how large the data of a process is (/proc/PID/statm), and how much
 * shared memory it has touched. Only when the data has grown by more than what is counted, or the
 * shared memory has grown, are the mappings looked at (usage.h). What is unaccounted when a process
 * that was attached to is first looked at was there before, and allocators' own tables grow with
 * what they hold: neither is told.
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
	return n == 1 ? (int64_t)(pages * PAGE) : -1;
}

/* Bytes of shared memory that it has touched. */
static int64_t shared_resident(const struct process *p)
{
	int64_t kb = proc_status_field(p->via, "RssShmem");

	return kb < 0 ? 0 : kb * 1024;
}

static uint64_t beyond(uint64_t bytes, uint64_t base) { return bytes > base ? bytes - base : 0; }

static void tell(struct process *p, uint64_t counted)
{
	struct process_unseen *u = &p->unseen;
	uint64_t most = LEAST + counted / PART;
	const char *command = p->command ? p->command : "?";

	if (!u->told && u->bytes >= most) {
		u->told = true;
		message_say(
			"%d (%s): the limit cannot see %" PRIu64
			" bytes, which it has mapped by system calls that are not hooked, or of /dev/zero (`unaccounted` in `status`)",
			(int)p->pid, command, u->bytes);
	}
	if (!u->shared_told && u->shared >= most) {
		u->shared_told = true;
		message_say(
			"%d (%s): the limit does not count %" PRIu64
			" bytes of shared memory: memfd, System V or shm_open (`other` in `status`)",
			(int)p->pid, command, u->shared);
	}
}

static void look(struct session *session, struct process *p)
{
	struct process_unseen *u = &p->unseen;
	struct ledger_totals totals;
	struct usage usage;
	int64_t data = data_bytes(p), resident = shared_resident(p);
	uint64_t counted;

	if (data < 0)
		return;
	ledger_totals(p->ledger, &totals);
	counted = totals.heap + totals.mmap;
	if (u->begun && data - (int64_t)counted < u->rest + (int64_t)LEAST / 2 &&
	    resident < u->resident + (int64_t)LEAST / 2 + u->resident / PART)
		return;
	usage_read(session, &usage, p, &totals);
	if (!usage.mapped_known)
		return;
	if (!u->begun) {
		u->base = usage.unaccounted < LEAST ? 0 : p->attached ? usage.unaccounted : 0;
		u->shared_base = p->attached ? usage.shared : 0;
	}
	u->begun = true;
	u->rest = data - (int64_t)counted;
	u->resident = resident;
	u->bytes = beyond(usage.unaccounted, u->base);
	u->shared = beyond(usage.shared, u->shared_base);
	tell(p, counted);
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
		untraced_look(shell->session, p);
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
			" bytes, mapped by system calls that are not hooked, or of /dev/zero: no limit holds for them\n",
			p->unseen.bytes);
	if (p->unseen.shared_told)
		escape_printf(out,
			      "  not counted %" PRIu64
			      " bytes of shared memory: no limit holds for them\n",
			      p->unseen.shared);
}
