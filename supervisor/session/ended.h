/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ended.h - what is kept of processes that ended long ago. The latest thousand that have ended can
 * be asked like any other, fewer where their tables are large (forget.c); of those before them a
 * line is left, of ten thousand at most, and then only how many they were. A build or a shell
 * script starts a hundred thousand, and each whole record takes some 100 KB.
 */
#ifndef MTRUN_ENDED_H
#define MTRUN_ENDED_H

#include "ledger/ledger.h"
#include "process/process.h"

struct ended { /* a line of `processes` */
	pid_t pid, ppid;
	enum process_state state; /* EXITED or REPLACED */
	int wait_status;
	uint64_t began_ms;
	char *command, *exe;
	const char *unsupervised; /* as in struct process */
	struct ledger_totals totals;
};

struct ended_list { /* a ring: the oldest is dropped first */
	struct ended *line;
	size_t count, first;
	uint64_t dropped; /* lines */
	/* of all of these, those that ended as the last image of their process */
	uint64_t others;
	/* of all of these, what they did wrong and how often they met their limit */
	struct ended_count {
		uint64_t processes, count;
	} errors, limit;
	bool *hooked; /* by --hook's order, what some of these had of it */
};

struct ended ended_of(const struct process *p); /* borrows its texts */
/* P's line takes what it can from P. Without memory for the list it is counted only. */
void ended_add(struct ended_list *list, struct process *p);
/* I < list->count, the oldest first */
const struct ended *ended_line(const struct ended_list *list, size_t i);
void ended_release(struct ended_list *list);

#endif
