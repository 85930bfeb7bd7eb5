/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limit_enforce.h - the session's part of the limit: it answers requests for room, and acts on
 * those that do not fit. Its settings and its listener are in session.h.
 */
#ifndef MTRUN_LIMIT_ENFORCE_H
#define MTRUN_LIMIT_ENFORCE_H

#include "session/session_state.h"

/* P has just got its hooks: the limit holds for it, too. */
void limit_enforce_begin(struct session *s, struct process *p);
/*
 * P is a new image that has not run yet. True: its text alone is above the limit, and P is to be
 * stopped for that, or was killed.
 */
bool limit_enforce_image(struct session *s, struct process *p);
/* Tells of crossings that events have told of (LIMIT_REPORT). */
void limit_enforce_crossed(struct session *s, struct process *p);
/* For an asker that is about to let P run, or let go of it: waits until P's hit has been told. */
void limit_await_told(struct session *s, const struct process *p);
/*
 * Answers the question ASKED (ASK_ROOM) of P. False: later, or never, as P is being stopped or
 * killed.
 */
bool limit_enforce_answer(struct session *s, struct process *p,
			  const struct shared_question *asked);

#endif
