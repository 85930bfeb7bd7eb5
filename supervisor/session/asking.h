/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * asking.h - the loop, and those who ask beside it, in threads of their own: the shell, who tells
 * of a limit's hit, the HTTP server. Before asking_loop() and after it whoever calls is the
 * loop.
 *
 * What is shared is the session: its processes, their ledgers, all that hangs on them. One lock
 * guards it. The loop holds it during a turn and releases it in poll(2). An asker holds it while it
 * copies what it wants to know, or has something done, and releases it before it looks up symbols,
 * sorts, prints or waits for anybody: 10 ms are long. What needs ptrace(2) is always done by the
 * loop's thread (asking_do), because only the thread that attached may trace.
 *
 * A second asker does as the first: asking_beside() starts it. Askers get the lock in the order in
 * which they came, each for one hold; the loop comes between two of them when it has waited long
 * enough. So each finds the session as others have left it, and may believe nothing of what it saw
 * before it released the lock, but for what is its own: a record that it holds a reference of
 * (process_ref) stays readable, with its stacks and symbols, though the process may have ended,
 * begun its record anew, or be in no list; its `ledger` is read anew after each release. Copies
 * (session_blocks, session_profile) are the asker's alone. What two askers share beyond the
 * session, as the two of the shell do, they touch with the lock held.
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
	pthread_cond_t to_loop;
	pthread_cond_t done;  /* what was asked for, or the loop itself, or an asker beside */
	bool taken;	      /* the session's lock: by an asker, or by the loop in a turn */
	uint64_t loop_since;  /* the loop waits for it since then; 0: it does not */
	bool polling;	      /* the loop is in poll(2), or about to be */
	bool called;	      /* and was told to look again */
	struct asker *first;  /* who wants the lock, in order */
	unsigned waiting;     /* of those, how many */
	struct asker *asleep; /* who waits for the end of a turn */
	unsigned others;      /* askers beside the first one */
	uint64_t told_ms;     /* when they were told of a turn last */
	bool tell_next;	      /* they are to be told of the next one, whatever happens in it */
	bool stale;	      /* what the loop waits for is something else now */
	/*
	 * goes up with what happens; guarded by the session's lock. Who has not seen it does not
	 * sleep
	 */
	uint64_t news;
	bool closing, ending;
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
 * FN(CTX) runs in another thread beside the loop, with the session's lock held at first and at its
 * end. What it says is written by others (message_defer). 0 or -errno: it is not called.
 */
int asking_beside(struct session *s, void (*fn)(void *ctx), void *ctx) MUST_USE;
/*
 * Ends the loop, after all that run beside it have ended: asking_is_closing() tells them to. The
 * caller holds the session's lock, and is the loop from now on, but for ptrace(2).
 */
void asking_end(struct session *s);
bool asking_is_closing(const struct session *s);

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
/* If the loop has waited for it: both. To be called often by who holds the lock for long. */
void asking_yield(struct session *s);
/*
 * From now on, or no more, it is measured how long the calling thread holds it; and the longest of
 * these, by the processor's time that was spent in it, so that a busy machine counts less.
 */
struct asking_hold {
	uint64_t us, cpu_us;
};
void asking_measure(bool on);
struct asking_hold asking_longest(void);
/*
 * Between the two, for what needs the lock for a moment. RELOCKED: what asking_relock() returned.
 */
bool asking_relock(void) MUST_USE;
void asking_reunlock(bool relocked);
/*
 * Both, with a turn of the loop in between in which something happened, or MS (-1: however long it
 * takes; 0: whatever happens in it). What has happened since the caller's last turn counts. 0 or
 * the loop's -errno.
 */
int asking_turn(struct session *s, int ms) MUST_USE;
/* What the loop waits for has changed: it is to look again. */
void asking_wake(struct session *s);

#endif
