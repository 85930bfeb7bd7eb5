/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * answer_stream.h - streams for answers that may be long or go to a slow reader: the session
 * is unlocked while they are written.
 */
#ifndef MTRUN_ANSWER_STREAM_H
#define MTRUN_ANSWER_STREAM_H

#include <stdio.h>

#include "base/layout.h"
#include "base/types.h"

struct shell;

/*
 * Writes to FD, which is its own from now on (also when it fails: NULL, errno says why). Ctrl-C
 * makes an error of it.
 */
FILE *answer_open(struct shell *shell, int fd) MUST_USE;
/*
 * A descriptor of the file PATH, made if there is none, cut off or to be appended to; or -errno,
 * and errno.
 */
int answer_create(struct shell *shell, const char *path, bool append) MUST_USE;
/* From now on message_stream() is one, too; with NULL no more. Where there is no screen. */
void answer_messages(struct shell *shell);
/* Of what goes to FD: message_fd(), message_own_fd(). */
struct layout answer_layout(int fd);
/*
 * What was printed on message_stream() goes out, though a command is at work: the session may be
 * unlocked for that.
 */
void answer_flush(struct shell *shell);

#endif
