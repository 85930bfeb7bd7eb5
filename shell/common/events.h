/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * events.h - commands that wait for their moment: `every TIME { }`, `on exit|limit|peak|error { }`.
 * They run between two turns of the loop, at the prompt and while a command waits, never inside one
 * another.
 */
#ifndef MTRUN_EVENTS_H
#define MTRUN_EVENTS_H

#include <stdio.h>

#include "base/types.h"

struct shell;
struct events;

enum event_when { ON_EXIT, ON_LIMIT, ON_PEAK, ON_ERROR, ON_KINDS };
extern const char *const event_names[ON_KINDS];

/* TEXT is copied; it takes the place of what was there, none ("") removes that. 0 or -ENOMEM. */
int events_on(struct shell *shell, enum event_when when, const char *text) MUST_USE;
/* Adds one more. 0 or -ENOMEM. */
int events_every(struct shell *shell, uint64_t ms, const char *text) MUST_USE;
void events_every_off(struct shell *shell);
/* What `every` and `on` are to run, as one would type it; or `none`. */
void events_print(const struct shell *shell, FILE *out);
bool events_any(const struct shell *shell);
/* Whether a block is at work. */
bool events_running(const struct shell *shell);
void events_free(struct events *e);

/* How long the loop may sleep, at most MS; to be called after each turn: runs what is due. */
int events_due(const struct shell *shell, int ms);
void events_turn(struct shell *shell);
/* The program is started again. */
void events_again(struct shell *shell);

#endif
