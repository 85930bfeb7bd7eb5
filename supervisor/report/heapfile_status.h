/* SPDX-License-Identifier: GPL-3.0-or-later */
/* heapfile_status.h - what `status` and others say of a .heap file that -r opened, as a whole. */
#ifndef MTRUN_HEAPFILE_STATUS_H
#define MTRUN_HEAPFILE_STATUS_H

#include "process/process.h"

/* As struct process_source has them. */
void heapfile_status(const struct process *p, unsigned count, FILE *out, struct sites *sites,
		     const struct layout *l);
void heapfile_status_json(const struct process *p, unsigned count, struct json *j);
void heapfile_totals(const struct process *p, struct process_totals *t);

#endif
