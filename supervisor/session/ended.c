// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * ended.c - forgets processes that ended long ago.
 */
#include "session/ended.h"

#include <stdlib.h>

#include "session/session_state.h"

#define WHOLE_MOST 1000u
#define WHOLE_BYTES (128ull << 20)	/* of their tables */
#define LINES_MOST 10000u

static bool is_over(const struct process *p)
{
	return p->state == PROCESS_EXITED || p->state == PROCESS_REPLACED;
}

/* Somebody may come back to it, or points to it. */
static bool is_wanted(const struct session *s, const struct process *p)
{
	if (!is_over(p) || p == s->main || p == s->chosen || p->stream || p->record || p->limit.hits || marks_count(&p->marks) || p->snapshots.count || p->pid == s->held)
		return true;
	for (size_t i = 0; i < s->nthreads; i++)
		if (s->thread[i].process == p)
			return true;
	for (const struct process *other = s->processes; other; other = other->next)
		if (other->parent == p)
			return true;
	return false;
}

static void drop(struct ended *e)
{
	free(e->command);
	free(e->exe);
	*e = (struct ended){ 0 };
}

struct ended ended_of(const struct process *p)
{
	struct ended e = { .pid = p->pid, .ppid = p->ppid, .state = p->state, .wait_status = p->wait_status, .began_ms = p->began_ms, .command = p->command, .exe = p->exe,
		.unsupervised = p->unsupervised };

	ledger_totals(p->ledger, &e.totals);
	return e;
}

/* P's line takes what it can from P. Without memory for the list it is counted only. */
static void note(struct ended_list *list, struct process *p)
{
	struct ended *e;

	list->others += p->state != PROCESS_REPLACED;
	if (!list->line)
		list->line = calloc(LINES_MOST, sizeof(*list->line));
	if (!list->line) {
		list->dropped++;
		return;
	}
	if (list->count == LINES_MOST) {
		drop(&list->line[list->first]);
		list->first = (list->first + 1) % LINES_MOST;
		list->count--;
		list->dropped++;
	}
	e = &list->line[(list->first + list->count++) % LINES_MOST];
	*e = ended_of(p);
	p->command = p->exe = NULL;
}

static void forget(struct session *s, struct process **at)
{
	struct process *p = *at;

	note(&s->ended, p);
	*at = p->next;
	if (s->last == &p->next)
		s->last = at;
	process_free(p);
}

static uint64_t bytes_of(const struct process *p)
{
	return is_over(p) ? ledger_memory(p->ledger) : 0;
}

void session_forget_ended(struct session *s)
{
	size_t count = 0;
	uint64_t bytes = 0;

	if (s->serving || s->pinned || s->stopping || s->halting || s->log)
		return;
	for (const struct process *p = s->processes; p; p = p->next)
		count += is_over(p);
	if (count == s->ended_before)
		return;
	for (const struct process *p = s->processes; p; p = p->next)
		bytes += bytes_of(p);
	for (struct process **at = &s->processes; *at && (count > WHOLE_MOST || bytes > WHOLE_BYTES);) {
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

const struct ended *ended_line(const struct ended_list *list, size_t i)
{
	return &list->line[(list->first + i) % LINES_MOST];
}

void ended_release(struct ended_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		drop(&list->line[(list->first + i) % LINES_MOST]);
	free(list->line);
}
