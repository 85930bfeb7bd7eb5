// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include "base/escape.h"
#include "session/options.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/shell.h"
#include "shell/serve/serve.h"

/* `listen`: --listen from the prompt. */
static int command_listen(struct shell *shell, struct call *call)
{
	const struct options *o = session_options(shell->session);
	struct serve_options options = {
		NULL, o->listen_token, o->listen_host, { o->push, o->push_every_ms, o->push_label }
	};
	struct serve *before = shell->serve;
	const char *word;
	char why[512];

	if (arguments_one(shell, call, &word))
		return -1;
	if (!word) {
		escape_printf(call->out, "%s\n",
			      before && *serve_address(before) ? serve_address(before) : "off");
		return 0;
	}
	shell->serve = NULL;
	serve_stop(before);
	options.listen = strcmp(word, "off") ? word : NULL;
	if ((!options.listen && !o->push) ||
	    serve_start(&shell->serve, shell->session, &options, why, sizeof(why)) == 0)
		return 0;
	return shell_error(shell, call, "%s", why);
}

const struct command cmd_listen = {
	.name = "listen",
	.group = GROUP_RECORD,
	.usage = "[ADDR|off]",
	.summary = "answer over HTTP at ADDR; off: no more; alone: show where",
	.example = "listen 127.0.0.1:8080",
	.help = "ADDR: PORT (of 127.0.0.1), HOST:PORT with a numeric HOST or localhost, or unix:PATH. An address that other machines reach\n"
		"needs --listen-token FILE. It only answers: nothing that is asked there acts on the program.\n"
		"\n"
		"  /                     the page of `export html`, whose curve goes on\n"
		"  /metrics              OpenMetrics, for Prometheus\n"
		"  /debug/pprof/heap     pprof: what is live; ?seconds=N: what comes in N seconds; /debug/pprof/allocs: all that was allocated\n"
		"  /api/v1/COMMAND       the JSON of status, report, timeline, diff, text, tree, threads, processes, map, with their options as parameters\n"
		"  /healthz              200 while the program is supervised\n"
		"\n"
		"Of several processes, ?pid=N chooses one.",
	.run = command_listen,
};
