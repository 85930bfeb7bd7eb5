/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * patient.h - asking for what may never come: a process' memory, most of all.
 *
 * Whoever reads a process' memory may have to wait for whom that process has chosen: for the one
 * who serves its userfaultfd, or a file system of its own (FUSE) of which a page is mapped. The
 * wait is in the kernel, and only death ends it. So a thread of ours reads, one for each of our
 * threads that asks; one that does not come back within PATIENT_MS is given up. It goes on waiting,
 * with memory of its own, until the bytes come, the process goes or mtrun ends, and that is said.
 * What /proc tells of its mappings, or shows of its memory, takes the lock of the mappings, which a
 * thread of the process can hold for as long as its file system likes: the same holds for that.
 *
 * So nobody but this file calls remote_read() and remote_write(), and `maps`, `pagemap`, `mem` and
 * whatever else takes that lock are opened and read by patient_do() and what stands on it; what
 * /proc shows only to a tracer, by patient_file() and patient_link(). No
 * thread of its own has a process that has run nothing yet: see patient_fresh().
 *
 * Safe to call from several threads.
 */
#ifndef MTRUN_PATIENT_H
#define MTRUN_PATIENT_H

#include "base/types.h"

#define PATIENT_MS 1000

/* What -ETIMEDOUT of these functions means, for a message. */
#define PATIENT_LATE "its memory cannot be read just now"

/*
 * As remote_read() (base/proc.h): the bytes read, short at the first page that is unreadable or
 * does not come, or -errno. -ETIMEDOUT: the first one does not come; or some of PID's did not, and
 * are still waited for.
 */
ssize_t patient_read(pid_t pid, raddr_t addr, void *buf, size_t len) MUST_USE;

/*
 * As patient_read(), by questions of up to PATIENT_WIDE bytes. Each waits for the lock of the
 * mappings once, if that is soon free: so this is much faster where many threads want the lock. But
 * a page that does not come costs all the rest of its question.
 */
#define PATIENT_WIDE ((size_t)1 << 20)
ssize_t patient_read_wide(pid_t pid, raddr_t addr, void *buf, size_t len) MUST_USE;

struct remote_span;
/* As remote_read_spans(); what does not come is zeros, too. */
void patient_read_spans(pid_t pid, const struct remote_span *span, size_t n, void *buf);
/*
 * As remote_write(), and -ETIMEDOUT. What is there is read before: of what does not come nothing is
 * written, not even later, but for a page that is taken away in between.
 */
int patient_write(pid_t pid, raddr_t addr, const void *buf, size_t len) MUST_USE;
/*
 * The same for N spans, one after the other; in BUF they lie together. After an error some may be
 * written, and the last one in part.
 */
int patient_write_spans(pid_t pid, const struct remote_span *span, size_t n,
			const void *buf) MUST_USE;
/*
 * For the calling thread: PID has just become another program, and nothing of that has run. So it
 * has chosen nobody to wait for, and is read at once. 0: it is about to run.
 */
void patient_fresh(pid_t pid);
/*
 * For the calling thread, until it is switched off: no answer is waited for longer than PATIENT_MS,
 * though its reader may just have had no processor. For questions during which a process stands
 * still.
 */
void patient_hurry(bool on);

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

/*
 * Work for that thread that waits for nothing but the lock of the mappings. FN leaves what it finds
 * in ARG, which is to be allocated. DROP releases all of that, when nobody waits for it any more.
 * Where processors are busy each piece of work waits for one twice: what belongs together is one
 * piece; what FN does with patient_do() is part of its own.
 */
struct patient_work {
	void (*fn)(pid_t pid, void *arg);
	void (*drop)(void *arg);
};
/* Whether patient_do() is done by the calling thread: it is such a reader, or need not wait. */
bool patient_at_once(pid_t pid);
/* 0: it is done; -ETIMEDOUT, -ENOMEM: ARG is not the caller's any more, it is dropped. */
int patient_do(pid_t pid, const struct patient_work *work, void *arg) MUST_USE;
/* As proc_open() (base/proc.h), and these two errors. NAME: up to 63 characters. */
int patient_open(pid_t pid, const char *name, int flags) MUST_USE;

/*
 * What /proc/PID/NAME holds, a file or a symbolic link that the kernel shows only to who may trace
 * PID: `stat`, `syscall`, `exe`, `ns/user` ... A thread of PID that executes a program keeps all
 * who ask for these waiting for as long as a file system likes. (`status`, `comm` and `task` are
 * shown at once.) NAME is a string that stays; BUF is NUL-terminated. Bytes, or -errno; -ETIMEDOUT:
 * it does not come.
 */
ssize_t patient_file(pid_t pid, const char *name, char *buf, size_t size) MUST_USE;
ssize_t patient_link(pid_t pid, const char *name, char *buf, size_t size) MUST_USE;
/* Whether PID is in the same namespace as we, NAME: one of "ns/user", "ns/pid" ... */
bool patient_same_namespace(pid_t pid, const char *name);
/* Whether PID has the memory of OTHER; false: that is not to be known. */
bool patient_same_memory(pid_t pid, pid_t other);
/*
 * The number of the system call that thread TID is in (-1: it waits outside of one), its stack
 * pointer and its pc. False: it runs, or that is not to be known.
 */
bool patient_sleeping(pid_t tid, long *nr, raddr_t *rsp, raddr_t *pc) MUST_USE;

/*
 * The arguments of process PID with blanks between, of 64 kB at most, for the caller to free. NULL:
 * they are not to be had (any more). They are in its memory.
 */
char *patient_command_line(pid_t pid) MUST_USE;

#endif
