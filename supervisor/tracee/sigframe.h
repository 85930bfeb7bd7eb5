/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sigframe.h - where handlers have interrupted a thread: code that it will return to, besides its
 * own pc.
 */
#ifndef MTRUN_SIGFRAME_H
#define MTRUN_SIGFRAME_H

#include "base/types.h"

/* Whether the process has signal handlers, besides libc's own two, which run none of its code. */
bool sigframe_possible(pid_t pid);
/*
 * Whether IS(CTX, PC) is true for the pc in a signal frame on the stack at RSP, up to 64 KiB above.
 * What looks like a frame is taken for one, so the remainder of an old one can be, but none is
 * missed.
 */
bool sigframe_any(pid_t pid, raddr_t rsp, bool (*is)(const void *ctx, raddr_t pc), const void *ctx);
/* Whether IS(CTX, WORD) is true for a word there: a return address, or what may be one. */
bool stack_any(pid_t pid, raddr_t rsp, bool (*is)(const void *ctx, raddr_t pc), const void *ctx);

#endif
