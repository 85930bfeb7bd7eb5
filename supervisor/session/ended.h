/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ended.h - what is kept of processes that ended long ago. The latest thousand that have ended can
 * be asked about like any other, fewer if their tables are large (forget.c). Of those before them a
 * line is kept, of ten thousand at most; of the rest only how many they were. A build or a shell
 * script starts a hundred thousand processes, and a whole record takes some 100 KB.
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
	/* how many of all these, dropped ones included, ended as the last image of their process */
	uint64_t others;
	/* the sums over all these of errors, and of hits of the limit */
	struct ended_count {
		uint64_t processes, count;
	} errors, limit;
	bool *hooked; /* for each --hook, in order: whether one of these had it */
};

struct ended ended_of(const struct process *p); /* P's line; it borrows P's texts */
/* Adds P's line, which takes its texts from P. Without memory for the list P is only counted. */
void ended_add(struct ended_list *list, struct process *p);
/* I < list->count, the oldest first */
const struct ended *ended_line(const struct ended_list *list, size_t i);
void ended_release(struct ended_list *list);

#endif
