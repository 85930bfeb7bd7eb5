/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * asking.h - the loop, and those who ask beside it, in threads of their own. Before asking_loop()
 * and after it whoever calls is the loop.
 *
 * What is shared is the session: its processes, their ledgers, all that hangs on them. One lock
 * guards it. The loop holds it during a turn and releases it in poll(2). An asker holds it while it
 * copies what it wants to know, or has something done, and releases it before it looks up symbols,
 * sorts, prints or waits for anybody: 10 ms are long. Askers get it before the loop does, in the
 * order in which they came. What needs ptrace(2) is always done by the loop's thread (asking_do),
 * because only the thread that attached may trace. A process that ends meanwhile keeps its record
 * as long as somebody holds a reference (process_ref); its stacks stay readable.
 */
#ifndef MTRUN_ASKING_H
#define MTRUN_ASKING_H

#include <pthread.h>

#include "base/types.h"

struct asked;
struct process;
struct session;

struct asker;

struct asking {
	pthread_t loop;
	bool begun;
	pthread_mutex_t lock; /* of what follows; not the session's, which `taken` is */
	pthread_cond_t changed;
	bool taken;	      /* the session's lock: by an asker, or by the loop in a turn */
	struct asker *first;  /* who wants it, in order */
	struct asker *asleep; /* who waits for the end of a turn */
	uint64_t told_ms;     /* when they were told of one last */
	bool tell_next;	      /* they are to be told of the next one, whatever happens in it */
	bool stale;	      /* what the loop waits for is something else now */
	bool ending;
	int wake; /* an eventfd that ends its poll(2) */
	int err;  /* of its last turn */
	/* what is to be done by its thread, for the asker that holds the session's lock */
	void (*run)(struct asked *asked);
	struct asked *asked;
};

/*
 * The caller's thread becomes the loop, until FN(CTX), which runs beside it and holds the session's
 * lock at first, returns. 0 or -errno: FN was not called.
 */
int asking_loop(struct session *s, void (*fn)(void *ctx), void *ctx) MUST_USE;
/*
 * Ends the loop. The caller holds the session's lock, and is the loop from now on, but for ptrace(2).
 */
void asking_end(struct session *s);

/* Whether the loop runs, in another thread than the caller's. */
bool asking_is_asker(const struct session *s);
/*
 * What a function of session.h that is the loop's to do was called with, and returns. Which of
 * these are used is between it and its ask_NAME().
 */
struct bt_thread;
struct asked {
	struct session *s;
	struct process *p;
	uint64_t number;
	int *status;
	char *why;
	size_t len;
	void (*each)(void *ctx, const struct bt_thread *t);
	void *ctx;
	int ret;
};
/* FN(ASKED) is called by the loop's thread; at once, if that is the caller's. Its `ret`. */
int asking_do(struct session *s, void (*fn)(struct asked *a), struct asked *asked);
/* Release the session's lock, and take it again; such pairs may be nested. */
void asking_unlock(struct session *s);
void asking_lock(struct session *s);
bool asking_is_unlocked(void);
/*
 * Between the two, for what needs the lock for a moment. RELOCKED: what asking_relock() returned.
 */
bool asking_relock(void) MUST_USE;
void asking_reunlock(bool relocked);
/* Both, with a turn of the loop in between, or MS (-1: however long it takes). 0 or the loop's -errno. */
int asking_turn(struct session *s, int ms) MUST_USE;
/* What the loop waits for has changed: it is to look again. */
void asking_wake(struct session *s);

#endif
