// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * forget.c - forgets processes that ended long ago: of each a line is left (ended.h).
 *
 * Never forgotten: the program named and the process chosen, who met a limit, who has marks or
 * snapshots, who is in a log that is being written, and who is held by a reference.
 */
#include <stdlib.h>

#include "session/session_state.h"

#define WHOLE_MOST  1000u
#define WHOLE_BYTES (128ull << 20) /* of their tables */

static bool is_over(const struct process *p)
{
	return p->state == PROCESS_EXITED || p->state == PROCESS_REPLACED;
}

/* Somebody may come back to it, or points to it. */
static bool is_wanted(const struct session *s, const struct process *p)
{
	if (!is_over(p) || p == s->main || p == s->chosen || p->refs > 1 || p->stream ||
	    p->record || p->limit.hits || marks_count(&p->marks) || p->snapshots.count ||
	    p->pid == s->held)
		return true;
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p)
			return true;
	for (const struct process *other = s->processes; other; other = other->next)
		if (other->parent == p)
			return true;
	return false;
}

static void forget(struct session *s, struct process **at)
{
	struct process *p = *at;

	ended_add(&s->ended, p);
	*at = p->next;
	if (s->last == &p->next)
		s->last = at;
	process_drop(p);
}

static uint64_t bytes_of(const struct process *p)
{
	return is_over(p) ? ledger_memory(p->ledger) : 0;
}

void session_forget_ended(struct session *s)
{
	size_t count = 0;
	uint64_t bytes = 0;

	if (s->serving || s->stopping || s->halting || s->log)
		return;
	for (const struct process *p = s->processes; p; p = p->next)
		count += is_over(p);
	if (count == s->ended_before)
		return;
	for (const struct process *p = s->processes; p; p = p->next)
		bytes += bytes_of(p);
	for (struct process **at = &s->processes;
	     *at && (count > WHOLE_MOST || bytes > WHOLE_BYTES);) {
		if (is_wanted(s, *at)) {
			at = &(*at)->next;
			continue;
		}
		bytes -= bytes_of(*at);
		count--;
		forget(s, at);
	}
	s->ended_before = count;
}

const struct ended_list *session_ended_list(const struct session *s) { return &s->ended; }
