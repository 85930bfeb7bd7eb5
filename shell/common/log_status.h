/* SPDX-License-Identifier: GPL-3.0-or-later */
/* log-status.h - what `status` says of a log that -r opened. */
#ifndef MTRUN_LOG_STATUS_H
#define MTRUN_LOG_STATUS_H

struct shell;
struct call;
struct process;

void log_status(struct shell *shell, struct call *call, const struct process *p);

#endif
