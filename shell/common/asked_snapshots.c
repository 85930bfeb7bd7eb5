// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/asked_snapshots.h"

#include <errno.h>

#include "base/message.h"
#include "process/profile_make.h"
#include "shell/common/shell.h"

/*
 * asked_snapshots.c - the program can ask for a snapshot by mtrun_snapshot(), as the user does by
 * `snapshot`.
 */

int snapshot_take(struct shell *shell, struct process *p, const char *name)
{
	struct profile_ask ask = { .now_ms = shell_moment(shell, p),
				   .counted = session_options(shell->session)->count,
				   /* what they have allocated ever is subtracted too */
				   .detail = PROFILE_DEAD };
	struct profile profile;
	int err = session_profile(shell->session, p, &ask, &profile);

	return err ? err : snapshots_add(&p->snapshots, name, &profile);
}

const char *snapshot_why(int err)
{
	return err == -ENOSPC	? "there are too many (at most 1000, 256 MB of them)"
	       : err == -EINVAL ? "a name has 1 to 64 bytes"
				: "out of memory";
}

static void on_program(void *ctx, struct process *p, const char *name)
{
	int err = snapshot_take(ctx, p, name);

	if (err)
		message_verbose(1, "%d: its snapshot '%s' is not kept: %s", (int)p->pid, name,
				snapshot_why(err));
}

void snapshots_for_program(struct shell *shell)
{
	session_on_snapshot(shell->session, on_program, shell);
}

const char *shell_snapshot_name(const struct shell *shell, size_t i)
{
	const struct process *p = session_main(shell->session);

	return p && i < p->snapshots.count ? p->snapshots.snapshot[i].name : NULL;
}
