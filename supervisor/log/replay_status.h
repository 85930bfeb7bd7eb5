/* SPDX-License-Identifier: GPL-3.0-or-later */
/* replay_status.h - what `status` says of a process in a log that -r opened. */
#ifndef MTRUN_LOG_REPLAY_STATUS_H
#define MTRUN_LOG_REPLAY_STATUS_H

#include "process/process.h"

/* As struct process_source has them. */
void replay_status(const struct process *p, unsigned count, FILE *out, struct sites *sites,
		   const struct layout *l);
void replay_status_json(const struct process *p, unsigned count, struct json *j);

#endif
