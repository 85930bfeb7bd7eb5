/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>

#include "../supervisor/units.h"
#include "command.h"

/* `process PID`: whom the questions are about. */
static int process(struct shell *shell, struct call *call)
{
	struct arguments a;
	const struct process *p;
	uint64_t pid = 0;
	bool given = false;
	int arg, err;

	arguments_init(&a, shell, call, NULL);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_BAD)
			return -1;
		if (given)
			return shell_error(shell, call, "unexpected argument '%s' (`help process` says more)", a.value);
		if (number_parse(a.value, &pid) || pid > INT32_MAX)
			return shell_error(shell, call, "'%s' is not accepted: a process id, as `processes` lists them", a.value);
		given = true;
	}
	if (given) {
		session_settle(shell->session);
		err = session_choose(shell->session, (pid_t)pid);
		if (err)
			return shell_error(shell, call, "there is no process %" PRIu64 " here (`processes` lists them)", pid);
	}
	p = shell_process(shell);
	fprintf(call->out, "process %d (%s), %s\n", (int)p->pid, p->command ? p->command : "?", process_state_name(p->state));
	return 0;
}

const struct command cmd_process = {
	.name = "process",
	.usage = "[PID]",
	.summary = "choose the process that questions are about",
	.run = process,
};
