// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/events.h"
#include "shell/common/shell.h"
#include "shell/prompt/keyboard.h"
#include "shell/prompt/screen.h"

/*
 * `run`: the program from its beginning, with the arguments it had. What was recorded of the run
 * before stays in `processes`.
 */
static int start(struct shell *shell, struct call *call)
{
	int err = session_restart(shell->session), status;

	if (err)
		return shell_error(shell, call, "cannot end process %d: %s",
				   (int)session_main(shell->session)->pid, strerror(-err));
	if (shell->screen) {
		err = screen_renew(shell->screen);
		if (err)
			return shell_error(shell, call, "cannot make a terminal for it: %s",
					   strerror(-err));
	}
	session_hold(shell->session, true);
	shell->ended = shell->detached = false;
	events_again(shell);
	return session_launch(shell->session, &status) ? -1 : 0;
}

static int run(struct shell *shell, struct call *call)
{
	const struct process *p = session_main(shell->session);

	if (arguments_none(shell, call))
		return -1;
	if (!session_options(shell->session)->argv)
		return shell_error(shell, call,
				   "no program was started here that could be started again");
	if (shell->screen && p->state <= PROCESS_STOPPED && !session_ended(shell->session) &&
	    keyboard_ask(shell, "The program still runs: end it and start it again, (y)es or (n)o?",
			 "yn") != 'y')
		return 0;
	return start(shell, call);
}

const struct command cmd_run = {
	.name = "run",
	.group = GROUP_CONTROL,
	.usage = "",
	.summary = "start the program again, with the same arguments",
	.example = "run",
	.help = "If it still runs it is killed first (the prompt asks before). Its former self stays in `processes`.",
	.flags = COMMAND_AS_IS | COMMAND_LIVE,
	.run = run,
};
