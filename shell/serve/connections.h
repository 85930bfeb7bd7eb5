/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * connections.h - how long a connection may take: to ask, to be answered, to take the answer; and
 * how much may be on its way to all of them.
 */
#ifndef MTRUN_CONNECTIONS_H
#define MTRUN_CONNECTIONS_H

#include <event2/http.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONNECTIONS 256u /* beyond these no new ones are taken */

struct connections; /* one for each server */

/* They are those of the socket LISTENING; descriptors are FIRST_FD at least. NULL: no memory. */
struct connections *connections_new(int listening, int first_fd);
void connections_free(struct connections *c);

/* Each second. FULL: others wait for a place. */
void connections_tick(struct connections *c, bool full);
/* The connection of REQ has asked; the answer is made within MS (UINT64_MAX: it has no end). */
void connections_asked(struct connections *c, struct evhttp_request *req, uint64_t ms);
/* Whether there is room for BYTES more that wait for their readers. */
bool connections_have_room(const struct connections *c, size_t bytes);
/* Runs BASE until all answers are taken, for MS at most. */
void connections_drain(const struct connections *c, struct event_base *base, uint64_t ms);
/*
 * The answer to REQ, BYTES, is about to be sent: its completion and its connection's close
 * callbacks are ours.
 */
void connections_answer(struct connections *c, struct evhttp_request *req, size_t bytes);

#endif
