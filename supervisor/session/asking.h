/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * asking.h - the loop, and the askers beside it, in threads of their own: the shell, the thread
 * that tells of a limit's hit, the HTTP server. Before asking_loop() and after it the caller's
 * thread is the loop.
 *
 * What is shared is the session: its processes, their ledgers, and all that belongs to them. One
 * lock guards it. The loop holds it during a turn and releases it in poll(2). An asker holds it
 * while it copies what it wants to know, or has something done, and releases it before it looks up
 * symbols, sorts, prints or waits for anybody: 10 ms are long. What needs ptrace(2) is always done
 * by the loop's thread (asking_do()), because only the thread that attached may trace.
 *
 * asking_beside() starts further askers. Askers get the lock in the order in which they came, each
 * for one hold; the loop comes between two of them when it has waited long enough. So an asker that
 * has released the lock must look again at all that it knew of the session, except for a record
 * that it holds a reference to (process_ref()): that stays readable, with its stacks and symbols,
 * though the process may have ended, have begun its record anew, or be in no list; its `ledger`
 * must be read anew. Copies (session_blocks(), session_profile()) are the asker's alone. What two
 * askers share beyond the session is guarded by the same lock.
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
	pthread_cond_t done;  /* `run` is done, the loop has ended, or an asker beside it has */
	bool taken;	      /* the session's lock: by an asker, or by the loop in a turn */
	uint64_t loop_since;  /* since when the loop waits for it; 0: it does not */
	bool polling;	      /* the loop is in poll(2), or about to be */
	bool called;	      /* it was told to look again */
	struct asker *first;  /* those that want the lock, in order */
	unsigned waiting;     /* how many of those there are */
	struct asker *asleep; /* those that wait for the end of a turn */
	unsigned others;      /* askers beside the first one */
	uint64_t told_ms;     /* when those asleep were last told of a turn */
	bool tell_next;	      /* they are to be told of the next one, whatever happens in it */
	bool stale;	      /* the loop waits for something else now, and must look again */
	/*
	 * counts what happens; guarded by the session's lock. An asker that has not seen the latest
	 * does not sleep
	 */
	uint64_t news;
	bool closing, ending;
	int wake; /* an eventfd that ends the loop's poll(2) */
	int err;  /* of its last turn */
	/* what the loop's thread is to do for the asker that holds the session's lock */
	void (*run)(struct asked *asked);
	struct asked *asked;
};

/*
 * The caller's thread becomes the loop, until FN(CTX), which runs beside it and holds the session's
 * lock at first, returns. 0 or -errno: FN was not called.
 */
int asking_loop(struct session *s, void (*fn)(void *ctx), void *ctx) MUST_USE;
/*
 * FN(CTX) runs in another thread beside the loop, with the session's lock held at its beginning and
 * its end. Its messages are deferred (message_defer()). 0 or -errno: it is not called.
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
 * Arguments and result of a function of session.h that the loop is to run. Each function and its
 * ask_NAME() use some of them.
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
/* The loop's thread calls FN(ASKED); at once, if it is the caller's. Returns ASKED's `ret`. */
int asking_do(struct session *s, void (*fn)(struct asked *a), struct asked *asked);
/* Release the session's lock, and take it again; such pairs may be nested. */
void asking_unlock(struct session *s);
void asking_lock(struct session *s);
bool asking_is_unlocked(void);
/* Releases and takes the lock if the loop waits for it. To be called often during a long hold. */
void asking_yield(struct session *s);
/*
 * Measures, or no more, how long the calling thread holds the lock; the longest hold, by the CPU
 * time that was spent in it, so that a busy machine counts less. Microseconds.
 */
struct asking_hold {
	uint64_t us, cpu_us;
};
void asking_measure(bool on);
struct asking_hold asking_longest(void);
/*
 * Between asking_unlock() and asking_lock(), for what needs the lock for a moment. RELOCKED: what
 * asking_relock() returned.
 */
bool asking_relock(void) MUST_USE;
void asking_reunlock(bool relocked);
/*
 * Releases the lock, waits until something has happened in a turn of the loop, at most MS (-1: for
 * ever; 0: one turn, whatever happens in it), and takes it again. What has happened since the
 * caller's last turn counts. 0 or the loop's -errno.
 */
int asking_turn(struct session *s, int ms) MUST_USE;
/* What the loop waits for has changed: it looks again. */
void asking_wake(struct session *s);

#endif
