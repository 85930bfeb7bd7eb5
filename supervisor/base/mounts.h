/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * mounts.h - what kind of file system a file is on, without asking that file system: statfs(2) may
 * wait for whom the file system is served by. Told from /proc/PID/mountinfo.
 */
#ifndef MTRUN_MOUNTS_H
#define MTRUN_MOUNTS_H

#include "base/types.h"

enum mount_kind {
	MOUNT_LOCAL,   /* the kernel answers by itself */
	MOUNT_REMOTE,  /* another machine answers, as with NFS */
	MOUNT_SERVED,  /* a process answers (FUSE), or may do so (a user's own overlay) */
	MOUNT_UNKNOWN, /* a mount that neither PID nor we can see */
};

/* FD may be one of O_PATH. PID: who has named the file; 0: we. */
enum mount_kind mount_kind(pid_t pid, int fd);
/* As far as PID sees, none is MOUNT_SERVED or MOUNT_REMOTE. */
bool mounts_are_local(pid_t pid);

#endif
