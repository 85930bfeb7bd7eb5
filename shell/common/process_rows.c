// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/process_rows.h"

#include "base/units.h"
#include "session/ended.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/*
 * process_rows.c - one object for each process, those that ended included.
 */

static void row_json(struct json *j, const struct ended *e)
{
	json_newline(j);
	json_object(j, NULL);
	json_int(j, "pid", e->pid);
	json_int(j, "ppid", e->ppid);
	json_string(j, "command", e->command);
	json_string(j, "state", process_state_name(e->state));
	if (process_state_ended(e->state))
		json_int(j, "exit_status", wait_status_number(e->wait_status));
	else
		json_null(j, "exit_status");
	json_uint(j, "heap", e->totals.heap);
	json_uint(j, "mmap", e->totals.mmap);
	json_uint(j, "allocs", e->totals.allocs);
	json_uint(j, "peak", e->totals.peak);
	json_uint(j, "began_ms", e->began_ms);
	json_string(j, "exe", e->exe);
	json_string(j, "unsupervised", e->unsupervised);
	json_end_object(j);
}

void processes_json(struct json *j, const struct shell *shell, const struct process *of,
		    const struct ledger_totals *then)
{
	const struct ended_list *list = session_ended_list(shell->session);

	json_array(j, "processes");
	for (size_t i = 0; i < list->count; i++)
		row_json(j, ended_line(list, i));
	for (const struct process *p = session_processes(shell->session); p; p = p->next) {
		struct ended e = ended_of(p);

		if (p == of)
			e.totals = *then;
		row_json(j, &e);
	}
	json_end_array(j);
}
