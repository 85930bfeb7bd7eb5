/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * heartbeat.h - the thread that keeps the beacons: clock, bell, `alive` (wire.h). It does nothing
 * else, so that a long answer at the prompt delays neither the times of events nor the wake-up of
 * the reader.
 */
#ifndef MTRUN_HEARTBEAT_H
#define MTRUN_HEARTBEAT_H

#include "base/types.h"
#include "inject/wire.h"

/* Starts the thread. Returns an eventfd that becomes readable when a bell was rung, or -errno. */
int heartbeat_start(void) MUST_USE;
void heartbeat_stop(void);
uint64_t heartbeat_ms(void); /* ms since heartbeat_start() */

/*
 * The calling thread shall run soon after it is woken rather than for long: a time slice of 0.1 ms
 * (Linux 6.12; without effect before). Otherwise a target that fills its rings while all processors
 * are busy waits for the end of another slice of 3 ms, again and again.
 */
void heartbeat_prompt(void);

/*
 * Maps the first SIZE bytes of FD, whose first page is a beacon, with room to grow to SPAN bytes
 * (space.h), and keeps its beacon from now on. A private page before the mapping has the
 * robust-list node, so that no pointer that the target can write is ever followed. NULL: errno says
 * why.
 */
struct wire_beacon *heartbeat_map(int fd, size_t size, size_t span);
/* Clears `alive` (the target's hooks switch themselves off when they look) and unmaps SIZE bytes. */
void heartbeat_unmap(struct wire_beacon *beacon, size_t size);

/* Tells the targets that the bell is wanted (true, before the loop sleeps) or not. */
void heartbeat_sleeping(bool sleeping);

#endif
