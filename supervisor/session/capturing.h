/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * capturing.h - the memory of a process that runs, as of one instant (memory/capture.h).
 */
#ifndef MTRUN_CAPTURING_H
#define MTRUN_CAPTURING_H

#include "memory/capture.h"

struct process;
struct session;

/*
 * Captures P's memory in *C, to be given back by session_capture_end(). The caller is an asker and
 * has the session's lock, which is released while pages are copied. INTERRUPTED(CTX), if not NULL,
 * is asked now and then: true ends it with -EINTR. The environment's MTRUN_CAPTURE (write-protect,
 * clone, stop) forces a way.
 *
 * 0, or -errno with WHY (LEN bytes) in one line: P is as it was. -EALREADY: there is another
 * capture, and only one at a time.
 */
int session_capture(struct session *s, struct process *p, bool (*interrupted)(void *ctx), void *ctx,
		    struct capture **c, char *why, size_t len) MUST_USE;
/* Frees C. P's threads, if they waited for it, go on; what was made in P for it goes. */
void session_capture_end(struct session *s, struct capture *c);

#endif
