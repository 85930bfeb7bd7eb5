// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/attach_check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/outside.h"
#include "base/patient.h"
#include "base/proc.h"
#include "symbols/elf.h"
#include "tracee/keeper.h"
#include "tracee/program.h"

/*
 * attach_check.c - says why a process cannot be attached to before anything is done to it.
 *
 * Whether we may is the kernel's to decide, by the users, the capabilities, whether the process is
 * dumpable, its user namespace, and the security modules. Opening /proc/PID/mem needs the same
 * right as PTRACE_SEIZE (PTRACE_MODE_ATTACH), so that is tried; only if it is refused do we look
 * for the reason.
 */

#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD of the flags in /proc/PID/stat */

struct line {
	pid_t pid;
	char comm[PROC_NAME]; /* of PID */
	char *why;
	size_t len;
};

static int PRINTF(3, 4) refuse(const struct line *l, int err, const char *format, ...)
{
	va_list args;
	int n;

	n = snprintf(l->why, l->len, "cannot attach to %d%s%s%s: ", (int)l->pid,
		     *l->comm ? " ('" : "", l->comm, *l->comm ? "')" : "");
	if (n < 0 || (size_t)n >= l->len)
		return err;
	va_start(args, format);
	vsnprintf(l->why + n, l->len - (size_t)n, format, args);
	va_end(args);
	return err;
}

/* ---- what /proc says of it ---------------------------------------------- */

/* A process gives its memory back before it is a zombie. */
static bool ended(const char *status)
{
	return *status_find(status, "State") == 'Z' || *status_find(status, "State") == 'X' ||
	       !*status_find(status, "VmSize");
}

static bool is_kernel_thread(pid_t pid)
{
	char text[1024], *p;
	unsigned long flags = 0;

	if (patient_file(pid, "stat", text, sizeof(text)) < 0)
		return false;
	p = strrchr(text, ')');
	if (p)
		sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags);
	return flags & KERNEL_THREAD;
}

/* ---- why the kernel refuses ---------------------------------------------- */

/* kernel.yama.ptrace_scope; -1: there is no yama. */
static int yama_scope(void)
{
	char text[16] = { 0 };
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC), scope = -1;

	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) > 0)
		scope = atoi(text);
	close(fd);
	return scope;
}

/* All of its user ids are ours: real, effective, saved. */
static bool is_ours(const char *status)
{
	unsigned uid[4];

	return status_ids(status, "Uid", uid) && uid[0] == getuid() && uid[1] == uid[0] &&
	       uid[2] == uid[0];
}

/* The kernel gives the files of a process that is not dumpable to root. */
static bool is_dumpable(pid_t pid, const char *status)
{
	struct stat st;
	int fd = proc_open(pid, "stat", O_PATH);
	bool dumpable = fd < 0 || fstat(fd, &st) < 0 || st.st_uid == status_number(status, "Uid");

	if (fd >= 0)
		close(fd);
	return dumpable;
}

static bool has_more(const char *status, const char *own)
{
	return status_mask(status, "CapPrm") & ~status_mask(own, "CapPrm");
}

/* Says why. STATUS, OWN: /proc/PID/status of the process and of us. ERR: the kernel's answer. */
static int refused(const struct line *l, int err, const char *status, const char *own)
{
	bool capable = status_mask(own, "CapEff") >> CAP_SYS_PTRACE & 1;
	int scope = yama_scope();

	if (scope == 3)
		return refuse(
			l, err,
			"%s (kernel.yama.ptrace_scope is 3: nobody may attach until the machine is started anew with a lower one)",
			strerror(-err));
	if (capable)
		return refuse(
			l, err,
			"%s (a security policy forbids it, or it is in another user namespace: run mtrun there, or outside as root)",
			strerror(-err));
	if (geteuid() == 0)
		return refuse(
			l, err,
			"%s (root here lacks the capability CAP_SYS_PTRACE: give it, as with `docker run --cap-add=SYS_PTRACE`, or run mtrun outside of the container)",
			strerror(-err));
	if (!is_ours(status))
		return refuse(l, err, "%s (it runs as user %ld: run mtrun as root%s)",
			      strerror(-err), status_number(status, "Uid"),
			      status_number(status, "Uid") ? ", or as that user" : "");
	if (has_more(status, own) || !is_dumpable(l->pid, status))
		return refuse(
			l, err,
			"%s (it has privileges, or keeps others out by prctl(PR_SET_DUMPABLE): run mtrun as root)",
			strerror(-err));
	if (scope == 2)
		return refuse(l, err, "%s (kernel.yama.ptrace_scope is 2: run mtrun as root)",
			      strerror(-err));
	if (scope == 1)
		return refuse(
			l, err,
			"%s (kernel.yama.ptrace_scope is 1: run mtrun as root, or set it to 0, or let the program call prctl(PR_SET_PTRACER, ...))",
			strerror(-err));
	return refuse(l, err, "%s (a security policy forbids it: run mtrun as root)",
		      strerror(-err));
}

static int why_refused(const struct line *l, int err)
{
	char *status = NULL, *own = NULL;

	if (proc_read(l->pid, "status", &status) < 0)
		err = refuse(l, -ESRCH, "it has ended");
	else if (proc_read(getpid(), "status", &own) < 0)
		err = refuse(l, err, "%s", strerror(-err));
	else
		err = refused(l, err, status, own);
	free(status);
	free(own);
	return err;
}

/* ---- the process --------------------------------------------------------- */

/* Checks thread TID by its STATUS. *ALIVE, if 0, becomes TID unless that has ended. */
static int check_thread(const struct line *l, pid_t tid, const char *status, pid_t *alive)
{
	long tracer = status_number(status, "TracerPid");
	char comm[PROC_NAME];

	if (tracer) {
		proc_name((pid_t)tracer, (pid_t)tracer, comm);
		return refuse(
			l, -EBUSY,
			"it is traced already, by %ld ('%s'): end that, or let it detach, first",
			tracer, comm);
	}
	if (ended(status))
		return 0;
	if (status_number(status, "Seccomp") == 1)
		return refuse(
			l, -EPERM,
			"it has forbidden itself all system calls but four (seccomp's strict mode), and would be killed for one of ours:"
			" start it under mtrun");
	if (!*alive)
		*alive = tid;
	return 0;
}

/* Returns a thread that lives, or -errno. */
static pid_t check_threads(const struct line *l)
{
	pid_t *tid, alive = 0;
	int n = proc_threads(l->pid, &tid), err = 0;

	if (n < 0)
		return refuse(l, -ESRCH, "it has ended");
	for (int i = 0; i < n && !err; i++) {
		char name[32], *status;

		snprintf(name, sizeof(name), "task/%d/status", (int)tid[i]);
		if (proc_read(l->pid, name, &status) < 0)
			continue;
		err = check_thread(l, tid[i], status, &alive);
		free(status);
	}
	free(tid);
	if (!err && !alive)
		return refuse(
			l, -ESRCH,
			"it has ended, and waits for its parent to take note of it (a zombie)");
	return err ? err : alive;
}

/* VIA: a thread that lives. For when the kernel lets us: otherwise it hides the file. */
static int check_program(const struct line *l, pid_t via, bool hooks_given)
{
	int err = 0, fd = patient_open(via, "exe", O_PATH);
	char why[256];
	struct elf *elf;

	if (fd == -ENOENT || fd == -ESRCH) /* a removed file can be opened: this one has none */
		return refuse(l, -ESRCH, "it has ended");
	fd = outside_reopen(via, fd, OUTSIDE_DEBUG);
	if (fd < 0)
		return refuse(l, fd, "its executable cannot be read: %s", outside_error(fd));
	elf = program_open(fd, hooks_given, &err, why, sizeof(why));
	close(fd);
	if (!elf)
		return refuse(l, err, "%s", why);
	elf_unref(elf);
	return 0;
}

static int check_kind(const struct line *l, const char *status)
{
	long tgid = status_number(status, "Tgid");
	char *own = NULL, comm[PROC_NAME];
	int err = 0;

	if (tgid != l->pid) {
		proc_name((pid_t)tgid, (pid_t)tgid, comm);
		return refuse(l, -EINVAL, "it is a thread of process %ld ('%s'): -p %ld", tgid,
			      comm, tgid);
	}
	if (l->pid == getpid())
		return refuse(l, -EINVAL, "it is mtrun itself");
	if (!strcmp(l->comm, KEEPER_NAME))
		return refuse(
			l, -EINVAL,
			"it is mtrun's own, and keeps the terminal of a program that mtrun has started");
	if (proc_read(getpid(), "status", &own) > 0 && status_number(own, "TracerPid") == l->pid)
		err = refuse(l, -EINVAL, "it traces this mtrun, and each would wait for the other");
	free(own);
	if (!err && is_kernel_thread(l->pid))
		err = refuse(l, -EINVAL, "it is a thread of the kernel, not a program");
	return err;
}

int attach_check(pid_t pid, bool hooks_given, char *why, size_t len)
{
	struct line l = { .pid = pid, .why = why, .len = len };
	char *status;
	int err = proc_read(pid, "status", &status) < 0 ? -ESRCH : 0, fd;
	pid_t via;

	if (err)
		return refuse(&l, err, "there is no such process (`ps` lists them)");
	proc_name(pid, pid, l.comm);
	err = check_kind(&l, status);
	free(status);
	if (err)
		return err;
	via = check_threads(&l);
	if (via < 0)
		return via;
	fd = patient_open(via, "mem", O_RDONLY);
	if (fd == -EACCES || fd == -EPERM)
		return why_refused(&l, fd);
	if (fd == -ESRCH || fd == -ENOENT)
		return refuse(&l, -ESRCH, "it has ended");
	if (fd < 0)
		return refuse(&l, fd, "%s", fd == -ETIMEDOUT ? PATIENT_LATE : strerror(-fd));
	close(fd);
	return check_program(&l, via, hooks_given);
}

int attach_refused(pid_t pid, int err, char *why, size_t len)
{
	struct line l = { .pid = pid, .why = why, .len = len };
	pid_t via;

	proc_name(pid, pid, l.comm);
	if (err == -ESRCH)
		return refuse(&l, err, "it has ended");
	if (err == -ETIMEDOUT)
		return refuse(&l, err, PATIENT_LATE);
	if (err == -EINPROGRESS)
		return refuse(
			&l, err,
			"it executes a program, and waits for that, for a file system perhaps");
	via = check_threads(&l); /* it has ended or got a tracer since */
	return via < 0 ? via : why_refused(&l, err);
}
