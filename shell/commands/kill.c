// SPDX-License-Identifier: GPL-3.0-or-later
#include <signal.h>
#include <string.h>

#include "base/units.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"

/* `kill`: any signal; after KILL the next command finds the program at its end. */

/* A number, or a name with or without SIG. 0: none. */
static int signal_parse(const char *text)
{
	uint64_t n;

	if (!number_parse(text, &n))
		return n >= 1 && n < 65 ? (int)n : 0;
	if (!strncasecmp(text, "SIG", 3))
		text += 3;
	for (int sig = 1; sig < 32; sig++)
		if (sigabbrev_np(sig) && !strcasecmp(text, sigabbrev_np(sig)))
			return sig;
	return 0;
}

static int command_kill(struct shell *shell, struct call *call)
{
	const char *word;
	struct process *p;
	uint64_t until;
	int sig, err;

	if (arguments_one(shell, call, &word))
		return -1;
	sig = word ? signal_parse(word) : SIGKILL;
	if (!sig)
		return shell_error(
			shell, call,
			"invalid value '%s': expected a signal's name (TERM, SIGTERM) or number",
			word);
	p = shell_process(shell);
	if (p->state > PROCESS_STOPPED)
		return shell_over(shell, call, p);
	err = session_kill(shell->session, sig);
	if (err)
		return shell_error(shell, call, "cannot signal process %d: %s", (int)p->pid,
				   strerror(-err));
	/* The next command finds it dead. Other signals are the program's business. */
	until = session_ms(shell->session) + SHELL_KILL_MS;
	while (sig == SIGKILL && p->state <= PROCESS_STOPPED && session_ms(shell->session) < until)
		if (shell_turn(shell, 50))
			break;
	return 0;
}

const struct command cmd_kill = {
	.name = "kill",
	.group = GROUP_CONTROL,
	.usage = "[SIGNAL]",
	.summary = "send the process a signal (default: KILL)",
	.example = "kill TERM",
	.flags = COMMAND_LIVE,
	.run = command_kill,
};
