/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <signal.h>
#include <string.h>

#include "../supervisor/units.h"
#include "command.h"

/* `stop`, `cont`, `kill`, `detach`, `quit`: the program's fate. */
static int over(const struct shell *shell, struct call *call, const struct process *p)
{
	return shell_error(shell, call, "process %d is %s", (int)p->pid, process_state_name(p->state));
}

static int stop(struct shell *shell, struct call *call)
{
	struct process *p;
	int err;

	if (arguments_none(shell, call))
		return -1;
	p = shell_process(shell);
	if (p->state != PROCESS_RUNNING && p->state != PROCESS_STOPPED)
		return over(shell, call, p);
	err = session_stop(shell->session, p);
	return err ? shell_error(shell, call, "cannot stop process %d: %s", (int)p->pid, strerror(-err)) : 0;
}

extern const struct command cmd_stop;
const struct command cmd_stop = {
	.name = "stop",
	.usage = "",
	.summary = "stop the process, all its threads",
	.run = stop,
};

static int cont(struct shell *shell, struct call *call)
{
	struct process *p;
	int err;

	if (arguments_none(shell, call))
		return -1;
	p = shell_process(shell);
	if (p->state != PROCESS_RUNNING && p->state != PROCESS_STOPPED)
		return over(shell, call, p);
	err = session_cont(shell->session, p);
	return err ? shell_error(shell, call, "cannot continue process %d: %s", (int)p->pid, strerror(-err)) : 0;
}

extern const struct command cmd_cont;
const struct command cmd_cont = {
	.name = "cont",
	.usage = "",
	.summary = "let a stopped process run on",
	.run = cont,
};

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

#define KILL_MS 2000

static int command_kill(struct shell *shell, struct call *call)
{
	struct arguments a;
	int arg, sig = SIGKILL, err;
	struct process *p;
	uint64_t until;

	arguments_init(&a, shell, call, NULL);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_BAD)
			return -1;
		sig = signal_parse(a.value);
		if (!sig)
			return shell_error(shell, call, "'%s' is not accepted: a signal's name (TERM, SIGTERM) or number", a.value);
	}
	p = shell_process(shell);
	if (p->state == PROCESS_EXITED || p->state == PROCESS_HELD || p->state == PROCESS_REPLACED)
		return over(shell, call, p);
	err = session_kill(shell->session, sig);
	if (err)
		return shell_error(shell, call, "cannot signal process %d: %s", (int)p->pid, strerror(-err));
	/* The next command finds it dead. Other signals are the program's business. */
	until = session_ms(shell->session) + KILL_MS;
	while (sig == SIGKILL && !session_ended(shell->session) && session_ms(shell->session) < until)
		if (shell_turn(shell, 50))
			break;
	return 0;
}

extern const struct command cmd_kill;
const struct command cmd_kill = {
	.name = "kill",
	.usage = "[SIGNAL]",
	.summary = "send the process a signal (default: KILL)",
	.run = command_kill,
};

static void let_go(struct shell *shell)
{
	session_settle(shell->session);
	session_hold(shell->session, false);
	session_detach(shell->session);
	shell->detached = true;
}

static int detach(struct shell *shell, struct call *call)
{
	if (arguments_none(shell, call))
		return -1;
	let_go(shell);
	return 0;
}

extern const struct command cmd_detach;
const struct command cmd_detach = {
	.name = "detach",
	.usage = "",
	.summary = "take everything of ours out and let the program live on by itself",
	.help = "What was recorded so far stays here: the commands that follow answer from it, then mtrun ends with status 0.",
	.run = detach,
};

static int quit(struct shell *shell, struct call *call)
{
	if (arguments_none(shell, call))
		return -1;
	let_go(shell);
	shell->quit = true;
	return 0;
}

extern const struct command cmd_quit;
const struct command cmd_quit = {
	.name = "quit",
	.usage = "",
	.summary = "end mtrun at once, with status 0; the program lives on",
	.run = quit,
};
