// SPDX-License-Identifier: GPL-3.0-or-later
#include "ledger/ledger_state.h"

#include <stdlib.h>

/*
 * Threads, and what each has begun and not finished. Most never have anything begun, so a thread is
 * 16 bytes, and the records of those who do are reused. A thread's index stays valid when it has
 * ended.
 */

#define THREADS_MAX (1u << 20)

uint32_t ledger_thread(struct ledger *l, pid_t tid)
{
	if (l->nthreads >= THREADS_MAX ||
	    arena_reach(&l->threads, (l->nthreads + 2) * sizeof(struct thread)))
		return l->nthreads ? l->nthreads - 1 : 0;
	((struct thread *)l->threads.base)[++l->nthreads] = (struct thread){ .tid = tid };
	return l->nthreads - 1;
}

pid_t ledger_thread_tid(const struct ledger *l, uint32_t thread)
{
	return thread < l->nthreads ? ((struct thread *)l->threads.base)[thread + 1].tid : 0;
}

size_t ledger_threads(const struct ledger *l) { return l->nthreads; }

bool ledger_is_threaded(const struct ledger *l)
{
	for (uint32_t i = 1; i < l->nthreads; i++)
		if (ledger_thread_tid(l, i) != ledger_thread_tid(l, 0))
			return true;
	return false;
}

struct pending *ledger_pending_make(struct ledger *l, uint32_t thread)
{
	struct pending *p = pending_of(l, thread);
	if (p)
		return p;
	uint32_t i = l->pending_idle;
	if (i) {
		l->pending_idle = l->pending[i - 1].next;
	} else {
		if (l->pendings == l->pending_room) {
			uint32_t room = l->pending_room ? l->pending_room * 2 : 8;
			struct pending *v = realloc(l->pending, room * sizeof(*v));
			if (!v)
				return NULL;
			l->pending = v;
			l->pending_room = room;
		}
		i = ++l->pendings;
		l->pending[i - 1].pieces = (struct pieces){ 0 };
	}
	p = &l->pending[i - 1];
	p->heap = p->range = NOTHING;
	p->slot = slot_of(l, thread);
	thread_at(l, thread)->pending = i;
	return p;
}

void ledger_pending_rest(struct ledger *l, struct pending *p)
{
	if (p->heap != NOTHING || p->range != NOTHING)
		return;
	uint32_t *link = &((struct thread *)l->threads.base)[p->slot].pending;
	p->next = l->pending_idle;
	l->pending_idle = *link;
	*link = 0;
}

void ledger_thread_ended(struct ledger *l, uint32_t thread)
{
	struct pending *p = pending_of(l, thread);
	if (p && p->range == UNMAPPED) {
		pieces_clear(&p->pieces);
		p->range = NOTHING;
		ledger_pending_rest(l, p);
	}
}
