/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * launch.h - finds a command's file, checks it, and forks a child that waits before its exec.
 */
#ifndef MTRUN_LAUNCH_H
#define MTRUN_LAUNCH_H

#include <signal.h>
#include <sys/resource.h>

#include "base/types.h"

/* What mtrun found when it was started and its children must find again. */
struct kernel_action { /* struct sigaction as the kernel has it on x86-64 */
	uint64_t handler, flags, restorer, mask;
};
#define INHERITED_LIMITS 4
struct inherited {
	uint64_t mask;
	struct kernel_action action[65];
	struct rlimit limit[INHERITED_LIMITS]; /* of launch.c's `limited` */
};
void inherited_save(struct inherited *i);
/*
 * From here on mtrun itself is under no limit on the size or number of files, on addresses or data,
 * or, unprivileged, under its hard limit only.
 */
void limits_raise(void);
/* What ERR, of a call of mtrun's own, says: a limit that is left may be the cause. */
const char *limits_error(int err);

/*
 * The file that NAME means, found as execvp(3) does; to be freed. NULL: the message has been said, and
 * *STATUS is 126 or 127.
 */
char *launch_find(const char *name, int *status) MUST_USE;
/*
 * Whether mtrun can supervise PATH (and, of a script, its interpreter). 0, or 126: the message has
 * been said. HOOKS_GIVEN: --hook names its allocator.
 */
int launch_check(const char *path, bool hooks_given) MUST_USE;

struct launch {
	pid_t pid;
	/* write "g" to it: the child execs; closed without: it exits */
	int go;
	/* then read: an int errno if exec failed, nothing if it did not */
	int failed;
};
struct terminal;
/*
 * Forks the child and fills *L, whose descriptors are the caller's. STDIN_NULL: its standard input
 * is /dev/null. TERMINAL: the one that it gets; NULL: it has ours. 0 or -errno.
 */
int launch_fork(struct launch *l, const char *path, char **argv, const struct inherited *inherited,
		bool stdin_null, const struct terminal *terminal) MUST_USE;

#endif
