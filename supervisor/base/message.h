/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * message.h - where mtrun's own text goes: one stream for what commands print and one prefix for
 * what mtrun has to say. The stream is a copy of stderr, stdout or the file of --messages, with a
 * buffer of its own; it is never inherited by the target. Where it is stdout, what nobody has asked
 * for by a command goes to stderr, so that answers are alone there. A broken pipe or a full disk
 * loses text, never the target. Before message_open() everything goes to stderr.
 */
#ifndef MTRUN_MESSAGE_H
#define MTRUN_MESSAGE_H

#include <stdio.h>

#include "base/types.h"

/*
 * To the file PATH (made or emptied, borrowed), or with NULL to a copy of descriptor FD. COLOR: 0
 * never, 1 if a terminal, 2 always. 0 or -errno.
 */
int message_open(const char *path, int fd, int color, int verbose) MUST_USE;
void message_close(void);

/*
 * From now on FN writes all of it (a terminal on which somebody may be typing); it is given whole
 * lines where they are short. False: nobody wants it any more, which is an error of the stream
 * until message_flush(). NULL: no more.
 */
void message_divert(bool (*fn)(void *ctx, const char *text, size_t len), void *ctx);

/* What commands print on. Flushed by message_flush(), which callers do after each command. */
FILE *message_stream(void);
/* What mtrun says without a command, in more than a line. Flushed by message_flush(), too. */
FILE *message_own(void);
void message_flush(void);
/* What writes for the stream (message_divert()) could not, for the reason ERR. */
void message_lose(int err);
/*
 * Whether text that was to be on stdout or in the file of --messages is lost, a reader who has left
 * apart; it is said on stderr.
 */
bool message_is_lost(void);
/*
 * The calling thread is not to wait for a reader: what it prints and says is kept, at most 4 MB of
 * it, until another thread calls message_flush(). 0 or -ENOMEM.
 */
int message_defer(void) MUST_USE;
void message_defer_end(void);
bool message_deferred(void); /* there is something to be written */
/* The descriptor under message_stream(): standard output of shell commands that are started. */
int message_fd(void);
int message_own_fd(void);

/*
 * One line each: "mtrun: " + text + newline, written in one piece. Each %s is escaped (escape.h):
 * it never makes a second line. On a terminal a line that is wider than the window goes on, between
 * two words, under its beginning.
 */
void message_error(const char *format, ...) PRINTF(1, 2);
void message_say(const char *format, ...) PRINTF(1, 2);
/* Only with -v given at least LEVEL times. */
void message_verbose(int level, const char *format, ...) PRINTF(2, 3);

#endif
