/* SPDX-License-Identifier: GPL-3.0-or-later */
/* asked_snapshots.h - snapshots that the user or the program itself asks for. */
#ifndef MTRUN_ASKED_SNAPSHOTS_H
#define MTRUN_ASKED_SNAPSHOTS_H

#include "process/process.h"

struct process;

struct shell;

/* What P holds now is remembered as NAME. As snapshots_add(); snapshot_why() says why not. */
int snapshot_take(struct shell *shell, struct process *p, const char *name) MUST_USE;
const char *snapshot_why(int err);
/* Those that programs ask for are taken from now on. */
void snapshots_for_program(struct shell *shell);
/* The name of snapshot number I of the chosen process, NULL behind the last. */
const char *shell_snapshot_name(const struct shell *shell, size_t i);

#endif
