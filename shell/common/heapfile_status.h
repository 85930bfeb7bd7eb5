/* SPDX-License-Identifier: GPL-3.0-or-later */
/* heap-status.h - what `status` says of a .heap file that -r opened. */
#ifndef MTRUN_HEAP_STATUS_H
#define MTRUN_HEAP_STATUS_H

struct shell;
struct call;
struct process;

void heap_status(struct shell *shell, struct call *call, const struct process *p);

#endif
