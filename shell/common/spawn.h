/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * spawn.h - shell commands started by mtrun (`| CMD`, `! CMD`): by /bin/sh, in a process that
 * inherits nothing of ours but its streams.
 */
#ifndef MTRUN_SPAWN_H
#define MTRUN_SPAWN_H

#include "base/types.h"

struct spawned {
	pid_t pid;
	/* its stdin's other end if a pipe was asked for, else -1; the caller closes it */
	int input;
	int status_fd; /* a pidfd */
};

enum spawn_input { SPAWN_NULL, SPAWN_PIPE, SPAWN_OURS };
/*
 * Runs COMMAND with stdout on descriptor OUT and stdin from /dev/null, a pipe, or as ours. 0 or
 * -errno (-ENOENT: there is no /bin/sh).
 */
int spawn_shell(struct spawned *s, const char *command, int out, enum spawn_input input) MUST_USE;
/*
 * Its exit status as shells show it. To be called when `status_fd`, which can be waited for, can be
 * read: it has ended then.
 */
int spawn_status(struct spawned *s);
/* It goes on without being waited for. */
void spawn_leave(struct spawned *s);

#endif
