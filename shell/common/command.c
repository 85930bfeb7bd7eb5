// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/command.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/message.h"
#include "base/nearest.h"
#include "shell/common/shell.h"

/*
 * command.c - commands are found by name or unique abbreviation, and say their errors in one way.
 */

/* Other names, as people are used to them; in full only. */
static const char *const other_names[][2] = { { "exit", "quit" }, { "?", "help" } };

static const struct command *unknown(const char *name, char *why, size_t len)
{
	struct nearest n = { .word = name };
	char text[64];

	for (size_t i = 0; commands[i]; i++)
		nearest_offer(&n, commands[i]->name);
	snprintf(why, len, "unknown command '%s'%s", name,
		 nearest_text(&n, "", " (`help` lists all)", text, sizeof(text)));
	return NULL;
}

const struct command *command_find(const char *name, char *why, size_t len)
{
	const struct command *found = NULL;
	size_t n = strlen(name), at = 0;
	bool several = false;

	for (size_t i = 0; i < sizeof(other_names) / sizeof(*other_names); i++)
		if (!strcmp(name, other_names[i][0]))
			name = other_names[i][1];
	for (size_t i = 0; commands[i]; i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
		if (n && !strncmp(commands[i]->name, name, n)) {
			several = found;
			found = found ? found : commands[i];
			if (several)
				break;
		}
	}
	if (found && !several)
		return found;
	if (!found)
		return unknown(name, why, len);
	at = (size_t)snprintf(why, len, "'%s' is ambiguous:", name);
	for (size_t i = 0; commands[i]; i++)
		if (!strncmp(commands[i]->name, name, n) && at < len)
			at += (size_t)snprintf(why + at, len - at, " %s", commands[i]->name);
	return NULL;
}

bool command_can_answer(struct shell *shell, const struct call *call)
{
	const struct process *p = session_main(shell->session);
	unsigned flags = call->command->flags;

	if (!p->source->name ||
	    !(flags & COMMAND_LIVE || (p->source->one_moment && flags & COMMAND_TIMES)))
		return true;
	shell_error(shell, call, "needs a process%s, and what is open is %s",
		    flags & COMMAND_LIVE ? "" : " or a log", p->source->name);
	return false;
}

int shell_error(const struct shell *shell, const struct call *call, const char *format, ...)
{
	const char *name = !call ? NULL : call->call_form ? call->call_form : call->command->name;
	const char *form = call && call->call_form ? "()" : "";
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (shell->said)
		snprintf(shell->said, SHELL_SAID, "%s", text);
	else if (shell->where && call)
		message_error("%s:%u: %s%s: %s", shell->where, shell->line, name, form, text);
	else if (shell->where)
		message_error("%s:%u: %s", shell->where, shell->line, text);
	else if (call)
		message_error("%s%s: %s", name, form, text);
	else
		message_error("%s", text);
	return -1;
}

int shell_failed(const struct shell *shell, const struct call *call, int err)
{
	return err == -EINTR ? -1 : shell_error(shell, call, "out of memory");
}
