// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/untraced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "base/patient.h"
#include "base/proc.h"
#include "process/process.h"
#include "session/asking.h"
#include "session/session.h"

/*
 * The kernel lists each thread's children (CONFIG_PROC_CHILDREN; without it nothing is said). One
 * that is not in our list and that nobody traces has been started past us, but for those that a
 * process had when it was attached to. A copy that a capture makes is traced.
 */
#define THREADS	 64u /* in one look */
#define SLACK_MS 100

struct children {
	pid_t *pid;
	size_t count, room;
};

static void add_children(struct children *c, pid_t pid, pid_t tid)
{
	pid_t *child;
	int n = proc_children(pid, tid, &child);

	for (int i = 0; i < n; i++) {
		if (array_room(&c->pid, c->count, &c->room, sizeof(*c->pid)))
			break;
		c->pid[c->count++] = child[i];
	}
	if (n >= 0)
		free(child);
}

/* The children of some threads of P; *FROM: the first of them, and then the first of the next look. */
static struct children children_of(pid_t pid, unsigned *from)
{
	struct children c = { 0 };
	pid_t *tid = NULL;
	int n = proc_threads(pid, &tid);
	unsigned i = *from;

	for (; n > 0 && i < (unsigned)n && i < *from + THREADS; i++)
		add_children(&c, pid, tid[i]);
	*from = n > 0 && i < (unsigned)n ? i : 0;
	free(tid);
	return c;
}

static void drop_known(struct session *session, struct children *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->count; i++) {
		const struct process *p = session_processes(session);

		while (p && p->pid != c->pid[i])
			p = p->next;
		if (!p)
			c->pid[kept++] = c->pid[i];
	}
	c->count = kept;
}

/* For how long it has been there, in ms; -1: that is not known. */
static int64_t age_ms(pid_t pid)
{
	char text[1024];
	struct timespec now;
	long long ticks = -1;
	const char *at = patient_file(pid, "stat", text, sizeof(text)) > 0 ? strrchr(text, ')')
									   : NULL;

	if (at &&
	    sscanf(at,
		   ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lld",
		   &ticks) != 1)
		ticks = -1;
	if (ticks < 0 || clock_gettime(CLOCK_BOOTTIME, &now))
		return -1;
	return now.tv_sec * 1000 + now.tv_nsec / 1000000 - ticks * 1000 / sysconf(_SC_CLK_TCK);
}

/* MOST_MS: one that has been there for longer does not count; -1: each does. */
static bool runs_untraced(pid_t pid, int64_t most_ms)
{
	char *status = NULL;
	bool is = proc_read(pid, "status", &status) > 0 && *status_find(status, "State") != 'Z' &&
		  *status_find(status, "TracerPid") && !status_number(status, "TracerPid");
	int64_t age = is && most_ms >= 0 ? age_ms(pid) : 0;

	free(status);
	return is && (most_ms < 0 || (age >= 0 && age < most_ms));
}

void untraced_look(struct session *session, struct process *p)
{
	int64_t since_ms = p->attached ? (int64_t)(session_ms(session) - p->began_ms) - SLACK_MS
				       : -1;
	struct children c;
	char name[PROC_NAME];
	pid_t via = p->via;
	size_t i = 0;

	if (p->unseen.child_told || !session_options(session)->follow)
		return;
	asking_unlock(session);
	c = children_of(via, &p->unseen.thread);
	asking_lock(session);
	drop_known(session, &c);
	asking_unlock(session);
	while (i < c.count && !runs_untraced(c.pid[i], since_ms))
		i++;
	if (i < c.count)
		proc_name(c.pid[i], c.pid[i], name);
	asking_lock(session);
	p->unseen.child_told = i < c.count;
	if (i < c.count)
		message_say(
			"%d (%s): its child %d (%s) runs untraced: nothing is known of it, and no limit holds for it",
			(int)p->pid, p->command ? p->command : "?", (int)c.pid[i], name);
	free(c.pid);
}
