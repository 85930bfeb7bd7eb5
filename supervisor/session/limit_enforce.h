/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * limit_enforce.h - the session's part of the limit: it answers requests for room, and does what is
 * to be done about one that does not fit. Its settings and who hears of it: session.h.
 */
#ifndef MTRUN_LIMIT_ENFORCE_H
#define MTRUN_LIMIT_ENFORCE_H

#include "session/session_state.h"

/* P has just got its hooks: the limit holds for it, too. */
void limit_enforce_begin(struct session *s, struct process *p);
/*
 * P is a new image that has not run yet: whether its text alone is above the limit, and it is to be
 * stopped for that, or was killed.
 */
bool limit_enforce_image(struct session *s, struct process *p);
/* Tells of crossings that events have told of (LIMIT_REPORT). */
void limit_enforce_crossed(struct session *s, struct process *p);
/* An asker that lets P run, or lets go of it, waits until what is told of its hit is out. */
void limit_await_told(struct session *s, const struct process *p);
/*
 * Answers MAIL's question (ASK_ROOM) from SLOT, whose thread is TID by its own account. False:
 * later, or never, as its process is being stopped or killed.
 */
bool limit_enforce_answer(struct session *s, struct process *p,
			  const struct shared_question *asked);

#endif
