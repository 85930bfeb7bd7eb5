/* SPDX-License-Identifier: GPL-3.0-or-later */
/* available.h - how much memory may be used without the machine, or a cgroup, running short. */
#ifndef MTRUN_AVAILABLE_H
#define MTRUN_AVAILABLE_H

#include "base/types.h"

/*
 * Bytes: what the machine has available (MemAvailable), or what is left in one of the memory
 * cgroups that PID is in, whichever is less.
 */
uint64_t memory_available(pid_t pid);

/*
 * What cgroups alone leave, in bytes; UINT64_MAX: they have no limit. CGROUP: the text of
 * /proc/PID/cgroup; ROOT: where cgroups are mounted.
 */
uint64_t memory_cgroup_room(const char *root, const char *cgroup);

#endif
