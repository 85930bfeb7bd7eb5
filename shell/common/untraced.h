/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * untraced.h - children that a process has started so that nobody traces them (CLONE_UNTRACED):
 * nothing is known of them, and no limit holds for them.
 */
#ifndef MTRUN_UNTRACED_H
#define MTRUN_UNTRACED_H

struct session;
struct process;

/*
 * Names the first that P has, once. Looks at some of its threads only; the next call goes on behind
 * them. The session is unlocked meanwhile; the caller holds P.
 */
void untraced_look(struct session *session, struct process *p);

#endif
