// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/own_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"
#include "process/process.h"
#include "tracee/stub.h"
#include "tracee/tracer.h"
#include "unwind/image.h"

/*
 * own_thread.c - a thread of our own in a target.
 *
 * Why a thread. A userfaultfd and a clone of the memory can only be made by the process itself. If
 * one of the program's own threads made them, the descriptor would be in its table, and in that of
 * a child that is forked meanwhile; the clone's zombie would stay until the program happens to wait
 * for it. If mtrun were killed at that moment, both would stay as long as the process lives. Our
 * thread has a descriptor table of its own, which ends with it, and waits for its child, all by
 * itself. While it is traced we see in its registers what its calls return; when it is let go, or
 * we die, it runs to its end.
 *
 * A hostile process may overwrite the thread's code, and so have it do anything; its own threads
 * can do that as well. The descriptor is checked before it is used.
 */

#define PATIENCE_MS 1000
#define STEPS	    16 /* system call stops, at most, until its call is made */

bool own_thread_there(struct process *p)
{
	if (p->own_thread && syscall(SYS_tgkill, p->pid, p->own_thread, 0) < 0 && errno == ESRCH)
		p->own_thread = 0;
	return p->own_thread;
}

int own_thread_make(struct process *p, pid_t tid, enum own_thread which, pid_t *made)
{
	static const char *const entry[] = {
		[OWN_PROTECTOR] = "entry_protector", [OWN_CLONER] = "entry_cloner"
	};
	raddr_t blob = p->agent + AGENT_BLOB;
	struct stub_run l;
	int back, err = own_thread_there(p) ? -EBUSY : 0;

	if (!err)
		err = stub_send(&l, p->via, tid, blob + blob_symbol(entry[which]), blob,
				p->agent + AGENT_BEACON);
	if (err)
		return stub_none(tid, err);
	err = stub_thread(&l, made);
	p->own_thread = *made;
	back = stub_recall(&l);
	if (back && !err)
		tracer_detach(*made, 0);
	return err ? err : back;
}

/* Lets TID run to its next stop. 0 or -errno; -ESRCH: it ends. */
static int step(pid_t tid, struct event *e)
{
	int err = tracer_syscall(tid, 0);

	if (!err)
		err = tracer_wait(tid, e, PATIENCE_MS);
	if (err <= 0)
		return err ? err : -ETIMEDOUT;
	if (e->kind == EVENT_EXITING)
		tracer_cont(tid, 0);
	return e->kind == EVENT_EXITING || e->kind == EVENT_GONE ? -ESRCH : 0;
}

/*
 * Lets TID run until its system call NR has returned *RET; or until it has a child, *CHILD, if
 * CHILD is not NULL.
 */
static int await_call(pid_t tid, long nr, int64_t *ret, pid_t *child)
{
	struct user_regs_struct regs;
	struct event e;
	bool entered = false;

	for (int i = 0; i < STEPS; i++) {
		int err = step(tid, &e);

		if (err)
			return err;
		if (child && e.kind == EVENT_CLONE) {
			*child = (pid_t)e.value;
			return 0;
		}
		if (e.kind != EVENT_SYSCALL)
			continue;
		err = tracer_get_regs(tid, &regs);
		if (err)
			return err;
		if ((long)regs.orig_rax != nr)
			continue;
		*ret = (int64_t)regs.rax;
		if (entered)
			return 0;
		entered = true;
	}
	return -ETIMEDOUT;
}

/* A descriptor of thread TID's own table. */
static int take_descriptor(pid_t tid, int64_t number)
{
	int pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD), fd;

	if (pidfd < 0)
		return -errno;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)number, 0);
	if (fd < 0)
		fd = -errno;
	close(pidfd);
	return fd;
}

/* By the link in /proc/self/fd. The path of a file begins with a slash, so none can look so. */
static bool is_userfaultfd(int fd)
{
	char name[32], link[64];

	snprintf(name, sizeof(name), "fd/%d", fd);
	return proc_readlink(getpid(), name, link, sizeof(link)) > 0 &&
	       !strcmp(link, "anon_inode:[userfaultfd]");
}

int own_thread_protect(pid_t made)
{
	int64_t number = -1;
	int err = await_call(made, SYS_userfaultfd, &number, NULL), fd;

	if (!err && number < 0)
		err = (int)number;
	fd = err ? err : take_descriptor(made, number);
	tracer_detach(made, 0);
	if (fd < 0 || is_userfaultfd(fd))
		return fd;
	close(fd);
	return -EPERM;
}

/*
 * All threads of the program wait for it: it gets a real-time priority, if we may set that. Its
 * child does not inherit it.
 */
static void hurry(pid_t made)
{
	struct sched_param first = { .sched_priority = 1 };

	if (sched_setscheduler(made, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) < 0)
		setpriority(PRIO_PROCESS, (id_t)made, -20);
}

pid_t own_thread_clone(pid_t made)
{
	pid_t child = 0;
	int64_t ret = 0;
	struct event e;
	int err;

	hurry(made);
	err = await_call(made, SYS_clone, &ret, &child);
	if (!err && !child)
		err = ret < 0 ? (int)ret : -EIO;
	if (!err) {
		err = tracer_wait(child, &e, PATIENCE_MS);
		err = err > 0 ? 0 : err ? err : -ETIMEDOUT;
	}
	if (!err)
		err = tracer_flags(child, TRACE_EXITKILL);
	tracer_detach(made, 0);
	return err ? err : child;
}

int own_thread_part(pid_t child)
{
	int64_t ret = 0;
	int err = await_call(child, SYS_close_range, &ret, NULL);

	return err ? err : (int)ret;
}
