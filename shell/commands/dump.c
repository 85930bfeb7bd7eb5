// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/dumping.h"
#include "shell/common/shell.h"

/* `dump`: what is live now, in a file that other programs read, too. */
static int dump(struct shell *shell, struct call *call)
{
	struct process *p = shell_process(shell);
	const char *prefix;
	struct text_buffer size;
	struct dumped d;
	int err;

	if (arguments_one(shell, call, &prefix))
		return -1;
	err = dumping_write(shell, p, prefix, DUMP_ASKED, &d);
	if (err == 0)
		escape_printf(call->out, "%s: %s in %" PRId64 " block%s from %zu stack%s\n", d.file,
			      layout_bytes(&call->layout, &size, (uint64_t)d.bytes), d.blocks,
			      plural((uint64_t)d.blocks), d.stacks, plural(d.stacks));
	else if (err != -EINTR)
		shell_error(shell, call, "cannot write '%s': %s", d.file ? d.file : "a .heap file",
			    strerror(-err));
	free(d.file);
	return err ? -1 : 0;
}

const struct command cmd_dump = {
	.name = "dump",
	.group = GROUP_RECORD,
	.usage = "[PREFIX] [--bytes]",
	.summary = "write a .heap file of what is live now",
	.example = "dump /tmp/before",
	.help = "Its name is PREFIX<pid>.<seq>.u<n>.heap; without PREFIX that of -o, or ./mtrun. It is a file that jeprof, google-pprof and go tool pprof open, and\n"
		"holds all symbols: mtrun -r FILE looks at it anywhere. SIGUSR1 to mtrun does the same.",
	.flags = COMMAND_LIVE | COMMAND_BYTES,
	.run = dump,
};
