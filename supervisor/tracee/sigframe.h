/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sigframe.h - the places where handlers have interrupted a thread: what a thread will come back
 * to, besides its own pc.
 */
#ifndef MTRUN_SIGFRAME_H
#define MTRUN_SIGFRAME_H

#include "base/types.h"

/*
 * Whether the process has handlers at all (libc's own two are none that matter: they run no code of
 * the program's).
 */
bool sigframe_possible(pid_t pid);
/*
 * IS(ctx, pc) is asked for each pc that a signal frame on the stack at RSP holds, as far as 64K up.
 * The stack is searched for what such a frame looks like, so a remainder of a former one can be
 * taken for one, but none is missed.
 */
bool sigframe_any(pid_t pid, raddr_t rsp, bool (*is)(const void *ctx, raddr_t pc), const void *ctx);
/* IS(ctx, word) is asked for each word there: return addresses, and what may be one. */
bool stack_any(pid_t pid, raddr_t rsp, bool (*is)(const void *ctx, raddr_t pc), const void *ctx);

#endif
