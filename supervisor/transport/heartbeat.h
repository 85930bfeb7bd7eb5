/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * heartbeat.h - the thread that keeps the beacons: clock, bell, sign of life (wire.h). It does
 * nothing else, so that a long answer at the prompt delays neither the dates of events nor the
 * wake-up of a reader.
 */
#ifndef MTRUN_HEARTBEAT_H
#define MTRUN_HEARTBEAT_H

#include "base/types.h"
#include "inject/wire.h"

/* Starts the thread. Returns an eventfd that becomes readable when a bell was rung, or -errno. */
int heartbeat_start(void) MUST_USE;
void heartbeat_stop(void);
uint64_t heartbeat_ms(void); /* since heartbeat_start */

/*
 * The calling thread is to run soon after it was woken rather than for long (a time slice of 0.1
 * ms; Linux 6.12, nothing before): a target that fills its rings with all processors busy would
 * otherwise wait for the end of somebody's slice of 3 ms, again and again.
 */
void heartbeat_prompt(void);

/*
 * Maps the first SIZE bytes of FD, whose first page is a beacon, with room to grow to SPAN
 * (space.h), and keeps it alive: magic, clock, sign of life. The mapping is preceded by a private
 * page with its robust-list node, so that nothing the target can write is ever followed. NULL:
 * errno says why.
 */
struct wire_beacon *heartbeat_map(int fd, size_t size, size_t span);
/* Ends the sign of life (the target's hooks switch themselves off when they look) and unmaps. */
void heartbeat_unmap(struct wire_beacon *beacon, size_t size);

/* Tells the targets that the bell is wanted (true, before the loop sleeps) or not. */
void heartbeat_sleeping(bool sleeping);

#endif
