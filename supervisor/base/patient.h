/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * patient.h - asking for what may never come: a process' memory, most of all.
 *
 * Whoever reads a process' memory may have to wait for whom that process has chosen: for the one
 * who serves its userfaultfd, or a file system of its own (FUSE) of which a page is mapped. The
 * wait is in the kernel, and only death ends it. So a thread of ours reads, one for each of our
 * threads that asks; one that does not come back within PATIENT_MS is given up. It goes on waiting,
 * with memory of its own, until the bytes come, the process goes or mtrun ends, and that is said.
 * (What /proc shows of it, as its arguments, the kernel does not wait for.)
 *
 * So nobody but this file calls remote_read() and remote_write(). It does so without a thread of
 * its own for a process that has run nothing yet: see patient_fresh().
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

struct remote_span;
/* As remote_read_spans(); what does not come is zeros, too. */
void patient_read_spans(pid_t pid, const struct remote_span *span, size_t n, void *buf);
/*
 * As remote_write(), and -ETIMEDOUT. What is there is read before: of what does not come nothing is
 * written, not even later, but for a page that is taken away in between.
 */
int patient_write(pid_t pid, raddr_t addr, const void *buf, size_t len) MUST_USE;
/*
 * For the calling thread: PID has just become another program, and nothing of that has run. So it
 * has chosen nobody to wait for, and is read at once. 0: it is about to run.
 */
void patient_fresh(pid_t pid);

/*
 * What that thread does: fills BUF of LEN bytes with what WHERE in PID stands for, an address or
 * whatever else. Bytes, or -errno.
 */
typedef ssize_t patient_fn(pid_t pid, uint64_t where, void *buf, size_t len);
#define PATIENT_BYTES ((size_t)64 << 10)
/*
 * FN is done for us, of at most PATIENT_BYTES. WHAT: what the message calls that which does not
 * come, as "its memory at". Returns as patient_read().
 */
ssize_t patient_ask(pid_t pid, patient_fn *fn, const char *what, uint64_t where, void *buf,
		    size_t len) MUST_USE;

#endif
