/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * thread_ends.h - threads of a process that have ended: where their stacks were, which libc may
 * keep for others; and the registers of those that ended because the whole process does, as they
 * were. Pure data; a zeroed one is empty.
 */
#ifndef MTRUN_THREAD_ENDS_H
#define MTRUN_THREAD_ENDS_H

#include <sys/user.h>

#include "base/types.h"

struct thread_end {
	raddr_t fs; /* its thread pointer */
	raddr_t sp; /* when it ended */
};

struct thread_last {
	pid_t tid;
	struct user_regs_struct general;
	void *vector; /* as XSAVE writes them */
	size_t vector_bytes;
};

struct thread_ends {
	struct thread_end *end; /* one for each thread pointer, at most THREAD_ENDS of them */
	size_t count, room;
	struct thread_last *last;
	size_t lasts, last_room;
};
#define THREAD_ENDS 4096u

/* A thread has ended, with its stack pointer at SP. Without memory it is not remembered. */
void thread_ends_add(struct thread_ends *e, raddr_t fs, raddr_t sp);
/* VECTOR is copied. 0 or -ENOMEM. */
int thread_ends_last(struct thread_ends *e, pid_t tid, const struct user_regs_struct *general,
		     const void *vector, size_t bytes);
void thread_ends_release(struct thread_ends *e);

#endif
