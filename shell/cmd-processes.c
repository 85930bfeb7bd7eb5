/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>

#include "../supervisor/escape.h"
#include "processes.h"
#include "reporting.h"

/* `processes`: the tree, those that ended included. */
static bool ended(const struct process *p) { return p->state == PROCESS_EXITED || p->state == PROCESS_HELD; }

void processes_json(struct json *j, const struct shell *shell)
{
	json_array(j, "processes");
	for (const struct process *p = session_processes(shell->session); p; p = p->next) {
		struct ledger_totals t;

		ledger_totals(p->ledger, &t);
		json_newline(j);
		json_object(j, NULL);
		json_int(j, "pid", p->pid);
		json_int(j, "ppid", p->ppid);
		json_string(j, "command", p->command);
		json_string(j, "state", process_state_name(p->state));
		if (ended(p))
			json_int(j, "exit_status", reporting_exit_status(p->wait_status));
		else
			json_null(j, "exit_status");
		json_uint(j, "heap", t.heap);
		json_uint(j, "mmap", t.mmap);
		json_uint(j, "allocs", t.allocs);
		json_uint(j, "peak", t.peak);
		json_uint(j, "began_ms", p->began_ms);
		json_string(j, "exe", p->exe);
		json_string(j, "unsupervised", p->unsupervised);
		json_end_object(j);
	}
	json_end_array(j);
}

static int processes(struct shell *shell, struct call *call)
{
	const struct process *chosen;

	if (arguments_none(shell, call))
		return -1;
	chosen = shell_process(shell);
	if (call->json) {
		struct json j;

		json_init(&j, call->out);
		json_object(&j, NULL);
		processes_json(&j, shell);
		json_end_object(&j);
		json_finish(&j);
		return 0;
	}
	escape_printf(call->out, "  %7s %7s  %-9s %12s %12s %12s  %s\n", "PID", "PPID", "STATE", "HEAP", "MMAP", "ALLOCS", "COMMAND");
	for (const struct process *p = session_processes(shell->session); p; p = p->next) {
		struct ledger_totals t;
		char end[64];

		ledger_totals(p->ledger, &t);
		escape_printf(call->out, "%c %7d %7d  %-9s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "  %s", p == chosen ? '*' : ' ', (int)p->pid, (int)p->ppid,
			process_state_name(p->state), t.heap, t.mmap, t.allocs, p->command ? p->command : "?");
		if (ended(p) && p->wait_status)
			escape_printf(call->out, " (%s)", reporting_end(p->wait_status, end, sizeof(end)));
		if (p->unsupervised)
			escape_printf(call->out, " (not known: %s)", p->unsupervised);
		putc('\n', call->out);
	}
	return 0;
}

const struct command cmd_processes = {
	.name = "processes",
	.usage = "[--json]",
	.summary = "the program and the processes that it started",
	.help = "A process that executed another program is listed as replaced, with what it had; * marks the one that questions are about.",
	.flags = COMMAND_JSON | COMMAND_TIMES,
	.run = processes,
};
