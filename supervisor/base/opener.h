/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * opener.h - opening files that may never come, as the process that serves their file system (FUSE)
 * does not answer, or a server far away.
 *
 * Here the threads of patient.c are not enough: while a file system has a request of ours in hand,
 * the kernel lets the thread that made it die by no signal, and mtrun could not end either. So a
 * child process asks. It opens the file, hands the descriptor over, and ends; one that has not done
 * so within PATIENT_MS is given up, which is said. It has none of our descriptors, so that nobody
 * takes it for us, and ends as soon as the kernel lets it.
 *
 * A file that a process serves is copied, or whoever reads it later would wait for that process
 * page by page. What comes back then is a sealed memfd with the file's bytes and its time of
 * modification. The same unchanged file is copied once, and all copies in use are at most
 * OPENER_BYTES together. A copy may take OPENER_COPY_MS, if it goes on meanwhile.
 *
 * It costs about a millisecond, or less: outside.c asks here only when it must. Safe to call from
 * several threads.
 */
#ifndef MTRUN_OPENER_H
#define MTRUN_OPENER_H

#include "base/types.h"

/*
 * An executable of a desktop program (AppImage) with its libraries is most of that. Like all of
 * mtrun's memory it counts as mtrun's own, not the target's.
 */
#define OPENER_BYTES   ((uint64_t)256 << 20)
#define OPENER_COPY_MS 5000

/*
 * What the child does: opens the file that ARG says, for reading. *COPY, which is false: whether it
 * is to be copied. A descriptor or -errno.
 */
typedef int opener_fn(void *arg, bool *copy);
/*
 * A descriptor, or -errno: FN's; -ETIMEDOUT: the file does not come, or did not lately; -EFBIG:
 * there is no room for the copy. PID: whose file it is; who has held us up is waited for less. NAME:
 * its name, for the message and to know it again. KEEP: a descriptor that FN needs.
 */
int opener_open(pid_t pid, const char *name, opener_fn *fn, void *arg, int keep) MUST_USE;

#endif
