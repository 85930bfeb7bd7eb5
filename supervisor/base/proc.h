/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * proc.h - /proc and the memory of another process. All access to procfs goes through proc_open():
 * where /proc is not mounted (a bare chroot), it makes a detached procfs mount of its own
 * (fsopen/fsmount, needs CAP_SYS_ADMIN) and uses that. Everything returns -errno on failure.
 */
#ifndef MTRUN_PROC_H
#define MTRUN_PROC_H

#include <fcntl.h>

#include "base/types.h"

/* Opens /proc/PID/NAME (O_CLOEXEC is added). Returns a descriptor or -errno. */
int proc_open(pid_t pid, const char *name, int flags) MUST_USE;
/* The one of procfs itself, for a child that closes its others. Borrowed; or -errno. */
int proc_descriptor(void) MUST_USE;

/*
 * Reads /proc/PID/NAME whole into a NUL-terminated buffer that the caller frees. Returns its length
 * or -errno. Of others only what everybody may see: see patient.h.
 */
ssize_t proc_read(pid_t pid, const char *name, char **text) MUST_USE;

/* The state letter of thread or process TID: R, S, D, Z ... 0: there is none. */
char proc_state(pid_t tid);

/* What the symbolic link /proc/PID/NAME holds, NUL-terminated. Returns its length or -errno. */
ssize_t proc_readlink(pid_t pid, const char *name, char *buf, size_t size) MUST_USE;

/*
 * Copies LEN bytes from the process' memory. Returns the bytes read (short at the first unreadable
 * page) or -errno.
 */
ssize_t remote_read(pid_t pid, raddr_t addr, void *buf, size_t len) MUST_USE;
struct remote_span {
	raddr_t address;
	size_t len;
};
/*
 * Copies N pieces, one behind the other, into BUF, many with one system call. What cannot be read
 * is zeros.
 */
void remote_read_spans(pid_t pid, const struct remote_span *span, size_t n, void *buf);
/*
 * Writes through page protections (copy on write), as a debugger does, by /proc/PID/mem. Returns 0
 * or -errno, all or nothing said.
 */
int remote_write(pid_t pid, raddr_t addr, const void *buf, size_t len) MUST_USE;

/* What thread TID of PID calls itself, any bytes but NUL; empty: it cannot be read. */
#define PROC_NAME 64
void proc_name(pid_t pid, pid_t tid, char name[PROC_NAME]);

/* For pidfd_open(2), Linux 6.9: of a thread, which need not be its process' first. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* The ids of its threads, in *TID (to be freed). Returns how many or -errno. */
int proc_threads(pid_t pid, pid_t **tid) MUST_USE;

/*
 * The processes that thread TID of PID has made and that are still there, in *CHILD (to be freed).
 * Returns how many or -errno, also where the kernel does not list them (CONFIG_PROC_CHILDREN).
 */
int proc_children(pid_t pid, pid_t tid, pid_t **child) MUST_USE;

/* A field of /proc/PID/status such as "VmRSS" in its own unit (kB for Vm*), or -errno. */
int64_t proc_status_field(pid_t pid, const char *field);
/*
 * Several fields of one STATUS, the text of a `status`. What is not there is "", the number 0, the
 * mask 0; ids are real, effective, saved, file system, and false: there are not four.
 */
const char *status_find(const char *status, const char *field);
int64_t status_number(const char *status, const char *field);
uint64_t status_mask(const char *status, const char *field); /* in hexadecimal */
bool status_ids(const char *status, const char *field, unsigned id[4]) MUST_USE;
/* The number that thread TID has for itself, in its own namespace; 0: not known. */
pid_t proc_own_tid(pid_t tid);

#endif
