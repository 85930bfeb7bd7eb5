/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * patient.h - reading memory that may never come.
 *
 * Whoever reads a process' memory may have to wait for whom that process has chosen: for the one
 * who serves its userfaultfd, or a file system of its own (FUSE) of which a page is mapped. The
 * wait is in the kernel, and only death ends it. So a thread of ours reads, one for each of our
 * threads that asks; one that does not come back within PATIENT_MS is given up. It goes on waiting,
 * with memory of its own, until the bytes come, the process goes or mtrun ends, and that is said.
 * (What /proc shows of it, as its arguments, the kernel does not wait for.)
 *
 * Safe to call from several threads.
 */
#ifndef MTRUN_PATIENT_H
#define MTRUN_PATIENT_H

#include "base/types.h"

#define PATIENT_MS 1000

/*
 * As remote_read() (base/proc.h): the bytes read, short at the first page that is unreadable or
 * does not come, or -errno. -ETIMEDOUT: the first one does not come; or some of PID's did not, and
 * are still waited for.
 */
ssize_t patient_read(pid_t pid, raddr_t addr, void *buf, size_t len) MUST_USE;

#endif
