/* SPDX-License-Identifier: GPL-3.0-or-later */
/* processes.h - the list of processes as JSON, for `processes` and `status`. */
#ifndef MTRUN_PROCESSES_H
#define MTRUN_PROCESSES_H

#include "base/json.h"

struct shell;

/* "processes":[...] within an open object. */
void processes_json(struct json *j, const struct shell *shell);

#endif
