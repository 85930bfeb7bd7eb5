/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * own_thread.h - a thread of our own in a target (inject/entry.S: entry_protector, entry_cloner),
 * for captures of its memory. It ends by itself, whatever becomes of us; until then our code is in
 * use there (own_thread_there()). Only this module knows of it; it is not in the session's list.
 */
#ifndef MTRUN_OWN_THREAD_H
#define MTRUN_OWN_THREAD_H

#include "base/types.h"

struct process;

enum own_thread { OWN_PROTECTOR, OWN_CLONER };
/*
 * TID, a thread of P stopped by tracer_interrupt() and not in the trampoline, makes one and is put
 * back. Whatever is returned, TID runs on, and reports a stop before it executes anything. *MADE
 * waits at its beginning. 0 or -errno.
 */
int own_thread_make(struct process *p, pid_t tid, enum own_thread which, pid_t *made) MUST_USE;
/*
 * MADE (a protector) makes a userfaultfd, and is let go whatever this returns. The descriptor, the
 * caller's, which nobody in the target has; or -errno.
 */
int own_thread_protect(pid_t made) MUST_USE;
/*
 * MADE (a cloner) forks a child that has P's memory as of some moment of this call, and is let go. The
 * child is traced and stopped; it dies with us, and MADE reaps it when it was killed. Its id, or
 * -errno.
 */
pid_t own_thread_clone(pid_t made) MUST_USE;
/* CHILD gives up the descriptors that it shares with its parent. 0 or -errno. */
int own_thread_part(pid_t child) MUST_USE;

/* Whether the one that was made last in P is still there. */
bool own_thread_there(struct process *p);

#endif
