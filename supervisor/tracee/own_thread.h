/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * own_thread.h - a thread of our own in a target (inject/entry.S: entry_protector, entry_cloner),
 * for captures of its memory. It ends by itself, whatever becomes of us; until then our code is in
 * use there (own_thread_there). It is nobody's but this module's: no session knows of it.
 */
#ifndef MTRUN_OWN_THREAD_H
#define MTRUN_OWN_THREAD_H

#include "base/types.h"

struct process;

enum own_thread { OWN_PROTECTOR, OWN_CLONER };
/*
 * TID, stopped by tracer_interrupt() and out of the trampoline, makes one for P; then it is put
 * back: in any case it runs on, and reports a stop before it executes anything. *MADE waits at its
 * beginning. 0 or -errno.
 */
int own_thread_make(struct process *p, pid_t tid, enum own_thread which, pid_t *made) MUST_USE;
/*
 * What each is for; it is let go, whatever this returns. A userfaultfd of P's memory, which P does
 * not have itself; or -errno.
 */
int own_thread_protect(pid_t made) MUST_USE;
/*
 * A child with P's memory, as it was at some moment of the call, traced and stopped. It dies with
 * us, and is reaped in P when it was killed. Its number or -errno.
 */
pid_t own_thread_clone(pid_t made) MUST_USE;
/* It gives up the descriptors that it has in common with its parent. 0 or -errno */
int own_thread_part(pid_t child) MUST_USE;

/* The one made last is there still. */
bool own_thread_there(struct process *p);

#endif
