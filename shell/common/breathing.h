/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * breathing.h - streams for answers that may be long or go to a slow reader: the program need not
 * wait for them.
 */
#ifndef MTRUN_BREATHING_H
#define MTRUN_BREATHING_H

#include <stdio.h>

#include "base/types.h"

struct shell;

/*
 * Writes to FD, which is its own from now on (also when it fails: NULL, errno says why). Ctrl-C
 * makes an error of it.
 */
FILE *breathing_open(struct shell *shell, int fd) MUST_USE;
/*
 * A descriptor of the file PATH, made if there is none, cut off or to be appended to; or -errno,
 * and errno.
 */
int breathing_create(struct shell *shell, const char *path, bool append) MUST_USE;
/* From now on message_stream() is one, too; with NULL no more. Where there is no screen. */
void breathing_messages(struct shell *shell);

#endif
