/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ahead.h - memory that is about to be written is touched beforehand, by a thread beside: the
 * kernel clears it first, which takes as long as writing it. That thread works as long as it need
 * not share a core; so it knows, too, whether one has nothing else to do.
 */
#ifndef MTRUN_AHEAD_H
#define MTRUN_AHEAD_H

#include "base/types.h"

struct ahead;

/*
 * COUNT pieces of SIZE bytes, a multiple of AHEAD_STEP, will be written in this order, the first
 * PASSED bytes of which are already. NULL: without this, it takes longer.
 */
#define AHEAD_STEP (2u << 20)
struct ahead *ahead_begin(char *const *piece, size_t count, size_t size, uint64_t passed);
/* The writer has come to BYTES. */
void ahead_pass(struct ahead *a, uint64_t bytes);
/* It need not go on. It is not waited for: on a busy machine it may take a while to hear that. */
void ahead_stop(struct ahead *a);
/*
 * The pieces are not touched any more, once it has heard: for where nobody else waits. Whether a
 * core was free for it, mostly.
 */
bool ahead_end(struct ahead *a);

#endif
