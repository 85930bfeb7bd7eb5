// SPDX-License-Identifier: GPL-3.0-or-later
#include "process/thread_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * thread_ends.c - two lists. A thread that reuses the stack of one that has ended has the same
 * thread pointer: so there are about as many entries as there were threads at a time.
 */

void thread_ends_add(struct thread_ends *e, raddr_t fs, raddr_t sp)
{
	size_t i = e->count;

	while (i > 0 && e->end[i - 1].fs != fs)
		i--;
	if (i > 0)
		e->end[i - 1].sp = sp;
	else if (e->count < THREAD_ENDS &&
		 !array_room(&e->end, e->count, &e->room, sizeof(*e->end)))
		e->end[e->count++] = (struct thread_end){ fs, sp };
}

int thread_ends_last(struct thread_ends *e, pid_t tid, const struct user_regs_struct *general,
		     const void *vector, size_t bytes)
{
	void *copy = malloc(bytes);

	if (!copy || array_room(&e->last, e->lasts, &e->last_room, sizeof(*e->last))) {
		free(copy);
		return -ENOMEM;
	}
	e->last[e->lasts++] = (struct thread_last){ .tid = tid,
						    .general = *general,
						    .vector = memcpy(copy, vector, bytes),
						    .vector_bytes = bytes };
	return 0;
}

void thread_ends_release(struct thread_ends *e)
{
	for (size_t i = 0; i < e->lasts; i++)
		free(e->last[i].vector);
	free(e->last);
	free(e->end);
	*e = (struct thread_ends){ 0 };
}
