/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * exporting.h - what an exported file says beside its stacks: whose they are, and what that process
 * held over time.
 */
#ifndef MTRUN_EXPORTING_H
#define MTRUN_EXPORTING_H

#include "export/export.h"
#include "ledger/activity.h"
#include "symbols/module.h"

struct shell;
struct process;

struct exporting {
	struct export export; /* the caller adds view, sites, total and moment */
	struct shell *shell;
	struct process *process;
	char *command, *exe, *command_line;
	struct modules modules;
	struct marks marks;
	struct export_point *point;
	struct activity activity;
};

/*
 * About P, which the caller holds. With the session's lock, as exporting_release(); between the two
 * it is not needed. 0 or -ENOMEM.
 */
int exporting_init(struct exporting *x, struct shell *shell, struct process *p) MUST_USE;
void exporting_release(struct exporting *x);

#endif
