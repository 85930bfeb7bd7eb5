/* SPDX-License-Identifier: GPL-3.0-or-later */
/* process_rows.h - the list of processes as JSON, for `processes` and `status`. */
#ifndef MTRUN_PROCESSES_H
#define MTRUN_PROCESSES_H

#include "base/json.h"

struct ledger_totals;
struct process;
struct shell;

/*
 * "processes":[...] within an open object. OF's numbers are those THEN, with which it is said
 * beside; OF is NULL: all are of now.
 */
void processes_json(struct json *j, const struct shell *shell, const struct process *of,
		    const struct ledger_totals *then);

#endif
