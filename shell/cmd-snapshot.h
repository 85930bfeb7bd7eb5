/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-snapshot.h - snapshots that the program itself asks for are taken from now on. */
#ifndef MTRUN_CMD_SNAPSHOT_H
#define MTRUN_CMD_SNAPSHOT_H

struct shell;

void snapshots_for_program(struct shell *shell);

#endif
