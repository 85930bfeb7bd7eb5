// SPDX-License-Identifier: GPL-3.0-or-later
#include "session/ended.h"

#include <stdlib.h>

/*
 * ended.c - a ring of lines, which grows up to a limit; then the oldest is dropped.
 */

#define LINES_MOST 10000u

static void drop(struct ended *e)
{
	free(e->command);
	free(e->exe);
	*e = (struct ended){ 0 };
}

struct ended ended_of(const struct process *p)
{
	struct ended e = { .pid = p->pid,
			   .ppid = p->ppid,
			   .state = process_state_seen(p),
			   .wait_status = p->wait_status,
			   .began_ms = p->began_ms,
			   .command = p->command,
			   .exe = p->exe,
			   .unsupervised = p->unsupervised };

	ledger_totals(p->ledger, &e.totals);
	return e;
}

static void count(struct ended_count *c, uint64_t n)
{
	c->processes += n != 0;
	c->count += n;
}

void ended_add(struct ended_list *list, struct process *p)
{
	struct ended *e;

	count(&list->errors, p->errors.count);
	count(&list->limit, p->limit.hits);
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

const struct ended *ended_line(const struct ended_list *list, size_t i)
{
	return &list->line[(list->first + i) % LINES_MOST];
}

void ended_release(struct ended_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		drop(&list->line[(list->first + i) % LINES_MOST]);
	free(list->line);
	free(list->hooked);
}
