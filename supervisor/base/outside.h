/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * outside.h - opening files that somebody else has named: a process' maps, DWARF, a debuglink, a
 * log, a .heap file.
 *
 * Such a file is looked up in the root directory of the process that named it and opened with that
 * process' rights, never with more. What a recording names is opened with the rights of the
 * recording's owner. Only regular files of ordinary file systems come back, and none above a given
 * size. Nobody who serves a file system (FUSE) keeps the caller waiting, neither now nor when the
 * file is read: see opener.h. Of a server far away (NFS) only the opening is not waited for.
 * A struct outside belongs to who made it; asking is safe from several threads.
 */
#ifndef MTRUN_OUTSIDE_H
#define MTRUN_OUTSIDE_H

#include "base/types.h"

#define OUTSIDE_SOURCE ((uint64_t)16 << 20) /* bytes of a source file, at most */
/* bytes of an executable, a library, a debug file */
#define OUTSIDE_DEBUG  ((uint64_t)16 << 30)
#define OUTSIDE_OURS   ((uid_t)-1)    /* an owner: us */
#define OUTSIDE_NOBODY ((uid_t)65534) /* one who may nothing */
/* where distributions have what was stripped */
#define OUTSIDE_DEBUG_DIR "/usr/lib/debug"

struct outside;

/* What PID names. Its rights are read now, and again at each file. NULL: out of memory. */
struct outside *outside_of_process(pid_t pid) MUST_USE;
/*
 * What a recording of UID's names, in our root directory. OUTSIDE_OURS: we named it ourselves.
 * NULL: out of memory.
 */
struct outside *outside_of_owner(uid_t uid) MUST_USE;
void outside_free(struct outside *o); /* NULL is fine */
/*
 * The process is gone, or runs another program: its number says nothing any more. The rights that
 * it had last are kept.
 */
void outside_ended(struct outside *o);

/*
 * Opens PATH, which must be absolute, for reading; it is at most MOST bytes long. O == NULL: with
 * our rights, in our root directory. A descriptor, or -errno: -EINVAL for what is no regular file,
 * -EMEDIUMTYPE for one of /proc, /sys and the like, -EFBIG, -ETIMEDOUT: it does not come, -EACCES,
 * ...
 */
int outside_open(struct outside *o, const char *path, uint64_t most) MUST_USE;
/*
 * As outside_open() for a debug file; one below /usr/lib/debug that the process' root directory
 * lacks is taken from ours.
 */
int outside_open_debug(struct outside *o, const char *path) MUST_USE;
/*
 * Opens for reading the file that FD, opened with O_PATH and closed here, stands for; the same
 * kinds of files, the same errors, with our rights. PID: whose file it is; 0: ours. FD < 0 is
 * returned.
 */
int outside_reopen(pid_t pid, int fd, uint64_t most) MUST_USE;
/* What an error of outside_open() means. Static, or as of strerror(). */
const char *outside_error(int err);

/*
 * libdw opens .dwo and .dwp files by itself. From here on what this thread opens by open(2) is
 * opened for O, by outside_open(); NULL: no longer. Returns what was in force.
 */
struct outside *outside_enter(struct outside *o);

#endif
